/* Makes calls on known paths, and prints how many, as "main;outer;inner 12". The argument is
 * how many threads make them, one after another or, if negative, at once. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))
enum { ROUNDS = 3000, WIDE = 12 };

static volatile long sink;
static __thread jmp_buf env;

F void leaf(void) { sink++; }
F void one(void) { leaf(); }
F void two(void) { leaf(); leaf(); }
F void deep(long n) { if (n) deep(n - 1); sink++; }
F void jump(void) { longjmp(env, 1); }
F void jumper(void) { if (!setjmp(env)) jump(); leaf(); }
F void looper(void) { for (volatile int i = 0; i < 10; i++) if (!setjmp(env)) jump(); }
F void handler(int signal) { (void)signal; two(); }

/* Callees in a changing order. */
#define CALLEE(n) F void callee##n(void) { sink += n; }
CALLEE(0) CALLEE(1) CALLEE(2) CALLEE(3) CALLEE(4) CALLEE(5) CALLEE(6) CALLEE(7) CALLEE(8) CALLEE(9) CALLEE(10) CALLEE(11)
static void (*const callees[WIDE])(void) = {callee0, callee1, callee2, callee3, callee4, callee5, callee6, callee7, callee8, callee9, callee10, callee11};
F void wide(unsigned i) { callees[i * 7 % WIDE](); callees[i * 5 % WIDE](); }

F void *work(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		one();
		two();
		wide(i);
		jumper();
	}
	looper();
	deep(20);
	return arg;
}

PLAIN static void print(long threads)
{
	static const char *const each[] = {"one", "one;leaf", "two", "wide", "jumper", "jumper;jump", "jumper;leaf"};
	long wides[WIDE] = {0};
	for (unsigned i = 0; i < ROUNDS; i++) {
		wides[i * 7 % WIDE]++;
		wides[i * 5 % WIDE]++;
	}
	printf("work %ld\n", threads);
	for (unsigned i = 0; i < sizeof each / sizeof *each; i++)
		printf("work;%s %ld\n", each[i], threads * ROUNDS);
	printf("work;two;leaf %ld\n", 2 * threads * ROUNDS);
	for (int i = 0; i < WIDE; i++)
		if (wides[i])
			printf("work;wide;callee%d %ld\n", i, threads * wides[i]);
	printf("work;looper %ld\nwork;looper;jump %ld\n", threads, 10 * threads);
	for (int i = 0; i <= 20; i++) {
		printf("work");
		for (int k = 0; k <= i; k++)
			printf(";deep");
		printf(" %ld\n", threads);
	}
}

PLAIN int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1;
	if (argc > 2) { /* signals */
		struct itimerval every = {{0, 200}, {0, 200}};
		struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
		static char other[65536];
		stack_t alternative = {.ss_sp = other, .ss_size = sizeof other};
		sigaltstack(&alternative, NULL);
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &every, NULL);
		for (int i = 0; i < 20; i++)
			work(NULL);
		every = (struct itimerval){{0, 0}, {0, 0}};
		setitimer(ITIMER_REAL, &every, NULL);
		print(20);
		return 0;
	}
	pthread_t threads[64];
	long all = n < 0 ? -n : n;
	for (long i = 0; i < all; i++) {
		pthread_create(&threads[i % 64], NULL, work, NULL);
		if (n > 0)
			pthread_join(threads[i % 64], NULL);
	}
	for (long i = 0; n < 0 && i < all; i++)
		pthread_join(threads[i], NULL);
	print(all);
	return 0;
}
