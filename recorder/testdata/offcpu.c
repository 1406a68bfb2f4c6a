/* Goes off CPU for all possible reasons, and prints the kernel's numbers for each
 * thread:
 *
 *   offcpu HOGS WHAT...    next to this many threads that only compute
 *
 * WHAT is sleep, wait, compute, fault, page, signal, migrate, yield, quick or stall. Each is done by
 * a thread of its own, all at the same time, and prints a line
 *
 *   WHAT tid OFF QUEUED VOLUNTARY INVOLUNTARY MINOR SIGNALS
 *
 * with ns off CPU and in the run queue between marks in the trace, the last "from"
 * and the last "to". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <xray/recorder.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))

static volatile int done;
static volatile long sink;
static __thread volatile long handled;

F void tick(void) { sink++; }
F void on_signal(int signal) { (void)signal; handled++; tick(); }

PLAIN static uint64_t clock_of(clockid_t c)
{
	struct timespec t;
	clock_gettime(c, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

struct truth {
	uint64_t off, queued;
	struct rusage usage;
};

PLAIN static uint64_t queue(void)
{
	char text[100] = "";
	unsigned long long run = 0, queued = 0;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text - 1) < 1 || sscanf(text, "%llu %llu", &run, &queued) != 2)
		abort();
	close(fd);
	return queued;
}

PLAIN static struct truth look(void)
{
	struct truth t;
	t.off = clock_of(CLOCK_MONOTONIC) - clock_of(CLOCK_THREAD_CPUTIME_ID);
	t.queued = queue();
	getrusage(RUSAGE_THREAD, &t.usage);
	return t;
}

/* Reads the kernel's numbers at a mark in the trace, the last with its name. */
PLAIN static struct truth look_at(const char *what)
{
	struct truth t;
	struct rusage before;
	do {
		getrusage(RUSAGE_THREAD, &before);
		xray_mark(what);
		t = look();
	} while (t.usage.ru_nvcsw != before.ru_nvcsw || t.usage.ru_nivcsw != before.ru_nivcsw);
	return t;
}

PLAIN static void doze(long ns)
{
	struct timespec t = {.tv_nsec = ns};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

PLAIN static void compute(uint64_t ns)
{
	for (uint64_t end = clock_of(CLOCK_MONOTONIC) + ns; clock_of(CLOCK_MONOTONIC) < end;)
		for (int i = 0; i < 50; i++)
			tick();
}

PLAIN static void sleeps(void)
{
	for (int i = 0; i < 150; i++) {
		tick();
		doze(2000000);
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

PLAIN static void *hold(void *none)
{
	while (!done) {
		pthread_mutex_lock(&lock);
		doze(1500000);
		pthread_mutex_unlock(&lock);
		doze(100000);
	}
	return none;
}

PLAIN static void waits(void)
{
	for (int i = 0; i < 150; i++) {
		tick();
		pthread_mutex_lock(&lock);
		tick();
		pthread_mutex_unlock(&lock);
		compute(100000);
	}
}

PLAIN static void faults(void)
{
	enum { PAGES = 64 };
	for (int i = 0; i < 100; i++) {
		char *p = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int k = 0; k < PAGES; k++) {
			p[k * 4096] = 1;
			tick();
		}
		munmap(p, PAGES * 4096);
		doze(1000000);
	}
}

/* Provides the pages of a memory area, each after a delay. */
PLAIN static void *bring(void *arg)
{
	int fd = (intptr_t)arg;
	struct uffd_msg m;
	while (read(fd, &m, sizeof m) == sizeof m) {
		doze(2000000);
		struct uffdio_zeropage page = {.range = {m.arg.pagefault.address & -4096ull, 4096}};
		if (ioctl(fd, UFFDIO_ZEROPAGE, &page))
			abort();
	}
	return NULL;
}

/* Faults that block until another thread provides the page. */
PLAIN static void pages(void)
{
	enum { PAGES = 50 };
	pthread_t thread;
	struct uffdio_api api = {.api = UFFD_API};
	char *p = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register area = {.range = {(uintptr_t)p, PAGES * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &area)) {
		perror("userfaultfd");
		exit(1);
	}
	pthread_create(&thread, NULL, bring, (void *)(intptr_t)fd);
	for (int i = 0; i < PAGES; i++) {
		tick();
		p[i * 4096] = 1;
		tick();
	}
}

PLAIN static void signals(void)
{
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	event._sigev_un._tid = syscall(SYS_gettid);
	struct itimerspec often = {{0, 500000}, {0, 500000}};
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
		abort();
	compute(300000000);
	timer_delete(timer);
}

PLAIN static void migrate(void)
{
	cpu_set_t all, one;
	sched_getaffinity(0, sizeof all, &all);
	for (int i = 0, cpu = 0; i < 300; i++) {
		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, &all));
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof one, &one);
		compute(500000);
	}
}

PLAIN static void yields(void)
{
	for (int i = 0; i < 3000; i++) {
		sched_yield();
		compute(50000);
	}
}

/* Waits that are too short to ask the kernel about each of them. */
PLAIN static void quick(void)
{
	for (int i = 0; i < 3000; i++) {
		tick();
		doze(1000);
	}
}

/* Many short waits, and then a long one. */
PLAIN static void stalls(void)
{
	for (int i = 0; i < 200; i++) {
		tick();
		doze(100000);
		compute(1000000);
	}
	tick();
	doze(200000000);
	tick();
}

PLAIN static void computes(void) { compute(500000000); }

static const struct { const char *name; void (*work)(void); } works[] = {
	{"sleep", sleeps}, {"wait", waits}, {"compute", computes}, {"fault", faults}, {"page", pages},
	{"signal", signals}, {"migrate", migrate}, {"yield", yields}, {"quick", quick}, {"stall", stalls},
};
enum { WORKS = sizeof works / sizeof *works };

PLAIN static void *run(void *arg)
{
	int i = (intptr_t)arg;
	struct truth a = look_at("from");
	works[i].work();
	struct truth b = look_at("to");
	printf("%s %ld %lu %lu %ld %ld %ld %ld\n", works[i].name, syscall(SYS_gettid), b.off - a.off, b.queued - a.queued,
	       b.usage.ru_nvcsw - a.usage.ru_nvcsw, b.usage.ru_nivcsw - a.usage.ru_nivcsw, b.usage.ru_minflt - a.usage.ru_minflt, handled);
	return NULL;
}

PLAIN static void *hog(void *none)
{
	while (!done)
		;
	return none;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t helpers[64], workers[WORKS];
	int nhelpers = 0, nworkers = 0, nhogs = atoi(argv[1]);
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < nhogs; i++)
		pthread_create(&helpers[nhelpers++], NULL, hog, NULL);
	pthread_create(&helpers[nhelpers++], NULL, hold, NULL);
	for (int k = 2; k < argc; k++)
		for (int i = 0; i < WORKS; i++)
			if (!strcmp(argv[k], works[i].name))
				pthread_create(&workers[nworkers++], NULL, run, (void *)(intptr_t)i);
	for (int i = 0; i < nworkers; i++)
		pthread_join(workers[i], NULL);
	done = 1;
	for (int i = 0; i < nhelpers; i++)
		pthread_join(helpers[i], NULL);
	return nworkers != argc - 2;
}
