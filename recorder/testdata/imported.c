/* Calls functions of libc for ever, and compares their addresses with those from its start. Ends when
 * standard input is closed. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define F __attribute__((noinline))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int done, wrong;
char from[5000];
static volatile size_t size = sizeof from;

/* Some compilers and linkers give both of these, and the calls, the same word. */
typedef void (*release)(void *);
typedef int (*take)(pthread_mutex_t *);
static volatile release released;
static volatile take taken;

F release to_release(void) { return free; }
F take to_take(void) { return pthread_mutex_trylock; }

F void rest(void) { usleep(100); }

F void step(int fd)
{
	char one;
	void *volatile p = malloc(5000);
	if (!p || read(fd, &one, 1) != 1 || one || to_release() != released || to_take() != taken)
		wrong++;
	memcpy(p, from, size);
	released(p);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void *run(void *arg)
{
	int fd = open("/dev/zero", O_RDONLY);
	for (long i = 0; !done; i++) {
		step(fd);
		if (i % 64 == 0)
			rest();
	}
	close(fd);
	return arg;
}

int main(void)
{
	pthread_t threads[2];
	released = to_release();
	taken = to_take();
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%d wrong\n", wrong);
	return 0;
}
