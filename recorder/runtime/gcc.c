/* Functions that call hooks instead of having sleds. gcc compiles them this way:
 *
 *   -finstrument-functions                    __cyg_profile_func_enter and _exit, with
 *                                             the function's address
 *   -pg -mfentry -minstrument-return=call     __fentry__ and __return__, with nothing
 *
 * An address gets an ID when it is first seen, from the same sequence as functions with sleds.
 * The hooks find the ID and jump to the trampolines of sleds, so everything after that is the
 * same. The trace has the table of addresses.
 *
 * __return__ does not say which function exits. So each thread keeps its open calls with the
 * addresses of their return addresses. Nothing here calls libc or uses vector registers, and a
 * signal handler may interrupt it. */
#include "arena.h"
#include "gcc.h"
#include "landings.h"
#include "layout.h"
#include "locks.h"
#include "objects.h"
#include "profile.h"
#include "ring.h"
#include "shared.h"
#include "syscall.h"
#include "warnings.h"

/* The maximum number of functions, and of open calls per thread whose exits get an ID. */
enum { MAX_FUNCTIONS = XR_MAX_HOOKED, SLOTS = 2 * MAX_FUNCTIONS, MAX_OPEN = 1 << 14 };

struct function {
	uint64_t key;    /* the hook's argument or return address; 0 in a free slot */
	uint64_t id;
};

/* In the table, a function's key determines its slot. known has all functions in the order of
 * their first calls, with addresses instead of keys. */
static struct {
	uint64_t n;
	struct function *table;
	struct xr_hooked *known;
} functions;

struct xr_open {
	uint64_t frame;  /* address of the return address */
	uint64_t id;
};

/* Targets of the hooks: either xr_nothing or code that finds the ID. Below: where that code
 * jumps next. */
void (*xr_gcc_hooks[XR_GCC_HOOKS])(void) = {xr_nothing, xr_nothing, xr_nothing, xr_nothing};
void (*xr_gcc_next[XR_GCC_HOOKS])(void);

/* Neighbouring functions are neighbours in the table. */
static inline uint64_t slot_of(uint64_t key) { return ((key >> 4) + (key >> 21) * 0x9e37) % SLOTS; }

static inline struct function *search(struct function *table, uint64_t key)
{
	uint64_t i = slot_of(key);
	for (;; i = (i + 1) % SLOTS) {
		uint64_t k = __atomic_load_n(&table[i].key, __ATOMIC_ACQUIRE);
		if (k == key || !k)
			return &table[i];
	}
}

/* A function that calls __fentry__ starts with that call, or with an endbr64 before it. */
static uint64_t start_of(uint64_t behind_call)
{
	static const uint8_t endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	const uint8_t *p = (const uint8_t *)behind_call;
	if (p[-5] == 0xe8)
		p -= 5;
	else if (p[-6] == 0xff && p[-5] == 0x15)
		p -= 6;
	else
		return behind_call;
	return (uint64_t)(xr_memcmp(p - 4, endbr, 4) ? p : p - 4);
}

/* The caller blocks signals and holds the lock. */
static uint64_t add(uint64_t key, int behind_call)
{
	if (!functions.known) {
		functions.known = xr_map(MAX_FUNCTIONS * sizeof *functions.known);
		struct function *table = functions.known ? xr_map(SLOTS * sizeof *table) : NULL;
		__atomic_store_n(&functions.table, table, __ATOMIC_RELEASE);
	}
	if (!functions.table || functions.n == MAX_FUNCTIONS)
		return 0;
	struct function *f = search(functions.table, key);
	if (f->key)
		return f->id;
	uint64_t id = xr_take_ids(1);
	if (!id)
		return 0;
	functions.known[functions.n] = (struct xr_hooked){behind_call ? start_of(key) : key, id};
	__atomic_store_n(&functions.n, functions.n + 1, __ATOMIC_RELEASE);
	xr_root.hooked = functions.known;
	__atomic_store_n(&xr_root.nhooked, functions.n, __ATOMIC_RELEASE);
	xr_share_hooked();
	xr_arena_hooked();
	f->id = id;
	__atomic_store_n(&f->key, key, __ATOMIC_RELEASE);
	return id;
}

static uint64_t meet_inside(uint64_t key, uint64_t behind_call, uint64_t c, uint64_t d)
{
	(void)c, (void)d;
	xr_lock(XR_LOCK_FUNCTIONS);
	uint64_t id = add(key, behind_call);
	xr_unlock(XR_LOCK_FUNCTIONS);
	return id;
}

static uint64_t meet(uint64_t key, int behind_call)
{
	uint64_t id = xr_inside(meet_inside, key, behind_call, 0, 0);
	if (!id && !xr_sealed) {
		xr_warn("too many functions: calls of the others are lost", NULL);
		__atomic_fetch_add(&xr_root.dropped, 1, __ATOMIC_RELAXED);
	}
	return id;
}

static inline uint64_t id_of(uint64_t key, int behind_call)
{
	struct function *table = __atomic_load_n(&functions.table, __ATOMIC_ACQUIRE);
	struct function *f = table ? search(table, key) : NULL;
	return f && f->key ? f->id : meet(key, behind_call);
}

uint64_t xr_gcc_id(uint64_t function) { return id_of(function, 0); }

static uint64_t make_open_calls(uint64_t thread, uint64_t b, uint64_t c, uint64_t d)
{
	struct xr_thread *t = (struct xr_thread *)thread;
	(void)b, (void)c, (void)d;
	if (!t->open)
		t->open = xr_keep(MAX_OPEN * sizeof *t->open);
	return 1;
}

