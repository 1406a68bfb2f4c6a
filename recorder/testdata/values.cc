/* Functions with arguments and results of every kind, and callers that make it hard to read them. The programs
 * that read them are in values_runtime_test.go. Each way prints what it has computed.
 *
 * Usage: values plain|chains|unmap|threads N|signals|seccomp|fork|exceptions|budget|handler|handler_arg1|time */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRACED __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))

static volatile long sink;

/* Compilers must not find out that the functions do not read what they get. */
#define USE(p) __asm__ volatile("" : : "r"(p) : "memory")

struct text { const char *p; uint64_t n; };
struct request { uint32_t id; uint16_t flags; uint8_t kind; struct request *next; struct text name; };

extern "C" {
TRACED long ints(long a, int b, unsigned char c) { sink++; return a + b + c; }
TRACED double floats(double x, float y) { sink++; return x + y; }
TRACED long string(const char *s) { USE(s); sink++; return (long)s & 1; }
TRACED long lengthy(const char *s) { USE(s); sink++; return (long)s & 1; }
TRACED long object(struct request *r) { USE(r); sink++; return r != nullptr; }
TRACED long many(long a, long b, long c, long d, long e, long f, long g, short h) { sink++; return a + b + c + d + e + f + g + h; }
TRACED __int128 wide(__int128 x) { sink++; return x + 1; }
TRACED struct text both(const char *p, uint64_t n) { USE(p); sink++; return {p, n}; }
TRACED long thrower(long x) { if (x) throw x; return ++sink; }
TRACED long loop(long x) { return sink += x; }
TRACED void plain(void) { sink++; }
TRACED long nothing(long x) { sink++; return x; }

__attribute__((noinline, xray_always_instrument, xray_log_args(1))) long logging(long x, const char *s) { USE(s); return sink += x; }

/* Only these have limits within a budget. */
__attribute__((noinline)) long priced(const char *s, int n) { USE(s); for (volatile int i = 0; i < n; i++); return sink++; }
__attribute__((noinline)) long unpriced(const char *s, int n) { USE(s); for (volatile int i = 0; i < n; i++); return sink++; }
}

