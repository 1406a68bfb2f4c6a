/* Interrupts a recorded call after each of its instructions, one after another, by a signal
 * handler that is also recorded, and then checks the rings. This always finds faults that a
 * storm of signals finds only sometimes.
 *
 * With left, the recorder itself writes the exit of a call that was left by a jump. With budget, all
 * functions have limits that they do not reach.
 *
 * With values, the call has values at its entry and at its exit, and so has the handler's. With jump, the handler leaves
 * the call by a jump while the values of its entry are read. That takes a thousand instructions, of which one in
 * EVERY is followed by a signal.
 *
 * Usage: steps record|prune|depth [arg|toggle|handler|left|budget|(values|jump) EVERY] */
#define _GNU_SOURCE
#include <execinfo.h>
#include <sched.h>
#include <ucontext.h>

#include "landings.h"
#include "ring.h"
#include "values.h"
#include "walk.h"

void xr_nothing(void), __xray_TypedEvent(void), xr_handle_enter(void), xr_handle_keep(void);
int __xray_set_handler(void (*)(int, int)), __xray_patch(void);
int main(int, char **);

static volatile long sink;
static long unwound, lost;

PLAIN static void spin(uint64_t ticks)
{
	for (uint64_t end = __builtin_ia32_rdtsc() + ticks; __builtin_ia32_rdtsc() < end;)
		;
}

TRACED static void quick(void) { sink++; }
TRACED static void lengthy(void) { spin(xr_root.threshold + xr_root.threshold / 4); sink++; }
TRACED static long plain(long x) { sink++; return x + 1; }
TRACED __attribute__((__xray_always_instrument__, xray_log_args(1))) static long logged(long x) { sink++; return x + 1; }

static void *place[5];
static uint32_t left;

TRACED static void leave(void) { sink++; __builtin_longjmp(place, 1); }

PLAIN static long land(long x)
{
	xr_record_left(XR_LEFT_BY_JUMP, &left, 1);
	return x + 1;
}

static uint64_t sequence; /* pointer that the recorder checks, or 0 if it does not */
static volatile long step, at;
static volatile int stepping, happened, ended_early, toggles, with_lengthy, with_values, jumps;

PLAIN static void interrupted(void)
{
	happened = 1;
	if (toggles) {
		xr_patch(0);
		xr_patch(1);
	} else if (with_lengthy) {
		lengthy();
	} else if (with_values) {
		plain(1);
	} else {
		quick();
	}
}

/* Gives plain its argument, memory that cannot be read, its result and what is at its stack pointer. */
PLAIN static void give_values(void)
{
	static char text[1024];
	const struct xr_sled *s = (const struct xr_sled *)xr_root.objects[0].sleds;
	int i = 0, number = 1, n = xr_root.objects[0].nfunctions;
	for (; xr_sled_function(&s[i]) != (uintptr_t)plain; i++)
		number += xr_sled_function(&s[i]) != xr_sled_function(&s[i + 1]);
	snprintf(text, sizeof text, "object %s\n1-%d\nvalues %02x00000002000200"
		 "0200000000000000" "0105000000000000" "1400000000000000"
		 "0400000000000000" "0105000000000000" "0400000000100000" "0508000000000000" "1400000000000000"
		 "0200000000000000" "0100000000000000" "1400000000000000"
		 "0200000000000000" "0107000000000000" "1700000008000000"
		 " \"entry\":[]\n", xr_root.objects[0].path, n, number);
	xr_lock(XR_LOCK_CONTROL);
	int wrong = xr_set_filter(text, strlen(text)) || xr_patch(1);
	xr_unlock(XR_LOCK_CONTROL);
	if (wrong || !xr_values_of(number))
		exit(2);
	plain(1);
}

/* Leaves the call, if values of its entry are being read. */
PLAIN static void jump(void)
{
	uint64_t taken = xr_tls->room ? *xr_tls->room : 0;
	if (!taken || taken & 1)
		return;
	happened = 1;
	stepping = 0;
	xr_land((uintptr_t)place[2], XR_LEFT_BY_JUMP);
	__builtin_longjmp(place, 1);
}

/* A handler of the program, while the recorder records. */
PLAIN static void handle(int id, int type)
{
	(void)id, (void)type;
	sink++;
}

PLAIN static int in_trampoline(uintptr_t ip)
{
	enum { CALL_HANDLER = 2048, LAST = 256 }; /* sizes of the code before and after */
	return (ip >= (uintptr_t)xr_nothing && ip < (uintptr_t)__xray_TypedEvent) ||
	       (ip >= (uintptr_t)xr_handle_enter - CALL_HANDLER && ip < (uintptr_t)xr_handle_keep + LAST);
}

