/* Writes the profiles of all threads as the body of a metadata event, as described in
 * docs/dev/format.md. The threads may be running. The observer reads the same memory;
 * recorder/observe/profile_linux.go repeats its layout. */
#include "layout.h"
#include "profile.h"
#include "syscall.h"

_Static_assert(sizeof(struct xr_path) == 96 + 8 * XR_PROFILE_OCTAVES, "");
_Static_assert(offsetof(struct xr_path, id) == 24 && offsetof(struct xr_path, folded) == 56, "");
_Static_assert(offsetof(struct xr_path_page, paths) == 8 && sizeof(struct xr_path_page) <= XR_CHUNK_SIZE, "");
_Static_assert(sizeof(struct xr_path_page) == 8 + XR_PAGE_PATHS * (sizeof(struct xr_path) + 16), "");
_Static_assert(sizeof(struct xr_fold) == sizeof(struct xr_path) + 80 && sizeof(struct xr_fold_page) <= XR_CHUNK_SIZE, "");
_Static_assert(offsetof(struct xr_fold, caller) == sizeof(struct xr_path) + 16, "");
_Static_assert(offsetof(struct xr_fold, inside) == sizeof(struct xr_path) + 40, "");
_Static_assert(offsetof(struct xr_profile, npaths) == 36 && offsetof(struct xr_profile, pages) == 48, "");
_Static_assert(offsetof(struct xr_profile, top) == 64, "");
_Static_assert(offsetof(struct xr_profile, frames) == 64 + sizeof(struct xr_path), "");
_Static_assert(offsetof(struct xr_profile, deep) == offsetof(struct xr_profile, frames) + XR_PATH_DEPTH * sizeof(struct xr_frame), "");
_Static_assert(offsetof(struct xr_profile, nfolds) == offsetof(struct xr_profile, deep) + 56, "");

struct sink {
	void (*put)(void *to, const void *p, uint64_t n);
	void *to;
};

static void put(const struct sink *s, const void *p, uint64_t n) { s->put(s->to, p, n); }

struct row {
	uint32_t id, parent;
	uint64_t ticks, min, max, open, open_ticks, octaves;
};

/* The additional fields in the row of a folded function. The row's parent is the caller's ID. */
struct fold_row {
	uint64_t inside, nested, open_nested;
};

/* Calls that are open at the latest event. */
struct open_path {
	struct xr_left own, folded;
	struct xr_left ended; /* folded calls that have ended, all read at one moment */
};
struct open_fold {
	struct xr_left own;
	uint64_t inside, nested;
	int is_open; /* any caller: another call of the function is open */
};

/* The open calls of a thread. */
struct open_calls {
	uint32_t npaths, nfolds;
	struct open_path *paths; /* by number */
	struct open_fold *folds;
	struct open_path top;
};

static void add(struct xr_left *to, uint64_t ticks)
{
	to->calls++;
	to->ticks += ticks;
}

/* Adds a call of a fold, made from the open call of caller. last is the last of the open calls'
 * paths. */
static void add_fold(struct open_calls *open, struct xr_profile *p, struct xr_fold *f, const struct xr_path *caller,
		     const struct xr_path *last, uint64_t ticks)
{
	struct open_fold *own = &open->folds[f->sums.number], *any = &open->folds[f->any->sums.number];
	struct xr_left *folded = last == &p->top ? &open->top.folded : &open->paths[last->number].folded;
	add(&own->own, ticks);
	if (any->is_open || xr_path_has(p, last, f->sums.id))
		own->nested += ticks;
	any->is_open = 1;
	folded->calls++;
	if (xr_is_folded(caller))
		open->folds[((const struct xr_fold *)caller)->sums.number].inside += ticks;
	else
		folded->ticks += ticks;
}

