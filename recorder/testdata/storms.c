/* Stress tests for the recorder: storms WHAT [N] [FILE...]. Prints how often the original process
 * called functions, and other results. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <xray/recorder.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))

extern char **environ;

static _Atomic long leaves, handlers;
static _Atomic int done;

F long leaf(long x) { leaves++; return x + 1; }

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

PLAIN static void doze(long ns)
{
	struct timespec pause = {.tv_nsec = ns};
	nanosleep(&pause, NULL);
}

PLAIN static void call(long n)
{
	for (long i = 0; i < n; i++)
		must(leaf(i) == i + 1, "leaf");
}

/* A recorded handler, in all threads, while they record. */

F void handler(int signal)
{
	(void)signal;
	handlers++;
	leaf(0);
}

F long recursive(long n)
{
	long result = n ? recursive(n - 1) : leaf(0) - 1;
	__asm__("" : "+r"(result)); /* prevents a loop */
	return result + (n != 0);
}

PLAIN static void *busy(void *none)
{
	while (!done)
		must(recursive(10) == 10, "recursive");
	return none;
}

PLAIN static void signals(long n)
{
	pthread_t threads[2];
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&threads[i], NULL, busy, NULL), "thread");
	for (long i = 0; i < n; i++) {
		pthread_kill(threads[i % 2], SIGUSR1);
		doze(50000);
	}
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* Snapshots of running threads. */
PLAIN static void snapshots(long n, const char *directory)
{
	pthread_t threads[2];
	char path[4096];
	must(!xray_start(NULL), xray_last_error());
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&threads[i], NULL, busy, NULL), "thread");
	while (leaves < 10000) /* a ring is full then */
		doze(1000000);
	for (long i = 0; i < n; i++) {
		doze(3000000);
		snprintf(path, sizeof path, "%s/%ld", directory, i);
		must(!xray_snapshot(path, 0), xray_last_error());
	}
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	must(!xray_stop(), xray_last_error());
}

/* A handler on its own stack of the minimum size, with no memory below. */
PLAIN static void on_small_stack(int signal)
{
	(void)signal;
	call(20000);
}

PLAIN static void alternate_stack(void)
{
	uint64_t size = (sysconf(_SC_MINSIGSTKSZ) + 4096 + 4095) & -4096;
	char *p = mmap(NULL, 4096 + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(p != MAP_FAILED && !mprotect(p + 4096, size, PROT_READ | PROT_WRITE), "stack");
	stack_t stack = {.ss_sp = p + 4096, .ss_size = size};
	struct sigaction action = {.sa_handler = on_small_stack, .sa_flags = SA_ONSTACK};
	must(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL), "sigaltstack");
	raise(SIGUSR1);
}

/* Threads, one after another. */

PLAIN static void *three(void *none)
{
	call(3);
	return none;
}

PLAIN static void churn(long n)
{
	for (long i = 0; i < n; i += 2) {
		pthread_t t[2];
		for (int k = 0; k < 2; k++)
			must(!pthread_create(&t[k], NULL, three, NULL), "thread");
		for (int k = 0; k < 2; k++)
			pthread_join(t[k], NULL);
	}
}

/* Returns the peak memory of the process, in kB. */
PLAIN static long peak(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmHWM: %ld", &kb);
	return kb;
}

/* Objects are opened and closed while everything is switched on and off. */

PLAIN static void *toggle(void *none)
{
	_Atomic long *toggles = none;
	while (!done) {
		must(!xray_start(*toggles % 2 ? "mode=prune threshold=1000" : NULL), xray_last_error());
		must(!xray_stop(), xray_last_error());
		++*toggles;
	}
	return NULL;
}

PLAIN static void plugins(long n, char **paths, int npaths)
{
	pthread_t t, caller;
	_Atomic long toggles = 0;
	long again = 0;
	void *at[8] = {0};
	must(!pthread_create(&t, NULL, toggle, &toggles) && !pthread_create(&caller, NULL, busy, NULL), "thread");
	for (long i = 0; i < n || toggles < 10; i++) {
		void *o = dlopen(paths[i % npaths], RTLD_NOW);
		must(o != NULL, "dlopen");
		long (*plug)(long) = (long (*)(long))dlsym(o, "plug");
		for (int k = 0; k < 20; k++)
			must(plug(i) == i * 3, "plug");
		for (int k = 0; k < 8; k++)
			again += at[k] == (void *)plug;
		at[i % 8] = (void *)plug;
		dlclose(o);
	}
	done = 1;
	pthread_join(t, NULL);
	pthread_join(caller, NULL);
	printf("again %ld\ntoggles %ld\n", again, (long)toggles);
}

