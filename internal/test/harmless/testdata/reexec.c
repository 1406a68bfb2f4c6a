/* Drops what the environment preloads and executes itself, as hardened servers do. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long n_work;

__attribute__((noinline)) long work(long i)
{
	volatile long s = 0;
	n_work++;
	for (long k = 0; k < 100; k++)
		s += k ^ i;
	return s;
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	long s = 0;
	if (argc == 1) {
		unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", argv[0], "again", NULL);
		return 1;
	}
	for (long i = 0; i < 10000; i++)
		s += work(i);
	printf("total %ld;\nwork %ld\n", s, n_work);
	return 0;
}
