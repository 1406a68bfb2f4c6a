/* Calls that end in tail calls: of a function with sleds, of one without, of a chain of functions, of
 * functions that form a loop, and of a function that sleeps now and then. Prints how often each is called.
 *   tailcalls N    sleeps 5 ms in every Nth request; 0: never */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define F __attribute__((noinline))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#define BARRIER __asm__ volatile("" ::: "memory")

static volatile long sink;
static long every, served, sunk, steps, chained, turns, kept;

PLAIN long plain(long i) { return sink += i; }

F void sleeps(long i)
{
	sunk++;
	if (every && i % every == 0)
		usleep(5000);
	BARRIER;
}

F void request(long i)
{
	served++;
	sleeps(i);
}

F long unrecorded(long i)
{
	steps++;
	return plain(i);
}

F void third(long i) { chained++; sleeps(i); }
F void second(long i) { chained++; third(i); }
F void first(long i) { chained++; second(i); }

F void odd(long i);
F void even(long i)
{
	turns++;
	if (i > 0)
		odd(i - 1);
}
F void odd(long i)
{
	turns++;
	if (i > 0)
		even(i - 1);
}

__attribute__((xray_always_instrument, noinline)) void always(long i)
{
	kept++;
	sleeps(i);
}

F void outer(long n)
{
	for (long i = 1; i <= n; i++) {
		request(i);
		unrecorded(i);
		first(i);
		even(100);
		BARRIER;
	}
	for (long i = 1; i <= n / 10; i++)
		always(i);
	BARRIER;
}

PLAIN int main(int argc, char **argv)
{
	every = argc > 1 ? atol(argv[1]) : 0;
	outer(100);
	printf("request %ld\nsleeps %ld\nunrecorded %ld\nchain %ld\nloop %ld\nalways %ld\nouter 1\n", served, sunk, steps, chained, turns, kept);
	return 0;
}
