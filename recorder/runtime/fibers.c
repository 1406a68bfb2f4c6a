/* Fibers: programs that switch stacks, with ucontext, setjmp or code of their own.
 *
 * A switch is noticed at the next entry or exit. The recorder notes where the return addresses of open calls
 * are, for each stack. An exit has the address of its entry. An entry is on the stack that has the next
 * noted address above it, if that is near, or in the bounds of a stack that are known: those of the thread's
 * own stack, and of those that makecontext was given. Otherwise, it is the first of a new stack. Stacks of unknown
 * bounds that are close to each other, as are those of less than 16 KB, may be taken for one. A call whose caller has more
 * than 32 KB of local variables on such a stack may be taken for that of another.
 *
 * The trampolines handle calls that are where they are expected. Everything else comes here, on the stack of the
 * program, which may be small. A signal handler that interrupts this records its calls as being on the
 * stack that was noted last. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "clock.h"
#include "events.h"
#include "fibers.h"
#include "layout.h"
#include "ring.h"
#include "syscall.h"

_Static_assert(offsetof(struct xr_thread, fiber_top) == XR_THREAD_FIBER_TOP, "");
_Static_assert(offsetof(struct xr_thread, fiber_end) == XR_THREAD_FIBER_END, "");

enum {
	ABOVE = 2048,          /* the outermost call of a stack may be this far above its highest address so far */
	LARGE = 32768,         /* functions that need more of the stack are rare; and few switch from a stack to a new one below it */
	FEW = 48, MANY = 1 << 16, /* stacks: first, and at most */
	FIRST_SLOTS = 64, MOST_SLOTS = 4096, ROOM = 4096 / 8,
};
enum { OWN = -1, NONE = -2 };

struct fiber {
	uint64_t base;   /* highest address: that of the stack if first is known, or else of its calls so far */
	uint64_t first;  /* lowest address of the stack, or 0 */
	uint64_t *slots; /* addresses of return addresses. The first is an odd one above all so far. */
	uint32_t n, cap; /* open calls, as of the latest switch; and words of slots */
	uint32_t number;
};

/* The stacks of a thread. */
struct xr_fibers {
	uint32_t ready, busy;
	int64_t current;              /* index, or OWN */
	uint64_t expected, expected_end;
	struct fiber own;
	struct fiber *of;             /* the others, n of at most cap, ordered by base; those with bounds do not overlap */
	uint64_t n, cap;
	uint64_t *room, left;         /* unused words for slots */
	struct fiber some[FEW];
};
_Static_assert(sizeof(struct xr_fibers) <= XR_THREAD_PAGE, "");

/* Not a table: everything is noted elsewhere. */
static uint64_t nothing[1] = {UINT64_MAX};

void xr_fibers_attach(struct xr_thread *t)
{
	t->fiber = 0;
	t->fiber_top = t->fiber_end = nothing + 1;
	if (t->fibers)
		t->fibers->ready = 0;
}

/* Events. */

struct stack {
	char magic[4];
	uint16_t schema, kind;
	uint64_t number, base;
};
enum { SIZE = 24 + sizeof(struct stack) };

static struct stack event(const struct fiber *s)
{
	return (struct stack){{'X', 'R', 'Y', 'M'}, 1, XR_META_STACKS, s->number, s->base};
}

static struct fiber *at(struct xr_fibers *f, int64_t i) { return i == OWN ? &f->own : &f->of[i]; }

static void note(const struct fiber *s)
{
	struct stack body = event(s);
	xr_note_event(&body, sizeof body);
}

void xr_fiber_again(struct xr_thread *t, uint64_t tsc)
{
	if (!t->fiber || !t->fibers)
		return;
	struct stack body = event(at(t->fibers, t->fibers->current));
	xr_put_note((uint64_t *)t->cursor, tsc, &body, sizeof body);
	__atomic_store_n(&t->cursor, t->cursor + SIZE, __ATOMIC_RELEASE);
}

/* Bounds of the thread's own stack. */

