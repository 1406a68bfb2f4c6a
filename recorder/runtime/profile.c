/* Profile mode: a tree of call paths for each thread. Each path has its number of calls, their
 * time, and a histogram. Calls without a path are in folded.c.
 *
 * The address of its return address identifies an open call. The stack grows downwards, so
 * calls whose frames are below an event's have been left, by an exit, longjmp or an exception.
 * Frames on another stack, such as a signal handler's, are far away. A call that goes on in its tail call
 * shares the place, and ends with it.
 *
 * Nothing here calls libc or uses vector registers. A signal handler may run between any two
 * instructions and record too. Its calls are balanced, and a call counts as open as soon as the
 * depth includes it. */
#include "arena.h"
#include "layout.h"
#include "offcpu.h"
#include "profile.h"
#include "ring.h"
#include "syscall.h"
#include "tailcalls.h"

/* Deeper calls are lost. At this depth the stack is over 64 MB. */
enum { MAX_DEEP = 1 << 22 };

int xr_profile_make(struct xr_thread *t)
{
	if (t->profile)
		return 1;
	struct xr_profile *p = xr_keep(sizeof *p);
	if (p) {
		p->top.parent = &p->top;
		p->near = XR_PATH_DEPTH;
		__atomic_store_n(&t->profile, p, __ATOMIC_RELEASE);
	}
	xr_arena_tables(t);
	return p != NULL;
}

/* Paths. */

