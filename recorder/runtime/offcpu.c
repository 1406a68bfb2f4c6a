/* Notices when threads were switched out, by restartable sequences. When the kernel switches a
 * thread out, sends it a signal or moves it to another CPU, it clears a pointer in the thread's
 * memory before the thread continues, unless the thread is in the sequence that the pointer
 * names. The sequence here is one that no thread ever executes. Trampolines check whether the
 * pointer is still there, instead of checking the number of the CPU.
 *
 * Any pointer works for this, including one of other code. Such a pointer is never overwritten:
 * only a cleared one is set. Code that uses sequences of its own often clears the pointer or
 * leaves it cleared, so that the slow path would run all the time. Then the trampolines check
 * the CPU instead.
 *
 * The kernel's counters tell what happened since the previous check. Between two checks a
 * thread is on the CPU, except for the times that are noticed. So the times add up.
 *
 * No libc, general registers only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>

#include "budget.h"
#include "clock.h"
#include "hooks.h"
#include "layout.h"
#include "locks.h"
#include "offcpu.h"
#include "options.h"
#include "state.h"
#include "syscall.h"
#include "text.h"

/* libc's description of its areas: the distance from the thread's control block. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The signature of libc's registrations. All registrations must share it. */
#define SIGNATURE 0x53053053

/* A thread's area, which the kernel reads and writes. */
struct area {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* below 0 while the area is not registered */
	uint64_t sequence;
	uint32_t flags;
} __attribute__((aligned(32)));

/* A sequence, and what the kernel reads before it aborts one: the address to continue at, and
 * the signature before that address. None of this is code. It has its own page, which stays if
 * the object with the recorder in it is unloaded. */
struct sequence {
	uint32_t version, flags;
	uint64_t start, length, abort;
	uint32_t signature, nowhere[7];
} __attribute__((aligned(32)));

/* The run-queue time is read once a thread's blocked time adds up to this many ns, because
 * opening a file takes 5 to 20 us. Within a budget, that has to be rarer. */
enum { ASK_AT = 250000, ASK_AT_WITHIN_BUDGET = 20000000 };

/* So many checks without a switch within so many ns of a thread's CPU time mean that other code clears
 * the pointer. Signals are less frequent. A check with a switch makes up for some without: a busy machine
 * switches threads, too. */
enum { IDLE_LOOKS = 512, IDLE_NS = 10000000, IDLE_PER_SWITCH = 16 };

/* Number of attempts to read values without an interruption. */
enum { TRIES = 4 };

/* Reading the clocks takes this many ticks, some us, only if an interrupt came in between. */
enum { INTERRUPTED = 1 << 13 };

/* xray watch reads these. */
_Static_assert(offsetof(struct xr_thread, off) == 2280 && sizeof(struct xr_offcpu) == 168, "");
_Static_assert(offsetof(struct xr_offcpu, off) == 8 && offsetof(struct xr_offcpu, queued) == 72, "");
_Static_assert(offsetof(struct xr_offcpu, left) == 88 && offsetof(struct xr_offcpu, kept) == 120, "");

static const uint64_t always = 1;

static struct {
	const char *why;     /* why switches cannot be noticed; null if they can */
	const char *paused;  /* why noticing switches is paused, or null */
	struct sequence *sequence;
	struct area *areas;  /* free areas of the recorder, nareas of them */
	uint32_t nareas;
	uint32_t unsettled;  /* trampolines still rely on this although it does not work */
	uint32_t reading, forking;
	int no_queue;        /* the kernel does not report run-queue time */
} state = {.why = "the recorder has not started"};

/* The area registered here for the thread. It stays registered in a forked child. */
static __thread struct area *registered __attribute__((tls_model("initial-exec")));

static const char *reason(void)
{
	const char *why = __atomic_load_n(&state.why, __ATOMIC_RELAXED);
	return why ? why : __atomic_load_n(&state.paused, __ATOMIC_RELAXED);
}

int xr_offcpu_on(void) { return !reason(); }

void xr_offcpu_pause(const char *why)
{
	__atomic_store_n(&state.paused, why, __ATOMIC_RELAXED);
	/* Threads notice at once. They then find that they were checked in an earlier recording. */
	for (uint64_t i = 0; !why && i < xr_root.nthreads; i++) {
		struct xr_thread *t = xr_root.threads[i];
		if (t->state == XR_THREAD_LIVE && t->place)
			__atomic_store_n(&t->rseq, t->place, __ATOMIC_RELAXED);
	}
}

