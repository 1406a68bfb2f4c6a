/* Threads that end: ended THREADS AT_ONCE CALLS [LAST]. Each makes so many calls of leaf. LAST more threads do so
 * and then wait for each other. Prints how much memory the process has then, in kB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long calls;
static pthread_barrier_t all;

__attribute__((noinline)) void leaf(long i) { __asm__ volatile("" : : "r"(i) : "memory"); }

__attribute__((xray_never_instrument)) static void *run(void *none)
{
	for (long i = 0; i < calls; i++)
		leaf(i);
	return none;
}

__attribute__((xray_never_instrument)) static void *wait_for_all(void *none)
{
	run(none);
	pthread_barrier_wait(&all); /* until all have made their calls */
	pthread_barrier_wait(&all); /* until main has looked */
	return none;
}

__attribute__((xray_never_instrument)) static int print_memory(void)
{
	char line[256];
	long sum = 0, n;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "RssAnon: %ld", &n) == 1 || sscanf(line, "RssShmem: %ld", &n) == 1)
			sum += n;
	return f ? printf("%ld\n", sum) : -1;
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
	int last = argc > 4 ? atoi(argv[4]) : 0;
	if (!last)
		return 0;
	pthread_t *waiting = calloc(last, sizeof *waiting);
	pthread_barrier_init(&all, NULL, last + 1);
	for (int i = 0; i < last; i++)
		if (pthread_create(&waiting[i], NULL, wait_for_all, NULL))
			return 1;
	pthread_barrier_wait(&all);
	print_memory();
	pthread_barrier_wait(&all);
	for (int i = 0; i < last; i++)
		pthread_join(waiting[i], NULL);
	return 0;
}
