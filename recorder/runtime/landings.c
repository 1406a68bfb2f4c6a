/* Calls that end without an exit. An exception, forced unwinding or longjmp lands in a frame
 * further out. While the stack still has the calls in between, the recorder writes an exit for
 * each of them, so that a reader ends them there.
 *
 * In every language, unwinding calls _Unwind_SetIP when control goes to a handler or to cleanup
 * code: the personality routines of C++, Rust and others pass the frame to land in. In dynamic
 * programs, the recorder's version comes first. The functions of the longjmp family are in
 * jumps.c.
 *
 * Each frame of an instrumented function on the stack is one call. The program's unwinder walks
 * the stack. Nothing here allocates or locks. Some frames are known without a walk: those of
 * depth and profile mode, and of gcc's -mfentry. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unwind.h>

#include "budget.h"
#include "clock.h"
#include "events.h"
#include "fibers.h"
#include "gcc.h"
#include "landings.h"
#include "layout.h"
#include "objects.h"
#include "parts.h"
#include "profile.h"
#include "ring.h"
#include "state.h"
#include "syscall.h"
#include "values.h"

typedef void set_ip_function(struct _Unwind_Context *, _Unwind_Ptr);

/* The unwinder's functions, looked up when the recorder starts; null if there is no
 * unwinder. */
static struct {
	set_ip_function *set_ip;
	_Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
	_Unwind_Word (*cfa)(struct _Unwind_Context *);
	_Unwind_Ptr (*start)(struct _Unwind_Context *);
} unwinder;

/* Functions by address. */

/* Whether an object's sled table is sorted by function, as linkers leave it. The first search
 * determines this. */
static struct {
	uint64_t sleds;
	int ordered;
} tables[XR_MAX_OBJECTS];

static int is_ordered(const struct xr_object *o)
{
	uint64_t i = o - xr_root.objects;
	if (__atomic_load_n(&tables[i].sleds, __ATOMIC_ACQUIRE) == o->sleds)
		return tables[i].ordered;
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	int ordered = 1;
	for (uint64_t k = 1; ordered && k < o->nsleds; k++)
		ordered = xr_sled_function(&s[k - 1]) <= xr_sled_function(&s[k]);
	tables[i].ordered = ordered;
	__atomic_store_n(&tables[i].sleds, o->sleds, __ATOMIC_RELEASE);
	return ordered;
}

/* Returns the index of the first sled whose function is not before this one. */
static uint64_t first_sled(const struct xr_object *o, uint64_t function)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t low = 0, high = o->nsleds;
	if (!is_ordered(o)) {
		while (low < high && xr_sled_function(&s[low]) != function)
			low++;
		return low;
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (xr_sled_function(&s[middle]) < function)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the ID in a sled's tail, or 0 if the sled is off. */
static uint32_t id_in_sled(const struct xr_sled *sled)
{
	if (sled->kind != XR_SLED_ENTRY && sled->kind != XR_SLED_ARG)
		return 0;
	return xr_id_in_entry((const uint8_t *)xr_sled_address(sled));
}

/* Returns the ID of a function of an object, or 0 if its sleds are off. */
static uint32_t id_of(const struct xr_object *o, uint64_t function)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	for (uint64_t k = first_sled(o, function); k < o->nsleds && xr_sled_function(&s[k]) == function; k++) {
		uint32_t id = id_in_sled(&s[k]);
		if (id)
			return id;
	}
	return 0;
}

/* Returns the ID of the function whose code, or a part of it, begins at this address, or 0 if its sleds
 * are off. */
static uint32_t sled_id(uint64_t function)
{
	uint64_t n = __atomic_load_n(&xr_root.nobjects, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_object *o = &xr_root.objects[i];
		if (o->state != XR_OBJECT_READY || !o->patched || function < xr_mappings[i].seg_first || function >= xr_mappings[i].seg_end)
			continue;
		uint32_t id = id_of(o, function);
		uint64_t whole = id ? 0 : xr_function_of_part(i, function);
		return whole ? id_of(o, whole) : id;
	}
	return 0;
}

/* Calls that are left. */

/* IDs are written in pieces of this size, because the stack may be small. */
enum { PIECE = 64 };

