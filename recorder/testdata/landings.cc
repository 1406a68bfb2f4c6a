// Calls that are left without a return, in ways that real programs have:
//
//	landings exceptions|recursion|longjmp|handler|inside|fibers|switched|jumped|thread|modes
//
// The test knows which calls are made, and which are left.
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <ucontext.h>
#include <xray/recorder.h>

#ifdef __clang__
#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#else
#define F __attribute__((noipa))
#define PLAIN __attribute__((noinline, no_instrument_function))
#endif
#define BARRIER __asm__ volatile("" ::: "memory") // after a call, so that it is not a tail call

static volatile long sink;

extern "C" {
F void work(long) { sink++; BARRIER; }
F void cleaned() { sink++; BARRIER; }
}

struct guard {
	PLAIN ~guard() { cleaned(); BARRIER; }
};

// Requests that sometimes fail, inside code that cleans up and code that rethrows.
extern "C" {
F void check(long i)
{
	sink++;
	if (i % 10 == 0)
		throw std::runtime_error("tenth");
	BARRIER;
}

F void parse(long i)
{
	try {
		check(i);
	} catch (const std::exception &) {
		work(i);
		throw;
	}
	BARRIER;
}

F void request(long i)
{
	guard g;
	parse(i);
	work(i);
	BARRIER;
}

F void serve(long n)
{
	for (long i = 0; i < n; i++) {
		try {
			request(i);
		} catch (...) {
			sink++;
		}
	}
	BARRIER;
}

// Leaves half of the function's calls at once, more than the recorder writes in a piece.
F void dive(long n)
{
	if (n == 0)
		throw n;
	if (n != 150) {
		dive(n - 1);
	} else {
		try {
			dive(n - 1);
		} catch (long) {
			work(n);
		}
	}
	BARRIER;
}

// Thrown and caught in one function: nothing is left.
F void inside(long i)
{
	try {
		if (i % 2)
			throw i;
	} catch (long) {
		work(i);
	}
	BARRIER;
}
}

static jmp_buf place;
static sigjmp_buf signal_place;

extern "C" {
F void jump(long i)
{
	sink++;
	if (i % 10 == 0)
		longjmp(place, 1);
	if (i % 10 == 1)
		_longjmp(place, 1);
	if (i % 10 == 2)
		siglongjmp(place, 1);
	BARRIER;
}

F void jumping(long i)
{
	jump(i);
	work(i);
	BARRIER;
}

// The stack frame grows after setjmp.
F void jumped(volatile long n)
{
	for (volatile long i = 0; i < n; i = i + 1) {
		if (!setjmp(place)) {
			volatile char *room = static_cast<volatile char *>(alloca(64 + i % 5 * 16));
			room[0] = 1;
			jumping(i);
		}
	}
	BARRIER;
}

F void on_fault(int)
{
	sink++;
	siglongjmp(signal_place, 1);
}

F void fault(long)
{
	*reinterpret_cast<volatile int *>(8) = 1;
	BARRIER;
}

F void handled(volatile long n)
{
	for (volatile long i = 0; i < n; i = i + 1)
		if (!sigsetjmp(signal_place, 1))
			fault(i);
	BARRIER;
}
}

// Two fibers that take turns by swapcontext, with exceptions in both.
static ucontext_t scheduler, fibers[2];
static int running;

extern "C" {
F void turn() { swapcontext(&fibers[running], &scheduler); BARRIER; }

F void throwing(long i)
{
	turn();
	if (i % 2)
		throw i;
	BARRIER;
}

F void fiber()
{
	for (long i = 0; i < 100; i++) {
		try {
			throwing(i);
		} catch (long) {
			turn();
		}
	}
	BARRIER;
}
}

PLAIN static void run_fibers()
{
	static char stacks[2][1 << 16];
	for (int k = 0; k < 2; k++) {
		getcontext(&fibers[k]);
		fibers[k].uc_stack.ss_sp = stacks[k];
		fibers[k].uc_stack.ss_size = sizeof stacks[k];
		fibers[k].uc_link = &scheduler;
		makecontext(&fibers[k], fiber, 0);
	}
	for (int i = 0; i < 151; i++)
		for (running = 0; running < 2; running++)
			swapcontext(&scheduler, &fibers[running]);
}

