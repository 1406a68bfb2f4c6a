/* Threads, their rings, and the slow path of the trampolines.
 *
 * Nothing here calls libc or uses vector registers. All of it runs with signals blocked,
 * because it may interrupt any function of the program. So a signal handler that records cannot
 * interrupt it. */
#include <cpuid.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "fibers.h"
#include "hooks.h"
#include "layout.h"
#include "libcalls.h"
#include "locks.h"
#include "offcpu.h"
#include "profile.h"
#include "ring.h"
#include "shared.h"
#include "sums.h"
#include "syscall.h"
#include "warnings.h"

uint64_t xr_later_until;

_Static_assert(offsetof(struct xr_thread, cursor) == XR_THREAD_CURSOR, "");
_Static_assert(offsetof(struct xr_thread, epoch) == XR_THREAD_EPOCH, "");
_Static_assert(offsetof(struct xr_thread, cpu) == XR_THREAD_CPU, "");
_Static_assert(offsetof(struct xr_thread, counters) == XR_THREAD_COUNTERS, "");
_Static_assert(offsetof(struct xr_thread, profile) == XR_THREAD_PROFILE, "");
_Static_assert(offsetof(struct xr_thread, ncounters) == XR_THREAD_NCOUNTERS, "");
_Static_assert(offsetof(struct xr_thread, sums) == XR_THREAD_SUMS, "");
_Static_assert(offsetof(struct xr_thread, nsums) == XR_THREAD_NSUMS, "");
_Static_assert(offsetof(struct xr_thread, rseq) == XR_THREAD_RSEQ, "");
_Static_assert(offsetof(struct xr_thread, again) == XR_THREAD_AGAIN, "");
_Static_assert(offsetof(struct xr_thread, top) == XR_THREAD_TOP, "");
_Static_assert(offsetof(struct xr_thread, end) == XR_THREAD_END, "");
_Static_assert(sizeof(struct xr_kept) == 16, "");
_Static_assert(offsetof(struct xr_root, threshold) == XR_ROOT_THRESHOLD, "");
_Static_assert(sizeof(struct xr_chunk) == XR_CHUNK_HEADER, "");
_Static_assert(sizeof(struct xr_thread) <= XR_THREAD_PAGE, "");

#define STAMP_SIZE 16

/* After a failed allocation for a thread, wait for this many ticks before trying again. */
#define PAUSE (1u << 25)

/* Number of rings without an owner that keep their memory. The memory of further ones is
 * released. */
#define WARM_RINGS 8

/* A page that is zeroed in a forked child, like the threads' structs and rings. */
static struct {
	uint32_t here;  /* 1 in the process that created the page */
} *process;

static struct {
	uint64_t next_try; /* TSC */
	uint64_t look_at;  /* TSC at which to look for dead threads if memory is scarce */
	uint64_t reap_at;  /* number of living threads at which to look for dead ones */
	/* The structs by state, in any order, with room for all in each list. Searching all structs takes time
	 * that grows with the number of threads so far. */
	struct list {
		struct xr_thread **of;
		uint64_t n;
	} live, dead, free;
	uint64_t attached;   /* threads so far */
	uint64_t dead_bytes; /* of the rings of the dead */
	uint64_t lost; /* records in rings of ended threads that made room for others */
	int rdpid;
	int dont_dump;
	uint32_t tid_at;   /* offset of the thread ID in the thread's control block; 0 if unknown */
	uint8_t *structs;  /* for threads whose rings are in the arena; this and the rest of the page are free */
	uint64_t nstructs;
} state;

/* Set while the thread is in the slow path of a process that may not block signals. */
static __thread uint32_t inside __attribute__((tls_model("initial-exec")));

/* Stacks for xr_inside. A thread takes one for a moment, so a few serve all threads. */
enum { STACKS = 16, STACK_SIZE = 16384 };
static struct {
	uint8_t of[STACKS][STACK_SIZE] __attribute__((aligned(64)));
	uint32_t taken; /* a bit for each */
} stacks;