struct walk {
	uint64_t sp;        /* stack pointer of the landing frame, at the call that lands there */
	enum xr_mode mode;
	int limited;        /* by a budget; this and the mode may change meanwhile */
	int cause, found;
	uint64_t unrecorded; /* address of the return address of a call whose entry is not recorded, or 0 */
	uint64_t before;    /* stack pointer of the previous frame in the walk; 0: none */
	uint64_t function;  /* function of that frame */
	uint64_t n;         /* calls left so far */
	int write;          /* whether to write full pieces */
	uint64_t depth, nopen; /* open calls further out, as known to the mode and to gcc's -mfentry */
	uint32_t ids[PIECE]; /* the latest IDs */
};

/* Returns the ID of the call whose return address is at slot, or 0 if the call is not recorded. */
static uint32_t call_of(struct walk *w, uint64_t function, uint64_t slot)
{
	uint32_t id = xr_gcc_open_at(slot, &w->nopen);
	if (!id)
		id = sled_id(function);
	/* Only for jumps: during unwinding, the hook has already reported the end of this call. */
	if (!id && w->cause == XR_LEFT_BY_JUMP)
		id = xr_gcc_known(function);
	if (w->mode == XR_PROFILE)
		xr_profile_open_at(slot, &w->depth);
	if (w->limited) {
		/* Calls of libc functions are not noted. Their limits are XR_UNLIMITED. */
		uint32_t open = xr_budget_open_at(slot, &w->depth);
		if (open)
			return open;
		return id && (id >= XR_LIMITS || xr_limits[id] == XR_UNLIMITED) ? id : 0;
	}
	/* Deeper calls are not recorded. */
	return w->mode != XR_DEPTH || xr_depth_open_at(slot, &w->depth) ? id : 0;
}

static void put_piece(struct walk *w)
{
	uint64_t n = (w->n + PIECE - 1) % PIECE + 1;
	if (w->n && w->write)
		xr_record_left(w->cause, w->ids, n);
}

static void leave(struct walk *w, uint32_t id)
{
	if (w->n && w->n % PIECE == 0)
		put_piece(w);
	w->ids[w->n++ % PIECE] = id;
}

/* Examines a frame. The previous frame is left if its return address is below the landing
 * frame. The search ends at the landing frame. A frame of another stack, of a signal
 * handler or a coroutine, can be anywhere. */
static _Unwind_Reason_Code look(struct _Unwind_Context *c, void *arg)
{
	struct walk *w = arg;
	uint64_t sp = unwinder.cfa(c);
	if (w->before) {
		uint64_t slot = sp - 8;
		if (w->before <= w->sp && w->sp <= slot && slot - w->before < XR_SAME_STACK) {
			w->found = 1; /* its stack frame has grown since */
			return _URC_NORMAL_STOP;
		}
		uint32_t id = call_of(w, w->function, slot);
		if (id && slot != w->unrecorded)
			leave(w, id);
		/* What the frame of a signal says about another stack holds while its handler runs. Some programs make fibers of
		 * handlers that have returned: what is further out on the other stack is no frame any more. */
		if ((sp < w->before || sp - w->before >= XR_SAME_STACK) && !xr_is_of_handler(w->before))
			return _URC_NORMAL_STOP;
	}
	if (sp == w->sp) {
		w->found = 1;
		return _URC_NORMAL_STOP;
	}
	w->before = sp;
	w->function = unwinder.start(c);
	return _URC_NO_REASON;
}

static void walk(struct walk *w, int write)
{
	w->write = write;
	w->before = w->n = w->found = 0;
	w->depth = w->mode == XR_PROFILE ? xr_profile_depth() : w->limited ? xr_budget_depth() : xr_tls->depth;
	w->nopen = xr_tls->nopen;
	unwinder.backtrace(look, w);
}

/* With a budget, the noted calls are known without a walk. Those whose return addresses are below the
 * landing frame are left. */
static void land_within_budget(uint64_t sp, uint64_t unrecorded, int cause)
{
	uint32_t ids[PIECE], n;
	while ((n = xr_budget_take_left(sp, unrecorded, ids, PIECE)))
		xr_record_left(cause, ids, n);
}

