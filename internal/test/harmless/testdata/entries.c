/* Calls in calls, for sleds at entries or at exits only. */
#include <stdio.h>

#define F __attribute__((noinline))
static long n_outer, n_middle, n_inner;
static volatile long sink;

F long inner(long x)
{
	n_inner++;
	for (int i = 0; i < 30; i++)
		sink += x;
	return x;
}

F long middle(long x)
{
	n_middle++;
	return inner(x) + inner(x + 1);
}

F long outer(long x)
{
	n_outer++;
	return x % 2 ? middle(x) * 2 : inner(x) - 1;
}

__attribute__((xray_never_instrument)) int main(void)
{
	long s = 0;
	for (long i = 0; i < 1000; i++)
		s += outer(i);
	printf("total %ld;\nouter %ld\nmiddle %ld\ninner %ld\n", s, n_outer, n_middle, n_inner);
	return 0;
}
