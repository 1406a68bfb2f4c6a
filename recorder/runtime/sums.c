/* Prune mode: counts the dropped calls of each function and their time. This keeps the sums of
 * a pruned trace exact.
 *
 * Each thread adds to its own tables. The code here only adds up the tables. Nothing here calls
 * libc or uses vector registers. */
#include "arena.h"
#include "layout.h"
#include "sums.h"
#include "syscall.h"

/* Sums from before the recording began, for nbefore functions, and the TSC when it began. */
static struct xr_sum *before;
static uint64_t nbefore, began;

int xr_sums_make(struct xr_thread *t)
{
	enum { LEAST = 1 << 12 };
	uint64_t n = LEAST;
	if (t->nsums > xr_root.max_function)
		return 1;
	while (n <= xr_root.max_function)
		n *= 2;
	struct xr_sum *sums = xr_keep(n * sizeof *sums);
	if (!sums && !xr_sealed)
		sums = xr_map(n * sizeof *sums);
	if (!sums)
		return 0;
	/* A signal handler may have interrupted a function that still adds to the old sums. */
	sums[0] = (struct xr_sum){(uintptr_t)t->sums, t->nsums};
	__atomic_store_n(&t->sums, sums, __ATOMIC_RELEASE);
	__atomic_store_n(&t->nsums, n, __ATOMIC_RELEASE);
	xr_arena_tables(t);
	return 1;
}

/* Adds the sums of all threads to those of the n functions in to. */
static void add_all(struct xr_sum *to, uint64_t n)
{
	uint64_t nthreads = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < nthreads; i++) {
		uint64_t size = __atomic_load_n(&threads[i]->nsums, __ATOMIC_ACQUIRE);
		const struct xr_sum *sums = __atomic_load_n(&threads[i]->sums, __ATOMIC_ACQUIRE);
		while (sums) {
			for (uint64_t id = 1; id < size && id < n; id++) {
				uint64_t calls = __atomic_load_n(&sums[id].calls, __ATOMIC_RELAXED);
				if (!calls)
					continue;
				to[id].calls += calls;
				to[id].ticks += __atomic_load_n(&sums[id].ticks, __ATOMIC_RELAXED);
			}
			size = sums[0].ticks;
			sums = (const struct xr_sum *)sums[0].calls;
		}
	}
}

int xr_sums_any(void)
{
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++)
		if (__atomic_load_n(&threads[i]->sums, __ATOMIC_ACQUIRE))
			return 1;
	return 0;
}

void xr_sums_begin(void)
{
	if (before)
		xr_unmap(before, nbefore * sizeof *before);
	began = xr_rdtsc();
	nbefore = xr_sums_any() ? xr_root.max_function + 1 : 0;
	before = nbefore ? xr_map(nbefore * sizeof *before) : NULL;
	if (before)
		add_all(before, nbefore);
	else
		nbefore = 0;
}

/* One function: {u32 id, u32 0, u64 calls, u64 ticks}. */
struct row {
	uint32_t id, zero;
	uint64_t calls, ticks;
};

void xr_sums_dump(void (*put)(void *to, const void *p, uint64_t n), void *to)
{
	uint64_t max = xr_root.max_function + 1, n = 0;
	struct xr_sum *sums = xr_map(max * sizeof *sums);
	struct row *rows = xr_map(max * sizeof *rows);
	struct { uint64_t n, from, to; } head = {0, began, xr_rdtsc()};
	if (sums && rows) {
		add_all(sums, max);
		for (uint64_t id = 1; id < max; id++) {
			struct xr_sum old = id < nbefore ? before[id] : (struct xr_sum){0, 0};
			if (sums[id].calls > old.calls)
				rows[n++] = (struct row){id, 0, sums[id].calls - old.calls, sums[id].ticks - old.ticks};
		}
	}
	head.n = n;
	put(to, &head, sizeof head);
	if (rows)
		put(to, rows, n * sizeof *rows);
	if (sums)
		xr_unmap(sums, max * sizeof *sums);
	if (rows)
		xr_unmap(rows, max * sizeof *rows);
}
