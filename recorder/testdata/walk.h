/* Walks the rings of its own process, for tests that are linked with the archive. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget.h"
#include "events.h"
#include "gcc.h"
#include "landings.h"
#include "layout.h"
#include "lifecycle.h"
#include "locks.h"
#include "objects.h"
#include "patch.h"
#include "ring.h"
#include "sleds.h"
#include "state.h"
#include "writer.h"

#define PLAIN __attribute__((xray_never_instrument))
#define TRACED __attribute__((xray_always_instrument, noinline))

/* Faults in the records. */
struct faults {
	long records, mismatched, backwards, odd, open;
	long entries[64]; /* by id */
	long shortest;    /* leaf, ticks */
};

PLAIN static void walk_chunk(struct faults *f, const uint8_t *p, const uint8_t *end, uint32_t *stack, uint64_t *since,
			     int *depth, uint64_t *last)
{
	uint64_t base = 0;
	int leaf = 0;
	while (p < end) {
		uint64_t q, second = 0;
		memcpy(&q, p, 8);
		if (p + 16 <= end)
			memcpy(&second, p + 8, 8);
		if (q & 1) {
			int kind = (q & 0xff) >> 1;
			if (kind == XR_REC_STAMP) {
				base = second >> 1;
				if (base < *last)
					f->backwards++;
				leaf = 0; /* pruning does not look back across a stamp */
			} else if (kind == XR_REC_CUSTOM) { /* a switch, a landing or a value */
				if (second >> 1 < *last)
					f->backwards++;
				*last = second >> 1;
				leaf = 0;
				p += 24 + ((q >> 32) + 7) / 8 * 8;
				continue;
			} else if (kind != XR_REC_ARG && kind != XR_REC_RESULT) {
				f->odd++;
				return;
			}
			p += 16;
			continue;
		}
		p += 8;
		uint32_t word = q, id = word >> 4, kind = word >> 1 & 7;
		if (!word)
			continue;
		uint64_t tsc = (base & ~0xffffffffull) | q >> 32;
		f->records++;
		if (tsc < *last)
			f->backwards++;
		*last = tsc;
		if (kind == XR_ENTER || kind == XR_ENTER_ARG) {
			if (id < 64)
				f->entries[id]++;
			if (*depth < 256) {
				stack[*depth] = id;
				since[*depth] = tsc;
			}
			++*depth;
			leaf = 1;
		} else if (!*depth || stack[*depth - 1] != id) {
			f->mismatched++;
			leaf = 0;
		} else {
			--*depth;
			if (leaf && (f->shortest < 0 || (long)(tsc - since[*depth]) < f->shortest))
				f->shortest = tsc - since[*depth];
			leaf = 0;
		}
	}
}

/* Walks all rings. No ring may have wrapped or be written to meanwhile. */
PLAIN static struct faults walk(void)
{
	struct faults f = {.shortest = -1};
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		struct xr_thread *t = xr_root.threads[i];
		uint32_t stack[256];
		uint64_t since[256];
		int depth = 0;
		uint64_t last = 0;
		if (t->taken > t->nchunks)
			f.odd++;
		for (uint64_t k = 0; k < t->taken && k < t->nchunks; k++) {
			const uint8_t *c = t->ring + k * XR_CHUNK_SIZE;
			const uint8_t *end = k + 1 == t->taken ? (const uint8_t *)t->cursor : c + XR_CHUNK_SIZE;
			walk_chunk(&f, c + XR_CHUNK_HEADER, end, stack, since, &depth, &last);
		}
		f.open += depth;
	}
	return f;
}

/* Empties the threads' rings. Only the calling thread may be recording. */
PLAIN static void forget(void)
{
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		xr_root.threads[i]->taken = 0;
		xr_root.threads[i]->cursor = 0;
		xr_root.threads[i]->depth = 0;
	}
}