void xr_offcpu_give_up(const char *why)
{
	xr_offcpu_pause(why);
	xr_above.set_mode(xr_root.mode); /* trampolines compare the CPU instead */
}

void xr_put_offcpu(struct xr_text *t)
{
	const char *why = reason();
	if (xr_root.mode == XR_COUNT)
		why = "mode count records no times";
	xr_put_field_text(t, why ? "no_offcpu" : "offcpu", why ? why : "rseq");
}

/* Areas. */

static int libc_has_areas(void) { return &__rseq_size && &__rseq_offset; }

static int64_t register_area(struct area *a) { return xr_sys4(SYS_rseq, (intptr_t)a, sizeof *a, 0, SIGNATURE); }

/* Returns whether the program registers areas itself. Libraries that do so define these
 * symbols. */
static int others_have_areas(void) { return dlsym(RTLD_DEFAULT, "__rseq_abi") || dlsym(RTLD_DEFAULT, "rseq_register_current_thread"); }

static const char *why_not(void)
{
	if (!xr_options.offcpu)
		return "switched off (offcpu=0)";
	if (xr_sys4(SYS_rseq, 0, 0, 0, 0) == -ENOSYS)
		return "the kernel does not support restartable sequences";
	if (libc_has_areas() && !__rseq_size)
		return "the C library does not use restartable sequences (glibc.pthread.rseq=0)";
	if (!libc_has_areas() && others_have_areas())
		return "a library of the program uses restartable sequences";
	state.sequence = xr_map(XR_THREAD_PAGE);
	if (!state.sequence)
		return "no memory";
	struct sequence *s = state.sequence;
	*s = (struct sequence){.length = 1, .signature = SIGNATURE};
	s->abort = (uintptr_t)&s->nowhere[0];
	s->start = (uintptr_t)&s->nowhere[4];
	xr_sys3(SYS_mprotect, (intptr_t)s, XR_THREAD_PAGE, PROT_READ);
	return NULL;
}

void xr_offcpu_init(void) { state.why = why_not(); }

static void fail(const char *why)
{
	__atomic_store_n(&state.unsettled, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&state.why, why, __ATOMIC_RELEASE);
}

void xr_offcpu_settle(void)
{
	if (!__atomic_load_n(&state.unsettled, __ATOMIC_RELAXED) || !xr_trylock(XR_LOCK_CONTROL))
		return;
	if (__atomic_exchange_n(&state.unsettled, 0, __ATOMIC_RELAXED))
		xr_above.set_mode(xr_root.mode);
	xr_unlock(XR_LOCK_CONTROL);
}

/* Returns an area for the calling thread. A thread's struct keeps its area for the next thread
 * that uses the struct. */
static struct area *own_area(struct xr_thread *t)
{
	if (registered)
		return registered;
	if (!t->area && !state.nareas && !xr_sealed) {
		state.areas = xr_map(XR_THREAD_PAGE);
		state.nareas = state.areas ? XR_THREAD_PAGE / sizeof *state.areas : 0;
	}
	if (!t->area && state.nareas) {
		t->area = state.areas++;
		state.nareas--;
	}
	struct area *a = t->area;
	if (!a || xr_sealed)
		return NULL;
	*a = (struct area){.cpu_id = -1};
	if (register_area(a))
		return NULL;
	return registered = a;
}

static struct area *area_of(struct xr_thread *t)
{
	uint64_t block;
	if (!libc_has_areas())
		return own_area(t);
	__asm__("movq %%fs:0, %0" : "=r"(block));
	struct area *a = (struct area *)(block + __rseq_offset);
	return a->cpu_id < 0 ? NULL : a;
}

int xr_offcpu_cpu(const struct xr_thread *t, uint32_t *cpu)
{
	if (t->rseq == &always || !t->rseq)
		return 0;
	*cpu = *(volatile uint32_t *)((uintptr_t)t->rseq - offsetof(struct area, sequence) + offsetof(struct area, cpu_id));
	return 1;
}

/* Checks. */

/* Returns the ns that a thread of this process has waited in run queues, or XR_UNKNOWN. Thread 0 is the
 * calling one. */
