/* Makes and counts calls of all kinds. Prints the counts, and a sum that is the same whether it
 * is recorded or not. */
#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))

static long calls[64];
static double sum;

enum { LEAF, FIB, TAIL, LOGGED, VARIADIC, EXTENDED, WIDE, BIG, COMPLEX, VECTOR, JUMP, JUMPED, NAMES };
static const char *const names[NAMES] = {"leaf", "fib", "tail", "logged", "variadic", "extended", "wide", "big", "complicated", "vector", "jump", "jumped"};

struct big { long a[12]; };
typedef double v4 __attribute__((vector_size(32)));
static jmp_buf env;

F long leaf(long x) { calls[LEAF]++; return x + 1; }
F long fib(long n) { calls[FIB]++; return n < 2 ? n : 2 * fib(n - 1) - fib(n - 2); } /* cannot become a loop */
F long tail(long x) { calls[TAIL]++; return leaf(x * 2); }
F __attribute__((xray_log_args(1))) long logged(long x) { calls[LOGGED]++; return -x; }

F double variadic(int n, ...)
{
	va_list l;
	double s = 0;
	calls[VARIADIC]++;
	va_start(l, n);
	for (int i = 0; i < n; i++)
		s = s * 3 + va_arg(l, double) + va_arg(l, int);
	va_end(l);
	return s;
}

F long double extended(long double a, long double b) { calls[EXTENDED]++; return a * b + 1; }
F __int128 wide(__int128 a, __int128 b) { calls[WIDE]++; return a * b + 3; }
F struct big big(struct big b, long x) { calls[BIG]++; b.a[x % 12] += x; return b; }
F double complex complicated(double complex a) { calls[COMPLEX]++; return a * a + 1; }
#ifdef __AVX__
F v4 vector(v4 a, v4 b, v4 c) { calls[VECTOR]++; return a * b + c; }
#endif
F void jump(long x) { calls[JUMP]++; if (x % 3 == 0) longjmp(env, 1); }
F long jumped(long x) { calls[JUMPED]++; jump(x); return x; }

PLAIN static void round_of(long i)
{
	struct big b = {{i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
	__int128 w = wide((__int128)i << 70, i + 3);
	double complex c = complicated(i + 2 * I);
	sum += leaf(i) + tail(i) + logged(i - 50);
	sum += variadic(3, 1.5 * i, 2, 2.5, (int)i, 3.5, 4);
	sum += (double)extended(i, 1.25L);
	sum += (double)(w >> 66) + (double)(uint64_t)w;
	b = big(b, i);
	sum += b.a[i % 12] + b.a[11];
	sum += creal(c) + 2 * cimag(c);
#ifdef __AVX__
	v4 v = vector((v4){i, 1, 2, 3}, (v4){2, 2, 2, 2}, (v4){1, 2, 3, 4});
	sum += v[0] + v[1] + v[2] + v[3];
#endif
	if (!setjmp(env))
		sum += jumped(i);
}

PLAIN int main(void)
{
	for (long i = 0; i < 2000; i++)
		round_of(i);
	sum += fib(18);
	for (int i = 0; i < NAMES; i++)
		if (calls[i])
			printf("%s %ld\n", names[i], calls[i]);
	printf("sum %.17g\n", sum);
	return 0;
}
