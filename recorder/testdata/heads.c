/* Functions whose entry is the head of a loop, depending on how this is built. Prints how often each function
 * was called. */
#include <pthread.h>
#include <stdio.h>

#define F __attribute__((noinline))
static volatile long sink;
static volatile unsigned state;
static volatile int ended;

/* The way back is by a comparison, or by the table of jumps. */
F static void pass(volatile unsigned *p)
{
again:
	switch (*p & 7) {
	case 0: return;
	case 1: sink += 1; return;
	case 2: sink ^= 5; return;
	case 3: sink -= 3; return;
	case 4: sink += 7; return;
	case 5: sink ^= 2; return;
	case 6: goto again;
	case 7: goto again;
	}
}

/* The only way back is in code that is reached by the table of jumps. */
F static void walk(volatile int *p)
{
	while (*p) {
		switch (*p & 7) {
		case 0: *p = *p - 1; break;
		case 1: *p = *p / 2; sink += 1; break;
		case 2: *p = *p / 2; sink ^= 5; break;
		case 3: *p = *p / 4; sink -= 3; break;
		case 4: *p = *p / 8; sink += 7; break;
		case 5: *p = *p / 2; sink ^= 2; break;
		case 6: *p = *p / 16; sink ^= 9; break;
		case 7: *p = *p - 2; break;
		}
	}
}

/* With a profile, the loop is in the part that rarely runs. */
F static void await(volatile int *p)
{
	while (*p) {
		--*p;
		sink += *p * 77;
		sink ^= 5;
	}
}

F static void usual(long n) { sink += n; }

__attribute__((xray_never_instrument)) static void *change(void *p)
{
	while (!ended)
		state++;
	return p;
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	pthread_t thread;
	(void)argv;
	int turning = argc > 1; /* without, a profile does not vary */
	if (turning)
		pthread_create(&thread, 0, change, 0);
	for (int i = 0; i < 3000; i++) {
		volatile int k = i, turns = turning ? i % 9 : 0;
		pass(&state);
		walk(&k);
		await(&turns);
		usual(i);
	}
	ended = 1;
	if (turning)
		pthread_join(thread, 0);
	printf("pass 3000\nwalk 3000\nawait 3000\nusual 3000\n");
	return 0;
}
