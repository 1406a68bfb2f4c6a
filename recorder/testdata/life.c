/* Starts, ends and changes of processes and threads, one at a time: life WHAT. Prints how
 * often the original process called leaf. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <xray/recorder.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))

static _Atomic long calls;
F long leaf(long x) { calls++; return x + 1; }

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(3);
	}
}

PLAIN static void leaves(long n)
{
	for (long i = 0; i < n; i++)
		must(leaf(i) == i + 1, "leaf");
}

PLAIN static void reap(pid_t pid, int want)
{
	int status;
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == want, "child");
}

PLAIN static void do_fork(void)
{
	leaves(1000);
	pid_t pid = fork();
	if (!pid) {
		leaves(70);
		exit(7);
	}
	leaves(500);
	reap(pid, 7);
}

PLAIN static void do_vfork(void)
{
	leaves(10);
	pid_t pid = vfork();
	if (!pid) {
		leaf(1);
		_exit(7);
	}
	reap(pid, 7);
	leaves(20);
}

PLAIN static void do_exec(char *self)
{
	leaves(10);
	pid_t pid = fork();
	if (!pid) {
		execl(self, self, "leaf", NULL);
		_exit(1);
	}
	reap(pid, 0);
}

PLAIN static void *thread(void *n)
{
	leaves((long)n);
	return NULL;
}

PLAIN static void do_churn(void)
{
	for (int i = 0; i < 3000; i++) {
		pthread_t t[2];
		for (int k = 0; k < 2; k++)
			must(!pthread_create(&t[k], NULL, thread, (void *)3), "thread");
		for (int k = 0; k < 2; k++)
			pthread_join(t[k], NULL);
	}
}

static ucontext_t here, fiber;
PLAIN static void body(void)
{
	for (int i = 0; i < 100; i++) {
		leaves(3);
		swapcontext(&fiber, &here);
	}
}

PLAIN static void do_fiber(void)
{
	static char stack[65536];
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = stack;
	fiber.uc_stack.ss_size = sizeof stack;
	fiber.uc_link = &here;
	makecontext(&fiber, body, 0);
	for (int i = 0; i < 100; i++) {
		leaves(2);
		swapcontext(&here, &fiber);
	}
}

/* Opens and closes the given objects repeatedly, so that addresses are reused. */
PLAIN static void do_plugins(int n, char **paths)
{
	long plugged = 0;
	for (int i = 0; i < 400; i++) {
		void *o = dlopen(paths[i % n], RTLD_NOW);
		must(o != NULL, "dlopen");
		long (*plug)(long) = (long (*)(long))dlsym(o, "plug");
		must(xray_rescan() >= 0, "rescan");
		must(plug(i) == i * 3, "plug");
		plugged++;
		leaf(i);
		dlclose(o);
	}
	printf("plug %ld\n", plugged);
}

/* Opens and closes an object, each time at another address. */
PLAIN static void do_moved(const char *path)
{
	long plugged = 0;
	for (int i = 0; i < 10; i++) {
		void *o = dlopen(path, RTLD_NOW);
		must(o != NULL, "dlopen");
		long (*plug)(long) = (long (*)(long))dlsym(o, "plug");
		must(plug(i) == i * 3, "plug");
		plugged++;
		void *at = (void *)((uintptr_t)plug & -4096l);
		dlclose(o);
		must(mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at, "mmap");
	}
	leaf(0);
	printf("plug %ld\n", plugged);
}

/* Forbids to make code writable, also in programs that are executed later. */
PLAIN static void deny_writable_code(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

PLAIN static void *wait_for_end(void *pipe)
{
	char c;
	return (void *)read(*(int *)pipe, &c, 1);
}

/* Starts a recording when code cannot be made writable. The program has another thread, so the
 * recorder cannot write code through a file either. */
PLAIN static void do_denied(void)
{
	char status[65536];
	int fds[2];
	pthread_t t;
	must(!pipe(fds), "pipe");
	must(!pthread_create(&t, NULL, wait_for_end, fds), "thread");
	deny_writable_code();
	xray_start("mode=record");
	leaves(100);
	must(!xray_command("status", status, sizeof status), "status");
	printf("refused %d\n", strstr(status, "cannot make its code writable") != NULL);
	close(fds[1]);
	pthread_join(t, NULL);
}

/* The limit is too small for a ring of the size that the test asks for. */
PLAIN static void do_memory(void)
{
	struct rlimit limit = {1ull << 30, 1ull << 30};
	must(!setrlimit(RLIMIT_AS, &limit), "setrlimit");
	leaves(1000);
}

PLAIN int main(int argc, char **argv)
{
	const char *what = argv[1];
	if (!strcmp(what, "fork"))
		do_fork();
	else if (!strcmp(what, "vfork"))
		do_vfork();
	else if (!strcmp(what, "exec"))
		do_exec(argv[0]);
	else if (!strcmp(what, "leaf"))
		leaves(33);
	else if (!strcmp(what, "churn"))
		do_churn();
	else if (!strcmp(what, "fiber"))
		do_fiber();
	else if (!strcmp(what, "memory"))
		do_memory();
	else if (!strcmp(what, "denied"))
		do_denied();
	else if (!strcmp(what, "mdwe")) {
		must(!prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0), "mdwe");
		execl("/proc/self/exe", argv[0], "leaf", NULL);
	} else if (!strcmp(what, "seccomp")) {
		deny_writable_code();
		execl("/proc/self/exe", argv[0], "leaf", NULL);
	} else if (!strcmp(what, "plugins"))
		do_plugins(argc - 2, argv + 2);
	else if (!strcmp(what, "moved"))
		do_moved(argv[2]);
	else
		return 2;
	printf("leaf %ld\n", calls);
	return 0;
}
