/* Threads that may not read the clock: after prctl, and the thread that it creates, or in strict mode of seccomp. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/seccomp.h>
#define F __attribute__((noinline))
static volatile long n;
F static void work(void) { n++; }
F static void *thread(void *a) { for (int i = 0; i < 100; i++) work(); return a; }
F static void *strict(void *a) { for (int i = 0; i < 100; i++) work(); prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); for (int i = 0; i < 100000; i++) work(); syscall(SYS_exit, 0); return a; }
int main(int argc, char **argv)
{
	pthread_t t;
	for (int i = 0; i < 1000; i++) work();
	if (!strcmp(argv[1], "tsc")) {
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
		for (int i = 0; i < 1000; i++) work();
		pthread_create(&t, 0, thread, 0);
		pthread_join(t, 0);
		if (fork() == 0) { work(); exit(0); }
		if (argc > 2) { prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0); for (int i = 0; i < 1000; i++) work(); }
	} else {
		pthread_create(&t, 0, strict, 0);
		usleep(200000);
		for (int i = 0; i < 1000; i++) work();
	}
	printf("n %ld\n", n);
	return 0;
}
