/* Reads commands: w starts a thread that waits in idle, r makes a request. It answers each with the command. */
#include <pthread.h>
#include <unistd.h>

#define RECORDED __attribute__((noinline, xray_always_instrument))

static volatile long sink;

RECORDED static void work(void) { sink++; }
RECORDED static void request(void)
{
	for (int i = 0; i < 100; i++)
		work();
}
RECORDED static void idle(void) { pause(); sink++; }

static void *wait_idly(void *none) { idle(); return none; }

int main(void)
{
	pthread_t t;
	char c;
	while (read(0, &c, 1) == 1) {
		if (c == 'w')
			pthread_create(&t, NULL, wait_idly, NULL);
		else
			request();
		if (write(1, &c, 1) != 1)
			return 1;
	}
	return 0;
}
