/* Switches sleds on and off while threads run through them.
 *
 * A sled has a head of 2 bytes, which is flipped, and a tail, which is written once: the ID of
 * its function and a call of one of the object's near thunks. A thread may have been
 * interrupted anywhere in a tail, so a tail that was ever live is never changed. To change what
 * is recorded, the recorder changes the targets of the thunks.
 *
 * Compilers leave r10 to sleds, but not every calling convention does: callers of preserve_most
 * functions keep values in it, and tail calls of Windows functions may have their target there. No
 * convention can be seen in a function's code. So sleds change no register. An entry or exit gets to
 * the thunk by way of a thunk of its own, which saves r10 before it sets it to the word of the record.
 *
 * The tail also shows the state of a sled: as the compiler left it, set by the recorder, or changed
 * by other code. So no state is kept elsewhere. An object that was closed and reopened at the same
 * address, with fresh bytes, is not a special case. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/stat.h>

#include "arena.h"
#include "budget.h"
#include "fibers.h"
#include "gcc.h"
#include "hooks.h"
#include "layout.h"
#include "libcalls.h"
#include "loader.h"
#include "locks.h"
#include "objects.h"
#include "offcpu.h"
#include "options.h"
#include "patch.h"
#include "ring.h"
#include "shared.h"
#include "sleds.h"
#include "state.h"
#include "syscall.h"
#include "text.h"
#include "values.h"
#include "warnings.h"

/* Near thunks: a page of jumps, a page of their targets, and a thunk for each sled. */
enum { ENTER, EXIT, ARG, CUSTOM, TYPED, KEEP, /* exits of functions that are never pruned */
       CALL, /* libc functions, from XR_CALL_ARG on */
       ONCE = CALL + XR_CALLS, /* functions with only entries or only exits */
       VALUES_ENTER, VALUES_EXIT, /* entries and exits with values */
       VALUES_ARG, /* the former, of functions that log an argument: the program may have a handler for it */
       THUNKS };
enum { PAGE = 4096, THUNK_SIZE = 16 };

/* trampoline_amd64.S */
void xr_no_call(void), xr_once(void), xr_record_once(void), xr_record_once_nocpu(void), xr_record_once_rseq(void), xr_record(void), xr_record_nocpu(void), xr_record_rseq(void),
	xr_record_arg(void), xr_record_arg_nocpu(void), xr_record_arg_rseq(void),
	xr_prune(void), xr_prune_nocpu(void), xr_prune_rseq(void), xr_count(void), xr_profile(void), xr_depth_enter(void),
	xr_depth_exit(void), xr_depth_arg(void), xr_depth_keep(void), xr_budget_enter(void), xr_budget_exit(void),
	xr_budget_arg(void), xr_budget_keep(void), xr_budget_call_arg(void), xr_budget_call_args(void),
	xr_budget_call_descriptor(void), xr_budget_call_exit(void), xr_budget_call_result(void), xr_fiber_enter(void), xr_fiber_exit(void),
	xr_fiber_arg(void), xr_fiber_keep(void), xr_fiber_call_arg(void), xr_fiber_call_args(void), xr_fiber_call_descriptor(void),
	xr_fiber_call_exit(void), xr_fiber_call_result(void), __xray_CustomEvent(void), __xray_TypedEvent(void);

typedef void (*trampoline)(void);

/* Targets of the thunks of all objects, and the mode's trampolines for each event. If the program has a
 * handler, its trampoline comes first. */
#define NOTHING [ENTER ... ARG] = xr_no_call, [CUSTOM ... TYPED] = xr_nothing, [KEEP] = xr_no_call
#define NOTHING_AT_ALL NOTHING, [CALL ... THUNKS - 1] = xr_no_call
static trampoline targets[THUNKS] = {NOTHING_AT_ALL}, recording[THUNKS] = {NOTHING_AT_ALL};

/* The trampolines to which depth mode passes the events that it records: entries, exits, entries with
 * argument, exits of functions that are never pruned, then the thunks from CALL on, and those with values. */
extern trampoline xr_depth_next[XR_NEXT_VALUES + 2];

/* The same for recording within a budget, or with fibers. */
extern trampoline xr_budget_next[XR_NEXT_VALUES + 2];

/* The trampolines of the entry and the exit of calls without duration. */
extern trampoline xr_once_next[2];

/* Where the trampolines of handlers_amd64.S for the thunks before CALL pass events. */
trampoline xr_handler_next[CALL] = {NOTHING};
uint32_t xr_log_records;
uint8_t *xr_asked;
void xr_recorded(void) {}

struct xr_place xr_take(uint64_t), xr_take_nocpu(uint64_t), xr_take_rseq(uint64_t);

static int patched_on;
static uint32_t switching; /* sleds are being switched on or off, one after another */
static uint64_t seen_changes;

static struct {
	char *text;     /* null: all functions are wanted, or the observer is asked */
	uint64_t size;
	uint8_t *bits;  /* by id */
	enum { ASK_NOBODY, ASK_OR_NONE, ASK_OR_ALL } ask;
} filter;

static int is_filtered(void) { return filter.text || filter.ask; }

/* Near thunks. */

static void write_slots(const struct xr_object *o)
{
	trampoline *slots = (trampoline *)(o->thunks + PAGE);
	for (int i = 0; i < THUNKS; i++)
		__atomic_store_n(&slots[i], targets[i], __ATOMIC_RELEASE);
}

static uint64_t size_of_own(const struct xr_object *o) { return (o->nsleds * THUNK_SIZE + PAGE - 1) & -(uint64_t)PAGE; }
static uint64_t size_of_thunks(const struct xr_object *o) { return 2 * PAGE + size_of_own(o); }

/* Returns the thunk for a sled of the ith function. */
static int thunk_of(const struct xr_object *o, const struct xr_sled *s, uint64_t i)
{
	static const uint8_t thunks[XR_SLED_KINDS] = {ENTER, EXIT, EXIT, ARG, CUSTOM, TYPED};
	if (s->call)
		return CALL + s->call - 1;
	if (xr_unsafe(o, i) == XR_ONE_SIDED && s->kind < XR_SLED_CUSTOM)
		return ONCE;
	int values = xr_root.values_changes && s->kind < XR_SLED_CUSTOM ? xr_values_of(o->first_id + i) : 0;
	if (thunks[s->kind] != EXIT)
		return !(values & XR_VALUES_ENTRY) ? thunks[s->kind] : s->kind == XR_SLED_ARG ? VALUES_ARG : VALUES_ENTER;
	if (values & XR_VALUES_EXIT && s->kind == XR_SLED_EXIT)
		return VALUES_EXIT;
	/* Functions with values, and those that the source marks as always instrumented, are never pruned. */
	return values || s->always ? KEEP : EXIT;
}

/* Writes the sleds' own thunks. r10 is saved below the return address, where signal handlers leave
 * 128 bytes alone, so that debuggers find the caller from here as from a function that was just called. */