static uint64_t ask_queue(uint32_t tid)
{
	char text[80];
	struct xr_text path = xr_text_in(text, sizeof text);
	xr_put_text(&path, tid ? "/proc/self/task/" : "/proc/thread-self");
	if (tid)
		xr_put_number(&path, tid);
	xr_put(&path, "/schedstat", sizeof "/schedstat");
	if (state.no_queue || xr_is_sealed())
		return XR_UNKNOWN;
	/* A child that is forked now would inherit the descriptor. */
	__atomic_fetch_add(&state.reading, 1, __ATOMIC_SEQ_CST);
	int fd = -1;
	int64_t n = 0;
	if (!__atomic_load_n(&state.forking, __ATOMIC_SEQ_CST))
		fd = xr_open(text, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		n = xr_read(fd, text, sizeof text);
		xr_close(fd);
	}
	__atomic_fetch_sub(&state.reading, 1, __ATOMIC_SEQ_CST);
	/* Time on the CPU, time in run queues, and number of runs. If the kernel keeps them, none
	 * is 0. */
	uint64_t fields[3] = {0, 0, 0};
	for (int64_t i = 0, k = 0; i < n && k < 3; i++) {
		if (text[i] >= '0' && text[i] <= '9')
			fields[k] = 10 * fields[k] + (text[i] - '0');
		else
			k++;
	}
	if (n > 0 && !fields[2])
		state.no_queue = 1;
	return fields[2] ? fields[1] : XR_UNKNOWN;
}

void xr_offcpu_fork(void)
{
	enum { PATIENCE = 1000 };
	__atomic_fetch_add(&state.forking, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PATIENCE && __atomic_load_n(&state.reading, __ATOMIC_SEQ_CST); i++)
		xr_sys0(SYS_sched_yield);
}

void xr_offcpu_fork_done(void) { __atomic_fetch_sub(&state.forking, 1, __ATOMIC_SEQ_CST); }

void xr_offcpu_forked(void) { state.forking = state.reading = 0; }

/* The kernel's counters, and time off the CPU, at one moment. */
struct totals {
	uint64_t voluntary, involuntary, minor, major;
	uint64_t off;
};

static void count(struct totals *now)
{
	struct rusage usage;
	xr_zero(&usage, sizeof usage);
	xr_sys2(SYS_getrusage, RUSAGE_THREAD, (intptr_t)&usage);
	now->voluntary = usage.ru_nvcsw;
	now->involuntary = usage.ru_nivcsw;
	now->minor = usage.ru_minflt;
	now->major = usage.ru_majflt;
}

/* Returns CLOCK_MONOTONIC_RAW. Asks the kernel only if the last time was some ms ago. In
 * between, the time comes from the TSC, once it has been compared with the clock for long
 * enough. */
static uint64_t wall_ns(struct xr_offcpu *o)
{
	enum { FRESH = 1 << 24, LONG_ENOUGH = 1 << 26 };
	uint64_t now = xr_rdtsc();
	if (o->rate && now - o->anchor_tsc < FRESH)
		return o->anchor_raw + ((now - o->anchor_tsc) * o->rate >> 32);
	o->anchor_raw = xr_clock_ns(CLOCK_MONOTONIC_RAW);
	uint64_t read = xr_rdtsc();
	o->anchor_tsc = now + (read - now) / 2;
	uint64_t ticks = o->anchor_tsc - xr_root.start.tsc, ns = o->anchor_raw - xr_root.start.raw;
	int usable = xr_root.invariant && ticks > LONG_ENOUGH && ticks < 1ull << 62 && read - now < INTERRUPTED;
	o->rate = usable ? xr_muldiv(ns, 1ull << 32, ticks) : 0;
	return o->anchor_raw;
}

/* Reads the clocks one after the other, if possible without an interrupt in between. */
static uint64_t off_so_far(struct xr_offcpu *o)
{
	uint64_t off = 0;
	for (int i = 0; i < TRIES; i++) {
		uint64_t start = xr_rdtsc(), wall = wall_ns(o);
		off = wall - xr_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (xr_rdtsc() - start < INTERRUPTED)
			break;
	}
	return off;
}

