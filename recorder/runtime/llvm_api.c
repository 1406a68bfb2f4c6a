/* LLVM's API for handlers and patching: xray/xray_interface.h of compiler-rt.
 *
 * Handlers are functions of the program. The trampolines of handlers_amd64.S call them, and then
 * jump to the trampoline of the recorder's mode. So handlers and recordings do not interfere.
 * Each selects its own functions: a sled is on if the program or the recorder wants it. */
#include <cpuid.h>

#include "hooks.h"
#include "layout.h"
#include "lifecycle.h"
#include "llvm_api.h"
#include "locks.h"
#include "objects.h"
#include "patch.h"
#include "profile.h"
#include "state.h"
#include "syscall.h"
#include "warnings.h"
#include "window.h"

/* enum XRayPatchingStatus */
enum { NOT_INITIALIZED, SUCCESS, ONGOING, FAILED };

/* LLVM's IDs have the object's number in the upper bits and the function's number, from 1, in the
 * lower bits. */
enum { OBJECT_BITS = 8, FUNCTION_BITS = 24, LLVM_OBJECTS = 1 << OBJECT_BITS, LLVM_FUNCTIONS = 1 << FUNCTION_BITS };

static int before_main;

/* A function of the API. */

static uint32_t allow_calls(void)
{
	uint32_t was = xr_unsealed;
	xr_unsealed = 1;
	return was;
}

struct xr_api_call xr_api_begin(void)
{
	struct xr_api_call c = {.unsealed = allow_calls()};
	xr_init();
	c.signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	xr_rescan();
	return c;
}

void xr_api_end(struct xr_api_call c)
{
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(c.signals);
	xr_unsealed = c.unsealed;
}

/* Objects. */

/* LLVM's object 0 is the program, even if it has no sleds. */
static uint32_t first_number(void) { return xr_root.nobjects && !xr_mappings[0].program; }

static uint32_t number_of_objects(void)
{
	uint64_t n = xr_root.nobjects + first_number();
	return n < LLVM_OBJECTS ? n : LLVM_OBJECTS;
}

static int has_ids(const struct xr_object *o)
{
	return o->nfunctions && o->nfunctions < LLVM_FUNCTIONS;
}

/* Returns null if there is no such object. */
static struct xr_object *object(int32_t number)
{
	uint32_t i = (uint32_t)number - first_number();
	return number >= 0 && (uint32_t)number < number_of_objects() && i < xr_root.nobjects ? &xr_root.objects[i] : NULL;
}

static int32_t pack(uint32_t function, uint32_t object)
{
	return (function & (LLVM_FUNCTIONS - 1)) | object << FUNCTION_BITS;
}

static int32_t function_of(int32_t id) { return id & (LLVM_FUNCTIONS - 1); }
static int32_t object_of(int32_t id) { return (uint32_t)id >> FUNCTION_BITS; }

/* LLVM's ID of a function. Needs no lock: entries of the table do not move. */
static int32_t packed(uint32_t id)
{
	uint64_t n = __atomic_load_n(&xr_root.nobjects, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_object *o = &xr_root.objects[i];
		if (id - o->first_id < o->nfunctions)
			return pack(id - o->first_id + 1, i + first_number());
	}
	return id;
}

/* Handlers. */

static xr_function *handlers[XR_EVENTS];

xr_function *xr_handler_of(enum xr_events events)
{
	xr_function *h = __atomic_load_n(&handlers[events], __ATOMIC_ACQUIRE);
	return h || events != XR_ARGUMENTS ? h : xr_handler_of(XR_CALLS_OF_FUNCTIONS);
}

/* Vector registers of the processor that the system has enabled; see handlers_amd64.S. */
__attribute__((visibility("hidden"))) uint32_t xr_vectors;

static void find_vectors(void)
{
	enum { OSXSAVE = 1 << 27, AVX = 1 << 28, AVX512BW = 1 << 30, YMM = 1 << 2, AVX512 = 7 << 5, XSAVE = 13, READS_USE = 1 << 2 };
	uint32_t a, b, c, d, enabled, high, vectors = 0;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE) || !(c & AVX))
		return;
	__asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	vectors = enabled & YMM;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & AVX512BW && (enabled & AVX512) == AVX512)
		vectors |= AVX512;
	if (__get_cpuid_count(XSAVE, 1, &a, &b, &c, &d) && a & READS_USE)
		vectors |= 1u << 31;
	xr_vectors = vectors;
}

void xr_handle(enum xr_events events, xr_function *handler)
{
	find_vectors();
	__atomic_store_n(&handlers[events], handler, __ATOMIC_RELEASE);
	xr_set_targets();
}

static int set_handler(enum xr_events events, xr_function *handler)
{
	struct xr_api_call c = xr_api_begin();
	int known = xr_root.nobjects != 0;
	if (known)
		xr_handle(events, handler);
	xr_api_end(c);
	return known;
}

