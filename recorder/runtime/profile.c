/* Profile mode: a tree of call paths for each thread, with the number of calls, their
 * time and a histogram of it at each path.
 *
 * An open call is known by where its return address is. The stack grows downwards, so
 * calls whose frames are below an event's have been left, by longjmp or an exception if
 * not by an exit. Frames on another stack, as of a signal handler, are far away.
 *
 * Nothing here calls libc or uses vector registers. A signal handler may come between
 * any two instructions and record too: what it does is balanced, and a call is open as
 * soon as the depth says so. */
#include "arena.h"
#include "internal.h"
#include "landings.h"
#include "ring.h"
#include "syscall.h"
#include "trace.h"

/* Calls deeper than that are not told apart: their time is that of the deepest one. */
enum { MAX_OPEN = 1024 };

/* All threads together have so many paths at most: 50 MB. */
enum { MAX_PATHS = 1 << 17 };

/* A path: a function called through the path of its parent. */
struct path {
	struct path *parent, *child, *sibling;
	uint32_t id, number;           /* of the function; of the path in its thread, from 0 */
	uint64_t ticks, min, max;      /* of calls that ended */
	uint64_t left, left_ticks;     /* calls that had not ended with their thread */
	uint64_t calls[XR_PROFILE_OCTAVES]; /* that ended, by the length of their ticks in bits */
};

enum { PAGE_PATHS = 170 };
struct page {
	struct page *next;
	struct path paths[PAGE_PATHS];
};

struct frame {
	uint64_t at;       /* where the return address is */
	uint64_t start;    /* TSC */
	struct path *path;
};

struct xr_profile {
	uint64_t depth;    /* open calls in frames */
	uint64_t last;     /* TSC of the latest event */
	uint64_t lost;     /* calls without a path: too deep, or no room */
	uint32_t tid;      /* owner of the open calls */
	uint32_t owners;   /* threads that had this profile, one after the other */
	uint32_t searching; /* paths may be moved */
	uint32_t npaths;
	uint64_t first;    /* TSC of the first event */
	struct page *pages, *page; /* the first and the latest */
	struct path top;   /* what outermost calls are called by */
	struct frame frames[MAX_OPEN];
};

static uint32_t npaths, npaths_pid;

int xr_profile_make(struct xr_thread *t)
{
	if (t->profile)
		return 1;
	struct xr_profile *p = xr_keep(sizeof *p);
	if (p)
		__atomic_store_n(&t->profile, p, __ATOMIC_RELEASE);
	xr_arena_tables(t);
	return p != NULL;
}

/* The observer reads these. recorder/observed_profile_linux.go has the same layout. */
_Static_assert(sizeof(struct path) == 72 + 8 * XR_PROFILE_OCTAVES, "");
_Static_assert(offsetof(struct path, id) == 24 && offsetof(struct path, left_ticks) == 64, "");
_Static_assert(offsetof(struct page, paths) == 8, "");
_Static_assert(offsetof(struct xr_profile, npaths) == 36 && offsetof(struct xr_profile, pages) == 48, "");
_Static_assert(offsetof(struct xr_profile, top) == 64, "");
_Static_assert(offsetof(struct xr_profile, frames) == 64 + sizeof(struct path), "");

/* Paths. */

static struct path *find(struct path *parent, uint32_t id)
{
	struct path *c = parent->child;
	while (c && c->id != id)
		c = c->sibling;
	return c;
}

/* Whether one more path can be had; a forked child begins with none. */
static int reserve_path(void)
{
	if (__atomic_exchange_n(&npaths_pid, root.pid, __ATOMIC_RELAXED) != root.pid)
		__atomic_store_n(&npaths, 0, __ATOMIC_RELAXED);
	if (__atomic_load_n(&npaths, __ATOMIC_RELAXED) >= MAX_PATHS)
		return 0;
	__atomic_fetch_add(&npaths, 1, __ATOMIC_RELAXED);
	return 1;
}

/* Signals are blocked. */
static struct path *make_path(struct xr_profile *p, struct path *parent, uint32_t id)
{
	uint32_t at = p->npaths % PAGE_PATHS;
	if (!reserve_path())
		return NULL;
	if (!at) {
		struct page *page = xr_keep(sizeof *page);
		if (!page)
			return NULL;
		__atomic_store_n(p->page ? &p->page->next : &p->pages, page, __ATOMIC_RELEASE);
		p->page = page;
	}
	struct path *c = &p->page->paths[at];
	c->parent = parent;
	c->id = id;
	c->number = p->npaths;
	c->min = UINT64_MAX;
	c->sibling = parent->child;
	parent->child = c;
	__atomic_store_n(&p->npaths, p->npaths + 1, __ATOMIC_RELEASE);
	return c;
}

