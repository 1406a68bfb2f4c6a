/* Functions whose sleds are not what they seem, depending on how this is built. Prints how often each
 * function was called. */
#include <stdio.h>

#define F __attribute__((noinline))
static volatile long sum, one = 1;

/* With -Oz, the entry is the head of the loop. */
F static int *find(int **p, int v)
{
	while (*p && **p != v)
		p++;
	return *p;
}

F static void spin(volatile int *p)
{
	while (*p)
		--*p;
}

/* A tail call of the function before is no loop. */
F static void sink(long n);
F static void drain(long n)
{
	sum -= n;
	if (n > 0)
		sink(n - 1);
}

F static void sink(long n)
{
	sum += n;
	if (n > 0)
		drain(n - 1);
}

/* If the linker folds basic blocks, these share an exit. If it folds functions, the others are one. */
F static long twin(long x)
{
	for (volatile int i = 0; i < 2; i = i + 1)
		sum += x;
	return x + 5;
}

F static long sister(long x)
{
	for (volatile int i = 0; i < 2; i = i + 1)
		sum += x;
	return x + 5;
}

/* Before version 19, clang makes a conditional jump of the call of refuse with -Os. */
F static void refuse(long x) { sum -= x; }
F static void serve(long x, volatile long *p)
{
	if (!p) {
		refuse(x);
		return;
	}
	sum += *p;
}

__attribute__((xray_never_instrument)) int main(void)
{
	int numbers[8], *list[9] = {0};
	for (int i = 0; i < 8; i++)
		*(list[i] = &numbers[i]) = i;
	for (int i = 0; i < 1000; i++) {
		volatile int turns = i % 5;
		sum += *find(list, i % 8);
		spin(&turns);
		sink(i % 3);
		sum += twin(i) + sister(i);
		serve(i, i % 10 ? &one : 0);
	}
	printf("find 1000\nspin 1000\nsink 1333\ndrain 666\ntwin 1000\nsister 1000\nserve 1000\nrefuse 100\nsum %ld\n", sum);
	return 0;
}
