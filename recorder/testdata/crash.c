/* Calls functions a known number of times, and ends in a given way:
 *
 *   crash END CALLS
 *
 * calls branch CALLS times in a thread called "worker", and 100 times in the first
 * thread, and leaf twice from each of them; then aborts (a), is killed (k), exits (x),
 * or prints "ready" and waits (w). With f, a child does this and is killed, and then its parent
 * is killed. g is like f, but the child cannot write files. With t, CALLS threads come and go,
 * each of which calls branch 10 times, and then the program is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sum;

__attribute__((noinline)) void leaf(unsigned long i) { sum += i; }

__attribute__((noinline)) void branch(unsigned long i)
{
	leaf(i);
	leaf(i + 1);
}

#define PLAIN __attribute__((xray_never_instrument))

PLAIN static void *work(void *n)
{
	pthread_setname_np(pthread_self(), "worker");
	for (unsigned long i = 0; i < (unsigned long)n; i++)
		branch(i);
	return NULL;
}

PLAIN static void run(long calls)
{
	pthread_t t;
	pthread_create(&t, NULL, work, (void *)calls);
	pthread_join(t, NULL);
	usleep(2000); /* the clock takes a millisecond to measure */
	for (unsigned long i = 0; i < 100; i++)
		branch(i);
}

PLAIN static void run_threads(long n)
{
	while (n--) {
		pthread_t t;
		pthread_create(&t, NULL, work, (void *)10);
		pthread_join(t, NULL);
	}
}

PLAIN int main(int argc, char **argv)
{
	(void)argc;
	if (argv[1][0] == 'f' || argv[1][0] == 'g') {
		const struct rlimit none = {0, 0};
		branch(1);
		if (!fork()) {
			if (argv[1][0] == 'g')
				setrlimit(RLIMIT_FSIZE, &none);
			run(atol(argv[2]));
			raise(SIGKILL);
		}
		wait(NULL);
		raise(SIGKILL);
	}
	if (argv[1][0] == 't') {
		run_threads(atol(argv[2]));
		raise(SIGKILL);
	}
	run(atol(argv[2]));
	switch (argv[1][0]) {
	case 'a': abort();
	case 'k': raise(SIGKILL);
	case 'w': puts("ready"); fflush(stdout); pause();
	}
}