/* Each call has addresses of its own, where the kernel puts nothing that others map. So what is unmapped stays so. */
PLAIN static char *pages(int n)
{
	static volatile long next = 0x100000000000;
	char *at = (char *)__atomic_fetch_add(&next, n * 4096L, __ATOMIC_RELAXED);
	return (char *)mmap(at, n * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* Pages of the current call of all. */
static thread_local char *mapped[16];
static thread_local int nmapped;

/* A text that ends where memory that cannot be read begins, without a NUL. */
PLAIN static char *at_the_edge(const char *text, int munmaps)
{
	char *p = mapped[nmapped++ % 16] = pages(2);
	if (munmaps)
		munmap(p + 4096, 4096);
	else
		mprotect(p + 4096, 4096, PROT_NONE);
	size_t n = strlen(text);
	memcpy(p + 4096 - n, text, n);
	return p + 4096 - n;
}

PLAIN static void all(void)
{
	static thread_local struct request second;
	second = {.id = 9, .flags = 7, .kind = 200, .next = nullptr, .name = {"second", 6}};
	struct request first = {.id = 0xfffffff7, .flags = 1, .kind = 2, .next = &second, .name = {"on the stack", 12}};
	sink += ints(-5, -7, 250) + ints(INT64_MIN, 1, 0);
	sink += (long)floats(1.5, -2.25f);
	string("");
	string("short");
	string("a string of more than thirty-two bytes");
	string(nullptr);
	string((const char *)8);
	string((const char *)UINT64_MAX);
	string((const char *)0x8000000000000000);
	string(at_the_edge("edge", 0));
	string(at_the_edge("cliff", 1));
	char here[] = "of the caller";
	string(here);
	static thread_local char hundred[5000]; /* not from malloc, which handlers may not leave */
	memset(hundred, 'x', sizeof hundred);
	hundred[100] = 0;
	lengthy(hundred);
	lengthy("tiny");
	hundred[100] = 'x';
	hundred[4999] = 0;
	lengthy(hundred);
	lengthy(at_the_edge("this one has forty bytes and ends at edge", 0));
	object(&first);
	object(&second);
	object(nullptr);
	object((struct request *)0x10);
	second.next = (struct request *)(at_the_edge("", 1) + 4);
	object(&second);
	sink += many(1, 2, 3, 4, 5, 6, -7, -8);
	sink += (long)wide((__int128)1 << 64 | 5);
	sink += both("0123456789", 4).n;
	sink += both(nullptr, 3).n + both("x", 0).n;
	sink += nothing(5);
	while (nmapped)
		munmap(mapped[--nmapped % 16], 2 * 4096);
}

/* Objects take turns, their texts change, and some texts are unmapped after their call: what the recorder read at
 * the last call does not hold at the next. */
PLAIN static void chains(void)
{
	struct request *of[3];
	for (int i = 0; i < 3; i++)
		of[i] = new struct request;
	for (int i = 0; i < 3; i++)
		*of[i] = {.id = (uint32_t)i, .flags = (uint16_t)(i + 1), .kind = (uint8_t)(i + 2), .next = of[(i + 1) % 3], .name = {strdup("name ?"), 6}};
	for (int i = 0; i < 300; i++) {
		struct request *r = of[i / 2 % 3];
		struct text name = r->name;
		*(char *)(name.p + 5) = 'a' + i % 26;
		if (i % 7 == 3)
			r->name = {at_the_edge("gone", 1), 4};
		object(r);
		r->name = name;
		if (nmapped)
			munmap(mapped[--nmapped], 2 * 4096);
	}
}

static char *volatile page;
static volatile int ends;

PLAIN static void *unmaps(void *)
{
	for (unsigned i = 0; !ends; i++) {
		if (i & 1)
			mprotect(page, 4096, PROT_NONE);
		munmap(page, 4096);
		if (!(i & 7))
			sched_yield();
		mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	return nullptr;
}

PLAIN static void unmap(void)
{
	pthread_t other;
	page = pages(1);
	pthread_create(&other, nullptr, unmaps, nullptr);
	for (int i = 0; i < 20000; i++) {
		string(page + i % 4096);
		lengthy(page);
		object((struct request *)page);
	}
	ends = 1;
	pthread_join(other, nullptr);
}

PLAIN static void *one(void *)
{
	for (int i = 0; i < 10; i++)
		all();
	return nullptr;
}

PLAIN static void threads(int n)
{
	pthread_t *of = new pthread_t[n];
	for (int i = 0; i < n; i++)
		if (pthread_create(&of[i], nullptr, one, nullptr))
			abort();
	for (int i = 0; i < n; i++)
		pthread_join(of[i], nullptr);
	delete[] of;
}

static sigjmp_buf back;
static volatile long handled, jumps;

PLAIN static void handler(int)
{
	int before = errno;
	handled++;
	string("in a handler");
	lengthy("in a handler that reads a long string, of more than thirty-two bytes");
	ints(handled, 0, 0);
	if (errno != before)
		abort();
	if (jumps && handled % 3 == 0)
		siglongjmp(back, 1);
}

PLAIN static void signals(void)
{
	struct sigaction a = {};
	a.sa_handler = handler;
	a.sa_flags = SA_NODEFER;
	sigaction(SIGALRM, &a, nullptr);
	timer_t timer;
	struct itimerspec every = {{0, 100000}, {0, 100000}};
	timer_create(CLOCK_MONOTONIC, nullptr, &timer);
	sigsetjmp(back, 1);
	jumps = 1;
	timer_settime(timer, 0, &every, nullptr);
	while (handled < 3000)
		all();
	jumps = 0;
	timer_delete(timer);
}

/* Ends the process at each system call by which the recorder could read memory. */
PLAIN static void seal(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		abort();
}

PLAIN static void forks(void)
{
	all();
	if (!fork()) {
		for (int i = 0; i < 3; i++)
			all();
		exit(0);
	}
	wait(nullptr);
}

PLAIN static void exceptions(void)
{
	for (long i = 0; i < 4; i++) {
		try {
			thrower(i % 2 ? i : 0);
		} catch (long x) {
			sink += x;
		}
	}
}

PLAIN static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

template <class F> PLAIN static void measure(const char *name, F f)
{
	enum { N = 200000, RUNS = 15 };
	double best = 1e18;
	for (int r = 0; r < RUNS; r++) {
		double start = cpu();
		for (int i = 0; i < N; i++)
			f(i);
		double took = (cpu() - start) / N;
		best = took < best ? took : best;
	}
	printf("%s %.1f\n", name, best);
}

PLAIN static void times(void)
{
	char *heap = strdup("a heap string"), stack[] = "on the stack";
	struct request r = {.id = 1, .flags = 2, .kind = 3, .next = nullptr, .name = {heap, 13}}, *h = (struct request *)malloc(sizeof r);
	*h = r;
	measure("nothing", [](long i) __attribute__((xray_never_instrument)) { nothing(i); });
	measure("loop", [](long i) __attribute__((xray_never_instrument)) { loop(i); });
	measure("floats", [](long i) __attribute__((xray_never_instrument)) { floats(i, 1); });
	measure("string-on-stack", [&](long) __attribute__((xray_never_instrument)) { string(stack); });
	measure("string-literal", [](long) __attribute__((xray_never_instrument)) { string("a literal text"); });
	measure("string-on-heap", [&](long) __attribute__((xray_never_instrument)) { string(heap); });
	struct request *others[] = {new struct request(r), new struct request(r)};
	others[1]->name.p = strdup("another heap string");
	measure("objects-in-turn", [&](long i) __attribute__((xray_never_instrument)) { object(others[i & 1]); });
	measure("object-on-heap", [&](long) __attribute__((xray_never_instrument)) { object(h); });
}

/* Calls last so long that a budget of 2 % has room for them, but not for reading memory, too. */
PLAIN static void within_budget(void)
{
	char *text = strdup("a text on the heap");
	for (int i = 0; i < 60000; i++) {
		priced(text, 15000);
		unpriced(text, 15000);
	}
	free(text);
}

static int caught;
PLAIN static void handle(int, int, long x) { caught += x == 5; }

/* The program has a handler of its own, which gets all calls in spite of values. */
PLAIN static void with_handler(const char *set)
{
	((int (*)(void (*)(int, int, long)))dlsym(RTLD_DEFAULT, set))(handle);
	((int (*)())dlsym(RTLD_DEFAULT, "__xray_patch"))();
	logging(5, "text");
	ints(5, 6, 7);
	if (!caught)
		printf("no call was handled\n");
}

int main(int, char **argv)
{
	const char *way = argv[1];
	if (!strcmp(way, "plain"))
		all();
	else if (!strcmp(way, "chains"))
		chains();
	else if (!strcmp(way, "unmap"))
		unmap();
	else if (!strncmp(way, "threads ", 8))
		threads(atoi(way + 8));
	else if (!strcmp(way, "signals"))
		signals();
	else if (!strcmp(way, "seccomp"))
		plain(), seal(), all();
	else if (!strcmp(way, "fork"))
		forks();
	else if (!strcmp(way, "exceptions"))
		exceptions();
	else if (!strcmp(way, "budget"))
		within_budget();
	else if (!strcmp(way, "handler"))
		with_handler("__xray_set_handler");
	else if (!strcmp(way, "handler_arg1"))
		with_handler("__xray_set_handler_arg1");
	else if (!strcmp(way, "time"))
		times();
	plain();
	printf("%s\n", way);
	return 0;
}
