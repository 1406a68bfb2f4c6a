/* A thread for each request, some at a time, and programs that are started by posix_spawn and vfork:
 * threads NUMBER. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define F __attribute__((noinline))
enum { AT_ONCE = 20 };
extern char **environ;
static long n_work, n_spawned, n_forked;

F long work(long i)
{
	__atomic_fetch_add(&n_work, 1, __ATOMIC_RELAXED);
	volatile long s = 0;
	for (int k = 0; k < 10; k++)
		s += i;
	return s;
}

F void *request(void *arg)
{
	for (int i = 0; i < 5; i++)
		work((long)arg);
	return 0;
}

F int spawned(void)
{
	pid_t p;
	int status = 1;
	char *args[] = {"true", 0};
	n_spawned++;
	posix_spawn(&p, "/bin/true", 0, 0, args, environ);
	waitpid(p, &status, 0);
	return status;
}

F int forked(void)
{
	int status = 1;
	n_forked++;
	pid_t p = vfork();
	if (!p) {
		execl("/bin/true", "true", (char *)0);
		_exit(127);
	}
	waitpid(p, &status, 0);
	return status;
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	int bad = 0, n = atoi(argv[1]);
	pthread_t t[AT_ONCE];
	for (int i = 0; i < n; i += AT_ONCE) {
		for (int k = 0; k < AT_ONCE; k++)
			bad += pthread_create(&t[k], 0, request, (void *)(long)(i + k)) != 0;
		for (int k = 0; k < AT_ONCE; k++)
			pthread_join(t[k], 0);
	}
	for (int i = 0; i < 5; i++)
		bad += spawned() + forked();
	printf("bad %d;\nwork %ld\nrequest %d\nspawned %ld\nforked %ld\n", bad, n_work, n, n_spawned, n_forked);
	return 0;
}
