/* Random trees of calls, with more paths than a profile keeps, and one tree that is 6,000 deep.
 * Prints how often each function was called, its callers, and bounds for the time of its
 * outermost calls. Arguments: how many calls each of two threads makes, and "signals" for
 * signal handlers in between or "killed" to be killed inside the deep tree. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <x86intrin.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))
enum { FUNCTIONS = 24, NONE = FUNCTIONS, DEEP = 6000, THREADS = 2 };

struct thread {
	uint64_t random, budget, depth;
	int killed;
	uint64_t calls[FUNCTIONS + 1][FUNCTIONS]; /* by caller */
	uint64_t open[FUNCTIONS], inner[FUNCTIONS], outer[FUNCTIONS];
};
static struct thread all[THREADS];
static volatile uint64_t handled;

PLAIN static void body(struct thread *t, int self);

#define ONE(n) F void f##n(struct thread *t) { body(t, n); __asm__ volatile(""); }
ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9) ONE(10) ONE(11)
ONE(12) ONE(13) ONE(14) ONE(15) ONE(16) ONE(17) ONE(18) ONE(19) ONE(20) ONE(21) ONE(22) ONE(23)
static void (*const functions[FUNCTIONS])(struct thread *) = {
	f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23,
};
F void twig(void) { handled++; }
F void handler(int signal) { (void)signal; twig(); __asm__ volatile(""); }

PLAIN static uint64_t draw(struct thread *t, uint64_t n)
{
	t->random = t->random * 6364136223846793005ull + 1442695040888963407ull;
	return (t->random >> 33) % n;
}

PLAIN static void call(struct thread *t, int caller, int n)
{
	uint64_t start = __rdtsc();
	t->calls[caller][n]++;
	functions[n](t);
	if (!t->open[n])
		t->outer[n] += __rdtsc() - start;
}

PLAIN static void print(int killed)
{
	static uint64_t sums[3][FUNCTIONS];
	for (int caller = 0; caller <= NONE; caller++)
		for (int n = 0; n < FUNCTIONS; n++) {
			uint64_t calls = 0;
			for (int i = 0; i < THREADS; i++)
				calls += all[i].calls[caller][n];
			sums[0][n] += calls;
			if (caller < NONE)
				printf("edge;f%d;f%d %lu\n", caller, n, calls);
		}
	for (int n = 0; n < FUNCTIONS; n++) {
		printf("calls;f%d %lu\n", n, sums[0][n]);
		for (int i = 0; i < THREADS; i++) {
			sums[1][n] += all[i].inner[n];
			sums[2][n] += all[i].outer[n];
		}
		if (!killed)
			printf("inner;f%d %lu\nouter;f%d %lu\n", n, sums[1][n], n, sums[2][n]);
	}
	if (handled)
		printf("edge;handler;twig %lu\ncalls;handler %lu\ncalls;twig %lu\n", handled, handled, handled);
	fflush(stdout);
}

/* The body of each function. */
PLAIN static void body(struct thread *t, int self)
{
	uint64_t start = __rdtsc();
	t->open[self]++;
	t->depth++;
	if (!t->budget) { /* deep */
		if (t->depth < DEEP) {
			call(t, self, (self * 7 + t->depth) % FUNCTIONS);
		} else if (t->killed) {
			print(1);
			kill(getpid(), SIGKILL);
		}
	} else {
		for (int i = draw(t, 4); i && t->budget && t->depth < 40; i--) {
			t->budget--;
			call(t, self, draw(t, FUNCTIONS));
		}
	}
	t->depth--;
	if (!--t->open[self])
		t->inner[self] += __rdtsc() - start;
}

PLAIN static void *run(void *arg)
{
	struct thread *t = arg;
	while (t->budget) {
		t->budget--;
		call(t, NONE, draw(t, FUNCTIONS));
	}
	call(t, NONE, 0);
	return NULL;
}

PLAIN int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	struct itimerval every = {{0, 500}, {0, 500}};
	pthread_t other;
	for (int i = 0; i < THREADS; i++) {
		all[i].random = i + 1;
		all[i].budget = argc > 1 ? atol(argv[1]) : 100000;
	}
	all[0].killed = !strcmp(what, "killed");
	if (!strcmp(what, "signals")) {
		signal(SIGALRM, handler);
		setitimer(ITIMER_REAL, &every, NULL);
	}
	pthread_create(&other, NULL, run, &all[1]);
	pthread_join(other, NULL);
	run(&all[0]);
	every = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
	print(0);
	return 0;
}