/* Finds the mapping that has an address, or that of the first thread's stack if the address is 0. */
static int find_mapping(uint64_t address, uint64_t *first, uint64_t *end)
{
	static const char name[] = "[stack]";
	char text[1024];
	int fd = xr_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), found = 0;
	uint64_t bounds[2] = {0, 0}, same = 0;
	int field = 0; /* which of the bounds is being read; 2: the rest of the line */
	for (int64_t n; fd >= 0 && !found && (n = xr_read(fd, text, sizeof text)) > 0;)
		for (int64_t i = 0; i < n && !found; i++) {
			char c = text[i];
			if (c == '\n') {
				field = 0;
				bounds[0] = bounds[1] = 0;
			} else if (field < 2 && (c == '-' || c == ' ')) {
				found = ++field == 2 && bounds[0] <= address && address < bounds[1];
			} else if (field < 2) {
				bounds[field] = bounds[field] << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
			} else {
				same = c == name[same] ? same + 1 : 0;
				found = !address && same == sizeof name - 1;
			}
		}
	if (fd >= 0)
		xr_close(fd);
	*first = bounds[0];
	*end = bounds[1];
	return found;
}

/* A thread's stack is below its control block, in one mapping. The stack of the first thread begins above its
 * environment and grows: nothing else is near. */
static uint64_t find_own_inside(uint64_t fibers, uint64_t slot, uint64_t c, uint64_t d)
{
	enum { GROWTH = 64 << 20 };
	struct fiber *own = &((struct xr_fibers *)fibers)->own;
	uint64_t first, end, block;
	(void)c, (void)d;
	__asm__("movq %%fs:0, %0" : "=r"(block));
	int is_first = xr_thread_id() == xr_root.pid;
	if (xr_is_sealed() || !find_mapping(is_first ? 0 : block, &first, &end))
		return 0;
	own->first = is_first ? end - GROWTH : first;
	own->base = (is_first ? end : block) - 8;
	if (slot < own->first || slot > own->base)
		own->first = 0;
	return 1;
}

/* Memory. */

/* Gives a stack room for more slots. Returns 0 if there is none. */
static int more_slots(struct xr_fibers *f, struct fiber *s)
{
	uint64_t cap = s->cap ? 2 * s->cap : FIRST_SLOTS;
	if (cap > MOST_SLOTS)
		return 0;
	uint64_t *slots = f->room;
	if (cap > ROOM / 2) {
		slots = xr_map(cap * sizeof *slots);
	} else if (f->left < cap) {
		slots = f->room = xr_map(ROOM * sizeof *slots);
		f->left = slots ? ROOM : 0;
	}
	if (!slots)
		return 0;
	if (slots == f->room) {
		f->room += cap;
		f->left -= cap;
	}
	xr_copy(slots, s->slots, s->cap * sizeof *slots);
	if (s->cap > ROOM / 2)
		xr_unmap(s->slots, s->cap * sizeof *slots);
	s->slots = slots;
	s->cap = cap;
	return 1;
}

static int more_fibers(struct xr_fibers *f)
{
	uint64_t cap = 2 * f->cap;
	struct fiber *of = cap <= MANY ? xr_map(cap * sizeof *of) : NULL;
	if (!of)
		return 0;
	xr_copy(of, f->of, f->n * sizeof *of);
	if (f->of != f->some)
		xr_unmap(f->of, f->cap * sizeof *of);
	f->of = of;
	f->cap = cap;
	return 1;
}

static void move(struct fiber *to, const struct fiber *from, int64_t n)
{
	if (to < from)
		for (int64_t i = 0; i < n; i++)
			to[i] = from[i];
	else
		for (int64_t i = n; i-- > 0;)
			to[i] = from[i];
}

static void take_out(struct xr_fibers *f, int64_t i)
{
	move(&f->of[i], &f->of[i + 1], --f->n - i);
	f->current -= f->current > i;
}