static void add_open(struct open_calls *open, struct xr_profile *p)
{
	uint64_t depth = __atomic_load_n(&p->depth, __ATOMIC_ACQUIRE), room = __atomic_load_n(&p->ndeep, __ATOMIC_ACQUIRE);
	const struct xr_path *caller = &p->top, *last = &p->top;
	for (uint64_t i = 0; i < depth && i < XR_PATH_DEPTH + room; i++) {
		const struct xr_frame *f = xr_frame_at(p, i);
		struct xr_path *c = f->path;
		uint64_t ticks = p->last > f->start ? p->last - f->start : 0;
		if (!c || c->number >= (xr_is_folded(c) ? open->nfolds : open->npaths))
			return; /* created after the dump began */
		if (xr_is_folded(c)) {
			add_fold(open, p, (struct xr_fold *)c, caller, last, ticks);
		} else {
			add(&open->paths[c->number].own, ticks);
			last = c;
		}
		caller = c;
	}
}

static int has_folded(const struct open_path *open) { return open->ended.calls || open->folded.calls; }

static int add_ended_of(struct open_path *open, const struct xr_path *c)
{
	open->ended = (struct xr_left){c->folded, c->folded_ticks};
	return has_folded(open);
}

/* Adds up folded calls that have ended. Returns how many paths have any. */
static uint32_t add_ended(struct open_calls *open, const struct xr_profile *p)
{
	uint32_t n = add_ended_of(&open->top, &p->top);
	const struct xr_path_page *page = p->pages;
	for (uint32_t i = 0; i < open->npaths; i++) {
		if (i && i % XR_PAGE_PATHS == 0)
			page = page->next;
		n += add_ended_of(&open->paths[i], &page->paths[i % XR_PAGE_PATHS]);
	}
	return n;
}

/* Puts a row, then the number of ended calls by octave. */
static void put_row(const struct sink *to, struct row *row, const struct xr_path *c, const struct fold_row *fold)
{
	uint64_t calls[XR_PROFILE_OCTAVES], n = 0;
	for (unsigned i = 0; i < XR_PROFILE_OCTAVES; i++) {
		uint64_t k = __atomic_load_n(&c->calls[i], __ATOMIC_RELAXED);
		if (!k)
			continue;
		calls[n++] = k;
		row->octaves |= 1ull << i;
	}
	row->id = c->id;
	row->ticks = c->ticks;
	row->min = c->max ? c->min : 0;
	row->max = c->max;
	put(to, row, sizeof *row);
	if (fold)
		put(to, fold, sizeof *fold);
	put(to, calls, n * sizeof *calls);
}

static void put_path(const struct sink *to, const struct xr_path *c, const struct xr_profile *p, const struct xr_left *left,
		     const struct xr_left *open)
{
	struct row row = {
		.parent = c->parent == &p->top ? 0 : c->parent->number + 1,
		.open = left->calls + open->calls, .open_ticks = left->ticks + open->ticks,
	};
	put_row(to, &row, c, NULL);
}

static void put_fold(const struct sink *to, const struct xr_fold *f, const struct open_fold *open)
{
	struct row row = {
		.parent = f->caller, .open = f->left.calls + open->own.calls, .open_ticks = f->left.ticks + open->own.ticks,
	};
	struct fold_row fold = {f->inside + open->inside, f->nested, f->left_nested + open->nested};
	put_row(to, &row, &f->sums, &fold);
}

/* A folded path has no function. Its minimum ticks field holds the number of its calls. */
static void put_folded(const struct sink *to, uint32_t parent, const struct open_path *open)
{
	struct row row = {
		.parent = parent, .ticks = open->ended.ticks, .min = open->ended.calls,
		.open = open->folded.calls, .open_ticks = open->folded.ticks,
	};
	if (has_folded(open))
		put(to, &row, sizeof row);
}

