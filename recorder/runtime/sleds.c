/* Finds the functions whose sleds cannot be switched, from the code around the sleds. */
#include "code.h"
#include "objects.h"
#include "syscall.h"

enum { SLED = 11 };

/* By object, and by function from 0: enum xr_unsafe. Null if all functions are safe. */
static uint8_t *reasons[XR_MAX_OBJECTS];

const char *const xr_unsafe_texts[XR_UNSAFE_KINDS] = {
	[XR_ONE_SIDED] = "they have only entry sleds, or only exit sleds",
	[XR_SHARES_EXIT] = "they share an exit with other functions",
	[XR_IS_LOOP] = "their entry is the head of a loop",
	[XR_POPS] = "their exits remove arguments from the stack",
	[XR_UNKNOWN_CODE] = "the code behind a tail exit is not known",
	[XR_MOVED] = "BOLT has moved their code, but not their sleds: record a build without BOLT",
	[XR_CHANGED] = "another recorder, such as LLVM's, has changed their sleds",
};

enum xr_unsafe xr_unsafe(const struct xr_object *o, uint64_t i)
{
	const uint8_t *r = reasons[o - xr_root.objects];
	return r ? r[i] : XR_SAFE;
}

void xr_leave_off(const struct xr_object *o, uint64_t i, enum xr_unsafe why)
{
	uint8_t **r = &reasons[o - xr_root.objects];
	if (!*r)
		*r = xr_keep(o->nfunctions);
	if (*r)
		(*r)[i] = why;
}

uint64_t xr_left_off(const struct xr_object *o, enum xr_unsafe why)
{
	uint64_t n = 0;
	for (uint64_t i = 0; reasons[o - xr_root.objects] && i < o->nfunctions; i++)
		n += xr_unsafe(o, i) == why;
	return n;
}

/* A set of sleds, by address. */
struct set {
	uint64_t first;
	uint8_t *bits;
};

/* Adds a sled. Returns whether it was in the set. */
static int put(struct set *s, uint64_t address)
{
	uint64_t i = (address - s->first) / 2;
	int was = s->bits[i / 8] >> i % 8 & 1;
	s->bits[i / 8] |= 1 << i % 8;
	return was;
}

static int has(const struct set *s, uint64_t address)
{
	uint64_t i = (address - s->first) / 2;
	return s->bits[i / 8] >> i % 8 & 1;
}

static int is_entry(const struct xr_sled *s) { return s->kind == XR_SLED_ENTRY || s->kind == XR_SLED_ARG; }
static int is_event(const struct xr_sled *s) { return s->kind == XR_SLED_CUSTOM || s->kind == XR_SLED_TYPED; }

/* Returns whether a jump follows a tail exit. It may have prefixes, and a fence or the check of a
 * function's type before it. */
static int jump_follows(const uint8_t *sled)
{
	const uint8_t *p = sled + SLED;
	if (p[0] == 0x0f && p[1] == 0xae && p[2] == 0xe8) /* lfence */
		p += 3;
	if (p[0] == 0x41 && p[1] >> 3 == 0xb8 >> 3) /* mov $type, %r10d */
		return 1;
	while (*p == 0x3e || *p == 0x2e || *p == 0xf2 || *p == 0x66 || *p == 0x64 || *p >> 4 == 4)
		p++;
	return *p == 0xe9 || *p == 0xeb || *p >> 4 == 7 || (*p == 0x0f && p[1] >> 4 == 8) || (*p == 0xff && (p[1] >> 3 & 7) == 4);
}

enum { MOST = 1 << 16 }; /* code of a function that is examined, in bytes */

/* Which code of a function was reached, by offset, and from where to go on. All bits are 0 between two uses. */
struct reached {
	uint8_t bits[MOST / 8];
	uint16_t open[MOST];
};
static struct reached *reached;

static int reach(struct reached *r, uint64_t offset)
{
	int was = r->bits[offset / 8] >> offset % 8 & 1;
	r->bits[offset / 8] |= 1 << offset % 8;
	return !was;
}

static int is_behind_tail(const struct xr_sled *s, uint64_t n, uint64_t at)
{
	for (uint64_t k = 0; k < n; k++)
		if (s[k].kind == XR_SLED_TAIL && xr_sled_address(&s[k]) + SLED == at)
			return 1;
	return 0;
}

/* What code leads to. */
enum { TO_ENTRY = 1, RETURNS = 2 };

/* Follows the code from behind the entry sled, but for jumps through tables. Functions without sleds may
 * lie before end. Their jumps to the entry are calls, and so is a jump directly behind a tail exit. */
