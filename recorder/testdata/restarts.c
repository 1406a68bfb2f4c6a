/* Stops and starts recording repeatedly, and sleeps 2 ms in each recording:
 *
 *   restarts TIMES TRACE    writes the contents of the rings to TRACE */
#include <stdlib.h>
#include <time.h>

#include <xray/recorder.h>

static volatile long sink;

__attribute__((noinline, xray_always_instrument)) void tick(void) { sink++; }

int main(int argc, char **argv)
{
	struct timespec nap = {0, 2000000};
	for (int i = 0; argc == 3 && i < atoi(argv[1]); i++) {
		if (xray_stop() || xray_start(NULL))
			return 1;
		for (int k = 0; k < 100; k++)
			tick();
		nanosleep(&nap, NULL);
		tick();
	}
	return argc != 3 || xray_snapshot(argv[2], 0) != 0;
}
