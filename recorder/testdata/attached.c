/* Threads that attaching must not disturb: they wait in all ways, allocate, and read the loader's
 * list. attached THREADS, or attached compute. Ends when standard input is closed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define F __attribute__((noinline))

static volatile int done;
static _Atomic long interrupted, wrong, rounds;
static volatile long sink;

F void work(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
}

F void allocate(void)
{
	char *p = malloc(1000 + sink % 100000);
	memset(p, 1, 1000);
	work(10);
	free(p);
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info, (void)size;
	++*(int *)arg;
	return 0;
}

F void list(void)
{
	int n = 0;
	dl_iterate_phdr(look, &n);
	if (n < 3)
		wrong++;
}

static pthread_barrier_t begun;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

/* Returns whether the system call timed out, as it should. */
F int wait_in(int how, int fd, int epoll)
{
	struct timespec t = {0, 30000000}, until;
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event event;
	fd_set set;
	char c;
	switch (how) {
	case 0: return epoll_wait(epoll, &event, 1, 30);
	case 1: return poll(&p, 1, 30);
	case 2: return nanosleep(&t, NULL);
	case 3:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		return pselect(fd + 1, &set, NULL, NULL, &t, NULL);
	case 4:
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec = (until.tv_nsec + 30000000) % 1000000000;
		until.tv_sec += until.tv_nsec < 30000000;
		pthread_mutex_lock(&lock);
		errno = pthread_cond_timedwait(&never, &lock, &until);
		pthread_mutex_unlock(&lock);
		return errno == ETIMEDOUT ? 0 : -1;
	case 5: /* the socket has a timeout */
		return recv(fd, &c, 1, 0) < 0 && errno == EAGAIN ? 0 : -1;
	case 6: {
		sigset_t s;
		sigemptyset(&s);
		sigaddset(&s, SIGUSR1);
		return sigtimedwait(&s, NULL, &t) < 0 && errno == EAGAIN ? 0 : -1;
	}
	}
	return 0;
}

static void *run(void *arg)
{
	int how = (intptr_t)arg % 9, pair[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	struct timeval timeout = {0, 30000};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	pthread_barrier_wait(&begun);
	while (!done) {
		errno = 0;
		if (how == 7)
			allocate();
		else if (how == 8)
			list();
		else if (wait_in(how, pair[0], epoll)) {
			if (errno == EINTR)
				interrupted++;
			else
				wrong++;
		}
		work(100);
		rounds++;
	}
	return NULL;
}

static int count(const char *dir)
{
	int n = 0;
	DIR *d = opendir(dir);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void finish(int signal) { done = signal; }

static void *end(void *none)
{
	char c;
	while (read(0, &c, 1) > 0)
		;
	done = 1;
	return none;
}

int main(int argc, char **argv)
{
	pthread_t t[256];
	int n = argc > 1 ? atoi(argv[1]) : 0;
	if (argc > 1 && !strcmp(argv[1], "compute")) {
		/* No other thread runs, and this one never waits. */
		signal(SIGUSR1, finish);
		alarm(120);
		puts("ready");
		fflush(stdout);
		while (!done)
			work(5000);
		puts("ended");
		return 0;
	}
	pthread_barrier_init(&begun, NULL, n + 1);
	for (int i = 0; i < n && i < 255; i++)
		pthread_create(&t[i], NULL, run, (void *)(intptr_t)i);
	pthread_barrier_wait(&begun);
	puts("ready");
	fflush(stdout);
	end(NULL);
	for (int i = 0; i < n && i < 255; i++)
		pthread_join(t[i], NULL);
	printf("interrupted=%ld wrong=%ld rounds=%ld threads=%d variables=%d\n", interrupted, wrong, rounds, count("/proc/self/task") - 2,
	       getenv("XRAY_RECORDER") != NULL);
	return 0;
}