void xr_land(uint64_t sp, int cause)
{
	uint64_t unrecorded = xr_values_left(sp);
	enum xr_mode mode = __atomic_load_n(&xr_root.mode, __ATOMIC_RELAXED);
	if (!xr_tls || !unwinder.backtrace || mode == XR_OFF || mode == XR_COUNT || xr_between_windows() || xr_is_forked())
		return;
	if (xr_limited && !xr_gcc_functions()) {
		land_within_budget(sp, unrecorded, cause);
		return;
	}
	int error = errno;
	enum { measured = 17 }; /* measure one landing in 17 */
	static uint64_t landings;
	uint64_t number = __atomic_fetch_add(&landings, 1, __ATOMIC_RELAXED);
	uint64_t cpu = number % measured ? 0 : xr_thread_cpu_ns();
	struct walk w = {.sp = sp, .mode = mode, .limited = xr_limited, .cause = cause, .unrecorded = unrecorded};
	walk(&w, 0);
	if (w.found && mode == XR_PROFILE) {
		xr_profile_leave(w.depth);
	} else if (w.found && w.n) {
		/* Only here is it certain that these calls are left. */
		if (w.n > PIECE)
			walk(&w, 1);
		w.write = 1;
		put_piece(&w);
	}
	if (w.found && mode == XR_DEPTH)
		xr_depth_leave(w.depth);
	if (w.found && xr_limited)
		xr_budget_leave(w.depth);
	if (w.found)
		xr_gcc_leave_open(w.nopen);
	if (cpu)
		xr_spend(&xr_spent.landings_ns, measured, cpu);
	errno = error;
}

/* Exceptions. */

static void *search(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);
	return p ? p : dlsym(RTLD_DEFAULT, name);
}

/* Static programs lack these. */
extern __typeof(dlopen) dlopen __attribute__((weak));
extern __typeof(dladdr) dladdr __attribute__((weak));

/* Looks up a name as the object that contains caller would. If only a plugin has an unwinder,
 * only the plugin can find it. */
static void *search_from(uint64_t caller, const char *name)
{
	Dl_info info;
	if (!dlopen || !dladdr || !dladdr((void *)caller, &info))
		return NULL;
	void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	void *p = object ? dlsym(object, name) : NULL;
	if (object)
		dlclose(object);
	return p;
}

/* Returns the function that the program would call without the recorder: from the unwinder
 * visible here, or else from the caller's. Searches rarely, because that takes the loader's
 * lock. */
static set_ip_function *real_set_ip(uint64_t caller, int *ours)
{
	set_ip_function *next = __atomic_load_n(&unwinder.set_ip, __ATOMIC_RELAXED);
	*ours = next != NULL;
	if (next)
		return next;
	next = search_from(caller, "_Unwind_SetIP");
	*ours = unwinder.cfa && search_from(caller, "_Unwind_GetCFA") == (void *)unwinder.cfa;
	if (*ours)
		__atomic_store_n(&unwinder.set_ip, next, __ATOMIC_RELAXED);
	return next;
}

__attribute__((weak, visibility("default"))) void _Unwind_SetIP(struct _Unwind_Context *c, _Unwind_Ptr ip)
{
	int ours;
	set_ip_function *next = real_set_ip((uint64_t)__builtin_return_address(0), &ours);
	if (ours)
		xr_land(unwinder.cfa(c), XR_LEFT_BY_UNWINDING);
	next(c, ip);
}

void xr_landings_init(int load)
{
	void *backtrace = search("_Unwind_Backtrace"), *library = NULL;
	/* A C program has no unwinder, but longjmp needs one. glibc itself loads this
	 * library when a thread is cancelled. */
	if (!backtrace && load && dlopen)
		library = dlopen("libgcc_s.so.1", RTLD_NOW);
	unwinder.cfa = library ? dlsym(library, "_Unwind_GetCFA") : search("_Unwind_GetCFA");
	unwinder.start = library ? dlsym(library, "_Unwind_GetRegionStart") : search("_Unwind_GetRegionStart");
	backtrace = library ? dlsym(library, "_Unwind_Backtrace") : backtrace;
	if (unwinder.cfa && unwinder.start)
		unwinder.backtrace = backtrace;
	unwinder.set_ip = dlsym(RTLD_NEXT, "_Unwind_SetIP");
}