/* What a trampoline has pushed, from its stack pointer up. */
struct pushed {
	uint64_t r11, r10, r9, r8, rdi, rsi, rcx, rdx, rax;
};

/* A call of a handler, in the trampoline's frame. handlers_amd64.S knows the offsets. */
struct handling {
	uint64_t arguments[3];
	xr_function *handler;
	uint64_t recorded; /* whether the recorder also gets the event */
	uint64_t outer;
	uint64_t saved;    /* by the trampoline */
};

/* The stack pointer at which the thread's handler was called, or 0. Events further down the stack
 * come from the handler itself and do not call it again. After a longjmp out of a handler, the next
 * event further up shows that it was left. */
static __thread uint64_t inside __attribute__((tls_model("initial-exec")));

/* Prepares the call of the handler of an event, in a trampoline. Returns 0 if there is none. */
__attribute__((visibility("hidden"))) int xr_handler_begin(const struct pushed *p, uint64_t events, struct handling *h)
{
	uint64_t sp = (uintptr_t)p;
	uint32_t id = (uint32_t)p->r10 >> 4, type = p->r10 >> 1 & 7;
	h->recorded = !xr_is_paused();
	h->handler = xr_handler_of(events);
	if (events == XR_CUSTOM_EVENTS || events == XR_TYPED_EVENTS) {
		xr_copy(h->arguments, (uint64_t[]){p->rdi, p->rsi, p->rdx}, sizeof h->arguments);
	} else {
		h->recorded = xr_recorder_wants(id);
		if (!xr_program_wants(id))
			return 0;
		xr_copy(h->arguments, (uint64_t[]){packed(id), type, p->rdi}, sizeof h->arguments);
	}
	if (!h->handler || h->handler == xr_recorded || sp < inside)
		return 0;
	h->outer = sp - inside < XR_SAME_STACK ? 0 : inside;
	inside = sp;
	return 1;
}

__attribute__((visibility("hidden"))) void xr_handler_end(const struct handling *h) { inside = h->outer; }

XR_LLVM_API int __xray_set_handler(xr_function *entry) { return set_handler(XR_CALLS_OF_FUNCTIONS, entry); }
XR_LLVM_API int __xray_remove_handler(void) { return set_handler(XR_CALLS_OF_FUNCTIONS, NULL); }
XR_LLVM_API int __xray_set_handler_arg1(xr_function *entry) { return set_handler(XR_ARGUMENTS, entry); }
XR_LLVM_API int __xray_remove_handler_arg1(void) { return set_handler(XR_ARGUMENTS, NULL); }
XR_LLVM_API int __xray_set_customevent_handler(xr_function *entry) { return set_handler(XR_CUSTOM_EVENTS, entry); }
XR_LLVM_API int __xray_remove_customevent_handler(void) { return set_handler(XR_CUSTOM_EVENTS, NULL); }
XR_LLVM_API int __xray_set_typedevent_handler(xr_function *entry) { return set_handler(XR_TYPED_EVENTS, entry); }
XR_LLVM_API int __xray_remove_typedevent_handler(void) { return set_handler(XR_TYPED_EVENTS, NULL); }

/* Numbers the types of typed events from 0. Equal texts get the same number. The API cannot report an
 * error, so all types for which there is no number get the last one. */