// Fibers that take turns by a switch in assembly, on stacks without a valid end.
static void *other_stack;
extern "C" void switch_stacks(void **from, void *to);
__asm__(".text\n.type switch_stacks, @function\nswitch_stacks:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
	".size switch_stacks, . - switch_stacks\n");

extern "C" {
F void bottom()
{
	for (long i = 0;; i++) {
		try {
			check(i * 5);
		} catch (...) {
			work(i);
		}
		switch_stacks(&other_stack, other_stack);
	}
}
}

PLAIN static void run_switched()
{
	const size_t size = 1 << 16;
	char *stack = static_cast<char *>(std::malloc(size));
	std::memset(stack, 0x5a, size); // no valid addresses above the first frame
	void **top = reinterpret_cast<void **>((reinterpret_cast<size_t>(stack) + size - 256) & ~size_t(15));
	*--top = reinterpret_cast<void *>(0x5a5a5a5a5a5a);
	*--top = reinterpret_cast<void *>(bottom);
	for (int i = 0; i < 6; i++)
		*--top = nullptr;
	other_stack = top;
	for (int i = 0; i < 200; i++)
		switch_stacks(&other_stack, other_stack);
}

// Fibers that take turns by longjmp, which does not leave calls.
static jmp_buf here, there;
static bool hopping;

extern "C" {
F void hop(long i)
{
	work(i);
	if (!_setjmp(there))
		longjmp(here, 1);
	BARRIER;
}

F void hopper()
{
	for (long i = 0; hopping; i++)
		hop(i);
	BARRIER;
}
}

PLAIN static void run_jumped_fibers()
{
	static char stack[1 << 16];
	getcontext(&fibers[0]);
	fibers[0].uc_stack.ss_sp = stack;
	fibers[0].uc_stack.ss_size = sizeof stack;
	fibers[0].uc_link = &scheduler;
	makecontext(&fibers[0], hopper, 0);
	hopping = true;
	for (volatile int i = 0; i < 200; i = i + 1) {
		if (_setjmp(here))
			continue;
		if (i == 0)
			swapcontext(&scheduler, &fibers[0]);
		longjmp(there, 1);
	}
}

// A thread that ends in the middle of its calls.
extern "C" {
F void last()
{
	guard g;
	pthread_exit(nullptr);
}

F void *first(void *)
{
	guard g;
	last();
	BARRIER;
	return nullptr;
}
}

static int ended;

// Changes how calls are recorded until the program ends.
PLAIN static void *change_modes(void *)
{
	static const char *const commands[] = {"mode profile", "mode record", "mode profile", "mode off", "mode count", "mode prune"};
	char answer[4096];
	for (int i = 0; !__atomic_load_n(&ended, __ATOMIC_RELAXED); i++)
		xray_command(commands[i % 6], answer, sizeof answer);
	return nullptr;
}

PLAIN int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!std::strcmp(what, "exceptions")) {
		serve(1000);
	} else if (!std::strcmp(what, "recursion")) {
		dive(300);
	} else if (!std::strcmp(what, "inside")) {
		for (long i = 0; i < 100; i++)
			inside(i);
	} else if (!std::strcmp(what, "longjmp")) {
		jumped(1000);
	} else if (!std::strcmp(what, "handler")) {
		stack_t alternate = {};
		alternate.ss_size = 1 << 16;
		alternate.ss_sp = std::malloc(alternate.ss_size);
		sigaltstack(&alternate, nullptr);
		struct sigaction action = {};
		action.sa_handler = on_fault;
		action.sa_flags = SA_ONSTACK;
		sigaction(SIGSEGV, &action, nullptr);
		handled(50);
	} else if (!std::strcmp(what, "fibers")) {
		run_fibers();
	} else if (!std::strcmp(what, "switched")) {
		run_switched();
	} else if (!std::strcmp(what, "jumped")) {
		run_jumped_fibers();
	} else if (!std::strcmp(what, "thread")) {
		pthread_t thread;
		pthread_create(&thread, nullptr, first, nullptr);
		pthread_join(thread, nullptr);
	} else if (!std::strcmp(what, "modes")) {
		pthread_t thread;
		pthread_create(&thread, nullptr, change_modes, nullptr);
		for (int i = 0; i < 50; i++)
			serve(1000);
		__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
		pthread_join(thread, nullptr);
	} else {
		return 2;
	}
	std::printf("%ld\n", sink);
	return 0;
}