/* Returns the thread's open calls, or null. */
static struct xr_open *open_calls(void)
{
	struct xr_thread *t = xr_tls;
	if (!t) {
		enum xr_mode mode = xr_root.mode;
		if (!xr_slow(mode == XR_COUNT ? XR_COUNTERS : mode == XR_PROFILE ? XR_PATHS : 8))
			return NULL;
		t = xr_tls;
	}
	if (!t->open)
		xr_inside(make_open_calls, (uintptr_t)t, 0, 0, 0);
	return t->open;
}

/* Drops calls whose frames are below this one: they have been left. */
static inline uint64_t leave_below(const struct xr_open *open, uint64_t n, uint64_t frame)
{
	while (n && frame - open[n - 1].frame - 1 < XR_SAME_STACK)
		n--;
	return n;
}

uint64_t xr_gcc_enter(uint64_t behind_call, uint64_t frame)
{
	uint64_t id = id_of(behind_call, 1);
	volatile struct xr_open *open = id ? open_calls() : NULL;
	if (!open)
		return 0;
	volatile uint64_t *nopen = &xr_tls->nopen;
	uint64_t n = leave_below((struct xr_open *)open, *nopen, frame + 1);
	if (n == MAX_OPEN) {
		xr_tls->dropped++;
		return 0;
	}
	/* A signal handler that runs between the first and the last store leaves its own call
	 * there. */
	do {
		open[n].id = id;
		open[n].frame = frame;
		*nopen = n + 1;
	} while (open[n].frame != frame || open[n].id != id);
	return id;
}

uint64_t xr_gcc_leave(uint64_t frame)
{
	struct xr_thread *t = xr_tls;
	if (!t || !t->open)
		return 0;
	uint64_t n = leave_below(t->open, t->nopen, frame);
	if (!n || t->open[n - 1].frame != frame)
		return 0; /* entered before the recording began */
	uint64_t id = t->open[n - 1].id;
	*(volatile uint64_t *)&t->nopen = n - 1;
	return id;
}

/* Landings. */

uint32_t xr_gcc_open_at(uint64_t slot, uint64_t *nopen)
{
	const struct xr_open *open = xr_tls->open;
	*nopen = leave_below(open, *nopen, slot);
	if (!*nopen || open[*nopen - 1].frame != slot)
		return 0;
	return open[--*nopen].id;
}

uint32_t xr_gcc_known(uint64_t function)
{
	struct function *table = __atomic_load_n(&functions.table, __ATOMIC_ACQUIRE);
	struct function *f = table ? search(table, function) : NULL;
	return f && f->key ? f->id : 0;
}

void xr_gcc_leave_open(uint64_t nopen) { *(volatile uint64_t *)&xr_tls->nopen = nopen; }

/* Modes. */

void xr_gcc_set_mode(enum xr_mode mode, void (*enter)(void), void (*leave)(void))
{
	int profile = mode == XR_PROFILE;
	xr_gcc_next[XR_CYG_ENTER] = profile ? xr_gcc_profile_inlined : enter;
	xr_gcc_next[XR_CYG_EXIT] = profile ? xr_gcc_profile_inlined : leave;
	xr_gcc_next[XR_FENTRY] = profile ? xr_gcc_profile : enter;
	xr_gcc_next[XR_RETURN] = profile ? xr_gcc_profile : leave;
}

void xr_gcc_switch(int on)
{
	static void (*const hooks[XR_GCC_HOOKS])(void) = {xr_on_cyg_enter, xr_on_cyg_exit, xr_on_fentry, xr_on_return};
	/* Depth mode uses frames, which inlined functions share. */
	on = on && xr_root.mode != XR_OFF && xr_root.mode != XR_DEPTH;
	for (int i = 0; i < XR_GCC_HOOKS; i++)
		__atomic_store_n(&xr_gcc_hooks[i], on ? hooks[i] : xr_nothing, __ATOMIC_RELEASE);
}

/* Known functions. */

uint64_t xr_gcc_functions(void) { return __atomic_load_n(&functions.n, __ATOMIC_ACQUIRE); }

int xr_gcc_any_in(uint64_t but, uint64_t first, uint64_t end)
{
	for (uint64_t i = but, n = xr_gcc_functions(); i < n; i++)
		if (functions.known[i].address >= first && functions.known[i].address < end)
			return 1;
	return 0;
}

/* Functions with sleds are in the table too, because a reader takes it for a table of all
 * functions. */
static void put_sleds(uint64_t *addresses, uint64_t max)
{
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		const struct xr_object *o = &xr_root.objects[i];
		const struct xr_sled *s = (const struct xr_sled *)o->sleds;
		uint64_t id = o->first_id;
		if (o->state != XR_OBJECT_READY)
			continue;
		for (uint64_t k = 0; k < o->nsleds; k++) {
			if (k && xr_sled_function(&s[k]) != xr_sled_function(&s[k - 1]))
				id++;
			if (id <= max && !addresses[id - 1])
				addresses[id - 1] = xr_sled_address(&s[k]);
		}
	}
}

void xr_gcc_dump(void (*put)(void *to, const void *p, uint64_t n), void *to)
{
	uint64_t max = xr_root.max_function, n = xr_gcc_functions();
	uint64_t *addresses = xr_map(max * sizeof *addresses);
	if (!addresses)
		max = 0;
	else
		put_sleds(addresses, max);
	for (uint64_t i = 0; i < n && max; i++)
		if (functions.known[i].id <= max)
			addresses[functions.known[i].id - 1] = functions.known[i].address;
	put(to, &max, sizeof max);
	if (!addresses)
		return;
	put(to, addresses, max * sizeof *addresses);
	xr_unmap(addresses, max * sizeof *addresses);
}
