/* Switches sleds on and off and between modes, a given number of times, while threads run
 * through them, signals interrupt them with recorded handlers, and snapshots are taken. Checks
 * every result. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>

#include "walk.h"

enum { WORKERS = 4 };

static volatile int done;
static _Atomic long handled, rounds;
static volatile long sink;

TRACED static long depth(long n) { return n ? 3 + depth(n - 1) - (sink & 0) : 0; }
TRACED static long leaf(long x) { return x * 2 + 1; }
TRACED static long tail(long x) { return leaf(x + 1); }
TRACED __attribute__((__xray_always_instrument__, xray_log_args(1))) static long logged(long x) { return x - 1; }
TRACED static long double extended(long double x) { return x * 2; }
TRACED static double mixed(int n, ...)
{
	double s = 0;
	va_list l;
	va_start(l, n);
	for (int i = 0; i < n; i++)
		s += va_arg(l, double);
	va_end(l);
	return s;
}

TRACED static void on_signal(int signal)
{
	(void)signal;
	handled++;
	if (leaf(handled & 0) != 1)
		abort();
}

PLAIN static void *work(void *none)
{
	long n = 0;
	while (!done) {
		if (depth(20) != 60 || tail(n) != 2 * n + 3 || logged(n) != n - 1 || extended(n) != 2.0L * n ||
		    mixed(4, 1.5, 2.5, 3.5, (double)n) != 7.5 + n)
			abort();
		n++;
	}
	rounds += n;
	return none;
}

PLAIN static void *interrupt(void *workers)
{
	pthread_t *w = workers;
	struct timespec pause = {0, 100000};
	while (!done) {
		for (int i = 0; i < WORKERS; i++)
			pthread_kill(w[i], SIGUSR1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

PLAIN int main(int argc, char **argv)
{
	static const enum xr_mode modes[] = {XR_RECORD, XR_PRUNE, XR_COUNT, XR_DEPTH, XR_PROFILE};
	enum { MODES = sizeof modes / sizeof *modes };
	long toggles = argc > 1 ? atol(argv[1]) : 1000, snapshots = 0;
	pthread_t workers[WORKERS], interrupter;
	int fd = memfd_create("snapshot", 0);
	must(fd >= 0 && xr_root.nobjects < 2, "set-up");
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < WORKERS; i++)
		must(!pthread_create(&workers[i], NULL, work, NULL), "thread");
	must(!pthread_create(&interrupter, NULL, interrupt, workers), "thread");

	for (long i = 0; i < toggles; i++) {
		sigset_t all, old;
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &old);
		xr_lock(XR_LOCK_CONTROL);
		enum xr_mode mode = modes[i % MODES], next = modes[(i + 1) % MODES];
		const char *why = xr_start(mode, mode == XR_PRUNE ? 1000 : 0, 12, -1, 0);
		must(!why && xr_root.objects[0].patched, why ? why : "sleds");
		why = xr_switch(next, next == XR_PRUNE ? 1000 : 0, 12);
		must(!why, why ? why : "");
		if (i % 50 == 0) {
			struct xr_written w;
			must(xr_snapshot(fd, 0, &w) >= 0, "snapshot");
			must(!ftruncate(fd, 0) && !lseek(fd, 0, SEEK_SET), "truncate");
			snapshots++;
		}
		xr_stop();
		must(!xr_root.objects[0].patched, "sleds stay on");
		xr_unlock(XR_LOCK_CONTROL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	done = 1;
	pthread_join(interrupter, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("toggles %ld\nsnapshots %ld\nhandled %ld\nrounds %ld\n", toggles, snapshots, handled, rounds);
	return 0;
}