/* Adds a stack at index i. Returns 0 if there is no memory. */
static int add(struct xr_fibers *f, int64_t i, uint64_t first, uint64_t base, uint64_t slot)
{
	static uint32_t numbers;
	struct fiber s = {.base = base, .first = first};
	if ((f->n == f->cap && !more_fibers(f)) || !more_slots(f, &s))
		return 0;
	s.number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
	s.slots[0] = slot | 1;
	move(&f->of[i + 1], &f->of[i], f->n++ - i);
	f->current += f->current >= i;
	f->of[i] = s;
	return 1;
}

static struct xr_fibers *fibers_of(struct xr_thread *t, uint64_t slot)
{
	struct xr_fibers *f = t->fibers;
	if (!f && !(f = t->fibers = xr_map(sizeof *f)))
		return NULL;
	if (f->busy || f->ready)
		return f;
	f->busy = 1;
	f->current = OWN;
	f->n = f->expected = f->expected_end = f->own.n = f->own.first = 0;
	f->of = f->cap ? f->of : f->some;
	f->cap = f->cap ? f->cap : FEW;
	f->own.base = slot;
	xr_inside(find_own_inside, (uintptr_t)f, slot, 0, 0);
	f->busy = 0;
	if (!f->own.cap && !more_slots(f, &f->own))
		return NULL;
	f->own.slots[0] = slot | 1;
	t->fiber_end = f->own.slots + f->own.cap;
	t->fiber_top = f->own.slots + 1;
	f->ready = 1;
	return f;
}

/* Stacks by address. */