/* An unwinder must find main from any instruction of a trampoline. */
PLAIN static void unwind(void)
{
	void *frames[32];
	int n = backtrace(frames, 32), found = 0;
	for (int i = 0; i < n; i++)
		found |= (uintptr_t)frames[i] - (uintptr_t)main < 4096;
	unwound++;
	lost += !found;
}

/* Handles a single step, before the instruction is executed. The slow path blocks signals, so
 * stepping would kill the program there: end it before. */
PLAIN static void on_step(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uintptr_t ip = u->uc_mcontext.gregs[REG_RIP];
	(void)signal, (void)info;
	if (!stepping || ip == (uintptr_t)xr_slow || ip == (uintptr_t)xr_inside) {
		ended_early |= stepping;
		u->uc_mcontext.gregs[REG_EFL] &= ~0x100;
		return;
	}
	if (at == 0 && !with_lengthy && in_trampoline(ip))
		unwind();
	if (step++ == at) {
		if (jumps)
			jump();
		else
			interrupted();
	}
	/* The kernel has cleared the pointer because of the signal. Restore it, because otherwise
	 * no step would get past the check. */
	if (sequence && !*xr_tls->rseq)
		*(volatile uint64_t *)xr_tls->rseq = sequence;
}

/* A call with the trap flag set. */
#define STEPPED(call) do { \
		stepping = 1; \
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc"); \
		call; \
		stepping = 0; \
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); \
	} while (0)

PLAIN int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};
	cpu_set_t cpus;
	int with_arg = argc > 2 && !strcmp(argv[2], "arg");
	int with_left = argc > 2 && !strcmp(argv[2], "left");
	long (*volatile called)(long) = with_left ? land : with_arg ? logged : plain;
	enum xr_mode mode;
	uint64_t threshold_ns = !strcmp(argv[1], "prune") ? 10000000 : 0; /* stepping takes time */

	toggles = argc > 2 && !strcmp(argv[2], "toggle");
	sched_getaffinity(0, sizeof cpus, &cpus);
	for (int i = 0, n = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus) && n++)
			CPU_CLR(i, &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	int with_budget = argc > 2 && !strcmp(argv[2], "budget");
	if (with_budget && xr_budget_start(30000))
		return 2;
	if (!xr_parse_mode(argv[1], &mode) || xr_start(mode, threshold_ns, mode == XR_DEPTH ? 100 : 0, -1, 0))
		return 2;
	for (uint64_t id = 1; with_budget && id <= xr_root.max_function; id++)
		xr_limits[id] = XR_UNLIMITED - 1;
	int with_handler = argc > 2 && !strcmp(argv[2], "handler");
	with_values = argc > 2 && (!strcmp(argv[2], "values") || !strcmp(argv[2], "jump"));
	jumps = with_values && !strcmp(argv[2], "jump");
	if (with_values)
		give_values();
	if (jumps)
		xr_landings_init(1);
	int every = with_values ? atoi(argv[3]) : with_handler ? 3 : 1;
	if (with_handler && (__xray_set_handler(handle) != 1 || __xray_patch() != 1))
		return 2;
	do
		quick();
	while (!(sequence = *xr_tls->rseq));
	if (sequence == 1)
		sequence = 0;
	sigaction(SIGTRAP, &action, NULL);

	long interruptions = 0, faults = 0, missing = 0;
	/* At each step, handlers make a call that a threshold drops, and then one that it keeps.
	 * If the stepping ended before the step was reached, for example in a new epoch, retry. */
	for (int ended = 0, tries = 0; !ended && tries < 3000; tries++) {
		forget();
		quick(); /* takes a chunk, so that the following calls need not take the slow path */
		if (with_left) {
			if (!__builtin_setjmp(place))
				leave();
			left = (uint32_t)((uint64_t *)xr_tls->cursor)[-1] >> 4;
		}
		happened = ended_early = 0;
		step = 0;
		volatile long result = 42;
		if (!jumps || !__builtin_setjmp(place))
			STEPPED(result = called(41));
		struct faults f = walk();
		interruptions += happened;
		faults += f.mismatched + f.backwards + f.odd + f.open + (result != 42);
		/* Without a threshold, all calls must be there: the stepped one, the handler's,
		 * and the one before. */
		if (!threshold_ns && !jumps && f.records != 4 + 2 * (happened && !toggles))
			missing++;
		if (threshold_ns && f.shortest >= 0 && f.shortest < (long)xr_root.threshold)
			faults++;
		/* The first round steps through all instructions, for the unwinder. */
		int reached = step > at;
		if (jumps)
			at += every;
		if (!jumps && happened && (at || with_lengthy || !ended_early)) {
			at += every > 1 ? every : with_lengthy; /* these calls are long */
			with_lengthy = !with_lengthy;
		}
		ended = !reached && !ended_early;
	}
	xr_stop();
	printf("interruptions %ld\nfaults %ld\nmissing %ld\nunwound %ld\nlost %ld\n", interruptions, faults, missing, unwound, lost);
	return 0;
}
