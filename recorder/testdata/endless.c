/* serve never returns: it has an entry sled and no exit sled. The code behind it is a function without sleds,
 * which returns. */
#include <stdio.h>
#include <stdlib.h>

static int calls;

__attribute__((noinline, xray_always_instrument)) void work(void) { calls++; }

__attribute__((noinline, noreturn, xray_always_instrument)) void serve(int n)
{
	for (int i = 0; i < n; i++)
		work();
	printf("%d\n", calls);
	exit(0);
}

__attribute__((noinline)) int behind(int n) { return n / 3; }

__attribute__((xray_always_instrument)) int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 5)
		return behind(argc);
	serve(1000 * argc);
}
