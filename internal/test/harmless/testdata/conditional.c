/* Tail calls on a condition, which small code makes by a conditional jump. Some are behind one
 * another, and the flags that decide are live across them. */
#include <stdio.h>

#define F __attribute__((noinline))

static volatile long served, refused, doubted, one = 1;
static long n_serve, n_refuse, n_doubt, n_choose;

F void refuse(long x) { n_refuse++; refused += x & 1 ? 1 : 2; }
F void doubt(long x) { n_doubt++; doubted += x; }

F void serve(long x, volatile long *p)
{
	n_serve++;
	if (!p) {
		refuse(x);
		return;
	}
	served += *p;
}

F void choose(long x)
{
	n_choose++;
	if (x > 50) {
		doubt(x);
		return;
	}
	if (x == 50) {
		refuse(x);
		return;
	}
	served++;
}

__attribute__((xray_never_instrument)) int main(void)
{
	for (long i = 0; i < 1000; i++) {
		serve(i, i % 10 ? &one : 0);
		choose(i % 100);
	}
	printf("served %ld, refused %ld, doubted %ld\n", served, refused, doubted);
	printf("serve %ld\nrefuse %ld\ndoubt %ld\nchoose %ld\n", n_serve, n_refuse, n_doubt, n_choose);
	return 0;
}
