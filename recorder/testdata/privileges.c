/* Starts with privileges and drops them: privileges HOW. Ends when standard input is closed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))
enum { NOBODY = 65534 };

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

PLAIN static void *wait_for_end(void *none)
{
	for (char c; read(0, &c, 1) > 0;)
		;
	return none;
}

/* Returns the lines of a thread's status that show its users and groups. */
PLAIN static const char *credentials(const char *task, char *text, int size)
{
	char path[300];
	snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
	FILE *f = fopen(path, "r");
	text[0] = 0;
	for (char line[4096]; f && fgets(line, sizeof line, f);)
		if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) || !strncmp(line, "Groups:", 7))
			strncat(text, line, size - strlen(text) - 1);
	if (f)
		fclose(f);
	return text;
}

/* Returns whether all threads have the credentials of this one. */
PLAIN static int all_alike(void)
{
	static char mine[8192], other[8192];
	char name[32];
	int n = 0, alike = 1;
	snprintf(name, sizeof name, "%d", getpid());
	credentials(name, mine, sizeof mine);
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.') {
			n++;
			alike &= !strcmp(credentials(e->d_name, other, sizeof other), mine);
		}
	if (d)
		closedir(d);
	return alike && n > 1 && *mine;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t t;
	int threads = argc > 1 && !strcmp(argv[1], "threads");
	for (int i = 0; i < 10000; i++)
		work(i);
	if (threads)
		pthread_create(&t, NULL, wait_for_end, NULL);
	/* libc makes all threads that it knows change their user. The recorder's thread must follow. */
	if (!strcmp(argv[1], "groups")) {
		gid_t groups[] = {7, 8};
		if (setgroups(2, groups) || setresgid(9, 9, 9) || !all_alike() || initgroups("nobody", 10) || !all_alike())
			return 1;
	}
	if (strcmp(argv[1], "seteuid") ? setuid(NOBODY) : seteuid(NOBODY))
		return 1;
	if (!all_alike())
		return 3;
	for (int i = 0; i < 10000; i++)
		work(i);
	printf("ready\n");
	fflush(stdout);
	threads ? pthread_join(t, NULL) : (int)(long)wait_for_end(NULL);
	return 0;
}