/* Returns a stack that no other thread uses, or -1. */
static int take_stack(void)
{
	uint32_t taken = __atomic_load_n(&stacks.taken, __ATOMIC_RELAXED);
	int i;
	do {
		i = __builtin_ffs(~taken & ((1u << STACKS) - 1)) - 1;
	} while (i >= 0 && !__atomic_compare_exchange_n(&stacks.taken, &taken, taken | 1u << i, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return i;
}

uint64_t xr_inside(xr_inner *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	int sealed = __atomic_load_n(&xr_sealed, __ATOMIC_RELAXED);
	uint64_t signals = 0;
	if (!sealed)
		signals = xr_block_signals();
	else if (inside)
		return 0;
	else
		inside = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	int stack = take_stack();
	/* If all stacks are taken, the caller's usually has room, too. */
	uint64_t result = stack < 0 ? f(a, b, c, d) : xr_call_on(f, a, b, c, d, stacks.of[stack] + STACK_SIZE);
	if (stack >= 0)
		__atomic_fetch_and(&stacks.taken, ~(1u << stack), __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (sealed)
		inside = 0;
	else
		xr_restore_signals(signals);
	return result;
}

/* Maps memory that is zeroed in a forked child. */
static void *map_wiped(uint64_t size)
{
	void *p = xr_map(size);
	if (p)
		xr_sys3(SYS_madvise, (intptr_t)p, size, MADV_WIPEONFORK);
	return p;
}

int xr_has_rdpid(void) { return state.rdpid; }

/* Finds where libc keeps a thread's ID in its control block, which depends on the version.
 * Reading the ID there takes no system call. */
static void find_tid(void)
{
	uint32_t tid = xr_sys0(SYS_gettid), found = 0, copy[512];
	const uint8_t *block;
	__asm__("movq %%fs:0, %0" : "=r"(block));
	int64_t n = xr_copy_from(copy, block, sizeof copy);
	for (int64_t at = 0; at + 4 <= n; at += sizeof tid) {
		if (copy[at / 4] != tid)
			continue;
		state.tid_at = found++ ? 0 : at;
	}
}

uint32_t xr_thread_id(void)
{
	uint32_t tid = 0;
	if (!xr_sealed)
		return xr_sys0(SYS_gettid);
	if (state.tid_at)
		__asm__("movl %%fs:(%1), %0" : "=r"(tid) : "r"((uint64_t)state.tid_at));
	return tid;
}

int xr_ring_init(int dont_dump)
{
	unsigned a, b, c = 0, d;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	state.rdpid = c >> 22 & 1;
	state.dont_dump = dont_dump;
	xr_root.min_tsc = xr_rdtsc();
	process = map_wiped(XR_THREAD_PAGE);
	if (!process)
		return -1;
	process->here = 1;
	find_tid();
	xr_offcpu_init();
	return 0;
}

uint64_t xr_copy_from(void *to, const void *from, uint64_t n)
{
	struct iovec local = {to, n}, remote = {(void *)from, n};
	if (xr_sealed)
		return 0;
	int64_t k = xr_sys6(SYS_process_vm_readv, xr_sys0(SYS_gettid), (intptr_t)&local, 1, (intptr_t)&remote, 1, 0);
	return k < 0 ? 0 : k;
}

int xr_is_forked(void) { return process && !__atomic_load_n(&process->here, __ATOMIC_ACQUIRE); }

static uint32_t current_cpu(const struct xr_thread *t)
{
	uint64_t cpu = 0;
	uint32_t known;
	if (xr_offcpu_cpu(t, &known))
		return known;
	if (state.rdpid)
		__asm__ volatile("rdpid %0" : "=r"(cpu));
	else if (!xr_sealed)
		xr_sys3(SYS_getcpu, (intptr_t)&cpu, 0, 0);
	return cpu;
}

/* Reads both clocks at the start of a chunk. Readers of cores calibrate the TSC with them if the
 * recorder had not done so. Returns the TSC. */
static uint64_t start_clocks(struct xr_chunk *c)
{
	enum { interrupted = 1 << 14, tries = 4 };
	for (int i = 0; i < tries; i++) {
		uint64_t before = xr_rdtsc();
		c->wall = xr_sealed ? 0 : xr_clock_ns(CLOCK_REALTIME);
		c->first = xr_rdtsc();
		if (c->first - before < interrupted)
			break;
	}
	return c->first;
}

static struct xr_chunk *chunk_at(struct xr_thread *t, uint64_t number)
{
	return (struct xr_chunk *)(t->ring + (number - 1) % t->nchunks * XR_CHUNK_SIZE);
}

/* Threads. */

/* Gives a struct its ring. Both may have been wiped. */
static void assign_ring(struct xr_thread *t)
{
	t->ring = (uint8_t *)t + XR_THREAD_PAGE;
	t->nchunks = xr_root.nchunks;
}

static void push(struct list *l, struct xr_thread *t) { l->of[l->n++] = t; }

/* Takes the ith out of the list. */
static struct xr_thread *take_out(struct list *l, uint64_t i)
{
	struct xr_thread *t = l->of[i];
	l->of[i] = l->of[--l->n];
	return t;
}

/* Gives the lists room for so many structs each. */
static int grow_lists(uint64_t cap)
{
	struct list *lists[] = {&state.live, &state.dead, &state.free};
	struct xr_thread **room = xr_map(3 * cap * sizeof *room), **old = state.live.of;
	if (!room)
		return -1;
	for (int i = 0; i < 3; i++) {
		xr_copy(room + i * cap, lists[i]->of, lists[i]->n * sizeof *room);
		lists[i]->of = room + i * cap;
	}
	if (old)
		xr_unmap(old, 3 * xr_root.cap_threads * sizeof *room);
	return 0;
}

static int grow_table(void)
{
	if (xr_root.nthreads < xr_root.cap_threads)
		return 0;
	if (xr_sealed)
		return -1;
	uint64_t cap = xr_root.cap_threads ? 2 * xr_root.cap_threads : XR_THREAD_PAGE / sizeof *xr_root.threads;
	struct xr_thread **table = xr_map(cap * sizeof *table);
	if (!table || grow_lists(cap))
		return -1;
	xr_copy(table, xr_root.threads, xr_root.nthreads * sizeof *table);
	/* Keep the old table, because others may be reading it. All old tables together are as
	 * large as the latest one. */
	__atomic_store_n(&xr_root.threads, table, __ATOMIC_RELEASE);
	xr_root.cap_threads = cap;
	return 0;
}

static void add_thread(struct xr_thread *t)
{
	xr_root.threads[xr_root.nthreads] = t;
	__atomic_store_n(&xr_root.nthreads, xr_root.nthreads + 1, __ATOMIC_RELEASE);
}

/* Allocate some structs without rings ahead of need: a process with a seccomp filter may not be
 * able to allocate memory later. */
enum { STRUCTS = 256 };

static int more_structs(void)
{
	if (xr_sealed)
		return 0;
	state.structs = map_wiped(STRUCTS * XR_THREAD_PAGE);
	state.nstructs = state.structs ? STRUCTS : 0;
	return state.nstructs != 0;
}

static struct xr_thread *new_observed(void)
{
	if (!state.nstructs && !more_structs())
		return NULL;
	struct xr_thread *t = (struct xr_thread *)state.structs;
	/* Keep this order, so that a child that another thread forks in between does not take a page too
	 * many. */
	__atomic_store_n(&state.nstructs, state.nstructs - 1, __ATOMIC_RELEASE);
	__atomic_store_n(&state.structs, state.structs + XR_THREAD_PAGE, __ATOMIC_RELEASE);
	add_thread(t);
	return t;
}

static struct xr_thread *new_thread(void)
{
	if (grow_table())
		return NULL;
	if (xr_observed())
		return new_observed();
	uint64_t size = xr_root.nchunks * XR_CHUNK_SIZE;
	uint64_t room = size + 2 * XR_CHUNK_SIZE;
	uint8_t *p = map_wiped(room);
	if (!p)
		return NULL;
	uint64_t ring = ((uintptr_t)p + XR_THREAD_PAGE + XR_CHUNK_SIZE - 1) & -(uint64_t)XR_CHUNK_SIZE;
	uint8_t *first = (uint8_t *)ring - XR_THREAD_PAGE, *end = (uint8_t *)ring + size;
	if (first > p)
		xr_unmap(p, first - p);
	if (end < p + room)
		xr_unmap(end, p + room - end);
	if (state.dont_dump)
		xr_sys3(SYS_madvise, ring, size, MADV_DONTDUMP);
	struct xr_thread *t = (struct xr_thread *)first;
	assign_ring(t);
	add_thread(t);
	return t;
}

/* Returns the number of chunks of t that are in memory. */
static uint64_t kept(const struct xr_thread *t) { return t->taken + 1 - xr_oldest_chunk(t); }

static uint64_t ring_bytes(const struct xr_thread *t) { return kept(t) * XR_CHUNK_SIZE; }

static uint64_t room(const struct xr_thread *t)
{
	uint64_t used = t->cursor & (XR_CHUNK_SIZE - 1);
	return used ? XR_CHUNK_SIZE - used : 0;
}

/* Memory. With a limit, all chunks that are in memory are counted. A ring grows by a chunk at a time. At the
 * limit, a thread that needs a chunk takes the memory of the oldest one of another thread, or of its own.
 * Rings of ended threads come first. */

struct xr_memory xr_memory;

/* Makes t hold n more chunks. Returns 0 if they exceed the limit. */
static int hold(struct xr_thread *t, uint64_t n)
{
	uint64_t used = __atomic_load_n(&xr_memory.used, __ATOMIC_RELAXED), peak = __atomic_load_n(&xr_memory.peak, __ATOMIC_RELAXED);
	if (!xr_memory.limit)
		return 1;
	do {
		if (used + n > xr_memory.limit)
			return 0;
	} while (!__atomic_compare_exchange_n(&xr_memory.used, &used, used + n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	t->holds += n;
	while (used + n > peak && !__atomic_compare_exchange_n(&xr_memory.peak, &peak, used + n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return 1;
}

/* Makes t hold only n chunks. */
static void hold_only(struct xr_thread *t, uint64_t n)
{
	__atomic_fetch_sub(&xr_memory.used, t->holds - n, __ATOMIC_RELAXED);
	t->holds = n;
}

static uint64_t left(void) { return xr_memory.limit - __atomic_load_n(&xr_memory.used, __ATOMIC_RELAXED); }

/* Releases the memory of n chunks, which then reads as zeros. */
static void give_back(struct xr_thread *t, void *p, uint64_t n)
{
	if (!n || xr_sys3(SYS_madvise, (intptr_t)p, n * XR_CHUNK_SIZE, t->slot ? MADV_REMOVE : MADV_DONTNEED) >= 0)
		return;
	xr_zero(p, n * XR_CHUNK_SIZE);
	xr_warn("the memory of records cannot be released, as in programs that call mlockall: it may exceed its limit", NULL);
}

/* Marks an ended thread as dead and streams its remaining records. */
static void mark_dead(struct xr_thread *t)
{
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	if (t->taken) {
		struct xr_chunk *c = chunk_at(t, t->taken);
		c->last = t->last = xr_rdtsc();
		c->used = XR_CHUNK_SIZE - room(t);
		if (xr_root.stream)
			xr_above.stream(t, 1);
	}
	if (xr_arena_streams() && t->holds > kept(t))
		hold_only(t, kept(t)); /* it never used the others */
	xr_arena_ended(t);
	t->state = XR_THREAD_DEAD;
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
}

/* Releases a dead thread's ring for reuse. */
static void recycle(struct xr_thread *t, int keep_memory)
{
	int written = xr_root.stream || xr_arena_streams();
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	uint64_t oldest = xr_oldest_chunk(t);
	for (uint64_t i = oldest; !written && i <= t->taken; i++)
		state.lost += xr_above.count_records(chunk_at(t, i));
	if (!written && t->taken && xr_memory.limit) {
		xr_memory.given++;
		xr_memory.given_chunks += kept(t);
	}
	xr_arena_dropped();
	xr_above.thread_gone(t);
	xr_arena_emptied(t);
	for (uint64_t i = oldest; i <= t->taken; i++) {
		if (__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST))
			xr_above.later_save(t, chunk_at(t, i));
		__atomic_store_n(&chunk_at(t, i)->seq, 0, __ATOMIC_RELEASE);
	}
	if (xr_memory.limit) {
		give_back(t, t->ring, t->nchunks < t->taken ? t->nchunks : t->taken);
		hold_only(t, 0);
	} else if (!keep_memory && !t->shared && !t->slot) {
		xr_sys3(SYS_madvise, (intptr_t)t->ring, t->nchunks * XR_CHUNK_SIZE, MADV_DONTNEED);
	}
	t->taken = t->gone = 0;
	t->state = XR_THREAD_FREE;
	xr_share_thread(t);
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
}

static int is_gone(const struct xr_thread *t)
{
	return xr_sys3(SYS_tgkill, xr_root.pid, t->tid, 0) == -ESRCH;
}

/* Recycles the ith of the dead. */
static void bury(uint64_t i, int keep_memory)
{
	struct xr_thread *t = take_out(&state.dead, i);
	state.dead_bytes -= ring_bytes(t);
	recycle(t, keep_memory);
	push(&state.free, t);
}

/* Recycles the one of the dead that ended first. */
static void bury_oldest(void)
{
	uint64_t oldest = 0;
	for (uint64_t i = 1; i < state.dead.n; i++)
		if (state.dead.of[i]->last < state.dead.of[oldest]->last)
			oldest = i;
	bury(oldest, state.free.n < WARM_RINGS);
}

/* Recycles the dead whose records are where they belong. Only the observer's next round changes that. */
static void bury_done(void)
{
	static uint64_t round;
	uint64_t now = xr_arena_round();
	if (now && now == round)
		return;
	round = now;
	for (uint64_t i = state.dead.n; i-- > 0;) {
		struct xr_thread *t = state.dead.of[i];
		if (!t->taken /* its sums stay */ || (xr_arena_streams() && xr_arena_done(t)))
			bury(i, 1);
	}
}

/* The caller holds the lock. */
static void reap(void)
{
	for (uint64_t i = state.live.n; i-- > 0;)
		if (is_gone(state.live.of[i])) {
			struct xr_thread *t = take_out(&state.live, i);
			mark_dead(t);
			push(&state.dead, t);
			state.dead_bytes += ring_bytes(t);
		}
	bury_done();
	state.reap_at = 2 * state.live.n + WARM_RINGS;
	while (!xr_arena_streams() && !xr_memory.limit && state.dead_bytes > xr_root.ring_budget)
		bury_oldest();
}

/* Returns whether t may lose its oldest chunk. Others may not take its current one, and nobody what is still to
 * be written. */
static int can_give(const struct xr_thread *t)
{
	uint64_t oldest = xr_oldest_chunk(t);
	return oldest < t->taken + (t == xr_tls) && !(t->late && t->late <= oldest);
}

/* Takes the memory of t's oldest chunk. */
static int take_from(struct xr_thread *t)
{
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	int can = can_give(t);
	if (can) {
		t->gone = xr_oldest_chunk(t);
		xr_arena_shrunk(t);
		struct xr_chunk *c = chunk_at(t, t->gone);
		if (__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST))
			xr_above.later_save(t, c);
		__atomic_store_n(&c->seq, 0, __ATOMIC_RELEASE);
		give_back(t, c, 1);
		hold_only(t, t->holds - 1);
	}
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	return can;
}

/* Frees memory of a chunk for t, or for a new thread if t is null. Returns 0 if all threads need theirs. The
 * caller holds XR_LOCK_THREADS. */
static int make_room(struct xr_thread *t)
{
	uint64_t now = xr_rdtsc();
	if (now >= state.look_at) {
		reap();
		state.look_at = now + PAUSE;
	}
	if (left())
		return 1;
	if (state.dead.n) {
		bury_oldest();
		return 1;
	}
	struct xr_thread *richest = NULL;
	for (uint64_t i = 0; i < state.live.n; i++) {
		struct xr_thread *other = state.live.of[i];
		if (other != t && can_give(other) && (!richest || kept(other) > kept(richest)))
			richest = other;
	}
	/* Among equals, each keeps what it has. */
	if (richest && (!t || kept(richest) > kept(t) + 1))
		return take_from(richest);
	return t && take_from(t);
}

/* Sees to it that the next chunk of t has memory within the limit. Sets *clean if it is new. Returns 0 if there
 * is none. */
static int take_memory(struct xr_thread *t, int *clean)
{
	if (!xr_memory.limit || xr_arena_streams() || kept(t) == t->nchunks)
		return 1;
	int ok;
	/* A process that may make no system calls cannot release memory. */
	for (ok = 1; ok && !(*clean = hold(t, 1)); ) {
		/* Comparing all threads takes time that grows with their number. */
		int has_share = kept(t) * state.live.n >= xr_memory.limit;
		if (has_share && !state.dead.n && !xr_sealed && xr_rdtsc() < state.look_at && take_from(t))
			continue;
		xr_lock(XR_LOCK_THREADS);
		ok = !xr_sealed && make_room(t);
		xr_unlock(XR_LOCK_THREADS);
	}
	if (!ok && t->taken > 1 && !t->gone && t->taken < t->nchunks) {
		t->nchunks = t->fresh = t->taken; /* of the memory that it has */
		xr_arena_shrunk(t);
		return 1;
	}
	return ok;
}

/* Returns how many chunks a new thread holds, and how many its ring may have: a chunk of a ring that grows, or
 * all of what is needed until the observer has written the first of them. */
static uint64_t share(uint64_t *nchunks)
{
	enum { PARTS = 64 };
	*nchunks = xr_root.nchunks;
	if (!xr_memory.limit || !xr_arena_streams())
		return 1;
	uint64_t n = left() / PARTS;
	if (n < *nchunks)
		*nchunks = n < 2 ? 2 : n;
	return *nchunks;
}

/* Returns whether there is no memory within the limit for another thread. */
static int is_scarce(void)
{
	uint64_t n;
	return xr_memory.limit && share(&n) > left();
}

/* Returns a struct that is free. If threads end faster than the observer writes, waits for it instead of
 * giving each new thread memory of its own. */
static struct xr_thread *free_thread(void)
{
	enum { ROUNDS = 200, PATIENCE = 100000 /* ns */ };
	for (int i = 0; (!state.free.n || is_scarce()) && state.dead.n && !xr_sealed; i++) {
		bury_done();
		int scarce = is_scarce();
		if ((state.free.n && !scarce) || !xr_arena_streams() || (!scarce && state.dead_bytes < xr_root.ring_budget / 2))
			break;
		xr_arena_hurry();
		if (i == ROUNDS || (!scarce && state.dead_bytes < xr_root.ring_budget))
			break;
		struct { int64_t s, ns; } patience = {0, PATIENCE};
		xr_sys2(SYS_nanosleep, (intptr_t)&patience, 0);
	}
	return state.free.n ? state.free.of[--state.free.n] : NULL;
}

uint64_t xr_ended_lost(void) { return __atomic_load_n(&state.lost, __ATOMIC_RELAXED); }

void xr_reap(void)
{
	if (!process)
		return;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_THREADS);
	reap();
	xr_unlock(XR_LOCK_THREADS);
	xr_restore_signals(signals);
}

/* Marks as dead any other thread with this ID, because the living thread has it now. */
static void mark_namesake_dead(uint32_t tid)
{
	for (uint64_t i = state.live.n; i-- > 0;)
		if (state.live.of[i]->tid == tid) {
			struct xr_thread *t = take_out(&state.live, i);
			mark_dead(t);
			push(&state.dead, t);
			state.dead_bytes += ring_bytes(t);
		}
}

/* Gives a struct to the calling thread. Returns null if there is no ring for it. */
static struct xr_thread *equip(struct xr_thread *t, uint32_t pid, uint32_t tid)
{
	uint64_t nchunks, n = share(&nchunks);
	t->tid = tid;
	t->pid = pid;
	t->cursor = t->first = t->last = t->depth = t->frames[0] = t->nopen = 0;
	t->dropped = t->truncated = t->streamed = t->late = 0;
	if (t->room)
		*t->room = 0;
	xr_budget_attach(t, 0);
	xr_fibers_attach(t);
	int held;
	/* Other threads may take what this one makes room for. */
	while (!(held = hold(t, n)) && !xr_arena_streams() && !xr_sealed && make_room(NULL))
		;
	if (held && (!xr_observed() || xr_arena_attach(t, nchunks)))
		return t;
	if (held)
		hold_only(t, 0);
	push(&state.free, t);
	return NULL;
}

/* Gives the calling thread a struct. A child of vfork is not a thread of this process: it uses
 * the struct of the thread that waits for it, but does not get its own. */
static struct xr_thread *attach(void)
{
	enum { MANY = 256 };
	uint32_t pid = xr_sealed ? xr_root.pid : xr_sys0(SYS_getpid), tid = xr_thread_id();
	if (!process || pid != xr_root.pid || !tid)
		return NULL;
	xr_lock(XR_LOCK_THREADS);
	mark_namesake_dead(tid);
	if ((state.live.n >= state.reap_at || (is_scarce() && !state.dead.n)) && !xr_sealed)
		reap();
	if (is_scarce() && !xr_arena_streams() && !xr_sealed)
		make_room(NULL);
	struct xr_thread *t = free_thread();
	if (!t)
		t = new_thread();
	if (t)
		t = equip(t, pid, tid);
	/* There may be memory, but no addresses for another ring. */
	if (!t && xr_memory.limit && state.dead.n && !xr_arena_streams() && !xr_sealed) {
		bury_oldest();
		t = equip(state.free.of[--state.free.n], pid, tid);
	}
	if (t) {
		xr_offcpu_attach(t, ++state.attached > MANY && state.attached > 4 * state.live.n);
		t->state = XR_THREAD_LIVE;
		push(&state.live, t);
		xr_tls = t;
	} else {
		__atomic_store_n(&state.next_try, xr_rdtsc() + PAUSE, __ATOMIC_RELAXED);
	}
	xr_unlock(XR_LOCK_THREADS);
	return t;
}

/* Replaces the parent's ring in a forked child with private memory. */
static void leave_ring(struct xr_thread *t)
{
	uint64_t size = t->nchunks * XR_CHUNK_SIZE;
	xr_sys6(SYS_mmap, (intptr_t)t->ring, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	xr_sys3(SYS_madvise, (intptr_t)t->ring, size, MADV_WIPEONFORK);
	if (state.dont_dump)
		xr_sys3(SYS_madvise, (intptr_t)t->ring, size, MADV_DONTDUMP);
}

void xr_ring_forked(void)
{
	int shared = xr_share_forked();
	for (uint64_t i = 0; i < xr_root.nthreads && !xr_observed(); i++) {
		assign_ring(xr_root.threads[i]);
		if (shared)
			leave_ring(xr_root.threads[i]);
	}
	uint32_t parent = xr_root.pid;
	/* Another thread may have been changing the lists. */
	state.live.n = state.dead.n = state.free.n = state.dead_bytes = 0;
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		push(&state.free, xr_root.threads[i]);
	state.reap_at = state.next_try = state.look_at = state.lost = 0;
	xr_memory.used = xr_memory.peak = xr_memory.given = xr_memory.given_chunks = 0;
	/* Those of threads that the child does not have. */
	uint64_t here = (uintptr_t)&parent - (uintptr_t)stacks.of;
	__atomic_store_n(&stacks.taken, here < sizeof stacks.of ? 1u << here / STACK_SIZE : 0, __ATOMIC_RELAXED);
	xr_root.dropped = 0;
	xr_root.pid = xr_sealed ? xr_thread_id() : (uint32_t)xr_sys0(SYS_getpid);
	xr_root.min_tsc = xr_rdtsc();
	xr_arena_forked(parent);
	xr_tls = NULL;
	__atomic_store_n(&process->here, 1, __ATOMIC_RELEASE);
}

/* Chunks. */

/* Writes a stamp record at p and advances the cursor. */
static void put_stamp(struct xr_thread *t, uint8_t *p, uint64_t tsc, uint32_t cpu)
{
	uint64_t *q = (uint64_t *)p;
	q[0] = XR_REC_STAMP << 1 | 1 | (uint64_t)(cpu & 0xfff) << 16;
	q[1] = tsc << 1 | 1;
	t->epoch = tsc >> 32;
	t->cpu = cpu;
	__atomic_store_n(&t->cursor, (uintptr_t)p + STAMP_SIZE, __ATOMIC_RELEASE);
}

/* Clears a chunk that was used before. Behind what was used, there is at most a part of a record. */
static void clear(struct xr_chunk *c)
{
	enum { RECORD = 2 * XR_MAX_PAYLOAD };
	uint64_t n = c->used && c->used < XR_CHUNK_SIZE - RECORD ? c->used + RECORD : XR_CHUNK_SIZE;
	xr_zero(&c->first, n - offsetof(struct xr_chunk, first));
}

/* Takes the next chunk of the ring. With the number of the current chunk, starts that one
 * again. clean says that its memory is zero. */
static void begin_chunk(struct xr_thread *t, uint64_t number, int clean)
{
	struct xr_chunk *c = chunk_at(t, number);
	if (!clean && __atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST))
		xr_above.later_save(t, c);
	__atomic_store_n(&c->seq, 2 * number - 1, __ATOMIC_RELEASE);
	if (!clean && number > t->fresh) /* writing would allocate unused pages */
		clear(c);
	c->tid = t->tid;
	c->pid = t->pid;
	c->thread = t;
	c->magic = XR_CHUNK_MAGIC;
	c->streamed = XR_CHUNK_HEADER;
	if (!xr_sealed)
		xr_sys2(SYS_prctl, PR_GET_NAME, (intptr_t)t->name);
	uint64_t now = start_clocks(c);
	__atomic_store_n(&c->seq, 2 * number, __ATOMIC_RELEASE);
	put_stamp(t, (uint8_t *)c + XR_CHUNK_HEADER, now, current_cpu(t));
	xr_fiber_again(t, now);
	t->taken = number;
}

/* Loses the records of the current chunk, which is to be taken again. Returns its number. */
static uint64_t begin_again(struct xr_thread *t)
{
	t->dropped += xr_above.count_records(chunk_at(t, t->taken));
	t->fresh = 0;
	t->cursor = 0;
	return t->taken;
}

static void take_chunk(struct xr_thread *t)
{
	enum { measured = 4 }; /* measure one chunk in 4 */
	uint64_t number = t->taken + 1;
	uint64_t cpu = number % measured ? 0 : xr_thread_cpu_ns();
	int clean = 0;
	if (t->slot && !xr_arena_room(t))
		number = begin_again(t);
	if (t->slot && xr_arena_lost())
		xr_above.lost_observer();
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	uint64_t now = xr_rdtsc();
	if (t->taken) {
		struct xr_chunk *old = chunk_at(t, t->taken);
		old->last = t->last = now;
		old->used = XR_CHUNK_SIZE - room(t);
		if (xr_root.stream)
			xr_above.stream(t, 0);
	} else {
		t->first = t->last = now;
		if (!t->slot)
			xr_share_ring(t);
	}
	if (xr_memory.limit && t->taken && number > t->taken) {
		xr_unlock_one(XR_LOCK_THREAD, &t->lock);
		if (!take_memory(t, &clean))
			number = begin_again(t);
		xr_lock_one(XR_LOCK_THREAD, &t->lock);
	}
	begin_chunk(t, number, clean);
	xr_share_thread(t);
	xr_arena_thread(t);
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	if (cpu)
		xr_spend(&xr_spent.chunks_ns, measured, cpu);
}

static int make_counters(struct xr_thread *t)
{
	if (xr_limited)
		xr_budget_attach(t, 1);
	if (t->ncounters > xr_root.max_function)
		return 1;
	uint64_t n = 1 << 16;
	while (n <= xr_root.max_function)
		n *= 2;
	uint64_t *counters = xr_keep(n * sizeof *counters);
	if (!counters)
		return 0;
	/* The old counters stay mapped for readers outside the process. */
	for (uint64_t i = 0; i < t->ncounters; i++)
		if (t->counters[i])
			counters[i] = t->counters[i];
	__atomic_store_n(&t->counters, counters, __ATOMIC_RELEASE);
	__atomic_store_n(&t->ncounters, n, __ATOMIC_RELEASE);
	xr_arena_tables(t);
	return 1;
}

void xr_count_anew(void)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_THREADS);
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		struct xr_thread *t = xr_root.threads[i];
		for (uint64_t id = 0; id < t->ncounters; id++)
			if (t->counters[id]) /* writing would allocate unused pages */
				t->counters[id] = 0;
		/* A thread that already has counters would not ask for a table of noted calls. */
		if (t->state == XR_THREAD_LIVE)
			make_counters(t);
	}
	xr_unlock(XR_LOCK_THREADS);
	xr_restore_signals(signals);
}

/* Writes a stamp if the previous one is no longer valid. */
static void renew_stamp(struct xr_thread *t)
{
	uint64_t now = xr_rdtsc();
	uint32_t cpu = current_cpu(t);
	if (t->epoch != now >> 32 || t->cpu != cpu)
		put_stamp(t, (uint8_t *)t->cursor, now, cpu);
}

/* A switch event: metadata in the form of a custom event. */
struct switch_event {
	uint64_t head, tsc;
	char magic[4];
	uint16_t schema, kind;
	struct xr_switch body;
	uint64_t trailer;
};
enum { SWITCH_SIZE = sizeof(struct switch_event), SWITCH_PAYLOAD = SWITCH_SIZE - 24 };
_Static_assert(SWITCH_PAYLOAD == 48, "");

/* Checks whether the kernel interrupted the thread and why, and records any time off the CPU.
 * took says that the thread took a chunk. The chunk has room for the record. */
static void note_switch(struct xr_thread *t, int took)
{
	uint64_t now = xr_rdtsc(); /* no switch after this moment is recorded */
	int interfered = xr_interfered(t);
	if (interfered)
		xr_offcpu_keep(t, took);
	if (!t->off.keeps)
		return;
	if (interfered && t->off.kept.off == XR_UNKNOWN)
		now = xr_rdtsc();
	else if (interfered && t->off.checked > now)
		now = t->off.checked;
	struct switch_event e = {
		.head = XR_REC_CUSTOM << 1 | 1 | (uint64_t)SWITCH_PAYLOAD << 32, .magic = {'X', 'R', 'Y', 'M'}, .schema = 1,
		.kind = XR_META_SWITCH, .body = t->off.kept, .tsc = now << 1 | 1, .trailer = XR_TRAILER | SWITCH_PAYLOAD << 1 | 1,
	};
	t->off.keeps = 0;
	xr_copy((void *)t->cursor, &e, sizeof e);
	__atomic_store_n(&t->cursor, t->cursor + sizeof e, __ATOMIC_RELEASE);
}

/* Implements xr_slow. The caller blocks signals. */
static struct xr_thread *prepare(uint64_t n)
{
	if (xr_is_forked())
		xr_above.forked();
	struct xr_thread *t = xr_tls;
	if (!t) {
		xr_above.open_pending();
		t = attach();
	}
	xr_offcpu_settle();
	if (!t)
		return NULL;
	/* The caller knows its mode. xr_root.mode may have changed since. */
	if (n == XR_COUNTERS)
		return make_counters(t) ? t : NULL;
	if (n == XR_PATHS)
		return xr_profile_make(t) ? t : NULL;
	if (n == XR_SUMS)
		return xr_sums_make(t) ? t : NULL;
	xr_offcpu_resume(t);
	/* Off-CPU time before taking a chunk belongs before the event. */
	int take = room(t) < n + STAMP_SIZE + (xr_interfered(t) || t->off.keeps ? SWITCH_SIZE : 0);
	if (take) {
		xr_offcpu_keep(t, 0);
		take_chunk(t);
	} else {
		renew_stamp(t);
	}
	if (room(t) >= n + SWITCH_SIZE)
		note_switch(t, take);
	xr_offcpu_looked(t);
	return t;
}

void xr_drop(void)
{
	__atomic_fetch_add(&xr_root.dropped, 1, __ATOMIC_RELAXED);
	xr_arena_dropped();
}

uint32_t xr_some_forbid_tsc;

/* Returns whether the thread may not read the TSC because the one that created it may not. */
static int inherits_prohibition(void)
{
	int state = PR_TSC_ENABLE;
	if (xr_sealed || xr_sys2(SYS_prctl, PR_GET_TSC, (intptr_t)&state) || state == PR_TSC_ENABLE)
		return 0;
	xr_mute();
	xr_tsc_forbidden = 1;
	return 1;
}

static uint64_t slow(uint64_t n, uint64_t b, uint64_t c, uint64_t d)
{
	(void)b, (void)c, (void)d;
	return prepare(n) != NULL;
}

int xr_slow(uint64_t n)
{
	if (xr_muted || (!xr_tls && xr_some_forbid_tsc && inherits_prohibition()))
		return 0;
	if (!xr_tls && xr_rdtsc() < __atomic_load_n(&state.next_try, __ATOMIC_RELAXED)) {
		xr_drop();
		return 0;
	}
	int done = xr_inside(slow, n, 0, 0, 0);
	if (!done)
		xr_drop();
	return done;
}

uint8_t *xr_reserve(uint32_t n, uint64_t *tsc)
{
	struct xr_thread *t = prepare(n);
	if (!t) {
		xr_drop();
		return NULL;
	}
	*tsc = xr_rdtsc();
	return (uint8_t *)t->cursor;
}

void xr_commit(uint32_t n)
{
	__atomic_store_n(&xr_tls->cursor, xr_tls->cursor + n, __ATOMIC_RELEASE);
}

/* Depth mode. The address of its return address identifies an open call. The stack grows
 * downwards, so frames below that of an event have been left, by a return or by longjmp. Only
 * recorded calls are kept, so there are at most xr_root.depth. */
uint32_t xr_when;

/* If calls have conditions, a call that is inside none begins only if its condition holds, or if it continues one that
 * has ended in a tail call: its return address is the same, at the same place. While no call is open, frames
 * has both. */
static void note_tail(volatile uint64_t *frames, uint64_t frame)
{
	frames[0] = frame;
	frames[1] = frame ? *(const uint64_t *)frame : 0;
}

static int continues(volatile uint64_t *frames, uint64_t frame)
{
	int same = frames[0] == frame && frames[1] == *(const uint64_t *)frame;
	frames[0] = 0;
	return same;
}

/* Opens the call whose return address is at frame, inside n others. */
static void open_call(struct xr_thread *t, uint64_t n, uint64_t frame)
{
	volatile uint64_t *frames = t->frames, *depth = &t->depth;
	/* A signal handler that runs between the two stores leaves its own frame there. */
	do {
		frames[n] = frame;
		*depth = n + 1;
	} while (frames[n] != frame);
}

int xr_depth_asks(void) { return xr_when && xr_tls && !xr_tls->depth; }

int xr_depth_begins(uint64_t frame)
{
	open_call(xr_tls, 0, frame);
	return 1;
}

int xr_depth_wants(uint32_t word, uint64_t sp)
{
	struct xr_thread *t = xr_tls;
	if (!t) {
		if (!xr_slow(8))
			return 0;
		t = xr_tls;
	}
	uint32_t kind = word >> 1 & 7;
	uint64_t frame = kind == XR_EXIT ? sp : sp + 8; /* exits jump, the others call */
	volatile uint64_t *frames = t->frames, *depth = &t->depth;
	uint64_t n = *depth;
	if (kind == XR_EXIT || kind == XR_TAIL) {
		while (n && frames[n - 1] < frame)
			n--;
		int open = n && frames[n - 1] == frame;
		*depth = n - open;
		if (xr_when && n == (uint64_t)open)
			note_tail(frames, open && kind == XR_TAIL ? frame : 0);
		return open;
	}
	while (n && frames[n - 1] <= frame)
		n--;
	*depth = n;
	if (n >= xr_root.depth || (!n && xr_when && !continues(frames, frame)))
		return 0;
	open_call(t, n, frame);
	return 1;
}

int xr_depth_open_at(uint64_t slot, uint64_t *depth)
{
	const uint64_t *frames = xr_tls->frames;
	while (*depth && slot - frames[*depth - 1] - 1 < XR_SAME_STACK)
		--*depth;
	if (!*depth || frames[*depth - 1] != slot)
		return 0;
	--*depth;
	return 1;
}

void xr_depth_leave(uint64_t depth) { *(volatile uint64_t *)&xr_tls->depth = depth; }