XR_LLVM_API uint16_t __xray_register_event_type(const char *type)
{
	enum { OTHERS = UINT16_MAX };
	static uint64_t *types, ntypes;
	uint64_t hash = 0xcbf29ce484222325ull, i = 0;
	struct xr_api_call c = xr_api_begin();
	for (const char *p = type; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 0x100000001b3ull;
	if (!types && !(types = xr_map(OTHERS * sizeof *types)))
		i = OTHERS;
	while (i < ntypes && types[i] != hash)
		i++;
	if (i == OTHERS)
		xr_warn("not every type of events has its own number: further types have the number 65535", NULL);
	else if (i == ntypes)
		types[ntypes++] = hash;
	xr_api_end(c);
	return i;
}

/* Patching. */

/* Sets whether the program wants n functions of an object. first counts from 0. */
static int ask(const struct xr_object *o, uint64_t first, uint64_t n, int on)
{
	if (!xr_asked && !(xr_asked = xr_map((XR_MAX_FUNCTION + 1) / 8)))
		return -1;
	for (uint64_t id = o->first_id + first; id < o->first_id + first + n; id++)
		if (on)
			xr_asked[id / 8] |= 1 << id % 8;
		else
			xr_asked[id / 8] &= ~(1 << id % 8);
	return 0;
}

void xr_program_admit(const struct xr_object *o)
{
	if (xr_asked)
		ask(o, 0, o->nfunctions, before_main && has_ids(o));
}

/* Switches the sleds of a function, or all if there is no object. If the program's recording follows its
 * choice, calls that are open when sleds go off are cut. */
static int patch(struct xr_object *o, uint64_t i, int on)
{
	int cuts = !on && xr_log_records;
	if (cuts)
		xr_windows_pause();
	int err = o ? xr_patch_function(o, i) : xr_patch_asked();
	if (cuts)
		xr_windows_resume(1);
	return err;
}

/* Patches an object, or all if it is null. */
static int patch_objects(const struct xr_object *only, int on)
{
	int err = 0, known = 0, refused = 0;
	uint32_t n = number_of_objects();
	for (uint32_t i = 0; i < n; i++) {
		struct xr_object *o = object(i);
		if (!o || (only && o != only) || !has_ids(o) || o->state == XR_OBJECT_GONE)
			continue;
		known++;
		err |= ask(o, 0, o->nfunctions, on);
	}
	if (!known)
		return NOT_INITIALIZED;
	xr_set_targets();
	err |= patch(NULL, 0, on);
	for (uint32_t i = 0; i < n; i++) {
		struct xr_object *o = object(i);
		refused |= o && (!only || o == only) && o->state == XR_OBJECT_REFUSED;
	}
	return err || refused ? FAILED : SUCCESS;
}

static int patch_all(int on)
{
	struct xr_api_call c = xr_api_begin();
	int status = patch_objects(NULL, on);
	xr_api_end(c);
	return status;
}

void xr_patch_before_main(void)
{
	before_main = 1;
	patch_objects(NULL, 1);
}

static int patch_object(int32_t number, int on)
{
	struct xr_api_call c = xr_api_begin();
	const struct xr_object *o = object(number);
	int status = o && o->state != XR_OBJECT_GONE ? patch_objects(o, on) : FAILED;
	xr_api_end(c);
	return status;
}

static int patch_function(int32_t function, int32_t number, int on)
{
	struct xr_api_call c = xr_api_begin();
	struct xr_object *o = object(number);
	int status = FAILED;
	if (o && o->state == XR_OBJECT_READY && has_ids(o) && function > 0 && (uint32_t)function <= o->nfunctions &&
	    !ask(o, function - 1, 1, on)) {
		xr_set_targets();
		status = patch(o, function - 1, on) ? FAILED : SUCCESS;
	}
	xr_api_end(c);
	return status;
}

XR_LLVM_API int __xray_patch(void) { return patch_all(1); }
XR_LLVM_API int __xray_unpatch(void) { return patch_all(0); }
XR_LLVM_API int __xray_patch_object(int32_t object) { return patch_object(object, 1); }
XR_LLVM_API int __xray_unpatch_object(int32_t object) { return patch_object(object, 0); }
XR_LLVM_API int __xray_patch_function_in_object(int32_t function, int32_t object) { return patch_function(function, object, 1); }
XR_LLVM_API int __xray_unpatch_function_in_object(int32_t function, int32_t object) { return patch_function(function, object, 0); }
XR_LLVM_API int __xray_patch_function(int32_t id) { return patch_function(function_of(id), object_of(id), 1); }
XR_LLVM_API int __xray_unpatch_function(int32_t id) { return patch_function(function_of(id), object_of(id), 0); }

/* Functions. */

XR_LLVM_API uintptr_t __xray_function_address_in_object(int32_t function, int32_t number)
{
	struct xr_api_call c = xr_api_begin();
	struct xr_object *o = object(number);
	uintptr_t address = 0;
	if (o && has_ids(o) && function > 0 && (uint32_t)function <= o->nfunctions)
		address = xr_function_address(o, function - 1);
	xr_api_end(c);
	return address;
}

XR_LLVM_API uintptr_t __xray_function_address(int32_t id)
{
	return __xray_function_address_in_object(function_of(id), object_of(id));
}

XR_LLVM_API size_t __xray_max_function_id_in_object(int32_t number)
{
	struct xr_api_call c = xr_api_begin();
	const struct xr_object *o = object(number);
	size_t n = o && has_ids(o) ? o->nfunctions : 0;
	xr_api_end(c);
	return n;
}

XR_LLVM_API size_t __xray_max_function_id(void) { return __xray_max_function_id_in_object(0); }

XR_LLVM_API size_t __xray_num_objects(void)
{
	struct xr_api_call c = xr_api_begin();
	size_t n = number_of_objects();
	xr_api_end(c);
	return n;
}

XR_LLVM_API int32_t __xray_unpack_function_id(int32_t id) { return function_of(id); }
XR_LLVM_API int32_t __xray_unpack_object_id(int32_t id) { return object_of(id); }
XR_LLVM_API int32_t __xray_pack_id(int32_t function, int32_t object) { return pack(function, object); }

XR_LLVM_API void __xray_init(void) { xr_api_end(xr_api_begin()); }
