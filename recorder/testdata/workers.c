/* A server with worker processes: workers HOW [PLUGIN]. Each prints its ID when it begins, and
 * calls work 10 times. All end when the first one's standard input is closed.
 *   workers   three children
 *   daemon    a child of a child, like a daemon
 *   plugin    a child that opens a shared object when it gets SIGUSR1, and calls it
 *   loader    a child that exits, of a process whose other thread is in dl_iterate_phdr
 *   stuck     a working child of such a process, which forks it when it can read a byte
 * With a + before HOW, the first process has another thread. The allocator is locked during fork. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))

static int end[2];
static volatile sig_atomic_t asked;
static const char *path;

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

/* An allocator like jemalloc: forked children may use it once all handlers have run. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;

PLAIN static void lock_heap(void) { pthread_mutex_lock(&heap); }
PLAIN static void unlock_heap(void) { pthread_mutex_unlock(&heap); }

PLAIN void *malloc(size_t n)
{
	lock_heap();
	void *p = __libc_malloc(n);
	unlock_heap();
	return p;
}

PLAIN void *calloc(size_t n, size_t size)
{
	lock_heap();
	void *p = __libc_calloc(n, size);
	unlock_heap();
	return p;
}

PLAIN void *realloc(void *p, size_t n)
{
	lock_heap();
	p = __libc_realloc(p, n);
	unlock_heap();
	return p;
}

PLAIN void free(void *p)
{
	if (!p)
		return;
	lock_heap();
	__libc_free(p);
	unlock_heap();
}

PLAIN static void ask(int signal) { asked = signal; }

PLAIN static void plug(void)
{
	void *object = dlopen(path, RTLD_NOW);
	long (*plug)(long) = object ? (long (*)(long))dlsym(object, "plug") : NULL;
	for (long i = 0; plug && i < 10; i++)
		plug(i);
	dprintf(1, plug ? "plugged\n" : "failed\n");
}

PLAIN static void run(void)
{
	char c;
	close(end[1]);
	signal(SIGUSR1, ask);
	siginterrupt(SIGUSR1, 1);
	for (int i = 0; i < 10; i++)
		work(i);
	dprintf(1, "%d\n", (int)getpid());
	while (read(end[0], &c, 1) < 0)
		if (asked)
			plug();
	_exit(0);
}

PLAIN static void *idle(void *none)
{
	pause();
	return none;
}

static _Atomic int in_loader;

PLAIN static int stay(struct dl_phdr_info *info, size_t size, void *none)
{
	(void)info, (void)size, (void)none;
	in_loader = 1;
	pause();
	return 1;
}

PLAIN static void *look(void *none)
{
	dl_iterate_phdr(stay, none);
	return none;
}

/* The child ends by exit, or by a signal if exit hangs. */
PLAIN static int exit_in_child(void)
{
	pthread_t t;
	int status;
	pthread_create(&t, NULL, look, NULL);
	while (!in_loader)
		;
	if (!fork()) {
		alarm(10);
		work(1);
		exit(0);
	}
	wait(&status);
	printf("%s\n", status ? "it hangs" : "ended");
	fflush(stdout);
	_exit(0); /* the parent's other thread is also in the loader */
}

PLAIN static int work_in_child(void)
{
	char c;
	pthread_t t;
	dprintf(1, "%d\n", (int)getpid());
	while (read(0, &c, 1) < 0)
		;
	pthread_create(&t, NULL, look, NULL);
	while (!in_loader)
		;
	if (!fork())
		run();
	close(end[0]);
	while (read(0, &c, 1) > 0)
		;
	close(end[1]);
	wait(NULL);
	_exit(0);
}

PLAIN int main(int argc, char **argv)
{
	char c;
	pthread_t t;
	const char *how = argv[1] + (*argv[1] == '+');
	int n = !strcmp(how, "workers") ? 3 : 1;
	path = argc > 2 ? argv[2] : NULL;
	if (pipe(end) || pthread_atfork(lock_heap, unlock_heap, unlock_heap))
		return 1;
	if (how != argv[1])
		pthread_create(&t, NULL, idle, NULL);
	work(0);
	if (!strcmp(how, "loader"))
		return exit_in_child();
	if (!strcmp(how, "stuck"))
		return work_in_child();
	for (int i = 0; i < n; i++) {
		if (fork())
			continue;
		if (!strcmp(how, "daemon") && daemon(1, 1))
			return 1;
		run();
	}
	close(end[0]);
	while (read(0, &c, 1) > 0)
		;
	close(end[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
