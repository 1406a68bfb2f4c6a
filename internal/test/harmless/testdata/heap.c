/* Allocates and frees in eight threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define F __attribute__((noinline))
static long n_get, n_put;
static volatile char *kept[8][64];

F static void *get(size_t n)
{
	__atomic_fetch_add(&n_get, 1, __ATOMIC_RELAXED);
	char *p = malloc(n);
	p[0] = 1;
	return p;
}

F static void put(void *p)
{
	__atomic_fetch_add(&n_put, 1, __ATOMIC_RELAXED);
	free(p);
}

F static void *work(void *arg)
{
	volatile char **mine = kept[(long)arg];
	for (int i = 0; i < 2000; i++) {
		int k = i * 7 % 64;
		if (mine[k])
			put((void *)mine[k]);
		mine[k] = get(16 + i * 37 % 4000);
	}
	for (int k = 0; k < 64; k++)
		put((void *)mine[k]);
	return 0;
}

__attribute__((xray_never_instrument)) int main(void)
{
	pthread_t t[8];
	for (long i = 0; i < 8; i++)
		pthread_create(&t[i], 0, work, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], 0);
	printf("get %ld\nput %ld\n", n_get, n_put);
	return 0;
}
