/* Finds the functions whose sleds cannot be switched, from the code around the sleds. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>

#include "arena.h"
#include "code.h"
#include "layout.h"
#include "objects.h"
#include "parts.h"
#include "sleds.h"
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
	[XR_RED_ZONE] = "their events would overwrite what they keep below the stack pointer",
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

/* A set of sleds, by address, which are in order from first to end. */
struct set {
	uint64_t first, end;
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
	return address - s->first < s->end - s->first && s->bits[i / 8] >> i % 8 & 1;
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

enum { MOST = 1 << 16 }; /* code of a function that is examined in one place, in bytes */

/* An object, and what is needed to examine its functions. */
struct code {
	const struct xr_object *o;
	const struct dl_phdr_info *info;
	uint64_t first, last;  /* addresses of the segment with sleds, but for its last bytes */
	struct set seen, shared, entries;
	int no_exits;          /* so jumps may be tail calls */
	struct reached {
		struct window {
			uint64_t first, used; /* and how many bytes behind it were reached */
			uint8_t bits[MOST / 8]; /* all 0 between two uses */
		} windows[4];
		unsigned nwindows, nopen;
		uint64_t open[4096];
	} *reached;            /* which code of a function was reached, and from where to go on */
};

/* Notes that an address is reached. Returns whether that is new, and it can be examined. */
static int reach(struct code *c, uint64_t at)
{
	struct reached *r = c->reached;
	unsigned i = 0;
	if (at < c->first || at >= c->last)
		return 0;
	while (i < r->nwindows && at - r->windows[i].first >= MOST)
		i++;
	if (i == sizeof r->windows / sizeof *r->windows)
		return 0;
	struct window *w = &r->windows[i];
	if (i == r->nwindows) {
		r->nwindows++;
		w->first = i ? at - MOST / 2 : at;
		w->used = 0;
	}
	uint64_t offset = at - w->first;
	int was = w->bits[offset / 8] >> offset % 8 & 1;
	w->bits[offset / 8] |= 1 << offset % 8;
	w->used = offset >= w->used ? offset + 1 : w->used;
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
enum { TO_ENTRY = 1, RETURNS = 2, CALLS = 4, BELOW_STACK = 8, BELOW_FRAME = 16, HAS_ROOM = 32 };

/* Returns what an instruction says about the use of memory below the stack pointer. */
static int use_of_stack(const uint8_t *code, int size)
{
	int found = 0, rex = code[0] >> 4 == 4;
	if (code[0] == 0xe8 || (code[rex] == 0xff && (code[rex + 1] >> 3 & 7) == 2))
		found |= CALLS;
	if (code[0] == 0x48 && (code[1] | 2) == 0x83 && code[2] == 0xec) /* sub $n, %rsp */
		found |= HAS_ROOM;
	/* What follows a byte like that of the operand may be another operand: then a function is left off needlessly. */
	for (int i = 1; i < size - 1; i++) {
		int by_stack = (code[i] & 7) == 4 && code[i + 1] == 0x24, by_frame = (code[i] & 7) == 5;
		int last = i + by_stack + (code[i] >> 6 == 1 ? 1 : code[i] >> 6 == 2 ? 4 : size); /* of a displacement */
		if ((by_stack || by_frame) && last < size && code[last] >> 7)
			found |= by_stack ? BELOW_STACK : BELOW_FRAME;
	}
	return found;
}

/* The function that is followed. */
struct function {
	const struct xr_sled *sleds;
	uint64_t n, first, at, end; /* its sleds, its address, that of the entry sled, and of the next function */
	int has_events, found;
};

/* Follows a jump of the function. Only tail calls leave it, and those have sleds. */
static void go_to(struct code *c, struct function *f, uint64_t target)
{
	struct reached *r = c->reached;
	int far = target < f->at || target >= f->end;
	if (target - f->first <= f->at - f->first)
		f->found |= TO_ENTRY;
	else if (r->nopen < sizeof r->open / sizeof *r->open && !(far && (c->no_exits || has(&c->entries, target))))
		r->open[r->nopen++] = target;
}

/* Follows a jump through a table of addresses, or of distances from the table. What is behind the table leads
 * out of the function. */
static void go_by_table(struct code *c, struct function *f, const uint8_t *jump, uint64_t distances)
{
	enum { ENTRIES = 1024 };
	uint64_t addresses = 0;
	jump += *jump == 0x3e; /* notrack */
	jump += *jump >> 4 == 4;
	if (jump[0] != 0xff || (jump[1] >> 3 & 7) != 4)
		return;
	if (jump[1] == 0x24 && (jump[2] & 7) == 5) { /* jmp *table(, %register, 8) */
		int32_t table;
		__builtin_memcpy(&table, jump + 3, 4);
		addresses = table;
	}
	for (unsigned i = 0; i < ENTRIES && (addresses || distances); i++) {
		uint64_t at = addresses ? addresses + 8 * i : distances + 4 * i, target;
		int32_t distance;
		if (!xr_segment_at(c->info, PF_R, at, 8))
			break;
		__builtin_memcpy(&distance, (const void *)at, 4);
		__builtin_memcpy(&target, (const void *)at, 8);
		if (!addresses)
			target = distances + distance;
		if (target - f->first >= f->end - f->first)
			break;
		go_to(c, f, target);
	}
}

/* Follows the code from behind the entry sled. Functions without sleds may lie before end. Their jumps to the
 * entry are calls, and so is a jump directly behind a tail exit. */
static int follow(struct code *c, struct function *f)
{
	if (f->end <= f->at || (!c->reached && !(c->reached = xr_map(sizeof *c->reached))))
		return 0;
	struct reached *r = c->reached;
	r->nwindows = 0;
	r->open[0] = f->at + SLED;
	r->nopen = 1;
	f->found = 0;
	while (r->nopen) {
		uint64_t p = r->open[--r->nopen], table = 0;
		int near = p >= f->at && p < f->end;
		while ((!near || p < f->end) && reach(c, p)) {
			const uint8_t *code = (const uint8_t *)p;
			struct xr_instruction in = xr_instruction_at(code);
			if (!in.size)
				break;
			if (code[0] >> 3 == 0x48 >> 3 && code[1] == 0x8d && (code[2] & 0xc7) == 5) { /* lea table(%rip) */
				int32_t displacement;
				__builtin_memcpy(&displacement, code + 3, 4);
				table = p + in.size + displacement;
			}
			int tail = (in.target || in.ends) && is_behind_tail(f->sleds, f->n, p);
			if (in.target && !tail)
				go_to(c, f, in.target);
			else if (in.ends && !tail)
				go_by_table(c, f, code, table);
			if (*code == 0xc3)
				f->found |= RETURNS;
			f->found |= f->has_events ? use_of_stack(code, in.size) : 0;
			if (in.ends)
				break;
			p += in.size;
		}
	}
	for (unsigned i = 0; i < r->nwindows; i++)
		xr_zero(r->windows[i].bits, (r->windows[i].used + 7) / 8);
	return f->found;
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

/* Returns whether code before end may jump to another part of the function, or through a table. */
static int may_lead_elsewhere(const struct code *c, const struct function *f)
{
	enum { JUMP = 0xe9, LONG = 0x0f, INDIRECT = 0xff };
	const uint64_t each = 0x0101010101010101;
	uint64_t v, behind;
	for (uint64_t p = f->at + SLED; p < f->end; p += 8) {
		__builtin_memcpy(&v, (const void *)p, 8);
		__builtin_memcpy(&behind, (const void *)(p + 1), 8);
		uint64_t jumps = zeros(v ^ JUMP * each), longs = zeros(v ^ LONG * each) & zeros((behind ^ 0x80 * each) & 0xf0 * each);
		uint64_t indirect = zeros(v ^ INDIRECT * each) & (zeros(behind ^ 0x24 * each) | zeros((behind ^ 0xe0 * each) & 0xf8 * each));
		if (!(jumps | longs | indirect))
			continue;
		for (uint64_t k = p; k < p + 8 && k < f->end; k++) {
			const uint8_t *code = (const uint8_t *)k;
			int size = code[0] == JUMP ? 5 : code[0] == LONG && code[1] >> 4 == 8 ? 6 : 0;
			int32_t far = 0;
			if (size)
				__builtin_memcpy(&far, code + size - 4, 4);
			uint64_t to = k + size + far;
			int leads = size ? !c->no_exits && to - f->first >= f->end - f->first && to - c->first < c->last - c->first
					 : code[0] == INDIRECT && (code[1] == 0x24 || code[1] >> 3 == 0xe0 >> 3);
			if (leads && !is_behind_tail(f->sleds, f->n, k))
				return 1;
		}
	}
	return 0;
}

/* Returns whether code of the function jumps to its entry. Then the sled is passed at each turn of the loop, in
 * the middle of the function. Code with a prologue does not jump before that. */
static int is_loop(struct code *c, struct function *f)
{
	const uint8_t *first = (const uint8_t *)f->at + SLED;
	if (first[0] >> 3 == 0x50 >> 3 || (first[0] == 0x41 && first[1] >> 3 == 0x50 >> 3) ||
	    (first[0] == 0x48 && (first[1] | 2) == 0x83 && first[2] == 0xec))
		return 0;
	return (may_jump_back(f->first, f->at, f->end) || may_lead_elsewhere(c, f)) && follow(c, f) & TO_ENTRY;
}

static int is_exit(const struct xr_sled *s) { return s->kind == XR_SLED_EXIT || s->kind == XR_SLED_TAIL; }

/* Returns whether a function without exit sleds returns. Otherwise it has none because it never does: it
 * ends in a call, and what is behind that may be another function, without sleds. */
static int returns(struct code *c, struct function *f)
{
	uint64_t unwind = xr_mappings[c->o - xr_root.objects].unwind;
	uint64_t next = unwind ? xr_next_unwind((const uint8_t *)unwind, f->at) : f->end;
	f->end = next < f->end ? next : f->end;
	return follow(c, f) & RETURNS;
}

/* Returns whether a function has variables in the red zone. Sleds of events push registers, and clang before 19
 * does not know that. */
static int uses_red_zone(struct code *c, struct function *f)
{
	int found = follow(c, f);
	return !(found & CALLS) && (found & BELOW_STACK || (found & BELOW_FRAME && !(found & HAS_ROOM)));
}

/* Examines a function that has n sleds. end is where the next one with sleds begins. */
static enum xr_unsafe examine(struct code *c, const struct xr_sled *s, uint64_t n, uint64_t end)
{
	const struct xr_sled *entry = NULL, *out = NULL;
	int has_events = 0;
	enum xr_unsafe why = XR_SAFE;
	for (uint64_t k = 0; k < n; k++) {
		if (is_entry(&s[k]) && !entry)
			entry = &s[k];
		if (is_exit(&s[k]))
			out = &s[k];
		has_events |= is_event(&s[k]);
	}
	if (entry && has(&c->seen, xr_sled_address(entry)))
		return XR_FOLDED;
	for (uint64_t k = 0; k < n; k++) {
		const uint8_t *p = (const uint8_t *)xr_sled_address(&s[k]);
		if (!is_event(&s[k]) && put(&c->seen, (uintptr_t)p)) {
			put(&c->shared, (uintptr_t)p);
			why = XR_SHARES_EXIT;
		}
		if (s[k].kind == XR_SLED_EXIT && *p == 0xc2)
			why = XR_POPS;
		if (s[k].kind == XR_SLED_TAIL && !jump_follows(p))
			why = XR_UNKNOWN_CODE;
	}
	if (why)
		return why;
	if (!entry)
		return out ? XR_ONE_SIDED : XR_SAFE;
	struct function f = {.sleds = s, .n = n, .first = xr_sled_function(entry), .at = xr_sled_address(entry), .end = end, .has_events = has_events};
	if (!entry->call && is_loop(c, &f))
		return XR_IS_LOOP;
	if (has_events && uses_red_zone(c, &f))
		return XR_RED_ZONE;
	return !out && (c->no_exits || returns(c, &f)) ? XR_ONE_SIDED : XR_SAFE;
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

static struct set make_set(const struct xr_object *o)
{
	return (struct set){o->text_first, o->text_end, xr_map((o->text_end - o->text_first) / 16 + 1)};
}

static void drop_set(const struct set *s)
{
	if (s->bits)
		xr_unmap(s->bits, (s->end - s->first) / 16 + 1);
}

void xr_examine(const struct xr_object *o, const struct dl_phdr_info *info)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	const struct xr_mapping *m = &xr_mappings[o - xr_root.objects];
	struct code c = {
		.o = o, .info = info, .first = m->seg_first, .last = m->seg_end - 24, .no_exits = 1,
		.seen = make_set(o), .shared = make_set(o), .entries = make_set(o),
	};
	int able = c.seen.bits && c.shared.bits && c.entries.bits, conflicts = 0;
	for (uint64_t k = 0; able && k < o->nsleds; k++) {
		c.no_exits &= !is_exit(&s[k]);
		if (is_entry(&s[k]))
			put(&c.entries, xr_sled_address(&s[k]));
	}
	if (reasons[o - xr_root.objects])
		xr_zero(reasons[o - xr_root.objects], o->nfunctions);
	for (uint64_t i = 0, first = 0, next; able && first < o->nsleds; i++, first = next) {
		for (next = first + 1; next < o->nsleds && xr_sled_function(&s[next]) == xr_sled_function(&s[first]); next++)
			;
		for (uint64_t k = first; k < next; k++)
			xr_prefetch_sled(o, k);
		uint64_t at = xr_sled_function(&s[first]), end = next < o->nsleds ? xr_sled_function(&s[next]) : c.last;
		if (end <= at || end - at > MOST)
			end = at + MOST;
		uint64_t n = 1; /* without those that repeat, see patch.c */
		while (n < next - first && xr_sled_address(&s[first + n]) != xr_sled_address(&s[first]))
			n++;
		enum xr_unsafe why = examine(&c, s + first, n, end < c.last ? end : c.last);
		if (why)
			xr_leave_off(o, i, why);
		conflicts += why == XR_SHARES_EXIT;
	}
	/* Those that had the exit first. */
	for (uint64_t k = 0, i = 0; conflicts && k < o->nsleds; k++) {
		i += k && xr_sled_function(&s[k]) != xr_sled_function(&s[k - 1]);
		if (!is_event(&s[k]) && has(&c.shared, xr_sled_address(&s[k])) && !xr_unsafe(o, i))
			xr_leave_off(o, i, XR_SHARES_EXIT);
	}
	find_moved(o);
	drop_set(&c.seen);
	drop_set(&c.shared);
	drop_set(&c.entries);
	if (c.reached)
		xr_unmap(c.reached, sizeof *c.reached);
}
