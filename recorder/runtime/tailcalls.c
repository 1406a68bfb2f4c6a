/* Tail calls while calls are pruned and profiled. A call that goes on in its tail call is as long as both,
 * as it is for readers of a full recording: see symbolize/tailcalls.go, which follows the same jumps.
 *
 * General registers only, and no libc. */
#include "layout.h"
#include "libcalls.h"
#include "ring.h"
#include "syscall.h"
#include "tailcalls.h"

/* Returns the ID in an entry sled that is on, or 0. See patch.c. */
static uint32_t id_in_entry(const uint8_t *code)
{
	static const uint64_t mark = XR_CALL_MARK;
	/* Functions of libcalls/ load the value to record before their sled. */
	if ((uintptr_t)code % XR_CALL_ALIGN == XR_CALL_HEAD && !__builtin_memcmp(code - XR_CALL_HEAD, &mark, sizeof mark))
		return xr_id_in_entry(code + code[-1]);
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	if (!__builtin_memcmp(code, endbr64, sizeof endbr64))
		code += sizeof endbr64;
	return xr_id_in_entry(code);
}

/* Bits by ID of functions that form loops by tail calls. They are found when a chain of calls comes back to
 * one of them. Their calls are next to each other. */
static uint8_t *loops;

static int is_in_loop(uint32_t id)
{
	const uint8_t *bits = __atomic_load_n(&loops, __ATOMIC_RELAXED);
	return bits && __atomic_load_n(&bits[id / 8], __ATOMIC_RELAXED) >> id % 8 & 1;
}

void xr_tail_loop(uint32_t id)
{
	enum { SIZE = (XR_MAX_FUNCTION + 1) / 8 };
	uint8_t *bits = __atomic_load_n(&loops, __ATOMIC_RELAXED), *made = NULL;
	if (!bits && !xr_sealed && (made = xr_map(SIZE))) {
		if (__atomic_compare_exchange_n(&loops, &bits, made, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			bits = made;
		else
			xr_unmap(made, SIZE);
	}
	if (bits)
		__atomic_fetch_or(&bits[id / 8], 1 << id % 8, __ATOMIC_RELAXED);
}

static uint32_t target_of(const uint8_t *jump)
{
	enum { HOPS = 4 };
	int32_t distance;
	if (jump[-7] >> 4 == 7 && jump[-6] == 9) { /* a sled before a conditional jump, see patch.c */
		jump += 4;
		if (jump[0] == 0x0f)
			__builtin_memcpy(&distance, jump + 2, sizeof distance);
		else
			distance = (int8_t)jump[1];
		jump += (jump[0] == 0x0f ? 6 : 2) + (int64_t)distance;
	}
	for (int i = 0; i < HOPS; i++) {
		uint32_t id = id_in_entry(jump);
		if (id)
			return id;
		if (jump[0] == 0xf3 && jump[1] == 0x0f && jump[2] == 0x1e && jump[3] == 0xfa)
			jump += 4; /* endbr64 of the procedure linkage table */
		if (jump[0] == 0xf2)
			jump++; /* bnd */
		if (jump[0] == 0xe9) {
			__builtin_memcpy(&distance, jump + 1, sizeof distance);
			jump += 5 + (int64_t)distance;
		} else if (jump[0] == 0xff && jump[1] == 0x25) {
			__builtin_memcpy(&distance, jump + 2, sizeof distance);
			jump = *(const uint8_t *const *)(jump + 6 + (int64_t)distance);
		} else {
			return 0;
		}
	}
	return 0;
}

static int are_in_loops(uint32_t a, uint32_t b) { return is_in_loop(a) && is_in_loop(b); }

uint32_t xr_tail_target(uint32_t from, const uint8_t *jump)
{
	uint32_t to = target_of(jump);
	return to && are_in_loops(from, to) ? 0 : to;
}

/* Prune mode. A call that goes on gets a tail exit, which its target's entry follows. If the target's call
 * is dropped too, both are dropped, if they are short enough together. Such calls form a chain: entry and
 * tail exit of each, and the entry of the last one, which ends now. Only chains whose tail exits were
 * recorded here are dropped: others contain calls that are always recorded. */

enum { MOST = 32 }; /* calls in a chain */

static int is_tail(uint64_t record) { return (record & 15) == XR_TAIL << 1; }

static uint32_t id_of(uint64_t record) { return (uint32_t)record >> 4; }

/* Returns whether the call whose entry is at goes on a call before it. */
static int is_linked(const uint64_t *at) { return is_tail(at[-1]) && !are_in_loops(id_of(at[-1]), id_of(at[0])); }

/* Returns the first entry of the chain whose last entry is at, or null if it is too long. */
static uint64_t *first_of(uint64_t *at)
{
	for (int i = 0; i < MOST; i++) {
		if (!is_linked(at))
			return at;
		if (at[-2] & 15 || id_of(at[-1]) != id_of(at[-2]))
			return NULL;
		at -= 2;
	}
	return NULL;
}

static void add_sum(struct xr_thread *t, uint32_t id, uint32_t ticks)
{
	if (id >= t->nsums && (!xr_slow(XR_SUMS) || id >= t->nsums))
		return;
	t->sums[id].calls++;
	t->sums[id].ticks += ticks;
}

/* Removes the records from first to the cursor, unless a signal handler has recorded meanwhile. each says
 * that each call ended at its own exit. */
static int drop(struct xr_thread *t, uint64_t *first, uint64_t *at, uint64_t *cursor, uint32_t stamp, int each)
{
	uint64_t n = cursor - first, last = at - first, kept[n]; /* usually few: stacks may be small */
	for (uint64_t i = n; i-- > 0;) {
		kept[i] = first[i];
		*(volatile uint64_t *)&first[i] = 0;
	}
	uint64_t expected = (uintptr_t)cursor;
	if (!__atomic_compare_exchange_n(&t->cursor, &expected, (uintptr_t)first, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		for (uint64_t i = 0; i < n; i++)
			*(volatile uint64_t *)&first[i] = kept[i];
		return 0;
	}
	t->again = t->tail = 0;
	for (uint64_t i = 0; i <= last; i += 2) {
		uint32_t end = each && i < last ? kept[i + 1] >> 32 : stamp;
		add_sum(t, id_of(kept[i]), end - (uint32_t)(kept[i] >> 32));
	}
	return 1;
}

int xr_prune_linked(uint64_t *cursor, uint32_t stamp, uint32_t word, const uint8_t *jump, uint64_t size)
{
	enum { RECORD, DONE, ALONE };
	struct xr_thread *t = xr_tls;
	uint64_t *at = cursor - size / 8, *first = first_of(at);
	int ours = !is_linked(at) || t->tail == (uintptr_t)at;
	if (stamp - (uint32_t)(at[0] >> 32) >= xr_root.threshold)
		return RECORD;
	uint32_t target = (word >> 1 & 7) == XR_TAIL ? xr_tail_target(word >> 4, jump) : 0;
	int loop = 0;
	for (uint64_t *p = first; target && p && p <= at; p += 2)
		loop |= id_of(*p) == target;
	for (uint64_t *p = first; loop && p <= at; p += 2)
		xr_tail_loop(id_of(*p));
	if (target && !loop) {
		t->tail = ours && first ? (uintptr_t)(cursor + 1) : 0;
		return RECORD;
	}
	if (at == first)
		return ALONE;
	if (!first || !ours || (!loop && stamp - (uint32_t)(first[0] >> 32) >= xr_root.threshold))
		return RECORD;
	return drop(t, first, at, cursor, stamp, loop) ? DONE : RECORD;
}