static void put_tables(const struct sink *to, const struct xr_profile *p, const struct open_calls *open)
{
	const struct xr_path_page *page = p->pages;
	for (uint32_t i = 0; i < open->npaths; i++) {
		uint32_t at = i % XR_PAGE_PATHS;
		if (i && !at)
			page = page->next;
		put_path(to, &page->paths[at], p, &page->left[at], &open->paths[i].own);
	}
	put_folded(to, 0, &open->top);
	for (uint32_t i = 0; i < open->npaths; i++)
		put_folded(to, i + 1, &open->paths[i]);
	const struct xr_fold_page *folds = p->folds;
	for (uint32_t i = 0; i < open->nfolds; i++) {
		if (i && i % XR_PAGE_FOLDS == 0)
			folds = folds->next;
		put_fold(to, &folds->folds[i % XR_PAGE_FOLDS], &open->folds[i]);
	}
}

static void put_thread(const struct sink *to, const struct xr_thread *t, struct xr_profile *p)
{
	struct open_calls open = {
		.npaths = __atomic_load_n(&p->npaths, __ATOMIC_ACQUIRE), .nfolds = __atomic_load_n(&p->nfolds, __ATOMIC_ACQUIRE),
	};
	uint64_t room = open.npaths * sizeof *open.paths + open.nfolds * sizeof *open.folds;
	open.paths = room ? xr_map(room) : NULL;
	if (open.paths)
		open.folds = (struct open_fold *)(open.paths + open.npaths);
	else
		open.npaths = open.nfolds = 0;
	p->put = 1;
	p->put_paths = open.npaths;
	p->put_folds = open.nfolds;
	add_open(&open, p);
	uint32_t nfolded = add_ended(&open, p);
	/* A profile that several threads have used in turn has no thread ID. */
	struct { uint32_t pid, tid; uint64_t first, last, lost; uint32_t npaths, nfolds; } head = {
		xr_root.pid, p->owners > 1 ? 0 : t->tid, p->first, p->last, p->lost, open.npaths + nfolded, open.nfolds,
	};
	put(to, &head, sizeof head);
	put_tables(to, p, &open);
	if (open.paths)
		xr_unmap(open.paths, room);
}

void xr_profile_dump(void (*put_bytes)(void *to, const void *p, uint64_t n), void *to)
{
	struct sink sink = {put_bytes, to};
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE), profiles = 0;
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++)
		profiles += threads[i]->profile != NULL;
	put(&sink, &profiles, sizeof profiles);
	for (uint64_t i = 0; i < n && profiles; i++) {
		struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		if (!p)
			continue;
		put_thread(&sink, threads[i], p);
		profiles--;
	}
}

/* Puts the off-CPU times of the profiles that were put before. */

struct off_row {
	uint32_t profile, path;
	uint64_t switches, off, queued;
};
enum { OFF_FOLD = 1u << 31 };

static void put_off(const struct sink *to, const struct xr_path *c, uint32_t profile, uint32_t path)
{
	struct off_row row = {profile, path, c->switches, c->off, c->queued};
	if (row.switches)
		put(to, &row, sizeof row);
}

static void put_profile_off(const struct sink *to, const struct xr_profile *p, uint32_t number)
{
	const struct xr_path_page *page = p->pages;
	for (uint32_t i = 0; i < p->put_paths; i++) {
		if (i && i % XR_PAGE_PATHS == 0)
			page = page->next;
		put_off(to, &page->paths[i % XR_PAGE_PATHS], number, i);
	}
	const struct xr_fold_page *folds = p->folds;
	for (uint32_t i = 0; i < p->put_folds; i++) {
		if (i && i % XR_PAGE_FOLDS == 0)
			folds = folds->next;
		put_off(to, &folds->folds[i % XR_PAGE_FOLDS].sums, number, i | OFF_FOLD);
	}
}

void xr_profile_dump_off(void (*put_bytes)(void *to, const void *p, uint64_t n), void *to)
{
	struct sink sink = {put_bytes, to};
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	uint32_t number = 0;
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_profile *p = __atomic_load_n(&threads[i]->profile, __ATOMIC_ACQUIRE);
		if (p && p->put)
			put_profile_off(&sink, p, number++);
	}
}