/* Returns the index of the first stack whose base is not below slot. */
static int64_t search(const struct xr_fibers *f, uint64_t slot)
{
	int64_t low = 0, high = f->n;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		if (f->of[middle].base < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int is_near(const struct xr_fibers *f, int64_t i, uint64_t slot)
{
	const struct fiber *s = i == OWN ? &f->own : &f->of[i];
	uint64_t k = s->n;
	while (k && s->slots[k] < slot)
		k--;
	uint64_t above = k ? s->slots[k] : s->slots[0];
	return above >= slot ? above - slot <= (i == f->current ? LARGE : XR_FIBER_NEAR) : slot - above <= ABOVE;
}

static int has(const struct fiber *s, uint64_t slot)
{
	uint64_t k = s->n;
	while (k && s->slots[k] < slot)
		k--;
	return k && s->slots[k] == slot;
}

/* Returns the stack that the thread was expected to switch to, if slot is on it. What was known in its place is that
 * stack, or has ended. */
static int64_t expected(struct xr_fibers *f, uint64_t slot)
{
	uint64_t first = f->expected, base = f->expected_end - 8;
	if (slot < first || slot > base || !first)
		return NONE;
	int64_t i = search(f, first);
	if (i < (int64_t)f->n && f->of[i].base <= base) {
		f->of[i].base = base;
		f->of[i].first = first;
	} else if (!add(f, i, first, base, slot)) {
		return NONE;
	}
	while (i + 1 < (int64_t)f->n && (f->of[i + 1].base <= base || (f->of[i + 1].first && f->of[i + 1].first <= base)) && f->current != i + 1)
		take_out(f, i + 1);
	f->expected = 0;
	return i;
}

/* Returns the known stack that has this address, or NONE. */
static int64_t stack_of(const struct xr_fibers *f, uint64_t slot)
{
	int64_t i = search(f, slot);
	if (i < (int64_t)f->n && (f->of[i].first ? slot >= f->of[i].first : is_near(f, i, slot)))
		return i;
	if (i && !f->of[i - 1].first && slot - f->of[i - 1].base <= ABOVE)
		return i - 1;
	if (f->own.first ? slot >= f->own.first && slot <= f->own.base : is_near(f, OWN, slot))
		return OWN;
	return NONE;
}

int xr_is_of_handler(uint64_t slot)
{
	stack_t s;
	if (xr_is_sealed() || xr_sys2(SYS_sigaltstack, 0, (intptr_t)&s) || !(s.ss_flags & SS_ONSTACK))
		return 0;
	return slot - (uintptr_t)s.ss_sp < s.ss_size;
}

/* The table of the current stack, of which the thread keeps the end. A signal handler that finds no room comes to busy. */
static void use(struct xr_thread *t, struct fiber *s)
{
	uint64_t *volatile *end = (uint64_t *volatile *)&t->fiber_end;
	*end = NULL;
	*(uint64_t *volatile *)&t->fiber_top = s->slots + 1 + s->n;
	*end = s->slots + s->cap;
}

static void keep(struct xr_thread *t, struct xr_fibers *f)
{
	struct fiber *s = at(f, f->current);
	s->n = t->fiber_top - s->slots - 1;
}

static void go(struct xr_thread *t, struct xr_fibers *f, int64_t to)
{
	f->current = to;
	t->fiber = at(f, to)->number;
	use(t, at(f, to));
	note(at(f, to));
}

/* Without memory, calls of several stacks are mixed. */
static struct xr_fibers *begin(struct xr_thread **t, uint64_t slot)
{
	*t = xr_tls;
	if ((!*t || xr_is_forked()) && (!xr_slow(8) || !(*t = xr_tls)))
		return NULL;
	struct xr_fibers *f = fibers_of(*t, slot);
	if (!f)
		xr_note_stacks();
	if (!f || f->busy)
		return NULL;
	f->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	keep(*t, f);
	return f;
}

static void end(struct xr_fibers *f)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	f->busy = 0;
}

void xr_fiber_enters(uint64_t slot)
{
	struct xr_thread *t;
	struct xr_fibers *f = begin(&t, slot);
	if (!f)
		return;
	int64_t to = expected(f, slot);
	if (to == NONE)
		to = stack_of(f, slot);
	if (to == NONE && xr_is_of_handler(slot)) {
		end(f);
		return;
	}
	if (to == NONE) {
		int64_t i = search(f, slot);
		to = add(f, i, 0, slot, slot) ? i : NONE;
	}
	if (to == NONE) {
		xr_note_stacks();
		end(f);
		return;
	}
	struct fiber *s = at(f, to);
	while (s->n && s->slots[s->n] <= slot)
		s->n--;
	if (slot > s->slots[0])
		s->slots[0] = slot | 1;
	if (!s->first && slot > s->base)
		s->base = slot;
	if (to != f->current)
		go(t, f, to);
	/* If there is no room, the call is not noted. Its exit comes here, too. */
	if (s->n + 1 < s->cap || more_slots(f, s)) {
		s->slots[s->n + 1] = slot;
		s->n++;
		use(t, s);
		s->slots[s->n] = slot; /* a signal handler may have used the place */
	} else {
		use(t, s);
	}
	end(f);
}

void xr_fiber_exits(uint64_t slot)
{
	struct xr_thread *t = xr_tls;
	if (!t->fiber_top || !t->fibers || !t->fibers->ready)
		return; /* its entry was not noted */
	struct xr_fibers *f = begin(&t, slot);
	if (!f)
		return;
	int64_t to = f->current, i = search(f, slot);
	if (!has(at(f, to), slot)) {
		if (i < (int64_t)f->n && has(&f->of[i], slot))
			to = i;
		else if (has(&f->own, slot))
			to = OWN;
		else if (xr_is_of_handler(slot))
			to = NONE;
		else
			to = stack_of(f, slot);
	}
	if (to != NONE) {
		struct fiber *s = at(f, to);
		while (s->n && s->slots[s->n] < slot)
			s->n--;
		int open = s->n && s->slots[s->n] == slot;
		if (to != f->current)
			go(t, f, to);
		s->n -= open;
		use(t, s);
	}
	end(f);
}

void xr_fibers_expect(uint64_t first, uint64_t size)
{
	struct xr_fibers *f = xr_tls ? xr_tls->fibers : NULL;
	if (!f || !f->ready || f->busy)
		return;
	f->expected = size >= 8 ? first : 0;
	f->expected_end = first + size;
}

void xr_fibers_jumped(void)
{
	if (xr_tls && xr_tls->fibers)
		xr_tls->fibers->busy = 0;
}
