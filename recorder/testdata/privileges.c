/* Starts with privileges and drops them: privileges HOW. Ends when standard input is closed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))
enum { NOBODY = 65534 };

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

PLAIN static void *wait_for_end(void *none)
{
	for (char c; read(0, &c, 1) > 0;)
		;
	return none;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t t;
	int threads = argc > 1 && !strcmp(argv[1], "threads");
	for (int i = 0; i < 10000; i++)
		work(i);
	if (threads)
		pthread_create(&t, NULL, wait_for_end, NULL);
	/* libc makes all threads change their user, including the recorder's. */
	if (strcmp(argv[1], "seteuid") ? setuid(NOBODY) : seteuid(NOBODY))
		return 1;
	for (int i = 0; i < 10000; i++)
		work(i);
	printf("ready\n");
	fflush(stdout);
	threads ? pthread_join(t, NULL) : (int)(long)wait_for_end(NULL);
	return 0;
}