int xr_quota_is_left(struct xr_quota *q, uint32_t most)
{
	if (__atomic_load_n(&q->pid, __ATOMIC_RELAXED) != xr_root.pid) {
		__atomic_store_n(&q->taken, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&q->pid, xr_root.pid, __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&q->taken, __ATOMIC_RELAXED) < most;
}

int xr_quota_take(struct xr_quota *q, uint32_t most)
{
	if (xr_quota_is_left(q, most) && __atomic_fetch_add(&q->taken, 1, __ATOMIC_RELAXED) < most)
		return 1;
	__atomic_store_n(&q->taken, most, __ATOMIC_RELAXED);
	return 0;
}

static struct xr_quota paths;

static struct xr_path *find(struct xr_path *parent, uint32_t id)
{
	struct xr_path *c = parent->child;
	while (c && c->id != id)
		c = c->sibling;
	return c;
}

/* The caller blocks signals. */
static struct xr_path *make_path(struct xr_profile *p, struct xr_path *parent, uint32_t id)
{
	uint32_t at = p->npaths % XR_PAGE_PATHS;
	if (!xr_quota_take(&paths, XR_MAX_PATHS))
		return NULL;
	if (!at) {
		struct xr_path_page *page = xr_keep(sizeof *page);
		if (!page)
			return NULL;
		__atomic_store_n(p->page ? &p->page->next : &p->pages, page, __ATOMIC_RELEASE);
		p->page = page;
	}
	struct xr_path *c = &p->page->paths[at];
	c->parent = parent;
	c->id = id;
	c->number = p->npaths;
	c->min = UINT64_MAX;
	c->sibling = parent->child;
	parent->child = c;
	__atomic_store_n(&p->npaths, p->npaths + 1, __ATOMIC_RELEASE);
	return c;
}

static uint64_t add_inside(uint64_t p, uint64_t parent, uint64_t id, uint64_t d)
{
	struct xr_path *c = find((struct xr_path *)parent, id);
	(void)d;
	return (uintptr_t)(c ? c : make_path((struct xr_profile *)p, (struct xr_path *)parent, id));
}

static struct xr_path *add_path(struct xr_profile *p, struct xr_path *parent, uint32_t id)
{
	if (!xr_quota_is_left(&paths, XR_MAX_PATHS))
		return NULL;
	return (struct xr_path *)xr_inside(add_inside, (uintptr_t)p, (uintptr_t)parent, id, 0);
}

/* Moves frequently called functions to the front, but not in a handler that interrupted another
 * search. */
static struct xr_path *search(struct xr_profile *p, struct xr_path *parent, uint32_t id)
{
	uint32_t nested = p->searching;
	p->searching = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	struct xr_path *before = NULL, *c = parent->child;
	while (c && c->id != id) {
		before = c;
		c = c->sibling;
	}
	if (c && before && !nested) {
		before->sibling = c->sibling;
		c->sibling = parent->child;
		parent->child = c;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	p->searching = nested;
	return c ? c : add_path(p, parent, id);
}

/* Calls. Usually all open calls have paths. Then there are at most near of them, and the
 * functions below run with folded as 0, which skips the checks for calls without a path. */

static inline __attribute__((always_inline)) struct xr_frame *frame_at(struct xr_profile *p, uint64_t n, int folded)
{
	return folded ? xr_frame_at(p, n) : &p->frames[n];
}

/* Ends the innermost open call, the nth. Reads it before the depth frees its place, because a
 * signal handler may reuse the place. */
static inline __attribute__((always_inline)) void end_call(struct xr_profile *p, uint64_t n, uint64_t now, int folded)
{
	const volatile struct xr_frame *f = frame_at(p, n - 1, folded);
	uint64_t start = f->start, ticks = now > start ? now - start : 0;
	struct xr_path *c = f->path;
	if (folded && xr_is_folded(c))
		xr_fold_ended(p, n, ticks);
	*(volatile uint64_t *)&p->depth = n - 1;
	c->ticks += ticks;
	if (ticks < c->min)
		c->min = ticks;
	if (ticks > c->max)
		c->max = ticks;
	unsigned bits = ticks ? 64 - __builtin_clzll(ticks) : 0;
	c->calls[bits < XR_PROFILE_OCTAVES ? bits : XR_PROFILE_OCTAVES - 1]++;
}

/* Returns whether the call open at this frame has been left: bound is above the frame, but
 * near. */
static inline int is_left(const struct xr_frame *f, uint64_t bound) { return bound - f->at - 1 < XR_SAME_STACK; }

/* Set in the address of a call that goes on in its tail call, whose return address is at the same place. To
 * is_left, the call is further out then. */
enum { GOES_ON = 1 };

/* Opens a call, with n calls open before it. */
static inline __attribute__((always_inline)) void begin_call(struct xr_profile *p, uint64_t n, struct xr_path *c, uint64_t at, int folded)
{
	/* A handler between the first and the last store leaves its own frame there, and may have
	 * moved the frames. */
	volatile struct xr_frame *f;
	do {
		f = frame_at(p, n, folded);
		f->at = at;
		f->path = c;
		p->last = f->start = xr_rdtsc();
		*(volatile uint64_t *)&p->depth = n + 1;
		f = frame_at(p, n, folded);
	} while (f->at != at || f->path != c);
}

static uint64_t grow_inside(uint64_t profile, uint64_t room, uint64_t c, uint64_t d)
{
	struct xr_profile *p = (struct xr_profile *)profile;
	(void)c, (void)d;
	struct xr_frame *deep = xr_keep(room * sizeof *deep);
	if (deep) {
		/* The old frames stay mapped for readers outside the process. */
		xr_copy(deep, p->deep, p->ndeep * sizeof *deep);
		__atomic_store_n(&p->deep, deep, __ATOMIC_RELEASE);
		__atomic_store_n(&p->ndeep, room, __ATOMIC_RELEASE);
	}
	return deep != NULL;
}

/* Makes room for a call, with n calls open before it. */
static int make_room(struct xr_profile *p, uint64_t n)
{
	enum { LEAST = 1 << 11 };
	uint64_t room = p->ndeep ? 2 * p->ndeep : LEAST;
	if (n < XR_PATH_DEPTH + p->ndeep)
		return 1;
	return room <= MAX_DEEP && xr_inside(grow_inside, (uintptr_t)p, room, 0, 0);
}

/* Opens a call without a path, with n calls open before it. In between, a handler may find that
 * all open calls have paths, so near is set again. */
static void begin_folded(struct xr_profile *p, uint64_t n, struct xr_path *parent, uint32_t id, uint64_t at)
{
	struct xr_path *c = make_room(p, n) ? xr_fold(p, parent, id) : NULL;
	if (!c) {
		p->lost++;
		return;
	}
	uint64_t near = xr_is_folded(parent) ? p->near : n;
	*(volatile uint64_t *)&p->near = near;
	begin_call(p, n, c, at, 1);
	*(volatile uint64_t *)&p->near = near;
	xr_fold_opened(p, n + 1);
}

static __attribute__((noinline)) void begin_other(struct xr_profile *p, uint64_t n, struct xr_path *parent, uint32_t id, uint64_t at)
{
	struct xr_path *c = NULL;
	if (n < XR_PATH_DEPTH && !xr_is_folded(parent))
		c = search(p, parent, id);
	if (c)
		begin_call(p, n, c, at, 0);
	else
		begin_folded(p, n, parent, id, at);
}

/* Opens a call of the function. In most cases, it is the function that was called from there
 * last. Here and below, rare cases are tail calls, so that the common path saves no registers. */
static inline __attribute__((always_inline)) void enter(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t bound, int folded)
{
	uint64_t n = p->depth;
	for (; n && is_left(frame_at(p, n - 1, folded), bound); n--)
		end_call(p, n, xr_rdtsc(), folded);
	struct xr_path *parent = n ? frame_at(p, n - 1, folded)->path : &p->top, *c = parent->child;
	if (__builtin_expect(c && c->id == id, 1))
		begin_call(p, n, c, at, 0);
	else
		begin_other(p, n, parent, id, at);
}

/* Ends the innermost open call of the function, and all calls inside it. */
static inline __attribute__((always_inline)) void leave(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t now, int folded)
{
	uint64_t n = p->depth, i = n;
	p->last = now;
	while (i && (frame_at(p, i - 1, folded)->path->id != id || is_left(frame_at(p, i - 1, folded), at)))
		i--;
	for (; i && n >= i; n--)
		end_call(p, n, now, folded);
	/* Those that went on in this one. */
	while (__builtin_expect(n && frame_at(p, n - 1, folded)->at == (at | GOES_ON), 0))
		end_call(p, n--, now, folded);
}

/* Keeps the innermost open call open if it goes on in its tail call. Returns 0 if the call ends. */
static __attribute__((noinline)) int stays(struct xr_profile *p, uint32_t id, uint64_t at, uint32_t target)
{
	uint64_t n = p->depth;
	struct xr_frame *f = n ? &p->frames[n - 1] : NULL;
	if (!f || n > p->near || f->at != at || f->path->id != id)
		return 0;
	int loop = 0;
	uint64_t i = n;
	for (; i && !loop && (p->frames[i - 1].at & ~(uint64_t)GOES_ON) == at; i--)
		loop = p->frames[i - 1].path->id == target;
	for (; loop && i < n; i++)
		xr_tail_loop(p->frames[i].path->id);
	if (loop)
		return 0;
	f->at = at | GOES_ON;
	p->last = xr_rdtsc();
	return 1;
}

/* Recomputes near. There are more open calls than near, so the innermost should have no path.
 * If it has one, near belongs to calls that have ended. */
static void find_near(struct xr_profile *p)
{
	uint64_t n = p->depth;
	if (n <= XR_PATH_DEPTH && !xr_is_folded(xr_frame_at(p, n - 1)->path))
		*(volatile uint64_t *)&p->near = XR_PATH_DEPTH;
}

static __attribute__((noinline)) void enter_folded(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t bound)
{
	find_near(p);
	enter(p, id, at, bound, 1);
}

static __attribute__((noinline)) void leave_folded(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t now)
{
	const struct xr_frame *f = xr_frame_at(p, p->depth - 1);
	find_near(p);
	if (p->lost && f->at - at - 1 < XR_SAME_STACK)
		p->last = now; /* a lost call */
	else
		leave(p, id, at, now, 1);
}

/* Closes calls that are open although their ends are unknown: those that the previous thread with this
 * profile has left open, and those that a pause has cut. */
static void inherit(struct xr_profile *p, uint32_t tid)
{
	for (uint64_t n = p->depth; n; n--) {
		const struct xr_frame *f = xr_frame_at(p, n - 1);
		uint64_t ticks = p->last - f->start;
		if (xr_is_folded(f->path)) {
			xr_fold_left(p, n, ticks);
			continue;
		}
		uint32_t at = f->path->number % XR_PAGE_PATHS;
		struct xr_left *left = &((struct xr_path_page *)((uint8_t *)(f->path - at) - offsetof(struct xr_path_page, paths)))->left[at];
		left->calls++;
		left->ticks += ticks;
	}
	p->depth = 0;
	p->near = XR_PATH_DEPTH;
	if ((p->tid & ~XR_CUT) != tid && !p->owners++)
		p->first = xr_rdtsc();
	p->tid = tid;
}

static uint64_t switched_inside(uint64_t thread, uint64_t profile, uint64_t c, uint64_t d)
{
	struct xr_profile *p = (struct xr_profile *)profile;
	struct xr_switch s;
	(void)c, (void)d;
	if (xr_offcpu_look((struct xr_thread *)thread, &s)) {
		struct xr_path *path = p->depth ? xr_frame_at(p, p->depth - 1)->path : &p->top;
		uint64_t times = s.voluntary + s.involuntary;
		path->switches += times ? times : 1;
		path->off += s.off == XR_UNKNOWN ? 0 : s.off;
		path->queued += s.queued == XR_UNKNOWN ? 0 : s.queued;
	}
	return 1;
}

/* Adds time off the CPU, if any, to the innermost open call. */
static __attribute__((noinline)) void switched(struct xr_thread *t, struct xr_profile *p)
{
	xr_inside(switched_inside, (uintptr_t)t, (uintptr_t)p, 0, 0);
}

/* Returns the thread's profile, or null if its open calls are another thread's. */
static struct xr_profile *own(void)
{
	struct xr_profile *p = xr_tls->profile;
	return p && p->tid == xr_tls->tid ? p : NULL;
}

static __attribute__((noinline)) void first_event(uint32_t word, uint64_t at, uint64_t bound);

static inline __attribute__((always_inline)) void event(uint32_t word, uint64_t at, uint64_t bound)
{
	uint32_t kind = word >> 1 & 7;
	int leaves = kind == XR_EXIT || kind == XR_TAIL;
	uint64_t now = leaves ? xr_rdtsc() : 0; /* an entry's time is read at the end */
	struct xr_thread *t = xr_tls;
	struct xr_profile *p = t ? t->profile : NULL;
	if (__builtin_expect(!p || p->tid != t->tid, 0)) {
		first_event(word, at, bound);
		return;
	}
	if (__builtin_expect(xr_interfered(t), 0)) {
		switched(t, p);
		now = leaves ? xr_rdtsc() : 0;
	}
	if (__builtin_expect(p->depth > p->near, 0))
		(leaves ? leave_folded : enter_folded)(p, word >> 4, at, leaves ? now : bound);
	else if (leaves)
		leave(p, word >> 4, at, now, 0);
	else
		enter(p, word >> 4, at, bound, 0);
}

/* Handles the first event of a thread. */
static void first_event(uint32_t word, uint64_t at, uint64_t bound)
{
	if ((!xr_tls || !xr_tls->profile) && !xr_slow(XR_PATHS))
		return;
	inherit(xr_tls->profile, xr_tls->tid);
	event(word, at, bound);
}

void xr_profile_event(uint32_t word, uint64_t sp)
{
	uint32_t kind = word >> 1 & 7, target;
	uint64_t at = kind == XR_EXIT ? sp : sp + 8; /* exits jump, the others call */
	if (__builtin_expect(kind == XR_TAIL, 0)) {
		struct xr_profile *p = xr_tls ? own() : NULL;
		if (p && (target = xr_tail_target(word >> 4, *(const uint8_t **)sp)) && stays(p, word >> 4, at, target))
			return;
	}
	event(word, at, at + 1);
}

void xr_profile_inlined(uint32_t word, uint64_t sp) { event(word, sp, sp); }

/* Another thread may cut the profile between any two of these. */
uint64_t xr_profile_depth(void)
{
	struct xr_profile *p = own();
	return p ? p->depth : 0;
}

void xr_profile_open_at(uint64_t slot, uint64_t *depth)
{
	struct xr_profile *p = own();
	while (p && *depth && slot - (xr_frame_at(p, *depth - 1)->at & ~(uint64_t)GOES_ON) < XR_SAME_STACK)
		--*depth;
}

void xr_profile_leave(uint64_t depth)
{
	struct xr_profile *p = own();
	if (!p || p->depth <= depth)
		return;
	uint64_t now = xr_rdtsc();
	for (uint64_t n = p->depth; n > depth; n--)
		end_call(p, n, now, 1);
	p->last = now;
}

/* A thread compares the ID with its own at each event, so it notices the change. */
void xr_profiles_cut(void)
{
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		if (p)
			__atomic_fetch_or(&p->tid, XR_CUT, __ATOMIC_RELAXED);
	}
}

uint64_t xr_profile_lost(void)
{
	uint64_t sum = 0, n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		sum += p ? p->lost : 0;
	}
	return sum;
}
