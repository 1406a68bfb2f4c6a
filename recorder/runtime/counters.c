/* Count mode: adds up the counters of all threads. */
#include "counters.h"
#include "layout.h"
#include "syscall.h"

/* One function: {u32 id, u32 0, u64 calls}. */
struct row {
	uint32_t id, zero;
	uint64_t calls;
};

uint64_t xr_calls_of(uint64_t id)
{
	uint64_t sum = 0, n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		struct xr_thread *t = threads[i];
		if (id < __atomic_load_n(&t->ncounters, __ATOMIC_ACQUIRE))
			sum += __atomic_load_n(&t->counters[id], __ATOMIC_RELAXED);
	}
	return sum;
}

void xr_counters_dump(void (*put)(void *to, const void *p, uint64_t n), void *to)
{
	/* Threads keep counting, so read each function's calls only once. */
	uint64_t room = xr_root.max_function * sizeof(struct row), n = 0;
	struct row *rows = room ? xr_map(room) : NULL;
	for (uint64_t id = 1; rows && id <= xr_root.max_function; id++) {
		uint64_t calls = xr_calls_of(id);
		if (calls)
			rows[n++] = (struct row){.id = id, .calls = calls};
	}
	put(to, &n, sizeof n);
	if (rows) {
		put(to, rows, n * sizeof *rows);
		xr_unmap(rows, room);
	}
}
