/* Recording within a budget.
 *
 * A controller decides what to record: the observer or, for a budget of this process alone, the
 * xray process that reads its memory. This file carries out its decisions. Each function has a
 * limit. Once a thread has made this many calls of a function, it only counts further calls, until
 * the controller raises the limit or has the function's sleds switched off. This bounds the cost
 * of a function that is suddenly called often, even before the controller reacts.
 *
 * Threads note which of their open calls were recorded, and record only the exits of these. So
 * entries and exits in a trace always match. The exits of a function stay on while one of its
 * calls is noted. */
#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "counters.h"
#include "hooks.h"
#include "layout.h"
#include "locks.h"
#include "offcpu.h"
#include "options.h"
#include "profile.h"
#include "ring.h"
#include "syscall.h"

uint64_t *xr_limits;
uint32_t *xr_exhausted;
uint32_t xr_limited;

enum { MAX_OPEN = 4095 }; /* maximum number of recorded calls of a thread that are open */

/* Precedes the open calls of a thread. No exit matches it, and it never counts as left. */
static struct xr_kept none[2] = {{UINT64_MAX, 0}};

/* Bits by id: functions with noted calls, as of the latest xr_budget_note_open. */
static uint8_t *open_functions;
static uint32_t *noted; /* the functions whose bit is set */
static uint64_t nnoted;
enum { MAX_NOTED = 1 << 16 };

/* Set in the id of a call that was given up because its function's exits were switched off. */
#define GIVEN_UP (1ull << 63)

/* Whether a sample is counting calls: entries of functions that are off are on. uncounted has a bit, by
 * id, for the functions that the sample leaves out. */
static int sampling;
static const uint8_t *uncounted;

/* By id, the ticks that reading values took. Only pages of functions with values are ever written. */
static uint64_t *charges;

/* Objects whose functions have limits. */
static uint8_t admitted[XR_MAX_OBJECTS];

/* How many decisions the controller has made, and how many of them have been applied to sleds. */
static const uint32_t *decisions;
static uint32_t followed;

/* The functions that samples record. */
static const struct xr_sampled *sampled;

static int begin(uint64_t *limits, uint32_t *exhausted, const uint32_t *made, const struct xr_sampled *recorded)
{
	if (!open_functions)
		open_functions = xr_map(XR_LIMITS / 8);
	if (!noted)
		noted = xr_map(MAX_NOTED * sizeof *noted);
	if (!open_functions || !noted)
		return -1;
	xr_exhausted = exhausted;
	decisions = made;
	uncounted = (const uint8_t *)(limits + XR_LIMITS);
	charges = (uint64_t *)((uint8_t *)limits + XR_CHARGES_AT);
	sampled = recorded;
	xr_limits = limits;
	xr_limited = 1;
	return 0;
}

void xr_budget_begin(uint64_t *limits, uint32_t *exhausted, const uint32_t *made, const struct xr_sampled *recorded)
{
	begin(limits, exhausted, made, recorded);
}

/* Returns the first noted call of another thread, or null. They end before *top. */
static struct xr_kept *open_calls(const struct xr_thread *t, struct xr_kept **top)
{
	struct xr_kept *held = t->state == XR_THREAD_LIVE ? __atomic_load_n(&t->held, __ATOMIC_ACQUIRE) : NULL;
	*top = held ? __atomic_load_n(&t->top, __ATOMIC_ACQUIRE) : NULL;
	return held ? held + 1 : NULL;
}

/* A budget of this process alone, in its own memory. The limits are never freed, because a thread may
 * still be in a trampoline that uses them when the recording has ended. */
static struct xr_budget own;

/* Threads may be changing the ends of their tables, so the entries stay, but with addresses that cannot be
 * those of return addresses. */
void xr_budget_give_up_all(void)
{
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		struct xr_kept *h, *top;
		for (h = open_calls(xr_root.threads[i], &top); h < top; h++) {
			h->slot |= 1;
			h->id |= GIVEN_UP;
		}
	}
}

static void clear(uint64_t *by_id)
{
	for (uint64_t id = 0; id <= xr_root.max_function && id < XR_LIMITS; id++)
		if (by_id[id]) /* writing would allocate unused pages */
			by_id[id] = 0;
}

/* Resets the state of an earlier recording. */
static void forget(uint64_t *limits)
{
	clear(limits);
	clear((uint64_t *)((uint8_t *)limits + XR_CHARGES_AT));
	xr_zero(admitted, sizeof admitted);
	own.sampled.n = 0;
	xr_budget_give_up_all();
}

const char *xr_budget_start(uint32_t share)
{
	if (xr_limited && !own.on)
		return "its observer already controls its budget";
	if (xr_observed())
		return "its rings belong to an observer, so it cannot have a budget";
	uint64_t *limits = own.limits ? (uint64_t *)own.limits : xr_map(XR_LIMITS_SIZE);
	if (!limits)
		return "no memory for a budget";
	own.limits = (uintptr_t)limits;
	forget(limits);
	if (begin(limits, &own.exhausted, &own.decisions, &own.sampled))
		return "no memory for a budget";
	xr_count_anew();
	xr_offcpu_pause(NULL); /* an earlier recording may have given it up */
	xr_root.budget = &own;
	own.share = share;
	own.on = 1;
	return NULL;
}