static void make_own(const struct xr_object *o, uint8_t *to)
{
	static const uint8_t words[XR_SLED_KINDS] = {XR_ENTER << 1, XR_EXIT << 1, XR_TAIL << 1, XR_ENTER_ARG << 1};
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint32_t id = o->first_id;
	for (uint64_t i = 0; i < o->nsleds; i++, to += THUNK_SIZE) {
		id += i && xr_sled_function(&s[i]) != xr_sled_function(&s[i - 1]);
		int which = thunk_of(o, &s[i], id - o->first_id);
		uint32_t word = id << 4 | (which == ONCE ? 0 : words[s[i].kind]);
		uint32_t displacement = (which - (int32_t)i - 1) * THUNK_SIZE - 2 * PAGE;
		uint64_t code[2] = {
			0xba41f82454894c | (uint64_t)word << 56,              /* mov %r10, -8(%rsp); mov $word, %r10d */
			word >> 8 | 0xe9ull << 24 | (uint64_t)displacement << 32, /* jmp thunk */
		};
		__builtin_memcpy(to, code, THUNK_SIZE);
	}
}

/* Functions have got values, or have lost them: makes the sleds' own thunks lead to the right ones. A thread may
 * be in a thunk, so only the displacement of its jump changes, by one store. Returns whether any has changed. */
static int redirect(const struct xr_object *o)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t at = o->thunks + 2 * PAGE, size = size_of_own(o);
	uint32_t id = o->first_id;
	int writable = 0;
	for (uint64_t i = 0; i < o->nsleds; i++) {
		id += i && xr_sled_function(&s[i]) != xr_sled_function(&s[i - 1]);
		int which = thunk_of(o, &s[i], id - o->first_id);
		uint32_t *place = (uint32_t *)(at + i * THUNK_SIZE + 12), displacement = (which - (int32_t)i - 1) * THUNK_SIZE - 2 * PAGE;
		if (which == ONCE && xr_values_of(id))
			xr_values_missing(id, "it has only entry sleds or only exit sleds");
		if (*place == displacement)
			continue;
		if (!writable && xr_sys3(SYS_mprotect, at, size, PROT_READ | PROT_WRITE | PROT_EXEC)) {
			xr_warn("the system does not allow to change thunks, so arguments and results are not recorded", o->path);
			return 0;
		}
		writable = 1;
		__atomic_store_n(place, displacement, __ATOMIC_RELEASE);
	}
	if (writable)
		xr_sys3(SYS_mprotect, at, size, PROT_READ | PROT_EXEC);
	return writable;
}