static int follow(const struct xr_sled *s, uint64_t n, const struct xr_sled *entry, uint64_t end)
{
	uint64_t at = xr_sled_address(entry), function = xr_sled_function(entry), nopen = 1;
	int found = 0;
	if (end <= at)
		return 0;
	if (!reached && !(reached = xr_map(sizeof *reached)))
		return 0;
	struct reached *r = reached;
	if (end > at + MOST)
		end = at + MOST;
	r->open[0] = SLED;
	while (nopen) {
		for (uint64_t p = at + r->open[--nopen]; p < end && reach(r, p - at);) {
			struct xr_instruction in = xr_instruction_at((const uint8_t *)p);
			if (!in.size)
				break;
			if (in.target && !is_behind_tail(s, n, p)) {
				if (in.target - function <= at - function)
					found |= TO_ENTRY;
				else if (in.target > at && in.target < end)
					r->open[nopen++] = in.target - at;
			}
			if (*(const uint8_t *)p == 0xc3)
				found |= RETURNS;
			if (in.ends)
				break;
			p += in.size;
		}
	}
	xr_zero(r->bits, (end - at) / 8 + 1);
	return found;
}

/* Returns the bytes of v that are 0, as bytes of 0x80. Those above the lowest one may be wrong. */
static uint64_t zeros(uint64_t v) { return (v - 0x0101010101010101) & ~v & 0x8080808080808080; }

static int jumps_back_from(uint64_t function, uint64_t at, uint64_t from, int64_t displacement)
{
	return from + displacement - function <= at - function;
}

/* Returns whether bytes between the entry sled and end may be the displacement of a jump to the entry. Most
 * functions have none, so most code need not be decoded. Looks at 8 bytes at a time. */
static int may_jump_back(uint64_t function, uint64_t at, uint64_t end)
{
	enum { NEAR = 128, FAR = 4 /* bytes of a displacement */, SLACK = 64 };
	uint64_t v, near = end < at + NEAR ? end : at + NEAR, expected = 0x0706050403020100;
	if (at - function > SLACK)
		return 1;
	for (uint64_t p = at + SLED + 1; at != function && p < near; p++)
		if (jumps_back_from(function, at, p + 1, *(const int8_t *)p))
			return 1;
	/* The byte with offset k leads to the entry if it is -k - 1. */
	expected += (SLED + 1) * 0x0101010101010101;
	for (uint64_t p = at + SLED + 1; at == function && p < near; p += 8, expected += 0x0808080808080808) {
		__builtin_memcpy(&v, (const void *)p, 8);
		if (zeros(~v ^ expected))
			return 1;
	}
	/* The last byte of a long displacement is 0xff, because it is negative and the function is not that large. */
	for (uint64_t p = at + SLED + FAR; p < end + FAR - 1; p += 8) {
		__builtin_memcpy(&v, (const void *)p, 8);
		for (uint64_t found = zeros(~v); found; found &= found - 1) {
			uint64_t last = p + __builtin_ctzll(found) / 8;
			int32_t far;
			__builtin_memcpy(&far, (const void *)(last - FAR + 1), FAR);
			if (jumps_back_from(function, at, last + 1, far))
				return 1;
		}
	}
	return 0;
}

/* Returns whether code of the function, before end, jumps to its entry. Then the sled is passed at each
 * turn of the loop, in the middle of the function. Code with a prologue does not jump before that. */
static int is_loop(const struct xr_sled *s, uint64_t n, const struct xr_sled *entry, uint64_t end)
{
	uint64_t at = xr_sled_address(entry);
	const uint8_t *first = (const uint8_t *)at + SLED;
	if (first[0] >> 3 == 0x50 >> 3 || (first[0] == 0x41 && first[1] >> 3 == 0x50 >> 3) ||
	    (first[0] == 0x48 && (first[1] | 2) == 0x83 && first[2] == 0xec))
		return 0;
	return may_jump_back(xr_sled_function(entry), at, end) && follow(s, n, entry, end) & TO_ENTRY;
}

static int is_exit(const struct xr_sled *s) { return s->kind == XR_SLED_EXIT || s->kind == XR_SLED_TAIL; }

/* Returns whether a function without exit sleds returns. Otherwise it has none because it never does: it
 * ends in a call, and what is behind that may be another function, without sleds. */
static int returns(const struct xr_object *o, const struct xr_sled *s, uint64_t n, const struct xr_sled *entry, uint64_t end)
{
	uint64_t unwind = xr_mappings[o - xr_root.objects].unwind;
	uint64_t next = unwind ? xr_next_unwind((const uint8_t *)unwind, xr_sled_address(entry)) : end;
	return follow(s, n, entry, next < end ? next : end) & RETURNS;
}