void xr_budget_stop(void)
{
	if (!own.on)
		return;
	own.on = xr_limited = 0;
	xr_offcpu_pause(NULL);
}

int xr_budget_is_own(void) { return own.on; }

/* The controller adds to the trace which calls were not recorded, when the recording has ended. For that
 * it needs the counts, which are lost when the process ends. */
void xr_budget_dump(uint64_t from, int complete, void (*put)(void *to, const void *p, uint64_t n), void *to)
{
	struct row {
		uint64_t id, calls, unknown[6];
	};
	uint64_t max = !complete || !own.on ? 0 : xr_root.max_function < XR_LIMITS ? xr_root.max_function : XR_LIMITS - 1;
	uint64_t share = own.share ? own.share : xr_options.limited;
	struct { uint64_t n, share, from, to; } head = {0, share ? share : 1, from, 0};
	struct row *rows = max ? xr_map(max * sizeof *rows) : NULL;
	for (uint64_t id = 1; rows && id <= max; id++) {
		uint64_t calls = xr_calls_of(id);
		if (calls)
			rows[head.n++] = (struct row){.id = id, .calls = calls};
	}
	put(to, &head, sizeof head);
	if (rows) {
		put(to, rows, head.n * sizeof *rows);
		xr_unmap(rows, max * sizeof *rows);
	}
}

void xr_budget_admit(const struct xr_object *o)
{
	uint8_t *done = &admitted[o - xr_root.objects];
	if (*done)
		return;
	*done = 1;
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t id = o->first_id;
	for (uint64_t i = 0; i < o->nsleds; i++) {
		if (i && xr_sled_function(&s[i]) != xr_sled_function(&s[i - 1]))
			id++;
		if (id >= XR_LIMITS)
			return;
		if (s[i].always)
			xr_limits[id] = XR_UNLIMITED;
		else if (!xr_limits[id])
			xr_limits[id] = XR_TRIAL;
	}
}

void xr_budget_forked(void)
{
	sampling = 0;
	if (own.on)
		clear(charges);
}

void xr_budget_charge(uint64_t id, uint64_t ticks)
{
	/* Longer reading was interrupted: the thread was off CPU, which costs the program nothing. */
	enum { MOST_TICKS = 1 << 18 };
	if (charges && id < XR_LIMITS)
		__atomic_fetch_add(&charges[id], ticks < MOST_TICKS ? ticks : MOST_TICKS, __ATOMIC_RELAXED);
}

unsigned xr_budget_wants(uint64_t id)
{
	if (!xr_limited)
		return 3;
	if (id >= XR_LIMITS)
		return 0;
	if (__atomic_load_n(&xr_limits[id], __ATOMIC_RELAXED))
		return 3;
	int entries = sampling && !(__atomic_load_n(&uncounted[id / 8], __ATOMIC_RELAXED) >> id % 8 & 1);
	return entries | (open_functions[id / 8] >> id % 8 & 1) << 1;
}

static void note_open(uint64_t id)
{
	if (!id || id & GIVEN_UP || id >= XR_LIMITS || open_functions[id / 8] >> id % 8 & 1 || nnoted == MAX_NOTED)
		return;
	open_functions[id / 8] |= 1 << id % 8;
	noted[nnoted++] = id;
}

void xr_budget_note_open(void)
{
	while (nnoted) {
		uint32_t id = noted[--nnoted];
		open_functions[id / 8] &= ~(1 << id % 8);
	}
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		struct xr_kept *h, *top;
		for (h = open_calls(xr_root.threads[i], &top); h < top; h++)
			note_open(h->id);
	}
}

void xr_budget_attach(struct xr_thread *t, int room)
{
	if (room && !t->held) {
		struct xr_kept *held = xr_keep((MAX_OPEN + 1) * sizeof *held);
		if (!held)
			return;
		held->slot = UINT64_MAX;
		t->end = held + MAX_OPEN + 1;
		__atomic_store_n(&t->top, held + 1, __ATOMIC_RELEASE);
		/* Last, because other threads read the noted calls from held to top. */
		__atomic_store_n(&t->held, held, __ATOMIC_RELEASE);
	} else if (!room) {
		t->top = t->held ? t->held + 1 : none + 1;
		t->end = t->held ? t->held + MAX_OPEN + 1 : none + 1;
	}
}

/* Frames that are further apart are on different stacks. */
static int is_left(const struct xr_kept *h, uint64_t slot) { return h->slot < slot && slot - h->slot < XR_SAME_STACK; }

int xr_budget_exits(uint64_t slot)
{
	struct xr_thread *t = xr_tls;
	struct xr_kept *top = t->top;
	while (is_left(top - 1, slot))
		top--;
	int open = top[-1].slot == slot;
	t->top = top - open;
	return open;
}

/* Gives up the noted calls of functions that are off but whose exits are still on for them. The exits
 * of other calls of these functions would cost too much. */
