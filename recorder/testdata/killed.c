/* Kills itself while it is recorded, after printing how often leaf was called. */
#include <signal.h>
#include <stdio.h>

__attribute__((noinline, xray_always_instrument)) static long leaf(long x)
{
	__asm__ volatile("");
	return x;
}

__attribute__((xray_never_instrument)) int main(void)
{
	const long calls = 123456;
	for (long i = 0; i < calls; i++)
		leaf(i);
	printf("%ld\n", calls);
	fflush(stdout);
	raise(SIGKILL);
	return 0;
}