static void make_shared(uint8_t *to)
{
	for (int i = 0; i < THUNKS; i++, to += THUNK_SIZE) {
		static const uint8_t thunk[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *slot(%rip) */
		int32_t displacement = PAGE + i * 8 - (i * THUNK_SIZE + 6);
		xr_copy(to, thunk, sizeof thunk);
		xr_copy(to + 2, &displacement, 4);
	}
}

static int64_t map_at(uint64_t address, uint64_t size, int prot, int flags, int fd, uint64_t offset)
{
	return xr_sys6(SYS_mmap, address, size, prot, MAP_PRIVATE | flags, fd, offset);
}

/* Reserves memory at address. Returns 0 or -errno. */
static int64_t reserve_at(uint64_t address, uint64_t size)
{
	int64_t p = map_at(address, size, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p < 0 && p > -4096)
		return p;
	if ((uint64_t)p == address)
		return 0;
	xr_sys2(SYS_munmap, p, size); /* the kernel does not know the flag */
	return -EEXIST;
}

static int are_near(const struct xr_object *o, uint64_t thunks)
{
	return xr_is_near(o, thunks) && xr_is_near(o, thunks + size_of_thunks(o));
}

/* Finds a place for the thunks, preferably below the object. Above it, the place keeps a
 * distance, because the heap grows directly above a program. */
static uint64_t reserve_near(const struct xr_mapping *place, const struct xr_object *o)
{
	uint64_t first = place->seg_first, end = place->seg_end, size = size_of_thunks(o);
	for (uint64_t down = size; down < first; down += PAGE + (down / 8 & -(uint64_t)PAGE)) {
		if (!are_near(o, first - down))
			break;
		if (!reserve_at(first - down, size))
			return first - down;
	}
	for (uint64_t up = 1 << 30; are_near(o, end + up); up += 1 << 24)
		if (!reserve_at(end + up, size))
			return end + up;
	return 0;
}

/* Writes the code of the thunks to memory, and makes it executable. */
static int64_t write_code(const struct xr_object *o, uint64_t at)
{
	uint64_t size = size_of_thunks(o);
	int64_t err = map_at(at, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (err < 0 && err > -4096)
		return err;
	make_shared((uint8_t *)at);
	make_own(o, (uint8_t *)at + 2 * PAGE);
	err = xr_sys3(SYS_mprotect, at, PAGE, PROT_READ | PROT_EXEC);
	return err ? err : xr_sys3(SYS_mprotect, at + 2 * PAGE, size - 2 * PAGE, PROT_READ | PROT_EXEC);
}

/* The same by way of a file. A system can forbid making writable memory executable, but a file can be
 * mapped as executable from the start. */
static int64_t map_code(const struct xr_object *o, uint64_t at)
{
	uint64_t own = size_of_own(o), size = PAGE + own;
	uint8_t *code = xr_map(size);
	if (!code)
		return -ENOMEM;
	make_shared(code);
	make_own(o, code + PAGE);
	enum { CLOEXEC = 1, EXEC = 16 };
	int64_t fd = xr_sys2(SYS_memfd_create, (intptr_t)"xray-thunks", CLOEXEC | EXEC), err = fd;
	if (fd == -EINVAL)
		err = fd = xr_sys2(SYS_memfd_create, (intptr_t)"xray-thunks", CLOEXEC);
	if (fd >= 0)
		err = xr_write(fd, code, size) == (int64_t)size ? 0 : -ENOSPC;
	xr_unmap(code, size);
	if (!err)
		err = map_at(at, PAGE, PROT_READ | PROT_EXEC, MAP_FIXED, fd, 0);
	if (err >= 0 || err < -4095)
		err = map_at(at + 2 * PAGE, own, PROT_READ | PROT_EXEC, MAP_FIXED, fd, PAGE);
	if (fd >= 0)
		xr_close(fd);
	if (err >= 0 || err < -4095)
		err = map_at(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_ANONYMOUS, -1, 0);
	return err < 0 && err > -4096 ? err : 0;
}

/* Makes the thunks in reserved memory. Returns 0 or -errno. */
static int64_t make_code(const struct xr_object *o, uint64_t at)
{
	int64_t err = write_code(o, at);
	if (err)
		return map_code(o, at);
	/* Like code that comes from a file, it is not in core dumps. */
	xr_sys3(SYS_madvise, at + 2 * PAGE, size_of_own(o), MADV_DONTDUMP);
	return 0;
}

int xr_make_thunks(struct xr_object *o)
{
	if (o->thunks && are_near(o, o->thunks)) {
		write_slots(o);
		return 0;
	}
	uint64_t size = size_of_thunks(o);
	if (o->thunks)
		xr_unmap((void *)o->thunks, size);
	o->thunks = 0;
	uint64_t at = reserve_near(&xr_mappings[o - xr_root.objects], o);
	if (!at)
		return -ENOMEM;
	int64_t err = make_code(o, at);
	if (err < 0) {
		xr_unmap((void *)at, size);
		return err;
	}
	o->thunks = at;
	write_slots(o);
	return 0;
}

/* Sets the targets for sleds of libc functions, for a mode that keeps records. by is as in
 * xr_set_mode. */
static void direct_calls(trampoline *to, int by, int prune)
{
	static const trampoline plain[][XR_CALLS] = {
		{xr_call_arg_nocpu, xr_call_args_nocpu, xr_call_descriptor_nocpu, xr_record_nocpu, xr_call_result_nocpu},
		{xr_call_arg, xr_call_args, xr_call_descriptor, xr_record, xr_call_result},
		{xr_call_arg_rseq, xr_call_args_rseq, xr_call_descriptor_rseq, xr_record_rseq, xr_call_result_rseq},
	};
	static const trampoline pruning[][2] = {
		{xr_call_prune_nocpu, xr_call_prune_result_nocpu},
		{xr_call_prune, xr_call_prune_result},
		{xr_call_prune_rseq, xr_call_prune_result_rseq},
	};
	xr_copy(to, plain[by], sizeof plain[by]);
	if (prune)
		xr_copy(&to[XR_CALL_EXIT - 1], pruning[by], sizeof pruning[by]);
}

static const trampoline depth_calls[XR_CALLS] = {
	xr_depth_call_arg, xr_depth_call_args, xr_depth_call_descriptor, xr_depth_call_exit, xr_depth_call_result,
};

static const trampoline budget_calls[XR_CALLS] = {
	xr_budget_call_arg, xr_budget_call_args, xr_budget_call_descriptor, xr_budget_call_exit, xr_budget_call_result,
};

static const trampoline fiber_calls[XR_CALLS] = {
	xr_fiber_call_arg, xr_fiber_call_args, xr_fiber_call_descriptor, xr_fiber_call_exit, xr_fiber_call_result,
};

void xr_set_targets(void)
{
	static const enum xr_events events[CALL] = {
		[ENTER] = XR_CALLS_OF_FUNCTIONS, [EXIT] = XR_CALLS_OF_FUNCTIONS, [KEEP] = XR_CALLS_OF_FUNCTIONS,
		[ARG] = XR_ARGUMENTS, [CUSTOM] = XR_CUSTOM_EVENTS, [TYPED] = XR_TYPED_EVENTS,
	};
	trampoline to[THUNKS] = {NOTHING_AT_ALL};
	/* If some sleds recorded before others, there would be exits without entries, and calls without
	 * their callees. */
	int on = patched_on && !switching;
	if (on)
		xr_copy(to, recording, sizeof to);
	for (int i = 0; i < CALL; i++) {
		trampoline handler = xr_above.handler_of(events[i]);
		trampoline nothing = (trampoline[]){NOTHING}[i];
		if (xr_log_records && handler != xr_recorded)
			to[i] = nothing;
		__atomic_store_n(&xr_handler_next[i], to[i], __ATOMIC_RELEASE);
		/* Some sleds may be on only because the program asked for them. */
		int checked = to[i] != nothing && !xr_log_records && is_filtered();
		if (xr_asked && (checked || (handler && handler != xr_recorded)))
			to[i] = xr_above.handle[i];
	}
	if (to[ENTER] == xr_above.handle[ENTER])
		to[ONCE] = xr_above.handle[ENTER];
	/* Handlers, and the program's own log, get calls without values. */
	if (to[ENTER] != recording[ENTER]) {
		to[VALUES_ENTER] = to[ENTER];
		to[VALUES_EXIT] = to[KEEP];
	}
	if (to[ARG] != recording[ARG])
		to[VALUES_ARG] = to[ARG];
	if (on && xr_root.mode != XR_OFF && (to[ENTER] != recording[ENTER] || to[ARG] != recording[ARG]))
		xr_values_bypassed();
	xr_copy(targets, to, sizeof to);
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		if (xr_root.objects[i].thunks && xr_root.objects[i].state != XR_OBJECT_GONE)
			write_slots(&xr_root.objects[i]);
	xr_gcc_switch(on);
}

int xr_set_mode(enum xr_mode mode)
{
	enum { NONE, RDPID, RSEQ } by = xr_offcpu_on() ? RSEQ : xr_has_rdpid() ? RDPID : NONE;
	trampoline record = (trampoline[]){xr_record_nocpu, xr_record, xr_record_rseq}[by];
	trampoline arg = (trampoline[]){xr_record_arg_nocpu, xr_record_arg, xr_record_arg_rseq}[by];
	trampoline prune = (trampoline[]){xr_prune_nocpu, xr_prune, xr_prune_rseq}[by];
	static const trampoline values[] = {xr_values_enter, xr_values_exit};
	trampoline to[THUNKS] = {NOTHING_AT_ALL}, hooks[2] = {NULL, NULL};
	xr_take_room = (struct xr_place (*[])(uint64_t)){xr_take_nocpu, xr_take, xr_take_rseq}[by];
	switch (mode) {
	case XR_OFF:
		xr_log_records = 0;
		break;
	case XR_RECORD:
	case XR_PRUNE:
		to[ENTER] = record;
		to[EXIT] = mode == XR_PRUNE ? prune : record;
		to[KEEP] = xr_log_records ? to[EXIT] : record;
		to[ARG] = arg;
		direct_calls(&to[CALL], by, mode == XR_PRUNE);
		xr_copy(&to[VALUES_ENTER], values, sizeof values);
		break;
	case XR_DEPTH:
		xr_depth_next[0] = record;
		xr_depth_next[1] = xr_root.threshold ? prune : record;
		xr_depth_next[2] = arg;
		xr_depth_next[3] = record;
		direct_calls(&xr_depth_next[4], by, xr_root.threshold != 0);
		xr_copy(&xr_depth_next[XR_NEXT_VALUES], values, sizeof values);
		to[VALUES_ENTER] = xr_depth_values_enter;
		to[VALUES_EXIT] = xr_depth_values_exit;
		xr_copy(&to[CALL], depth_calls, sizeof depth_calls);
		to[ENTER] = xr_depth_enter;
		to[EXIT] = xr_depth_exit;
		to[KEEP] = xr_depth_keep;
		to[ARG] = xr_depth_arg;
		break;
	case XR_COUNT:
		to[ENTER] = to[ARG] = to[VALUES_ENTER] = xr_count;
		for (int i = XR_CALL_ARG; i <= XR_CALL_DESCRIPTOR; i++)
			to[CALL + i - 1] = xr_count;
		break;
	case XR_PROFILE:
		to[ENTER] = to[EXIT] = to[KEEP] = to[ARG] = xr_profile;
		for (int i = CALL; i < THUNKS; i++)
			to[i] = xr_profile;
		break;
	default:
		return -1;
	}
	if (mode == XR_COUNT)
		to[ONCE] = xr_count;
	else if (mode == XR_RECORD && !xr_limited)
		to[ONCE] = (trampoline[]){xr_record_once_nocpu, xr_record_once, xr_record_once_rseq}[by];
	else if (mode != XR_OFF)
		to[ONCE] = xr_once;
	if ((xr_limited || xr_options.fibers) && (mode == XR_RECORD || mode == XR_PRUNE)) {
		const trampoline next[] = {to[ENTER], to[EXIT], to[ARG], to[KEEP]};
		xr_copy(xr_budget_next, next, sizeof next);
		xr_copy(&xr_budget_next[4], &to[CALL], XR_CALLS * sizeof *to);
		xr_copy(&xr_budget_next[XR_NEXT_VALUES], values, sizeof values);
	}
	if (xr_limited && (mode == XR_RECORD || mode == XR_PRUNE)) {
		xr_copy(&to[CALL], budget_calls, sizeof budget_calls);
		to[VALUES_ENTER] = xr_budget_values_enter;
		to[VALUES_EXIT] = xr_budget_values_exit;
		to[ENTER] = xr_budget_enter;
		to[EXIT] = xr_budget_exit;
		to[ARG] = xr_budget_arg;
		to[KEEP] = xr_budget_keep;
	} else if (xr_options.fibers && (mode == XR_RECORD || mode == XR_PRUNE)) {
		hooks[0] = to[ENTER]; /* those of gcc have no return address where sleds have it */
		hooks[1] = to[EXIT];
		xr_copy(&to[CALL], fiber_calls, sizeof fiber_calls);
		to[VALUES_ENTER] = xr_fiber_values_enter;
		to[VALUES_EXIT] = xr_fiber_values_exit;
		to[ENTER] = xr_fiber_enter;
		to[EXIT] = xr_fiber_exit;
		to[ARG] = xr_fiber_arg;
		to[KEEP] = xr_fiber_keep;
	}
	to[VALUES_ARG] = to[VALUES_ENTER];
	xr_copy(xr_once_next, to, sizeof xr_once_next);
	if (mode == XR_RECORD || mode == XR_PRUNE || mode == XR_DEPTH) {
		to[CUSTOM] = __xray_CustomEvent;
		to[TYPED] = __xray_TypedEvent;
	}
	__atomic_store_n(&xr_root.mode, mode, __ATOMIC_RELEASE);
	xr_copy(recording, to, sizeof to);
	xr_gcc_set_mode(mode, hooks[0] ? hooks[0] : to[ENTER], hooks[1] ? hooks[1] : to[EXIT]);
	xr_set_targets();
	return 0;
}

/* Filter. */

enum { FILTER_BITS = (XR_MAX_FUNCTION + 1) / 8 };

int xr_filter_wants(uint32_t id)
{
	return !is_filtered() || (filter.bits[id / 8] >> id % 8 & 1);
}

static void set_bits(const struct xr_object *o, uint64_t first, uint64_t last, int on)
{
	for (uint64_t i = first; i <= last && i <= o->nfunctions; i++) {
		uint64_t id = o->first_id + i - 1;
		if (on)
			filter.bits[id / 8] |= 1 << id % 8;
		else
			filter.bits[id / 8] &= ~(1 << id % 8);
	}
}

/* Reads a number that ends at end or before another character; returns 0 if there is none. */
static uint64_t number(const char **p, const char *end)
{
	uint64_t v = 0;
	for (; *p < end && **p >= '0' && **p <= '9' && v <= XR_MAX_FUNCTION; (*p)++)
		v = v * 10 + (**p - '0');
	return v;
}

static int starts(const char *p, const char *end, const char *with)
{
	uint64_t n = xr_strlen(with);
	return (uint64_t)(end - p) >= n && !xr_strncmp(p, with, n);
}

/* Applies the filter's lines to o, or only checks them if o is null. Returns the number of
 * the first invalid line. Stores 1 in *when if calls have conditions. */
static int read_filter(const char *text, uint64_t size, const struct xr_object *o, uint32_t *when)
{
	int line = 1, applies = 0, named = 0;
	for (const char *p = text, *end; p < text + size; p = end + 1, line++) {
		for (end = p; end < text + size && *end != '\n'; end++)
			;
		if (p == end)
			continue;
		if (starts(p, end, "object ")) {
			const char *path = p + 7;
			uint64_t n = end - path;
			named = 1;
			applies = o && n < sizeof o->path && !xr_strncmp(o->path, path, n) && !o->path[n];
			if (applies)
				set_bits(o, 1, o->nfunctions, 0);
		} else if (end - p == 11 && starts(p, end, "default off")) {
			if (o && !applies)
				set_bits(o, 1, o->nfunctions, 0);
		} else if (starts(p, end, "values ")) {
			if (!named || ((applies || !o) && !xr_values_read(p + 7, end, o, 0)))
				return line;
		} else if (end - p == 4 && starts(p, end, "when")) {
			*when = 1;
		} else if (starts(p, end, "when ")) {
			if (!named || ((applies || !o) && !xr_values_read(p + 5, end, o, 1)))
				return line;
		} else if (starts(p, end, "unread ")) {
			if (!xr_values_read_refused(p + 7, end, o != NULL))
				return line;
		} else {
			uint64_t first = number(&p, end), last = first;
			if (p < end && *p == '-') {
				p++;
				last = number(&p, end);
			}
			if (!named || !first || last < first || p != end)
				return line;
			if (applies)
				set_bits(o, first, last, 1);
		}
	}
	return 0;
}

int64_t xr_read_file(int fd, char **text, uint64_t *mapped)
{
	enum { LARGEST = 64 << 20 };
	struct stat st;
	if (xr_sys2(SYS_fstat, fd, (intptr_t)&st) < 0 || !S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (st.st_size > LARGEST)
		return -EFBIG;
	*mapped = st.st_size + 1;
	*text = xr_map(*mapped);
	if (!*text)
		return -ENOMEM;
	int64_t n = 0;
	while (n < st.st_size) {
		int64_t k = xr_sys4(SYS_pread64, fd, (intptr_t)*text + n, st.st_size - n, n);
		if (k < 0 && k != -EINTR) {
			xr_unmap(*text, *mapped);
			*text = NULL;
			return k;
		}
		if (!k)
			break;
		if (k > 0)
			n += k;
	}
	return n;
}

/* Asks the observer, which knows the names, for the lines of an object. */
static void ask_observer(const struct xr_object *o)
{
	char *text = NULL;
	uint64_t mapped = 0;
	int all = filter.ask == ASK_OR_ALL, fd = xr_arena_select(xr_options.observer, o);
	int64_t n = fd < 0 ? fd : xr_read_file(fd, &text, &mapped);
	set_bits(o, 1, o->nfunctions, all);
	if (n >= 0 && read_filter(text, n, o, &xr_when))
		n = -EPROTO;
	if (n < 0) {
		char room[sizeof o->path + 64];
		struct xr_text t = xr_text_in(room, sizeof room - 1);
		xr_put_text(&t, o->path);
		xr_put_text(&t, ": ");
		xr_put_text(&t, xr_errno_text(n));
		room[t.n] = 0;
		xr_warn(all ? "cannot learn which functions xray record excludes, so all are recorded" :
			      "cannot learn which functions xray record selects, so none are recorded", room);
	}
	if (text)
		xr_unmap(text, mapped);
	if (fd >= 0)
		xr_close(fd);
}

void xr_filter_object(const struct xr_object *o)
{
	xr_values_clear(o);
	if (filter.ask && o->nsleds) {
		ask_observer(o);
	} else if (filter.text) {
		set_bits(o, 1, o->nfunctions, 1);
		read_filter(filter.text, filter.size, o, &xr_when);
	}
}

void xr_ask_filter(int or_all)
{
	filter.bits = xr_map(FILTER_BITS);
	filter.ask = !filter.bits ? ASK_NOBODY : or_all ? ASK_OR_ALL : ASK_OR_NONE;
}

int xr_set_filter(const char *text, size_t size)
{
	uint32_t when = 0;
	int wrong = text ? read_filter(text, size, NULL, &when) : 0;
	if (wrong)
		return wrong;
	char *copy = text ? xr_map(size + 1) : NULL;
	if (text && !filter.bits)
		filter.bits = xr_map(FILTER_BITS);
	if (text && (!copy || !filter.bits)) {
		if (copy)
			xr_unmap(copy, size + 1);
		return -1;
	}
	if (filter.text)
		xr_unmap(filter.text, filter.size + 1);
	if (copy)
		xr_copy(copy, text, size);
	filter.text = copy;
	filter.ask = ASK_NOBODY;
	filter.size = size;
	xr_when = when;
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		xr_filter_object(&xr_root.objects[i]);
	return 0;
}

/* Sleds. */

static const struct shape {
	uint16_t off, on;   /* heads, little-endian */
	uint8_t tail;       /* where the tail begins; that of an event is only its displacement */
	uint8_t call;       /* offset of its call or jump */
	uint8_t opcode;     /* opcode of the call or jump */
} shapes[XR_SLED_KINDS] = {
	[XR_SLED_ENTRY] = {0x09eb, 0x04eb, 2, 6, 0xe8},
	[XR_SLED_EXIT] = {0x00c3, 0x04eb, 2, 6, 0xe9},
	[XR_SLED_TAIL] = {0x09eb, 0x04eb, 2, 6, 0xe8},
	[XR_SLED_ARG] = {0x09eb, 0x04eb, 2, 6, 0xe8},
	[XR_SLED_CUSTOM] = {0x0feb, 0x9066, 11, 10, 0xe8},
	[XR_SLED_TYPED] = {0x14eb, 0x9066, 15, 14, 0xe8},
};

/* Clang before version 19 also makes a tail exit of a conditional jump to another function. The sled is
 * before the jump, and the call ends only if the condition holds. Such a sled has a head that jumps over
 * the rest if it does not hold. The call of the thunk follows, and then an instruction that
 * makes the condition hold again, because trampolines change the flags. Neither reads or changes
 * anything else: the stack below the return address is free once the function is left. */
static const struct shape conditional = {0x09eb, 0x0970, 2, 2, 0xe8};

/* While an entry of libcalls/ is off, it leads to a jump to libc's function, not into the rest of ours. LLVM's
 * runtime switches such entries off like others. */
enum { BYPASS = 0xeb | (XR_CALL_BYPASS - 2) << 8 };

static int has_bypass(const struct xr_sled *s)
{
	static const uint64_t mark = XR_CALL_MARK;
	const uint8_t *p = (const uint8_t *)xr_sled_address(s), *function = (const uint8_t *)xr_sled_function(s);
	return (s->kind == XR_SLED_ENTRY || s->kind == XR_SLED_ARG) && p[11] == 0xeb && (uintptr_t)function % XR_CALL_ALIGN == XR_CALL_HEAD &&
	       !__builtin_memcmp(function - XR_CALL_HEAD, &mark, sizeof mark);
}

/* Returns the condition of the jump behind a tail exit, by its number in opcodes, or -1. */
static int condition_after(const uint8_t *sled)
{
	const uint8_t *p = sled + 11;
	return p[0] == 0x0f && p[1] >> 4 == 8 ? p[1] & 15 : p[0] >> 4 == 7 ? p[0] & 15 : -1;
}

/* Writes an instruction of at most 4 bytes after which the condition holds. The stack pointer is
 * positive. Below it is the return address of the sled's call, whose upper bytes are 0. Returns 0 if
 * there is none. */
static int hold(int condition, const uint8_t *sled, uint8_t to[4])
{
	enum { OVERFLOWS, BELOW = 2, NOT_EQUAL = 5, ABOVE = 7, NEGATIVE, ODD = 11, LESS, GREATER = 15 };
	uint8_t instruction[4] = {0x48, 0x39, 0xe4, 0x90}; /* cmp %rsp, %rsp */
	uint64_t back = (uintptr_t)sled + 7, k = 0;
	switch (condition) {
	case OVERFLOWS:
		while (k < 6 && !((back >> (8 * k + 7) ^ back >> (8 * k + 6)) & 1))
			k++;
		xr_copy(instruction, (uint8_t[]){0xd0, 0x64, 0x24, 0xf8 + k}, 4); /* shlb -8+k(%rsp) */
		break;
	case BELOW:
		xr_copy(instruction, (uint8_t[]){0xf9, 0x0f, 0x1f, 0x00}, 4); /* stc */
		break;
	case NOT_EQUAL: case ABOVE: case GREATER:
		instruction[1] = 0x85; /* test %rsp, %rsp */
		break;
	case NEGATIVE: case LESS:
		xr_copy(instruction, (uint8_t[]){0xfe, 0x4c, 0x24, 0xff}, 4); /* decb -1(%rsp) */
		break;
	case ODD:
		xr_copy(instruction, (uint8_t[]){0xfe, 0x44, 0x24, 0xff}, 4); /* incb -1(%rsp) */
		break;
	}
	xr_copy(to, instruction, 4);
	return k < 6;
}

static int is_event(int kind) { return kind == XR_SLED_CUSTOM || kind == XR_SLED_TYPED; }

/* The bytes that compilers put into the tails of entries and exits: a nop of 9 bytes, the
 * end of one of 10 bytes, and the same for processors on which such long nops are slow. */
static const uint8_t nops[][9] = {
	{0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00},
	{0x0f, 0x1f, 0x80, 0x00, 0x02, 0x00, 0x00, 0x66, 0x90},
	{0x1f, 0x80, 0x00, 0x02, 0x00, 0x00, 0x0f, 0x1f, 0x00},
};

/* A sled and its intended state. */
struct target {
	uint8_t *p;
	struct shape shape;
	uint8_t tail[9];
	uint8_t size;     /* of the tail */
	uint8_t want;     /* on */
};

enum condition { FRESH, OURS, FOREIGN };

/* Tails have 9 or 4 bytes. Copies of a fixed size compile to single loads and stores, of
 * the same size here and where a tail is assembled. This matters for tens of thousands of
 * sleds. */
static int has_tail(const struct target *t)
{
	const uint8_t *p = t->p + t->shape.tail;
	uint64_t a = 0, b = 0;
	if (t->size == 4) {
		__builtin_memcpy(&a, p, 4);
		__builtin_memcpy(&b, t->tail, 4);
		return a == b;
	}
	__builtin_memcpy(&a, p, 8);
	__builtin_memcpy(&b, t->tail, 8);
	return a == b && p[8] == t->tail[8];
}

static int head_is_on(const struct target *t)
{
	return __atomic_load_n((uint16_t *)t->p, __ATOMIC_RELAXED) == t->shape.on;
}

static int head_is_off(const struct target *t)
{
	uint16_t head = __atomic_load_n((uint16_t *)t->p, __ATOMIC_RELAXED);
	if (t->shape.off == BYPASS && head == shapes[XR_SLED_ENTRY].off)
		return 1;
	return t->shape.off >> 8 ? head == t->shape.off : (head & 0xff) == t->shape.off;
}

static enum condition condition(const struct target *t)
{
	int on = head_is_on(t);
	if (!on && !head_is_off(t))
		return FOREIGN;
	if (t->p[t->shape.call] == t->shape.opcode && has_tail(t))
		return OURS;
	if (on)
		return FOREIGN;
	if (t->size == 4) /* an event's call, to the function that the linker found */
		return t->p[t->shape.call] == t->shape.opcode ? FRESH : FOREIGN;
	for (unsigned i = 0; i < sizeof nops / sizeof *nops; i++)
		if (!xr_memcmp(t->p + 2, nops[i], sizeof *nops))
			return FRESH;
	return FOREIGN;
}

/* Whether the mode records sleds of this kind. */
static int mode_wants(int kind, enum xr_unsafe unsafe)
{
	if (xr_root.mode == XR_COUNT && unsafe != XR_ONE_SIDED)
		return kind == XR_SLED_ENTRY || kind == XR_SLED_ARG;
	return !is_event(kind) || xr_root.mode != XR_PROFILE;
}

/* Returns whether a sled of this kind should be on, by the bits from xr_budget_wants. */
static int budget_wants(unsigned wants, int kind)
{
	return is_event(kind) || wants & (kind == XR_SLED_ENTRY || kind == XR_SLED_ARG ? 1 : 2);
}

/* An iterator over the sleds of an object, from sled i up to end. */
struct walk {
	const struct xr_object *o;
	uint64_t i, function;
	uint32_t id;
	uint64_t end; /* 0: all */
	/* Of the function: */
	unsigned budget; /* from xr_budget_wants */
	enum xr_unsafe unsafe;
	int wanted;      /* by the recorder */
	uint64_t first;  /* address of its first sled */
	int repeats;     /* its sleds are listed again: gold lists those of folded functions */
};

static void enter_function(struct walk *w, const struct xr_sled *s)
{
	w->unsafe = xr_unsafe(w->o, w->id - w->o->first_id);
	w->wanted = patched_on && !xr_log_records && xr_filter_wants(w->id);
	w->budget = xr_budget_wants(w->id);
	w->first = xr_sled_address(s);
	w->repeats = 0;
}

static int next(struct walk *w, struct target *t)
{
	const struct xr_sled *s;
	do {
		if (w->i == (w->end ? w->end : w->o->nsleds))
			return 0;
		s = (const struct xr_sled *)w->o->sleds + w->i;
		xr_prefetch_sled(w->o, w->i);
		uint64_t function = xr_sled_function(s);
		if (!w->id)
			w->id = w->o->first_id;
		else if (w->function && function != w->function)
			w->id++;
		if (function != w->function) {
			enter_function(w, s);
		} else if (xr_sled_address(s) == w->first) {
			w->repeats = 1;
		}
		w->function = function;
		w->i++;
		/* Only if something else has changed a sled may others of its function be on. */
	} while (w->repeats || (w->unsafe > XR_ONE_SIDED && w->unsafe != XR_CHANGED && (w->unsafe == XR_FOLDED || w->unsafe == XR_RED_ZONE || !is_event(s->kind))));
	enum xr_unsafe unsafe = w->unsafe;

	t->p = (uint8_t *)xr_sled_address(s);
	t->shape = shapes[s->kind];
	if (has_bypass(s))
		t->shape.off = BYPASS;
	t->want = (w->wanted && mode_wants(s->kind, unsafe) && budget_wants(w->budget, unsafe == XR_ONE_SIDED ? XR_SLED_ENTRY : s->kind)) ||
		  (xr_program_wants(w->id) && !s->call);
	if (unsafe > XR_ONE_SIDED && !is_event(s->kind))
		t->want = 0;
	int held = s->kind == XR_SLED_TAIL ? condition_after(t->p) : -1;
	if (held >= 0) {
		t->shape = conditional;
		t->shape.on |= held ^ 1;
	}
	uint64_t thunk = w->o->thunks + (is_event(s->kind) ? (uint64_t)thunk_of(w->o, s, w->id - w->o->first_id) * THUNK_SIZE : 2 * PAGE + (w->i - 1) * THUNK_SIZE);
	uint64_t displacement = (uint32_t)(thunk - ((uintptr_t)t->p + t->shape.call + 5)), tail = displacement;
	t->size = 4;
	if (held >= 0) {
		uint8_t *to = t->tail;
		uint32_t near = displacement;
		t->size = 9;
		to[0] = t->shape.opcode;
		xr_copy(to + 1, &near, 4);
		hold(held, t->p, to + 5);
		return 1;
	}
	if (!is_event(s->kind)) {
		tail = w->id | (uint64_t)t->shape.opcode << 32 | displacement << 40;
		t->tail[8] = displacement >> 24;
		t->size = 9;
	}
	__builtin_memcpy(t->tail, &tail, 8);
	return 1;
}

/* How to write to code: directly, or through a file of the process's memory if the code may
 * not be made writable. */
struct pen {
	int fd;        /* -1: directly */
	uint64_t first, size;
	int prot;
};

/* Returns whether no other thread can execute the code. Only then may it be written through a
 * file, because that copy need not be atomic. */
static int is_alone(void)
{
	struct stat st;
	return !xr_sys2(SYS_stat, (intptr_t)"/proc/self/task", (intptr_t)&st) && st.st_nlink == 3;
}

/* Takes the pen for the code between two addresses. */
static int64_t take_pen(struct pen *pen, const struct xr_object *o, uint64_t from, uint64_t to)
{
	const struct xr_mapping *place = &xr_mappings[o - xr_root.objects];
	pen->fd = -1;
	pen->prot = place->prot;
	pen->first = from & -(uint64_t)PAGE;
	pen->size = ((to + PAGE - 1) & -(uint64_t)PAGE) - pen->first;
	int64_t err = xr_sys3(SYS_mprotect, pen->first, pen->size, pen->prot | PROT_WRITE);
	if (!err || !is_alone())
		return err;
	pen->fd = xr_open("/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
	return pen->fd < 0 ? err : 0;
}

/* Whether no other thread can execute code until all sleds are on. */
static int alone;

static void drop_pen(const struct pen *pen)
{
	if (pen->fd >= 0)
		xr_close(pen->fd);
	else
		xr_sys3(SYS_mprotect, pen->first, pen->size, pen->prot);
}

static void write_tail(const struct pen *pen, const struct target *t)
{
	uint8_t *to = t->p + t->shape.tail;
	if (pen->fd >= 0)
		xr_sys4(SYS_pwrite64, pen->fd, (intptr_t)t->tail, t->size, (intptr_t)to);
	else
		xr_copy(to, t->tail, t->size);
}

static void write_head(const struct pen *pen, const struct target *t)
{
	uint16_t head = t->want ? t->shape.on : t->shape.off;
	int one_byte = !(head >> 8); /* ret */
	if (pen->fd >= 0)
		xr_sys4(SYS_pwrite64, pen->fd, (intptr_t)&head, one_byte ? 1 : 2, (intptr_t)t->p);
	else if (one_byte)
		__atomic_store_n(t->p, (uint8_t)head, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint16_t *)t->p, head, __ATOMIC_RELEASE);
}

/* Makes earlier writes visible to all cores before they execute later ones. */
static void barrier(void)
{
	if (xr_sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) < 0)
		xr_sys3(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* The state of patching an object. */
struct work {
	int writing;   /* pen is taken */
	int fresh;     /* tails were written, and their heads wait for a barrier */
	uint64_t from, to; /* range in which to switch sleds; 0: everywhere */
	struct pen pen;
};
static struct work works[XR_MAX_OBJECTS];

/* How often code could not be made writable. */
static uint64_t unwritable;

/* Copies all pages of an object's code with one system call, which takes half as long as a page fault for
 * each. Only if nearly all of them will be written. */
static void copy_pages(const struct xr_object *o, const struct pen *pen)
{
	enum { POPULATE_WRITE = 23, SLEDS_PER_PAGE = 4 };
	if (pen->fd < 0 && !is_filtered() && !xr_limited && o->nsleds / SLEDS_PER_PAGE >= pen->size / PAGE)
		xr_sys3(SYS_madvise, pen->first, pen->size, POPULATE_WRITE);
}

void xr_copy_code(const struct xr_object *o)
{
	struct pen pen;
	if (xr_starts != XR_STARTS_ALL || take_pen(&pen, o, o->text_first, o->text_end))
		return;
	copy_pages(o, &pen);
	drop_pen(&pen);
}

/* Makes an object writable. Returns 0 if that fails. */
static int begin_writing(struct xr_object *o, struct work *work)
{
	int64_t err = work->to ? take_pen(&work->pen, o, work->from, work->to) : take_pen(&work->pen, o, o->text_first, o->text_end);
	work->writing = !err;
	unwritable += err != 0;
	if (err && patched_on && !o->patched)
		xr_refuse(o, "cannot make its code writable", err);
	else if (err)
		xr_warn("cannot make an object's code writable, so its sleds stay unchanged", o->path);
	else if (!work->to && patched_on && !alone)
		copy_pages(o, &work->pen);
	return !err;
}

/* Visits each sled of an object only once, because memory access takes most of the time. Checks
 * the sled and flips its head, or writes the tail if there is none yet. Leaves off functions whose sleds
 * something else has changed, and then returns 0: others of their sleds may be on. */
static int visit(struct xr_object *o, struct work *work)
{
	struct walk w = {.o = o};
	struct target t;
	uint64_t patched = 0;
	int changed = 0;
	while (next(&w, &t)) {
		enum condition c = condition(&t);
		if (c == FOREIGN) {
			changed |= xr_unsafe(o, w.id - o->first_id) != XR_CHANGED;
			xr_leave_off(o, w.id - o->first_id, XR_CHANGED);
			continue;
		}
		patched += t.want;
		if (head_is_on(&t) == t.want)
			continue;
		if (!work->writing && !begin_writing(o, work))
			return 1;
		if (c == FRESH) {
			if (o->patched && !work->fresh) /* closed and reopened at the same address */
				xr_mappings[o - xr_root.objects].absent = xr_last_scan;
			write_tail(&work->pen, &t);
			work->fresh = !alone;
		}
		if (c != FRESH || alone)
			write_head(&work->pen, &t);
	}
	o->patched = patched;
	return !changed;
}

static void work_on(struct xr_object *o, struct work *work)
{
	if (visit(o, work))
		return;
	visit(o, work);
	if (xr_left_off(o, XR_CHANGED) == o->nfunctions)
		xr_refuse(o, "another recorder, such as LLVM's, has changed its sleds", 0);
	else
		xr_warn("another recorder, such as LLVM's, has changed sleds of an object, so some functions are not recorded", o->path);
}

static void flip_heads(struct xr_object *o, const struct work *work)
{
	struct walk w = {.o = o};
	struct target t;
	while (next(&w, &t))
		if (head_is_on(&t) != t.want && condition(&t) == OURS)
			write_head(&work->pen, &t);
}

/* Records when an object that was opened during the recording was completely patched. */
static void note_recorded(struct xr_object *o)
{
	struct xr_mapping *place = &xr_mappings[o - xr_root.objects];
	uint64_t now = xr_rdtsc();
	if (!place->absent || !o->patched)
		return;
	if (now - place->absent > o->recorded - o->absent) {
		o->absent = place->absent;
		o->recorded = now;
	}
	o->opened++;
	o->missed += now - place->absent;
	place->absent = 0;
}

/* With a budget: the bits from xr_budget_wants that are applied to each function, by ID. Then, for each
 * object, the index of each function's first sled, with the number of sleds at the end. */
static uint8_t *applied;
static uint32_t *first_sleds[XR_MAX_OBJECTS];

int xr_only_exits_on(uint64_t id) { return applied && applied[id] == 2; }

static unsigned wanted(uint64_t id) { return patched_on && xr_filter_wants(id) ? xr_budget_wants(id) : 0; }

static void note_applied(const struct xr_object *o)
{
	for (uint64_t i = 0; i < o->nfunctions && o->first_id + i < XR_LIMITS; i++) {
		uint8_t want = wanted(o->first_id + i);
		if (applied[o->first_id + i] != want)
			applied[o->first_id + i] = want;
	}
}

/* Runs before all sleds are visited. */
static void prepare_budget(void)
{
	if (!applied)
		applied = xr_map(XR_LIMITS);
	xr_budget_note_open();
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		if (xr_root.objects[i].state == XR_OBJECT_READY)
			xr_budget_admit(&xr_root.objects[i]);
}

static const uint32_t *sleds_of(const struct xr_object *o)
{
	uint32_t **first = &first_sleds[o - xr_root.objects];
	if (*first)
		return *first;
	uint32_t *list = xr_map((o->nfunctions + 1) * sizeof *list);
	if (!list)
		return NULL;
	uint64_t function = 0, n = 0;
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	for (uint64_t i = 0; i < o->nsleds; i++)
		if (!i || xr_sled_function(&s[i]) != function) {
			function = xr_sled_function(&s[i]);
			list[n++] = i;
		}
	list[n] = o->nsleds;
	return *first = list;
}

/* Switches the sleds of a function. Returns 0 if all sleds of its object have to be visited. */
static int switch_function(struct xr_object *o, struct work *work, const uint32_t *first, uint64_t i)
{
	struct walk w = {.o = o, .i = first[i], .end = first[i + 1], .id = o->first_id + i};
	struct target t;
	while (next(&w, &t)) {
		if (head_is_on(&t) == t.want)
			continue;
		if (condition(&t) != OURS || (!work->writing && !begin_writing(o, work)))
			return 0;
		write_head(&work->pen, &t);
		o->patched += t.want ? 1 : -1;
	}
	return 1;
}

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static int has_changed(uint64_t id) { return applied[id] != wanted(id); }

struct range { uint64_t from, to; };

/* Returns the smallest range of code that has the heads of a function's sleds. */
static struct range heads_of(const struct xr_object *o, const uint32_t *first, uint64_t i)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	struct range heads = {.from = UINT64_MAX};
	for (uint64_t k = first[i]; k < first[i + 1]; k++) {
		heads.from = min(heads.from, xr_sled_address(&s[k]));
		heads.to = max(heads.to, xr_sled_address(&s[k]) + sizeof(uint16_t));
	}
	return heads;
}

/* Extends the range of code to change. */
static void extend(struct work *work, struct range r)
{
	work->from = min(work->from, r.from);
	work->to = max(work->to, r.to);
}

static int is_within(const struct work *work, struct range r) { return work->from <= r.from && r.to <= work->to; }

/* Switches the functions that have changed. Makes only the necessary code writable, because each page
 * takes time. Returns 0 if all sleds of the object have to be visited. */
static int switch_changed(struct xr_object *o, struct work *work)
{
	const uint32_t *first = sleds_of(o);
	uint64_t n = o->first_id < XR_LIMITS ? min(o->nfunctions, XR_LIMITS - o->first_id) : 0;
	work->from = UINT64_MAX;
	work->to = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (!has_changed(o->first_id + i))
			continue;
		if (!first)
			return 0;
		extend(work, heads_of(o, first, i));
	}
	for (uint64_t i = 0; work->to && i < n; i++) {
		uint8_t want = wanted(o->first_id + i);
		/* The controller may have decided more meanwhile. Leave that for the next time. */
		if (applied[o->first_id + i] == want || !is_within(work, heads_of(o, first, i)))
			continue;
		if (!switch_function(o, work, first, i))
			return 0;
		applied[o->first_id + i] = want;
	}
	return 1;
}

/* Whether an object's sleds can be switched now. */
static int can_switch(uint64_t i)
{
	return xr_root.objects[i].state == XR_OBJECT_READY && !(xr_mappings[i].late && xr_loader_is_barred());
}

static void patch_all(void)
{
	static uint64_t seen_values;
	int writing = 0, fresh = 0, redirected = 0;
	alone = xr_starts && is_alone();
	for (uint64_t i = 0; seen_values != xr_root.values_changes && i < xr_root.nobjects; i++)
		if (xr_root.objects[i].state == XR_OBJECT_READY && xr_root.objects[i].thunks)
			redirected |= redirect(&xr_root.objects[i]);
	seen_values = xr_root.values_changes;
	if (redirected)
		barrier();
	if (xr_limited)
		prepare_budget();
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		works[i] = (struct work){0};
		if (can_switch(i))
			work_on(&xr_root.objects[i], &works[i]);
		writing |= works[i].writing;
		fresh |= works[i].fresh;
	}
	if (fresh)
		barrier();
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		if (works[i].fresh)
			flip_heads(&xr_root.objects[i], &works[i]);
		if (works[i].writing)
			drop_pen(&works[i].pen);
	}
	if (writing && !alone)
		barrier();
	alone = 0;
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		note_recorded(&xr_root.objects[i]);
	for (uint64_t i = 0; applied && xr_limited && i < xr_root.nobjects; i++)
		if (can_switch(i))
			note_applied(&xr_root.objects[i]);
}