static void keep(struct xr_offcpu *o, const struct totals *now)
{
	o->off = now->off;
	o->voluntary = now->voluntary;
	o->involuntary = now->involuntary;
	o->minor = now->minor;
	o->major = now->major;
	o->checked = xr_rdtsc();
}

static void arm(struct xr_thread *t)
{
	if (!*t->rseq)
		*(volatile uint64_t *)t->rseq = (uintptr_t)state.sequence;
}

/* All of this must belong to one moment. A brief thread does without the time in run queues before, which
 * takes longer than all the rest. The first wait for which it is asked then includes it. */
static void begin(struct xr_thread *t, int brief)
{
	struct totals now = {0};
	for (int i = 0; i < TRIES; i++) {
		arm(t);
		count(&now);
		now.off = off_so_far(&t->off);
		t->off = (struct xr_offcpu){.queued = brief && !state.no_queue ? 0 : ask_queue(0)};
		if (!xr_interfered(t))
			break;
	}
	keep(&t->off, &now);
}

void xr_offcpu_attach(struct xr_thread *t, int brief)
{
	t->rseq = &always;
	t->place = NULL;
	if (state.why)
		return;
	struct area *a = area_of(t);
	if (!a) {
		fail(xr_sealed ? "threads that begin behind a seccomp filter cannot use restartable sequences" :
		     "a thread cannot use restartable sequences, or another library does");
		return;
	}
	t->place = &a->sequence;
	t->off = (struct xr_offcpu){0};
	if (!xr_offcpu_on())
		return;
	t->rseq = t->place;
	arm(t);
	if (!xr_sealed)
		begin(t, brief);
}

/* Returns how much of the latest wait was run-queue time. It belongs to all waits since it was last read.
 * A short wait may take the part of earlier ones, so that sums are right. A long one takes only its share:
 * it may be the cause of a slow call, and what short waits have left over could be as long. */
static uint64_t queued_of_wait(struct xr_offcpu *o, uint64_t off, uint32_t tid)
{
	uint64_t total = ask_queue(tid), queued;
	if (total == XR_UNKNOWN)
		return XR_UNKNOWN;
	uint64_t left = total > o->queued ? total - o->queued : 0;
	if (off < ASK_AT) {
		queued = left < off ? left : off;
	} else {
		uint64_t new = left > o->left ? left - o->left : 0;
		queued = xr_muldiv(new < o->unasked ? new : o->unasked, off, o->unasked);
	}
	o->left = left - queued;
	o->unasked = 0;
	return queued;
}

/* Returns how much off-CPU time the thread spent in the run queue. After a preemption, that is all of
 * it. After waits, the kernel is asked only once they add up to ASK_AT. */
static uint64_t queued_of(struct xr_offcpu *o, const struct xr_switch *s)
{
	uint64_t queued = 0;
	if (!s->voluntary)
		queued = s->off;
	else if (o->queued == XR_UNKNOWN)
		return XR_UNKNOWN;
	else if ((o->unasked += s->off) >= (xr_limited ? ASK_AT_WITHIN_BUDGET : ASK_AT))
		queued = queued_of_wait(o, s->off, 0);
	if (o->queued != XR_UNKNOWN && queued != XR_UNKNOWN)
		o->queued += queued;
	return queued;
}

/* Counts checks without a switch. If there are too many to come from signals, other code clears the
 * pointer. */
static void count_idle(struct xr_offcpu *o)
{
	if (o->idle++ == 0)
		o->idle_since = xr_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (o->idle < IDLE_LOOKS)
		return;
	o->idle = 0;
	if (xr_clock_ns(CLOCK_THREAD_CPUTIME_ID) - o->idle_since < IDLE_NS)
		fail("the program uses restartable sequences of its own");
}

/* Returns what happened between two checks, and updates o to the second. */
static struct xr_switch since(struct xr_offcpu *o, const struct totals *now)
{
	struct xr_switch s = {
		.off = now->off > o->off ? now->off - o->off : 0,
		.voluntary = now->voluntary - o->voluntary, .involuntary = now->involuntary - o->involuntary,
		.minor = now->minor - o->minor, .major = now->major - o->major,
	};
	uint64_t off = o->off + s.off;
	s.queued = queued_of(o, &s);
	keep(o, now);
	o->off = off;
	o->idle -= o->idle < IDLE_PER_SWITCH ? o->idle : IDLE_PER_SWITCH;
	return s;
}

