// Two threads on one processor, which wake each other through pipes. A unit of work is one
// turn: this thread is switched out once. Recording adds the cost of noticing that.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "measure.h"

#define TRACED __attribute__((noinline))

static int there[2], back[2];

TRACED static void await(int fd)
{
	char c;
	if (read(fd, &c, 1) != 1)
		abort();
}

PLAIN static void wake(int fd)
{
	if (write(fd, "", 1) != 1)
		abort();
}

PLAIN static void *partner(void *none)
{
	char c;
	while (read(there[0], &c, 1) == 1)
		wake(back[1]);
	return none;
}

PLAIN static void begin()
{
	cpu_set_t here;
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	pthread_t thread;
	if (sched_setaffinity(0, sizeof here, &here) || pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC) ||
	    pthread_create(&thread, nullptr, partner, nullptr))
		abort();
}

PLAIN unsigned long work()
{
	static bool begun;
	if (!begun)
		begin();
	begun = true;
	const unsigned long n = 500;
	for (unsigned long i = 0; i < n; i++) {
		wake(there[1]);
		await(back[0]);
	}
	return n;
}