struct update {
	int patch;    /* patch even if no object has changed */
	int changed;
};

static void update(void *arg)
{
	struct update *u = arg;
	if (xr_loader_is_barred()) {
		if (u->patch) {
			patch_all();
			xr_last_scan = patched_on ? xr_rdtsc() : 0;
		}
		return;
	}
	uint64_t now = xr_rdtsc(), changes = xr_loader_changes() + xr_gcc_functions();
	if (changes != seen_changes || u->patch) {
		seen_changes = changes;
		u->changed = xr_discover();
		if (u->patch || patched_on || xr_asked)
			patch_all();
	}
	xr_last_scan = patched_on ? now : 0;
}

/* The caller holds XR_LOCK_LOADER. */
static void patch_changed(void *arg)
{
	int *result = arg;
	int whole = !applied || (!xr_loader_is_barred() && seen_changes != xr_loader_changes() + xr_gcc_functions());
	struct work work;
	int writing = 0;
	for (uint64_t i = 0; !whole && i < xr_root.nobjects; i++) {
		struct xr_object *o = &xr_root.objects[i];
		work = (struct work){0};
		if (can_switch(i) && !switch_changed(o, &work))
			whole = 1;
		writing |= work.writing;
		if (work.writing)
			drop_pen(&work.pen);
	}
	if (whole) {
		struct update u = {1, 0};
		update(&u);
	} else if (writing) {
		barrier();
	}
	*result = whole;
}

