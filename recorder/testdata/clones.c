/* Processes and threads that share memory and thread-local storage: clone without CLONE_SETTLS. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#define F __attribute__((noinline))

static atomic_long n;

F static void leaf(void) { n++; }
F static void deep(int depth)
{
	leaf();
	if (depth)
		deep(depth - 1);
	leaf();
}

F static void work(void)
{
	for (int i = 0; i < 20000; i++)
		deep(5);
}

static int run(void *arg)
{
	(void)arg;
	work();
	return 0;
}

int main(void)
{
	enum { STACK = 1 << 16 };
	deep(5);
	for (int i = 0; i < 4; i++)
		if (clone(run, (char *)malloc(STACK) + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL) < 0)
			return 1;
	work();
	while (wait(NULL) > 0)
		;
	printf("n %ld\n", n);
	return 0;
}
