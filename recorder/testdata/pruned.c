/* Calls that are nearly all too short to be kept, in threads and signal handlers, inside long
 * calls, and a short function that is never pruned. Prints how often each function was called.
 * With an argument, it kills itself at the end. Compile with
 * -fxray-instruction-threshold=1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define F __attribute__((noinline))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#define BARRIER __asm__ volatile("" ::: "memory")

enum { QUICK, LOGGED, CALLER, RECURSIVE, HANDLER, LENGTHY, KEPT, FUNCTIONS };
static const char *const names[] = {"quick", "logged", "caller", "recursive", "handler", "lengthy", "kept"};
static long calls[FUNCTIONS];

PLAIN static void count(int function) { __atomic_fetch_add(&calls[function], 1, __ATOMIC_RELAXED); }

F void quick(void) { count(QUICK); BARRIER; }
F __attribute__((xray_log_args(1))) void logged(long x) { count(LOGGED); BARRIER; (void)x; }
F void caller(void) { count(CALLER); quick(); logged(3); BARRIER; }
F void recursive(int n) { count(RECURSIVE); if (n) recursive(n - 1); BARRIER; }
F void handler(int signal) { count(HANDLER); quick(); BARRIER; (void)signal; }
__attribute__((noinline, xray_always_instrument)) void kept(void) { count(KEPT); BARRIER; }

PLAIN static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Longer than 10 ms. */
F void lengthy(void)
{
	count(LENGTHY);
	for (double end = now() + 0.02; now() < end;) {
		for (int i = 0; i < 100; i++)
			caller();
		recursive(20);
	}
	kept();
	BARRIER;
}

PLAIN static void *work(void *arg)
{
	for (int i = 0; i < 3; i++)
		lengthy();
	for (int i = 0; i < 1000; i++)
		quick();
	return arg;
}

PLAIN int main(int argc, char **argv)
{
	struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[3];
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every_ms, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s %ld\n", names[i], calls[i]);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "killed"))
		kill(getpid(), SIGKILL);
	return 0;
}
