/* Short functions, one of which must be recorded whatever its calls cost. */
#include <stdio.h>

static long n_lock, n_work;
static volatile long sink;

__attribute__((noinline, xray_always_instrument)) void lock(void) { n_lock++; sink++; }

__attribute__((noinline)) void work(int n)
{
	n_work++;
	for (int i = 0; i < n; i++)
		sink += i;
}

__attribute__((xray_never_instrument)) int main(void)
{
	for (int i = 0; i < 100; i++) {
		lock();
		work(3000);
	}
	printf("lock %ld\nwork %ld\n", n_lock, n_work);
	return 0;
}
