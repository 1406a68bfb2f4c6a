/* Tail calls through a pointer. The callee of the first is variadic, and its arguments use
 * all registers except r10 and r11, so r11 holds the target. The second saves its arguments
 * during a call first. Prints the results of the calls, and how often functions were
 * called. */
#include <stdarg.h>
#include <stdio.h>

#define F __attribute__((noinline, xray_always_instrument))

typedef long variadic(void *, int, const void *, int, const void *, long, ...);
struct order {
	variadic *compare;
	void *user;
};

static long calls[4];

static F long compare(void *user, int n, const void *a, int m, const void *b, long k, ...)
{
	calls[0]++;
	return n - m + k + (a == b) + (user != 0);
}

static F long nested(long x)
{
	calls[1]++;
	return x + 1;
}

F long indirect(const struct order *o, int n, const void *a, int m, const void *b, long k)
{
	calls[2]++;
	return o->compare(o->user, n, a, m, b, k);
}

F long behind(const struct order *o, int n, const void *a, int m, const void *b, long k)
{
	calls[3]++;
	k = nested(k);
	return o->compare(o->user, n, a, m, b, k);
}

struct order order = {compare, 0};

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	long sum = 0;
	for (int i = 0; i < 3000; i++)
		sum += i & 1 ? indirect(&order, i, argv, argc, argv, i) : behind(&order, i, argv, argc, 0, i);
	printf("compare %ld\nnested %ld\nindirect %ld\nbehind %ld\nsum %ld\n", calls[0], calls[1], calls[2], calls[3], sum);
	return 0;
}