/* Examines a function that has n sleds. end is where the next one with sleds begins. */
static enum xr_unsafe examine(const struct xr_object *o, const struct xr_sled *s, uint64_t n, struct set *seen, struct set *shared, uint64_t end, int no_exits)
{
	const struct xr_sled *entry = NULL, *out = NULL;
	enum xr_unsafe why = XR_SAFE;
	for (uint64_t k = 0; k < n; k++) {
		if (is_entry(&s[k]) && !entry)
			entry = &s[k];
		if (is_exit(&s[k]))
			out = &s[k];
	}
	if (entry && has(seen, xr_sled_address(entry)))
		return XR_FOLDED;
	for (uint64_t k = 0; k < n; k++) {
		const uint8_t *p = (const uint8_t *)xr_sled_address(&s[k]);
		if (!is_event(&s[k]) && put(seen, (uintptr_t)p)) {
			put(shared, (uintptr_t)p);
			why = XR_SHARES_EXIT;
		}
		if (s[k].kind == XR_SLED_EXIT && *p == 0xc2)
			why = XR_POPS;
		if (s[k].kind == XR_SLED_TAIL && !jump_follows(p))
			why = XR_UNKNOWN_CODE;
	}
	if (why)
		return why;
	if (entry && !entry->call && is_loop(s, n, entry, end))
		return XR_IS_LOOP;
	return (out && !entry) || (entry && !out && (no_exits || returns(o, s, n, entry, end))) ? XR_ONE_SIDED : XR_SAFE;
}

/* BOLT copies functions without their sleds. Symbols lead to the copies. It leaves other functions where they
 * were. */
static void find_moved(const struct xr_object *o)
{
	const struct xr_mapping *m = &xr_mappings[o - xr_root.objects];
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t size = m->old_end - m->old_first;
	uint8_t *bits = size ? xr_map(size / 8 + 1) : NULL;
	int known = bits && xr_mark_functions(o - xr_root.objects, m->old_first - o->bias, m->old_end - o->bias, bits);
	for (uint64_t k = 0, i = 0; known && k < o->nsleds; k++) {
		i += k && xr_sled_function(&s[k]) != xr_sled_function(&s[k - 1]);
		uint64_t at = xr_sled_function(&s[k]) - m->old_first;
		if (at < size && !(bits[at / 8] >> at % 8 & 1))
			xr_leave_off(o, i, XR_MOVED);
	}
	if (bits)
		xr_unmap(bits, size / 8 + 1);
}

void xr_examine(const struct xr_object *o)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t size = (o->text_end - o->text_first) / 16 + 1, last = xr_mappings[o - xr_root.objects].seg_end - 24;
	struct set seen = {o->text_first, xr_map(size)}, shared = {o->text_first, xr_map(size)};
	int conflicts = 0, no_exits = 1;
	for (uint64_t k = 0; no_exits && k < o->nsleds; k++)
		no_exits = !is_exit(&s[k]);
	if (reasons[o - xr_root.objects])
		xr_zero(reasons[o - xr_root.objects], o->nfunctions);
	for (uint64_t i = 0, first = 0, next; seen.bits && shared.bits && first < o->nsleds; i++, first = next) {
		for (next = first + 1; next < o->nsleds && xr_sled_function(&s[next]) == xr_sled_function(&s[first]); next++)
			;
		uint64_t at = xr_sled_function(&s[first]), end = next < o->nsleds ? xr_sled_function(&s[next]) : last;
		if (end <= at || end - at > MOST)
			end = at + MOST;
		uint64_t n = 1; /* without those that repeat, see patch.c */
		while (n < next - first && xr_sled_address(&s[first + n]) != xr_sled_address(&s[first]))
			n++;
		enum xr_unsafe why = examine(o, s + first, n, &seen, &shared, end < last ? end : last, no_exits);
		if (why)
			xr_leave_off(o, i, why);
		conflicts += why == XR_SHARES_EXIT;
	}
	/* Those that had the exit first. */
	for (uint64_t k = 0, i = 0; conflicts && k < o->nsleds; k++) {
		i += k && xr_sled_function(&s[k]) != xr_sled_function(&s[k - 1]);
		if (!is_event(&s[k]) && has(&shared, xr_sled_address(&s[k])) && !xr_unsafe(o, i))
			xr_leave_off(o, i, XR_SHARES_EXIT);
	}
	find_moved(o);
	if (reached)
		xr_unmap(reached, sizeof *reached);
	reached = NULL;
	if (seen.bits)
		xr_unmap(seen.bits, size);
	if (shared.bits)
		xr_unmap(shared.bits, size);
}
