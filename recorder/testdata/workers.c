/* A server with processes that work: workers HOW [PLUGIN]. Each says its id when it begins,
 * calls work 10 times, and all end with the standard input of the first.
 *   workers   three children
 *   daemon    a child of a child, as daemons are
 *   plugin    a child that opens a shared object when it gets SIGUSR1, and calls it
 *   threads   a child of a process with another thread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))

static int end[2];
static volatile sig_atomic_t asked;
static const char *path;

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

PLAIN static void ask(int signal) { asked = signal; }

PLAIN static void plug(void)
{
	void *object = dlopen(path, RTLD_NOW);
	long (*plug)(long) = object ? (long (*)(long))dlsym(object, "plug") : NULL;
	for (long i = 0; plug && i < 10; i++)
		plug(i);
	dprintf(1, plug ? "plugged\n" : "failed\n");
}

PLAIN static void run(void)
{
	char c;
	close(end[1]);
	signal(SIGUSR1, ask);
	siginterrupt(SIGUSR1, 1);
	for (int i = 0; i < 10; i++)
		work(i);
	dprintf(1, "%d\n", (int)getpid());
	while (read(end[0], &c, 1) < 0)
		if (asked)
			plug();
	_exit(0);
}

PLAIN static void *idle(void *none)
{
	pause();
	return none;
}

PLAIN int main(int argc, char **argv)
{
	char c;
	pthread_t t;
	int n = !strcmp(argv[1], "workers") ? 3 : 1;
	path = argc > 2 ? argv[2] : NULL;
	if (pipe(end))
		return 1;
	if (!strcmp(argv[1], "threads"))
		pthread_create(&t, NULL, idle, NULL);
	work(0);
	for (int i = 0; i < n; i++) {
		if (fork())
			continue;
		if (!strcmp(argv[1], "daemon") && daemon(1, 1))
			return 1;
		run();
	}
	close(end[0]);
	while (read(0, &c, 1) > 0)
		;
	close(end[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