static struct path *add_path(struct xr_profile *p, struct path *parent, uint32_t id)
{
	uint64_t signals;
	if (!xr_enter(&signals))
		return NULL;
	struct path *c = find(parent, id);
	if (!c)
		c = make_path(p, parent, id);
	xr_leave(signals);
	return c;
}

/* What is called again and again moves to the front; not in a handler that interrupted
 * another search. */
static struct path *search(struct xr_profile *p, struct path *parent, uint32_t id)
{
	uint32_t nested = p->searching;
	p->searching = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	struct path *before = NULL, *c = parent->child;
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

/* Calls. */

/* Ends the innermost open call, the nth. It is read before the depth says that its place
 * is free: a handler takes that. */
static inline void close(struct xr_profile *p, uint64_t n, uint64_t now)
{
	const volatile struct frame *f = &p->frames[n - 1];
	uint64_t start = f->start, ticks = now > start ? now - start : 0;
	struct path *c = f->path;
	*(volatile uint64_t *)&p->depth = n - 1;
	c->ticks += ticks;
	if (ticks < c->min)
		c->min = ticks;
	if (ticks > c->max)
		c->max = ticks;
	unsigned bits = ticks ? 64 - __builtin_clzll(ticks) : 0;
	c->calls[bits < XR_PROFILE_OCTAVES ? bits : XR_PROFILE_OCTAVES - 1]++;
}

/* Whether a call was left that is open at this frame: bound is above it, but near. */
static inline int is_left(const struct frame *f, uint64_t bound) { return bound - f->at - 1 < XR_SAME_STACK; }

/* Opens a call as the nth. */
static inline void open(struct xr_profile *p, uint64_t n, struct path *c, uint64_t at)
{
	/* A handler between the first store and the last leaves its own frame there. */
	volatile struct frame *f = &p->frames[n];
	do {
		f->at = at;
		f->path = c;
		p->last = f->start = xr_rdtsc();
		*(volatile uint64_t *)&p->depth = n + 1;
	} while (f->at != at || f->path != c);
}

static __attribute__((noinline)) void open_other(struct xr_profile *p, uint64_t n, struct path *parent, uint32_t id, uint64_t at)
{
	struct path *c = search(p, parent, id);
	if (c)
		open(p, n, c, at);
	else
		p->lost++;
}

/* Opens a call of the function: in most cases what was called from there the last time.
 * Here and below, what is rare is called last, so that the rest saves no registers. */
static inline void enter(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t bound)
{
	uint64_t n = p->depth;
	for (; n && is_left(&p->frames[n - 1], bound); n--)
		close(p, n, xr_rdtsc());
	if (n == MAX_OPEN) {
		p->lost++;
		return;
	}
	struct path *parent = n ? p->frames[n - 1].path : &p->top, *c = parent->child;
	if (__builtin_expect(c && c->id == id, 1))
		open(p, n, c, at);
	else
		open_other(p, n, parent, id, at);
}

/* Ends the innermost open call of the function, and with it those inside. */
static inline void leave(struct xr_profile *p, uint32_t id, uint64_t at, uint64_t now)
{
	uint64_t n = p->depth, i = n;
	p->last = now;
	if (n == MAX_OPEN && at < p->frames[n - 1].at)
		return; /* it was too deep */
	while (i && (p->frames[i - 1].path->id != id || is_left(&p->frames[i - 1], at)))
		i--;
	for (; i && n >= i; n--)
		close(p, n, now);
}

/* The calls that a thread left open are no longer those of the one that has its
 * profile now. */
static void inherit(struct xr_profile *p, uint32_t tid)
{
	for (uint64_t i = 0; i < p->depth; i++) {
		struct frame *f = &p->frames[i];
		f->path->left++;
		f->path->left_ticks += p->last - f->start;
	}
	p->depth = 0;
	p->tid = tid;
	if (!p->owners++)
		p->first = xr_rdtsc();
}

static __attribute__((noinline)) void first_event(uint32_t word, uint64_t at, uint64_t bound);

static inline __attribute__((always_inline)) void event(uint32_t word, uint64_t at, uint64_t bound)
{
	uint32_t kind = word >> 1 & 7;
	int leaves = kind == XR_EXIT || kind == XR_TAIL;
	uint64_t now = leaves ? xr_rdtsc() : 0; /* an entry's is taken when all is done */
	struct xr_thread *t = xr_tls;
	struct xr_profile *p = t ? t->profile : NULL;
	if (__builtin_expect(!p || p->tid != t->tid, 0))
		first_event(word, at, bound);
	else if (leaves)
		leave(p, word >> 4, at, now);
	else
		enter(p, word >> 4, at, bound);
}

/* The first event of a thread. */
static void first_event(uint32_t word, uint64_t at, uint64_t bound)
{
	if ((!xr_tls || !xr_tls->profile) && !xr_slow(XR_PATHS))
		return;
	inherit(xr_tls->profile, xr_tls->tid);
	event(word, at, bound);
}

void xr_profile_event(uint32_t word, uint64_t sp)
{
	uint32_t kind = word >> 1 & 7;
	uint64_t at = kind == XR_EXIT ? sp : sp + 8; /* exits jump, the others call */
	event(word, at, at + 1);
}

void xr_profile_inlined(uint32_t word, uint64_t sp) { event(word, sp, sp); }

/* The calls of the thread, or null while they are another's. */
static struct xr_profile *own(void)
{
	struct xr_profile *p = xr_tls->profile;
	return p && p->tid == xr_tls->tid ? p : NULL;
}

uint64_t xr_profile_depth(void) { return own() ? own()->depth : 0; }

void xr_profile_open_at(uint64_t slot, uint64_t *depth)
{
	while (*depth && is_left(&own()->frames[*depth - 1], slot + 1))
		--*depth;
}

void xr_profile_leave(uint64_t depth)
{
	struct xr_profile *p = own();
	if (!p || p->depth <= depth)
		return;
	uint64_t now = xr_rdtsc();
	for (uint64_t n = p->depth; n > depth; n--)
		close(p, n, now);
	p->last = now;
}

uint64_t xr_profile_lost(void)
{
	uint64_t sum = 0, n = __atomic_load_n(&root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		sum += p ? p->lost : 0;
	}
	return sum;
}

/* The dump; docs/format.md describes it. */

struct row {
	uint32_t id, parent;
	uint64_t ticks, min, max, open, open_ticks, octaves;
};

struct sums {
	uint64_t open, ticks;
};

/* Adds up the calls that are open, by path. They last until the latest event. */
static void add_open(struct sums *sums, const struct xr_profile *p, uint32_t n)
{
	uint64_t depth = __atomic_load_n(&p->depth, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < depth && i < MAX_OPEN; i++) {
		const struct frame *f = &p->frames[i];
		if (!f->path || f->path->number >= n)
			continue;
		struct sums *s = &sums[f->path->number];
		s->open++;
		if (p->last > f->start)
			s->ticks += p->last - f->start;
	}
}

static void put_path(void (*put)(void *to, const void *p, uint64_t n), void *to, const struct path *c,
		     const struct xr_profile *p, const struct sums *open)
{
	uint64_t calls[XR_PROFILE_OCTAVES], n = 0;
	struct row row = {
		.id = c->id,
		.parent = c->parent == &p->top ? 0 : c->parent->number + 1,
		.ticks = c->ticks, .min = c->max ? c->min : 0, .max = c->max,
		.open = c->left + open->open, .open_ticks = c->left_ticks + open->ticks,
	};
	for (unsigned i = 0; i < XR_PROFILE_OCTAVES; i++) {
		uint64_t k = __atomic_load_n(&c->calls[i], __ATOMIC_RELAXED);
		if (!k)
			continue;
		calls[n++] = k;
		row.octaves |= 1ull << i;
	}
	put(to, &row, sizeof row);
	put(to, calls, n * sizeof *calls);
}

static void put_thread(void (*put)(void *to, const void *p, uint64_t n), void *to, const struct xr_thread *t,
		       const struct xr_profile *p)
{
	uint32_t n = __atomic_load_n(&p->npaths, __ATOMIC_ACQUIRE);
	uint64_t room = n * sizeof(struct sums);
	struct sums *open = n ? xr_map(room) : NULL;
	if (!open)
		n = 0;
	/* The threads of a profile that several had, one after the other, have no common id. */
	struct { uint32_t pid, tid; uint64_t first, last, lost, n; } head = {
		root.pid, p->owners > 1 ? 0 : t->tid, p->first, p->last, p->lost, n,
	};
	put(to, &head, sizeof head);
	if (!n)
		return;
	add_open(open, p, n);
	const struct page *page = p->pages;
	for (uint32_t i = 0; i < n; i++) {
		if (i && i % PAGE_PATHS == 0)
			page = page->next;
		put_path(put, to, &page->paths[i % PAGE_PATHS], p, &open[i]);
	}
	xr_unmap(open, room);
}

void xr_profile_dump(void (*put)(void *to, const void *p, uint64_t n), void *to)
{
	uint64_t n = __atomic_load_n(&root.nthreads, __ATOMIC_ACQUIRE), profiles = 0;
	struct xr_thread **threads = __atomic_load_n(&root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++)
		profiles += threads[i]->profile != NULL;
	put(to, &profiles, sizeof profiles);
	for (uint64_t i = 0; i < n && profiles; i++) {
		const struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		if (!p)
			continue;
		put_thread(put, to, threads[i], p);
		profiles--;
	}
}