int xr_offcpu_look(struct xr_thread *t, struct xr_switch *s)
{
	struct xr_offcpu *o = &t->off, next;
	struct totals now = {0};
	if (!xr_offcpu_on()) {
		t->rseq = &always;
		return 0;
	}
	/* Events after a check belong to the next one, so nothing may happen between the check and
	 * its time. */
	for (int i = 0; i < TRIES && xr_interfered(t); i++) {
		arm(t);
		if (xr_is_sealed()) {
			*s = (struct xr_switch){.off = XR_UNKNOWN, .queued = XR_UNKNOWN};
			return 1;
		}
		count(&now);
		if (o->checked < xr_cpu_from) {
			begin(t, 0); /* it was in an earlier recording */
			return 0;
		}
		if (now.voluntary == o->voluntary && now.involuntary == o->involuntary) {
			count_idle(o);
			return 0;
		}
		now.off = off_so_far(&t->off);
		next = *o;
		*s = since(&next, &now);
	}
	*o = next;
	return 1;
}

static uint64_t add(uint64_t a, uint64_t b) { return a == XR_UNKNOWN || b == XR_UNKNOWN ? XR_UNKNOWN : a + b; }

void xr_offcpu_keep(struct xr_thread *t, int ours)
{
	struct xr_switch s, *k = &t->off.kept;
	if (!xr_interfered(t) || !xr_offcpu_look(t, &s))
		return;
	if (!t->off.keeps)
		*k = (struct xr_switch){0};
	t->off.keeps = 1;
	if (ours && s.off != XR_UNKNOWN)
		k->recorder += s.off - (s.queued == XR_UNKNOWN ? 0 : s.queued);
	k->off = add(k->off, s.off);
	k->queued = add(k->queued, s.queued);
	k->voluntary += s.voluntary;
	k->involuntary += s.involuntary;
	k->minor += s.minor;
	k->major += s.major;
}

int xr_offcpu_waits(const struct xr_thread *t, struct xr_switch *s)
{
	enum { PER_THREAD = 6, LEAST = 20000 /* ns */ };
	if (!xr_offcpu_on() || !t->place || t->rseq == &always)
		return 0;
	struct xr_offcpu o = t->off;
	uint64_t wall = xr_clock_ns(CLOCK_MONOTONIC_RAW), cpu = xr_clock_ns((int32_t)(~t->tid << 3 | PER_THREAD));
	uint64_t off = wall - cpu;
	if (!cpu || off > wall || off < o.off + LEAST || !o.checked || o.checked < xr_cpu_from)
		return 0;
	off -= o.off;
	o.unasked += off;
	*s = (struct xr_switch){.off = off, .queued = o.queued == XR_UNKNOWN ? XR_UNKNOWN : queued_of_wait(&o, off, t->tid)};
	if (o.keeps) {
		s->off = add(s->off, o.kept.off);
		s->queued = add(s->queued, o.kept.queued);
		s->recorder = o.kept.recorder;
	}
	/* If the thread has checked since, the time may be in its records. */
	return __atomic_load_n(&t->off.checked, __ATOMIC_ACQUIRE) == o.checked;
}

/* Returns whether the latest record of the thread belongs to the current recording, if that
 * record has a time. */
static int has_recorded(const struct xr_thread *t)
{
	if (!(t->cursor & (XR_CHUNK_SIZE - 1)))
		return 0;
	uint64_t record = *(const uint64_t *)(t->cursor - 8);
	return record && !(record & 1) && ((uint64_t)t->epoch << 32 | record >> 32) >= xr_cpu_from;
}

void xr_offcpu_resume(struct xr_thread *t)
{
	struct xr_offcpu *o = &t->off;
	/* The thread has recorded in this recording without a check, so nothing has happened since the
	 * check in an earlier recording. */
	if (o->checked && o->checked < xr_cpu_from && has_recorded(t))
		o->checked = xr_cpu_from;
	if (t->place && t->rseq == &always && xr_offcpu_on())
		t->rseq = t->place;
	t->again = t->cursor == o->cursor ? t->again + 1 : 0;
}

void xr_offcpu_looked(struct xr_thread *t)
{
	enum { PATIENCE = 16 };
	t->off.cursor = t->cursor;
	if (t->again > PATIENCE)
		t->rseq = &always;
}
