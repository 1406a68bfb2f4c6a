/* Functions that are called often, in threads, signal handlers, recursions and calls that longjmp
 * leaves, inside long calls of functions that are called rarely. Prints how often each was called.
 * Compile with -fxray-instruction-threshold=1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define F __attribute__((noinline))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#define BARRIER __asm__ volatile("" ::: "memory")

enum { OFTEN, RECURSIVE, THROWER, CATCHER, HANDLER, RARELY, KEPT, FUNCTIONS };
static const char *const names[] = {"often", "recursive", "thrower", "catcher", "handler", "rarely", "kept"};
static long calls[FUNCTIONS];
static __thread jmp_buf landing;

PLAIN static void count(int function) { __atomic_fetch_add(&calls[function], 1, __ATOMIC_RELAXED); }

/* Takes long compared to counting a call. */
PLAIN static void work(int n)
{
	for (volatile int i = 0; i < n; i++)
		;
}

F void often(void) { count(OFTEN); work(60); BARRIER; }
F void recursive(int n) { count(RECURSIVE); work(10); if (n) recursive(n - 1); BARRIER; }
F void thrower(int n) { count(THROWER); if (n) thrower(n - 1); else longjmp(landing, 1); BARRIER; }
F void catcher(void) { count(CATCHER); if (!setjmp(landing)) thrower(3); BARRIER; }
F void handler(int signal) { count(HANDLER); often(); BARRIER; (void)signal; }
__attribute__((noinline, xray_always_instrument)) void kept(void) { count(KEPT); BARRIER; }

F void rarely(int rounds)
{
	count(RARELY);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 20; k++)
			often();
		recursive(10);
		catcher();
	}
	kept();
	BARRIER;
}

PLAIN static void *run(void *arg)
{
	for (int i = 0; i < 10; i++)
		rarely(*(int *)arg);
	return NULL;
}

PLAIN int main(int argc, char **argv)
{
	enum { THREADS = 2 };
	int rounds = argc > 1 ? atoi(argv[1]) : 10000;
	struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[THREADS];
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every_ms, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, &rounds);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s %ld\n", names[i], calls[i]);
	return 0;
}
