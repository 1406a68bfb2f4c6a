/* A program to control from outside. Two threads call functions until standard input is closed.
 * The program fails if a call returns a wrong result. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int done;

__attribute__((noinline)) long leaf(long x) { return x * 2 + 1; }
__attribute__((noinline)) long branch(long x) { return leaf(x) + leaf(x + 1); }

__attribute__((xray_never_instrument)) static void *work(void *none)
{
	for (long i = 0; !done; i++) {
		if (branch(i) != 4 * i + 4)
			abort();
		if (i % 64 == 0)
			usleep(100);
	}
	return none;
}

__attribute__((xray_never_instrument)) int main(void)
{
	pthread_t threads[2];
	char c;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