int xr_patch_changed(void)
{
	int whole = 0;
	xr_budget_note_open();
	xr_with_loader(patch_changed, &whole);
	return whole;
}

int xr_objects_changed(void)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_LOADER);
	uint64_t changes = xr_loader_changes() + xr_gcc_functions();
	xr_unlock(XR_LOCK_LOADER);
	xr_restore_signals(signals);
	return changes != __atomic_load_n(&seen_changes, __ATOMIC_RELAXED);
}

void xr_before_open(void)
{
	uint64_t now = xr_rdtsc();
	if (!xr_objects_changed() && __atomic_load_n(&xr_last_scan, __ATOMIC_RELAXED))
		__atomic_store_n(&xr_last_scan, now, __ATOMIC_RELAXED);
}

int xr_rescan(void)
{
	struct update u = {0, 0};
	xr_with_loader(update, &u);
	if (u.changed) {
		xr_share_objects();
		xr_arena_publish();
	}
	return u.changed;
}

static void switch_all(void *arg)
{
	const int *on = arg;
	struct update u = {1, 0};
	switching = patched_on != *on;
	patched_on = *on;
	xr_set_targets();
	update(&u);
	if (switching) {
		switching = 0;
		xr_set_targets();
	}
}

int xr_patch(int on)
{
	int refused = 0;
	xr_with_loader(switch_all, &on);
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		refused |= xr_root.objects[i].state == XR_OBJECT_REFUSED;
	return refused ? -1 : 0;
}