static void give_up(struct xr_sample *seen)
{
	seen->cut_tsc = xr_rdtsc();
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		struct xr_kept *h, *top;
		for (h = open_calls(xr_root.threads[i], &top); h < top; h++) {
			uint64_t id = __atomic_load_n(&h->id, __ATOMIC_RELAXED);
			if (!id || id >= XR_LIMITS || xr_limits[id] || !xr_above.only_exits_on(id))
				continue;
			uint32_t k = 0;
			while (k < seen->ncut && seen->cut[k] != id)
				k++;
			if (k == sizeof seen->cut / sizeof *seen->cut)
				continue;
			/* If the call has ended meanwhile, another may be in its place. */
			if (!__atomic_compare_exchange_n(&h->id, &id, id | GIVEN_UP, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				continue;
			seen->cut[k] = id;
			seen->ncut += k == seen->ncut;
		}
	}
}

uint32_t xr_budget_take_left(uint64_t sp, uint64_t unrecorded, uint32_t *ids, uint32_t most)
{
	struct xr_thread *t = xr_tls;
	uint32_t n = 0;
	while (n < most && is_left(t->top - 1, sp)) {
		/* Read the entry first, because a signal handler may overwrite it once it is beyond top. */
		uint64_t id = __atomic_load_n(&t->top[-1].id, __ATOMIC_RELAXED), slot = t->top[-1].slot;
		__atomic_store_n(&t->top, t->top - 1, __ATOMIC_RELEASE);
		if (!(id & GIVEN_UP) && slot != unrecorded)
			ids[n++] = id;
	}
	return n;
}

uint64_t xr_budget_depth(void) { return xr_tls->held ? xr_tls->top - xr_tls->held - 1 : 0; }

uint32_t xr_budget_open_at(uint64_t slot, uint64_t *n)
{
	const struct xr_kept *first = xr_tls->held;
	while (*n && is_left(&first[*n], slot))
		--*n;
	if (!*n || first[*n].slot != slot)
		return 0;
	return first[(*n)--].id;
}

void xr_budget_leave(uint64_t n)
{
	if (xr_tls->held)
		xr_tls->top = xr_tls->held + 1 + n;
}

/* Returns the CPU time of the threads that record. The clock of the process would include time of
 * other threads only up to the kernel's latest tick. */
static uint64_t threads_cpu_ns(void)
{
	enum { MAX_THREADS = 64, PER_THREAD = 4, SCHED = 2 };
	uint64_t sum = 0, asked = 0;
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		const struct xr_thread *t = xr_root.threads[i];
		if (t->state != XR_THREAD_LIVE)
			continue;
		if (asked++ == MAX_THREADS)
			return xr_cpu_ns();
		int64_t clock = (int32_t)(~t->tid << 3 | PER_THREAD | SCHED);
		sum += xr_clock_ns(clock);
	}
	return sum;
}

struct moment {
	uint64_t tsc, cpu_ns;
};

static struct moment now(void) { return (struct moment){xr_rdtsc(), threads_cpu_ns()}; }

/* Sleds are switched one after another, so use the middle of that time. */
static struct moment middle(struct moment a, struct moment b)
{
	return (struct moment){a.tsc + (b.tsc - a.tsc) / 2, a.cpu_ns + (b.cpu_ns - a.cpu_ns) / 2};
}

static int follow(void)
{
	followed = __atomic_load_n(decisions, __ATOMIC_ACQUIRE);
	return xr_above.patch_changed();
}

/* Otherwise, every child would have to switch the same sleds and copy their pages. */
void xr_budget_before_fork(void)
{
	if (!xr_limited || xr_root.mode == XR_OFF || sampling || __atomic_load_n(decisions, __ATOMIC_ACQUIRE) == followed)
		return;
	xr_lock(XR_LOCK_CONTROL);
	follow();
	xr_unlock(XR_LOCK_CONTROL);
}

static struct moment patch(struct xr_sample *seen)
{
	struct moment before = now();
	seen->whole |= follow();
	return middle(before, now());
}

void xr_budget_apply(uint64_t sample_ns, struct xr_sample *seen)
{
	uint64_t cpu = xr_thread_cpu_ns();
	seen->tsc = seen->cpu_ns = seen->ncut = seen->whole = 0;
	give_up(seen);
	if (sample_ns) {
		sampling = 1;
		struct moment from = patch(seen);
		xr_unlock(XR_LOCK_CONTROL);
		xr_sleep_ns(sample_ns);
		xr_lock(XR_LOCK_CONTROL);
		sampling = 0;
		for (uint32_t i = 0; i < sampled->n && i < sizeof sampled->ids / sizeof *sampled->ids; i++)
			if (sampled->ids[i] < XR_LIMITS)
				__atomic_store_n(&xr_limits[sampled->ids[i]], 0, __ATOMIC_RELAXED);
		struct moment to = patch(seen);
		seen->tsc = to.tsc - from.tsc;
		seen->cpu_ns = to.cpu_ns > from.cpu_ns ? to.cpu_ns - from.cpu_ns : 0;
	} else {
		seen->whole = follow();
	}
	seen->patching_ns = xr_thread_cpu_ns() - cpu;
}
