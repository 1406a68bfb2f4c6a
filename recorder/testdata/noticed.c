/* Calls functions of libc that the recorder has to notice: noticed WHAT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

PLAIN static void wait_for_end(void)
{
	for (char c; read(0, &c, 1) > 0;)
		;
}

PLAIN static void say(const char *what)
{
	char line[64];
	int n = snprintf(line, sizeof line, "%s\n", what);
	if (write(1, line, n) != n)
		_exit(4);
}

PLAIN static void *idle(void *none)
{
	pause();
	return none;
}

/* Enters namespaces that only a single-threaded process may enter. */
PLAIN static void namespaces(const char *how)
{
	pthread_t t;
	int own = open("/proc/self/ns/mnt", O_RDONLY);
	if (!strcmp(how, "threads"))
		pthread_create(&t, NULL, idle, NULL);
	int r = !strcmp(how, "setns") ? setns(own, CLONE_NEWNS)
		: !strcmp(how, "syscall") ? (int)syscall(SYS_unshare, CLONE_NEWUSER)
					  : unshare(CLONE_NEWUSER);
	say(r ? strerror(errno) : "entered");
	work(1);
	wait_for_end();
}

/* Installs a filter that kills the process for all but a few system calls. */
PLAIN static void filter(const char *how)
{
	static const int allowed[] = {SYS_read, SYS_write, SYS_exit_group, SYS_exit, SYS_brk, SYS_fstat, SYS_newfstatat};
	enum { N = sizeof allowed / sizeof *allowed };
	struct sock_filter code[2 * N + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	int n = 1;
	pthread_t t;
	if (!strcmp(how, "threads"))
		pthread_create(&t, NULL, idle, NULL);
	for (int i = 0; i < N; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = {n, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		_exit(3);
	work(1);
	/* A filter that is refused changes nothing. */
	struct sock_fprog none = {0, NULL};
	if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &none) || errno != EINVAL)
		_exit(3);
	say("refused");
	wait_for_end();
	long r = !strcmp(how, "prctl") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
		 : !strcmp(how, "strict") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
		 : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, strcmp(how, "all") ? 0 : SECCOMP_FILTER_FLAG_TSYNC, &program);
	if (r)
		_exit(3);
	long sum = 0;
	for (int i = 0; i < 100000; i++)
		sum += work(i);
	char c;
	say(sum == 3L * 100000 * 99999 / 2 ? "sealed" : "wrong");
	/* A byte from the other end ends it. */
	while (read(3, &c, 1) > 0)
		;
	syscall(strcmp(how, "strict") ? SYS_exit_group : SYS_exit, 0);
}

/* The process ends with its last thread, which is not the first. */
PLAIN static void *last(void *none)
{
	usleep(1000);
	work(1);
	return none;
}

PLAIN static void leave(void)
{
	pthread_t t;
	pthread_create(&t, NULL, last, NULL);
	work(1);
	printf("buffered\n");
	pthread_exit(NULL);
}

/* Opens an object on the executable's search path, and calls it at once. */
PLAIN static void open_object(const char *name)
{
	for (int i = 0; i < 3; i++) {
		void *object = dlopen(name, RTLD_NOW);
		long (*plug)(long) = object ? (long (*)(long))dlsym(object, "plug") : NULL;
		if (!plug) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
		for (long k = 0; k < 10; k++)
			plug(k);
		dlclose(object);
	}
}

/* Prints whether libc knows of several threads. Then opens an object and calls it once for each byte of input. */
PLAIN static void serve(const char *name)
{
	extern char __libc_single_threaded;
	char c;
	work(1);
	say(__libc_single_threaded ? "one thread" : "several threads");
	if (read(0, &c, 1) < 1)
		return;
	void *object = dlopen(name, RTLD_NOW);
	long (*plug)(long) = object ? (long (*)(long))dlsym(object, "plug") : NULL;
	if (!plug)
		_exit(1);
	do {
		work(1);
		for (long k = 0; k < 10; k++)
			plug(k);
		say("called");
	} while (read(0, &c, 1) > 0);
	dlclose(object);
}

/* Threads that set their names, before and while they work, and end early. */
PLAIN static void *reader(void *none)
{
	pthread_setname_np(pthread_self(), "io-reader");
	for (int i = 0; i < 30; i++)
		work(i);
	return none;
}

PLAIN static void *writer(void *none)
{
	work(1);
	prctl(PR_SET_NAME, "io-writer");
	work(1);
	prctl(PR_SET_NAME, "io-writer, long since");
	work(1);
	return none;
}

static volatile int named;

PLAIN static void *other(void *none)
{
	work(1);
	named = 1;
	while (named != 2)
		;
	return none;
}

PLAIN static void name_threads(void)
{
	pthread_t t;
	pthread_create(&t, NULL, reader, NULL);
	pthread_join(t, NULL);
	pthread_create(&t, NULL, writer, NULL);
	pthread_join(t, NULL);
	work(1);
	pthread_create(&t, NULL, other, NULL);
	while (named != 1)
		;
	pthread_setname_np(t, "by-another");
	named = 2;
	pthread_join(t, NULL);
	syscall(SYS_prctl, PR_SET_NAME, "the-first");
}

PLAIN int main(int argc, char **argv)
{
	const char *what = argv[1], *how = argc > 2 ? argv[2] : "";
	if (!strcmp(what, "namespaces"))
		namespaces(how);
	else if (!strcmp(what, "filter"))
		filter(how);
	else if (!strcmp(what, "open"))
		open_object(how);
	else if (!strcmp(what, "serve"))
		serve(how);
	else if (!strcmp(what, "leave"))
		leave();
	else if (!strcmp(what, "names"))
		name_threads();
	else
		return 2;
	return 0;
}