void xr_patch_forked(void)
{
	if (!switching)
		return;
	switching = 0;
	xr_set_targets();
}

/* Functions that the program has patched. */

int xr_recorder_wants(uint32_t id) { return patched_on && (xr_log_records || xr_filter_wants(id)); }

struct asked {
	struct xr_object *o;
	uint64_t i, address;
	int done;
};

static void patch_asked(void *arg)
{
	struct asked *a = arg;
	struct update u = {1, 0};
	uint64_t failures = unwritable;
	update(&u);
	a->done = failures == unwritable;
}

int xr_patch_asked(void)
{
	struct asked a = {0};
	xr_with_loader(patch_asked, &a);
	return a.done ? 0 : -1;
}

static void patch_function(void *arg)
{
	struct asked *a = arg;
	const uint32_t *first = sleds_of(a->o);
	struct work work = {0};
	int switched = first && a->o->state == XR_OBJECT_READY && switch_function(a->o, &work, first, a->i);
	if (work.writing)
		drop_pen(&work.pen);
	if (switched) {
		a->done = 1;
		barrier();
	} else {
		patch_asked(arg);
	}
}

int xr_patch_function(struct xr_object *o, uint64_t i)
{
	struct asked a = {o, i, 0, 0};
	xr_with_loader(patch_function, &a);
	return a.done && o->state == XR_OBJECT_READY ? 0 : -1;
}

static void find_address(void *arg)
{
	struct asked *a = arg;
	struct update u = {0, 0};
	update(&u);
	const uint32_t *first = a->o->state == XR_OBJECT_GONE ? NULL : sleds_of(a->o);
	if (first)
		a->address = xr_sled_function((const struct xr_sled *)a->o->sleds + first[a->i]);
}

uint64_t xr_function_address(struct xr_object *o, uint64_t i)
{
	struct asked a = {o, i, 0, 0};
	xr_with_loader(find_address, &a);
	return a.address;
}

void xr_patch_init(void)
{
	xr_sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}
