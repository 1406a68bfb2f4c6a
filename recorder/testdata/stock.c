/* Uses compiler-rt's runtime itself. */
#include <stdio.h>

int __xray_patch(void);
int __xray_set_handler(void (*handler)(int, int));

static long handled;

__attribute__((xray_never_instrument)) static void handle(int id, int kind)
{
	handled += id > 0 && kind >= 0;
}

__attribute__((noinline, xray_always_instrument)) static int function(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((xray_never_instrument)) int main(void)
{
	__xray_set_handler(handle);
	__xray_patch();
	for (int i = 0; i < 100; i++)
		function(i);
	printf("handled %ld\n", handled);
	return 0;
}
