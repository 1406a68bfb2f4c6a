/* A call that is open whenever the test changes the recording. hold returns when the program reads a
 * byte. Then step is called, and the program answers with the ID of the process. */
#include <stdio.h>
#include <unistd.h>

static volatile long steps;

__attribute__((noinline)) int hold(void)
{
	char c;
	return read(0, &c, 1) > 0;
}

__attribute__((noinline)) void inner(void) { steps++; }

__attribute__((noinline)) void step(void)
{
	inner();
	steps++;
}

__attribute__((xray_never_instrument)) int main(void)
{
	do {
		step();
		printf("%d\n", getpid());
		fflush(stdout);
	} while (hold());
	return 0;
}
