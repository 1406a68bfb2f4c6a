/* Threads that end: ended THREADS AT_ONCE CALLS. Each makes so many calls of leaf. */
#include <pthread.h>
#include <stdlib.h>

static long calls;

__attribute__((noinline)) void leaf(long i) { __asm__ volatile("" : : "r"(i) : "memory"); }

__attribute__((xray_never_instrument)) static void *run(void *none)
{
	for (long i = 0; i < calls; i++)
		leaf(i);
	return none;
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int n = atoi(argv[1]), together = atoi(argv[2]);
	calls = atol(argv[3]);
	pthread_t threads[64];
	for (int i = 0; i < n; i += together) {
		for (int k = 0; k < together && k < 64; k++)
			if (pthread_create(&threads[k], NULL, run, NULL))
				return 1;
		for (int k = 0; k < together && k < 64; k++)
			pthread_join(threads[k], NULL);
	}
	return 0;
}