/* An object's file is replaced while the object is open. */
PLAIN static void replaced(char **paths)
{
	static char status[128 << 10];
	must(dlopen(paths[0], RTLD_NOW) != NULL, "dlopen");
	must(!rename(paths[1], paths[0]), "rename");
	must(!xray_start(NULL), xray_last_error());
	call(10);
	must(!xray_command("status", status, sizeof status), "status");
	char *refused = strstr(status, "\"refused\":[{\"path\":\"");
	printf("refused %d\n", refused && strstr(refused, paths[0]));
	must(!xray_stop(), xray_last_error());
}

/* Processes. */

PLAIN static void spawn(char *self)
{
	pid_t pid;
	int status;
	char *args[] = {self, "leaf", "33", NULL};
	call(100);
	must(!posix_spawn(&pid, self, NULL, NULL, args, environ), "posix_spawn");
	must(waitpid(pid, &status, 0) == pid && !status, "child");
	call(11);
}

/* Several children at a time, which end in all ways. */
PLAIN static void forks(long n)
{
	enum { AT_ONCE = 8 };
	long started = 0, running = 0;
	while (started < n || running) {
		if (started == n || running == AT_ONCE) {
			must(wait(NULL) > 0, "wait");
			running--;
			continue;
		}
		long calls = 1000 + started % 7 * 4000;
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (!pid) {
			call(calls);
			if (started % 3 == 0)
				raise(SIGKILL);
			if (started % 3 == 1)
				_exit(0);
			exit(0);
		}
		leaves += calls; /* of the child */
		leaf(0);
		started++;
		running++;
	}
}

/* Calls of random durations, some above the threshold, on one CPU. */

PLAIN static uint64_t spin(uint64_t ticks)
{
	uint64_t begin = xray_now(), now = begin;
	while (now - begin < ticks)
		now = xray_now();
	return now - begin;
}

static uint64_t inside;
F void some_time(uint64_t ticks) { inside = spin(ticks); }
F void around(uint64_t ticks)
{
	some_time(ticks);
	__asm__ volatile(""); /* prevents a tail call */
}

PLAIN static void prune(long n)
{
	uint64_t threshold = xray_ticks(20000), x = 88172645463325252, longer = 0;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	must(!xray_start("mode=prune threshold=20000"), xray_last_error());
	for (long i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		around(x % (2 * threshold));
		longer += inside >= threshold;
	}
	must(!xray_snapshot(getenv("SNAPSHOT"), 0) && !xray_stop(), xray_last_error());
	printf("longer %ld\nthreshold %ld\n", (long)longer, (long)threshold);
}

PLAIN int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	const char *what = argv[1];
	long n = argc > 2 ? atol(argv[2]) : 0;
	if (!strcmp(what, "leaf"))
		call(n);
	else if (!strcmp(what, "signals"))
		signals(n);
	else if (!strcmp(what, "snapshots"))
		snapshots(n, argv[3]);
	else if (!strcmp(what, "stack"))
		alternate_stack();
	else if (!strcmp(what, "churn"))
		churn(n);
	else if (!strcmp(what, "plugins"))
		plugins(n, argv + 3, argc - 3);
	else if (!strcmp(what, "replaced"))
		replaced(argv + 3);
	else if (!strcmp(what, "spawn"))
		spawn(argv[0]);
	else if (!strcmp(what, "forks"))
		forks(n);
	else if (!strcmp(what, "prune"))
		prune(n);
	else if (!strcmp(what, "daemon")) {
		call(100);
		must(!daemon(1, 1), "daemon");
		leaves = 0;
		call(20);
	} else
		return 2;
	printf("leaf %ld\nhandler %ld\npeak %ld\n", (long)leaves, (long)handlers, peak());
	return 0;
}
