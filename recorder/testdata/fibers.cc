// Fibers: a thread switches between stacks, by different means. Prints for each stack which functions were called how
// often on it.
//
//	fibers ucontext|assembly|jumps|direct THREADS FIBERS
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <ucontext.h>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#define BARRIER __asm__ volatile("" ::: "memory")

static const char *const names[] = {"body", "step", "leaf", "deep", "wide", "fail", "caught", "handle", "resume", "rest"};
enum { BODY, STEP, LEAF, DEEP, WIDE, FAIL, CAUGHT, HANDLE, RESUME, REST, FUNCTIONS };
enum { STACK = 1 << 17 };

struct fiber {
	long counts[FUNCTIONS];
	int number, done, bounded;
	char *stack;
	ucontext_t context;
	void *sp;
	jmp_buf env;
};

static thread_local fiber *current, *own;
static const char *way;

extern "C" {
F void leaf(long i) { current->counts[LEAF]++; BARRIER; (void)i; }
F void handle(int) { current->counts[HANDLE]++; leaf(1); BARRIER; }
F void deep(long n)
{
	current->counts[DEEP]++;
	if (n)
		deep(n - 1);
	BARRIER;
}
F void wide(long n)
{
	volatile char room[20000];
	current->counts[WIDE]++;
	room[n] = 1;
	leaf(n);
	BARRIER;
}
F void fail(long n)
{
	current->counts[FAIL]++;
	leaf(n);
	if (n % 2)
		throw n;
	BARRIER;
}
F void caught(long n)
{
	current->counts[CAUGHT]++;
	try {
		fail(n);
	} catch (long) {
	}
	BARRIER;
}
void switch_stacks(void **from, void *to);
}
__asm__(".text\n.type switch_stacks, @function\nswitch_stacks:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
	".size switch_stacks, . - switch_stacks\n");

PLAIN static void go(fiber *from, fiber *to)
{
	current = to;
	if (!std::strcmp(way, "ucontext"))
		swapcontext(&from->context, &to->context);
	else if (std::strcmp(way, "jumps"))
		switch_stacks(&from->sp, to->sp);
	else if (!_setjmp(from->env))
		_longjmp(to->env, 1);
	BARRIER;
}

static thread_local fiber *all;
static thread_local int nfibers;

// A fiber that goes on directly with the next one, or with the thread's own stack.
PLAIN static fiber *next()
{
	if (!std::strcmp(way, "direct"))
		for (int k = current->number + 1; k <= nfibers; k++)
			if (!all[k].done)
				return &all[k];
	return own;
}

extern "C" {
F void rest() { fiber *f = current; f->counts[REST]++; go(f, next()); BARRIER; }
F void step(long i)
{
	current->counts[STEP]++;
	leaf(i);
	rest();
	if (i % 5 == 0)
		deep(i * 20);
	if (i % 3 == 0)
		wide(i);
	if (i % 4 == 0)
		caught(i / 4);
	if (i % 7 == 0)
		raise(SIGUSR1);
	rest();
	BARRIER;
}
F void body(long n)
{
	current->counts[BODY]++;
	for (long i = 0; i < n; i++)
		step(i);
	BARRIER;
}
F void resume(fiber *f) { own->counts[RESUME]++; go(own, f); BARRIER; }
}

PLAIN static void run()
{
	fiber *f = current;
	body(10 + f->number);
	f->done = 1;
	for (;;)
		go(f, next());
}

static thread_local fiber *starting;

// A handler on the fiber's stack starts it, without makecontext.
PLAIN static void start_on_stack(int)
{
	if (!_setjmp(starting->env))
		return;
	run();
}

PLAIN static void prepare(fiber *f)
{
	if (!std::strcmp(way, "ucontext")) {
		getcontext(&f->context);
		f->context.uc_stack.ss_sp = f->stack;
		f->context.uc_stack.ss_size = STACK;
		makecontext(&f->context, run, 0);
	} else if (!std::strcmp(way, "jumps")) {
		stack_t s = {}, before;
		s.ss_sp = f->stack;
		s.ss_size = STACK;
		sigaltstack(&s, &before);
		starting = f;
		raise(SIGUSR2);
		sigaltstack(&before, nullptr);
	} else {
		void **top = reinterpret_cast<void **>(f->stack + STACK - 64);
		*--top = nullptr;
		*--top = reinterpret_cast<void *>(run);
		top -= 6;
		std::memset(top, 0, 6 * sizeof *top);
		f->sp = top;
	}
}

PLAIN static void print(const fiber *f)
{
	char line[512];
	int n = 0;
	for (int i = 0; i < FUNCTIONS; i++)
		if (f->counts[i])
			n += std::snprintf(line + n, sizeof line - n, "%s %ld ", names[i], f->counts[i]);
	std::printf("%s\n", line);
}

static int number_of_fibers;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

PLAIN static void *run_thread(void *)
{
	int n = nfibers = number_of_fibers, live = n;
	// The stacks are next to each other.
	char *stacks = static_cast<char *>(std::malloc((n + 1) * static_cast<size_t>(STACK)));
	all = static_cast<fiber *>(std::calloc(n + 1, sizeof *all));
	current = own = &all[0];
	stack_t s = {};
	s.ss_sp = std::malloc(65536);
	s.ss_size = 65536;
	sigaltstack(&s, nullptr);
	wide(1);
	for (int k = 1; k <= n; k++) {
		all[k].number = k;
		all[k].stack = stacks + (n - k) * static_cast<size_t>(STACK);
		prepare(&all[k]);
	}
	while (live) {
		live = 0;
		for (int k = 1; k <= n; k++)
			if (!all[k].done) {
				resume(&all[k]);
				live++;
				if (!std::strcmp(way, "direct"))
					break;
			}
		leaf(1);
	}
	pthread_mutex_lock(&printing);
	for (int k = 0; k <= n; k++)
		print(&all[k]);
	pthread_mutex_unlock(&printing);
	return nullptr;
}

PLAIN int main(int argc, char **argv)
{
	int threads = std::atoi(argv[2]);
	way = argv[1];
	number_of_fibers = argc > 3 ? std::atoi(argv[3]) : 1;
	struct sigaction a = {};
	a.sa_handler = handle;
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &a, nullptr);
	a.sa_handler = start_on_stack;
	sigaction(SIGUSR2, &a, nullptr);
	if (threads == 0)
		run_thread(nullptr);
	pthread_t t[16];
	for (int i = 0; i < threads && i < 16; i++)
		pthread_create(&t[i], nullptr, run_thread, nullptr);
	for (int i = 0; i < threads && i < 16; i++)
		pthread_join(t[i], nullptr);
	return 0;
}
