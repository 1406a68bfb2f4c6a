/* Profile mode: calls that have no path of their own, because the tree is full or they are too
 * deep. Their sums are kept by function and caller, so the sums of functions are exact. The
 * tree shows such calls as one folded path below the last path that it has.
 *
 * All calls made from a folded call are folded too. So at any time, all open folded calls were
 * made from one path, the profile's folding.
 *
 * Nothing here calls libc or uses vector registers. A signal handler may run between any two
 * instructions, as in profile.c. */
#include "arena.h"
#include "profile.h"
#include "ring.h"
#include "syscall.h"

/* Maximum number of function and caller pairs, for all threads together: 30 MB. Beyond that, a
 * function's sums have no particular caller. There are as many of those as threads have
 * functions without a path, and they take at most 120 MB. */
enum { MAX_PAIRS = 1 << 16, MAX_ANY = 1 << 18 };

static struct xr_quota pairs, any_callers;

static struct xr_fold **bucket_of(struct xr_profile *p, uint32_t caller, uint32_t id)
{
	uint64_t hash = ((uint64_t)caller << 32 | id) * 0x9e3779b97f4a7c15ull;
	return &p->buckets[hash >> 32 & (XR_FOLD_BUCKETS - 1)];
}

static struct xr_fold *find(struct xr_profile *p, uint32_t caller, uint32_t id)
{
	if (!p->buckets)
		return NULL;
	struct xr_fold *f = *bucket_of(p, caller, id);
	while (f && (f->sums.id != id || f->caller != caller))
		f = f->next;
	return f;
}

/* The caller blocks signals for this function and the next two. */
static struct xr_fold *make(struct xr_profile *p, uint32_t caller, uint32_t id)
{
	uint32_t at = p->nfolds % XR_PAGE_FOLDS;
	if (!p->buckets)
		p->buckets = xr_keep(XR_FOLD_BUCKETS * sizeof *p->buckets);
	if (!p->buckets)
		return NULL;
	if (!at) {
		struct xr_fold_page *page = xr_keep(sizeof *page);
		if (!page)
			return NULL;
		__atomic_store_n(p->fold ? &p->fold->next : &p->folds, page, __ATOMIC_RELEASE);
		p->fold = page;
	}
	struct xr_fold *f = &p->fold->folds[at], **bucket = bucket_of(p, caller, id);
	f->sums.id = id;
	f->sums.number = p->nfolds;
	f->sums.min = UINT64_MAX;
	f->caller = caller;
	f->next = *bucket;
	f->any = f;
	*bucket = f;
	__atomic_store_n(&p->nfolds, p->nfolds + 1, __ATOMIC_RELEASE);
	return f;
}

static struct xr_fold *add(struct xr_profile *p, uint32_t caller, uint32_t id)
{
	struct xr_fold *any = find(p, XR_ANY_CALLER, id), *f = find(p, caller, id);
	if (!any && xr_quota_take(&any_callers, MAX_ANY))
		any = make(p, XR_ANY_CALLER, id);
	if (f || !any || !xr_quota_take(&pairs, MAX_PAIRS))
		return f ? f : any;
	f = make(p, caller, id);
	if (!f)
		return any;
	f->any = any;
	return f;
}

static uint64_t add_inside(uint64_t p, uint64_t caller, uint64_t id, uint64_t d)
{
	(void)d;
	return (uintptr_t)add((struct xr_profile *)p, caller, id);
}

struct xr_path *xr_fold(struct xr_profile *p, struct xr_path *parent, uint32_t id)
{
	struct xr_fold *f = find(p, parent->id, id);
	if (!f && !xr_quota_is_left(&pairs, MAX_PAIRS))
		f = find(p, XR_ANY_CALLER, id);
	if (!f)
		f = (struct xr_fold *)xr_inside(add_inside, (uintptr_t)p, parent->id, id, 0);
	if (f && !xr_is_folded(parent))
		p->folding = parent;
	return f ? &f->sums : NULL;
}

int xr_path_has(const struct xr_profile *p, const struct xr_path *c, uint32_t id)
{
	while (c != &p->top && c->id != id)
		c = c->parent;
	return c != &p->top;
}

static struct xr_fold *fold_at(struct xr_profile *p, uint64_t n) { return (struct xr_fold *)xr_frame_at(p, n - 1)->path; }

/* Returns whether another folded call of the function is open, further out than the nth. Checks
 * what any->first says, because a signal handler can leave calls by longjmp at any instruction. */
static int is_open_before(struct xr_profile *p, const struct xr_fold *any, uint64_t n)
{
	if (any->first + 1 >= n)
		return 0;
	const struct xr_path *c = xr_frame_at(p, any->first)->path;
	return xr_is_folded(c) && ((const struct xr_fold *)c)->any == any;
}

static int is_nested(struct xr_profile *p, struct xr_fold *any, uint64_t n)
{
	if (is_open_before(p, any, n))
		return 1;
	if (any->on != p->folding) {
		any->is_on = xr_path_has(p, p->folding, any->sums.id);
		any->on = p->folding;
	}
	return any->is_on;
}

void xr_fold_opened(struct xr_profile *p, uint64_t n)
{
	struct xr_fold *any = fold_at(p, n)->any;
	if (!is_open_before(p, any, n))
		any->first = n - 1;
}

/* Subtracts the time of the nth call from that of its caller. Returns whether the call is
 * nested. */
static int end_fold(struct xr_profile *p, uint64_t n, uint64_t ticks)
{
	struct xr_path *caller = n > 1 ? xr_frame_at(p, n - 2)->path : &p->top;
	int nested = is_nested(p, fold_at(p, n)->any, n);
	p->folding->folded++;
	if (xr_is_folded(caller))
		((struct xr_fold *)caller)->inside += ticks;
	else
		caller->folded_ticks += ticks;
	return nested;
}

void xr_fold_ended(struct xr_profile *p, uint64_t n, uint64_t ticks)
{
	if (end_fold(p, n, ticks))
		fold_at(p, n)->nested += ticks;
}

void xr_fold_left(struct xr_profile *p, uint64_t n, uint64_t ticks)
{
	struct xr_fold *f = fold_at(p, n);
	if (end_fold(p, n, ticks))
		f->left_nested += ticks;
	f->left.calls++;
	f->left.ticks += ticks;
}
