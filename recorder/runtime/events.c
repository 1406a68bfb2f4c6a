/* Custom and typed events: writes payloads of the program into the rings. */
#include "events.h"
#include "layout.h"
#include "libcalls.h"
#include "ring.h"
#include "state.h"
#include "syscall.h"

/* Owner of a payload's memory. Compilers pass wrong pointers to typed events, so the recorder
 * reads only its own memory without asking the kernel. */
enum owner { PROGRAM, OURS };

/* Returns the number of bytes that were readable. */
static uint64_t copy_payload(void *to, const void *p, uint64_t n, enum owner owner)
{
	if (owner == PROGRAM)
		return xr_copy_from(to, p, n);
	xr_copy(to, p, n);
	return n;
}

/* Writes an event record. Header, payload and trailer are written in one piece, which becomes
 * part of the ring at the end. */
static uint64_t record_inside(uint64_t head, uint64_t p, uint64_t n, uint64_t owner)
{
	uint64_t size = n < XR_MAX_PAYLOAD ? n : XR_MAX_PAYLOAD, tsc;
	uint64_t padded = (size + 7) & ~7ull;
	uint64_t *q = (uint64_t *)xr_reserve(24 + padded, &tsc);
	if (q) {
		uint64_t copied = size ? copy_payload(q + 2, (const void *)p, size, owner) : 0;
		if (copied < n)
			xr_tls->truncated++;
		/* The bytes after the cursor in a chunk must stay zero. */
		uint64_t end = (copied + 7) & ~7ull;
		xr_zero((uint8_t *)(q + 2) + copied, padded - copied);
		q[0] = head | copied << 32;
		q[1] = tsc << 1 | 1;
		q[2 + end / 8] = XR_TRAILER | copied << 1 | 1;
		xr_commit(24 + end);
	}
	return 1;
}

static void record(uint64_t head, const void *p, uint64_t n, enum owner owner)
{
	if (!xr_inside(record_inside, head, (uintptr_t)p, n, owner))
		xr_drop();
}

int xr_wants_events(void)
{
	uint32_t mode = __atomic_load_n(&xr_root.mode, __ATOMIC_RELAXED);
	return !xr_muted && (mode == XR_RECORD || mode == XR_PRUNE || mode == XR_DEPTH) && !xr_between_windows() && !xr_is_paused();
}

void xr_custom_event(const void *p, uint64_t n)
{
	if (xr_wants_events())
		record(XR_REC_CUSTOM << 1 | 1, p, n, PROGRAM);
}

void xr_put_note(uint64_t *q, uint64_t tsc, const void *p, uint64_t n)
{
	uint64_t padded = (n + 7) & ~7ull;
	if (n < padded)
		q[2 + n / 8] = 0;
	xr_copy_few(q + 2, p, n);
	q[1] = tsc << 1 | 1;
	q[2 + padded / 8] = XR_TRAILER | n << 1 | 1;
	__atomic_store_n(&q[0], XR_REC_CUSTOM << 1 | 1 | n << 32, __ATOMIC_RELEASE);
}

void xr_note_event(const void *p, uint64_t n)
{
	if (!xr_wants_events())
		return;
	/* Programs may note parts of requests a million times a second, and blocking signals takes two system calls. */
	struct xr_place taken = {0};
	if (n <= XR_MAX_PAYLOAD)
		taken = xr_take_room(24 + ((n + 7) & ~7ull));
	if (taken.at)
		xr_put_note(taken.at, taken.tsc, p, n);
	else
		record(XR_REC_CUSTOM << 1 | 1, p, n, OURS);
}

void xr_note_stacks(void)
{
	static __thread uint64_t noted __attribute__((tls_model("initial-exec")));
	static const struct { char magic[4]; uint16_t schema, kind; } body = {{'X', 'R', 'Y', 'M'}, 1, XR_META_STACKS};
	enum { interval = 1 << 24 }; /* ticks */
	if (!xr_wants_events() || (noted && xr_rdtsc() - noted < interval))
		return;
	noted = xr_rdtsc();
	xr_note_event(&body, sizeof body);
}

void xr_typed_event(uint64_t type, const void *p, uint64_t n)
{
	if (xr_wants_events())
		record(XR_REC_TYPED << 1 | 1 | (type & 0xffff) << 16, p, n, PROGRAM);
}

/* A landing, as metadata. The exits of the calls that were left follow it. */
struct landing {
	char magic[4];
	uint16_t schema, kind;
	uint32_t cause, n;
};

enum { LANDING_SIZE = 24 + sizeof(struct landing) };

/* Writes a landing and its exits. */
static void put_left(uint64_t *q, uint64_t tsc, uint32_t cause, const uint32_t *ids, uint32_t n)
{
	const struct landing landing = {{'X', 'R', 'Y', 'M'}, 1, XR_META_LANDING, cause, n};
	for (uint32_t i = 0; i < n; i++)
		q[LANDING_SIZE / 8 + i] = ids[i] << 4 | XR_EXIT << 1 | tsc << 32;
	xr_put_note(q, tsc, &landing, sizeof landing);
}

static uint64_t record_left_inside(uint64_t cause, uint64_t ids, uint64_t n, uint64_t d)
{
	uint64_t tsc, *q = (uint64_t *)xr_reserve(LANDING_SIZE + 8 * n, &tsc);
	(void)d;
	if (q) {
		put_left(q, tsc, cause, (const uint32_t *)ids, n);
		xr_commit(LANDING_SIZE + 8 * n);
	}
	return 1;
}

void xr_record_left(uint32_t cause, const uint32_t *ids, uint32_t n)
{
	/* Programs may jump a million times a second, and blocking signals takes two system calls. */
	struct xr_place taken = xr_take_room(LANDING_SIZE + 8 * n);
	if (taken.at)
		put_left(taken.at, taken.tsc, cause, ids, n);
	else if (!xr_inside(record_left_inside, cause, (uintptr_t)ids, n, 0))
		xr_drop();
}
