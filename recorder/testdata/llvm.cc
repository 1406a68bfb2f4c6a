/* Records with LLVM's own runtime, and ends in a given way:
 *
 *   llvm END THREADS CALLS OPTIONS [finalize]
 *
 * One thread after another calls branch CALLS times, and leaf twice from each of them. If threads
 * took buffers at the same time, FDR mode might lose some. The threads stay, with their buffers.
 * Then the first thread calls branch 100 times. END has letters:
 *
 *   a, s, w  first letter: abort, cause a fault, or print "ready" and wait
 *   l        each thread ends before the next one begins
 *   b        while the first thread waits, THREADS others call functions without an end
 *   t        the first thread also writes 1000 typed events; only LLVM 14's runtime survives that
 *
 * If OPTIONS is not empty, it starts FDR mode. The environment starts basic mode. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define PLAIN __attribute__((xray_never_instrument))

static volatile unsigned long sum;

extern "C" __attribute__((noinline, xray_always_instrument, xray_log_args(1))) void leaf(unsigned long i) { sum += i; }

extern "C" __attribute__((noinline)) void branch(unsigned long i)
{
	leaf(i);
	leaf(i + 1);
}

extern "C" __attribute__((noinline)) void quick(void) { sum++; }

extern "C" __attribute__((noinline, xray_always_instrument)) void typed(void)
{
	sum++;
	__xray_typedevent(3, "payload", 7);
	sum++;
}

PLAIN static void *work(void *n)
{
	for (unsigned long i = 0; i < (unsigned long)n; i++)
		branch(i);
	return NULL;
}

PLAIN static void *loop(void *)
{
	for (unsigned long i = 0;; i++) {
		branch(i);
		quick();
	}
}

static sem_t done;

/* The thread stays, with its buffer. */
PLAIN static void *stay(void *n)
{
	work(n);
	sem_post(&done);
	for (;;)
		pause();
	return NULL;
}

PLAIN int main(int, char **argv)
{
	const char *end = argv[1];
	const int threads = atoi(argv[2]);
	const unsigned long calls = atol(argv[3]);
	if (argv[4] && *argv[4]) {
		if (__xray_log_select_mode("xray-fdr") || __xray_log_init_mode("xray-fdr", argv[4]) != 2 || __xray_patch() != 1)
			return 1;
	}
	sem_init(&done, 0, 0);
	for (int i = 0; i < threads; i++) {
		pthread_t t;
		pthread_create(&t, NULL, strchr(end, 'l') ? work : stay, (void *)calls);
		if (strchr(end, 'l'))
			pthread_join(t, NULL);
		else
			while (sem_wait(&done))
				;
	}
	work((void *)100);
	if (strchr(end, 't'))
		for (int i = 0; i < 1000; i++)
			typed();
	if (argv[4] && argv[5]) {
		__xray_log_finalize();
		__xray_log_flushLog();
	}
	if (strchr(end, 'b'))
		for (int i = 0; i < threads; i++) {
			pthread_t t;
			pthread_create(&t, NULL, loop, NULL);
		}
	puts("ready");
	fflush(stdout);
	switch (*end) {
	case 'a': abort();
	case 's': *(volatile int *)8 = 1; break;
	case 'w':
		for (;;)
			pause();
	}
}
