/* Reads arguments and results that the user has asked for, and writes them to the trace.
 *
 * Each value is a program of a few steps for a machine with two registers, A and B, which xray has made of
 * the debug information. docs/dev/recorder.md describes the steps.
 *
 * Nothing here may fault, and other threads may unmap any memory at any time. So only two kinds are read directly:
 * the page that the stack pointer is in, which the thread itself needs, and the program's segments that nobody may
 * write. Not its variables: a program may put a stack there, forbid access to the stack's last page, and pass its
 * address. All else is read by a system call that fails where an access would crash. One call reads what all values of
 * a function wait for. Of several pieces, the program's memory is the local side, from which the kernel copies, and the
 * recorder's buffer the remote side, whose pages it pins, which takes far longer than a copy.
 *
 * What a value reads next depends on what it has read. Without more, each pointer on the way would take a call. So the
 * first call also reads where the values of the same function were found the last time. Such a copy is as new
 * as the others, and is used only if a value asks for that address.
 *
 * The stack may be small, so a thread reads into memory of its own, its room. Signals stay as they are: a handler
 * that interrupts a thread while it reads finds the room taken. Then values are read with signals blocked, on a stack
 * of the recorder's. A handler may also leave the function by longjmp or an exception. The landing finds in the
 * room which call was being recorded (xr_values_left). Either its records have a place, and the landing writes them.
 * Or they have none, and the call is not recorded.
 *
 * A condition is a program of up to four values, and what each is compared with. Depth mode asks for it at the entry of a
 * function that is not inside a recorded call.
 *
 * Programs are never freed, because a thread may be using them. A program that comes again is used again. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "budget.h"
#include "layout.h"
#include "locks.h"
#include "profile.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"
#include "values.h"

enum op {
	REG = 1, XMM, CFA, ADD, LOAD, SHL, SHR, SAR, MOVE, SWAP, JZ, JUMP, INDEX, AND,
	SCALAR = 20, WIDE, BYTES, CSTRING, NONE,
};

enum { EVENT_SIZE = 24, HEAD_SIZE = 16 };
enum { MOST_STEPS = 32, MOST_VALUES = 16, MOST_ROOM = 16384, PAGE = 4096 };
/* The most that a step may ask for, and the most that is read. */
enum { MOST_BYTES = 4096, MOST_READ = XR_MAX_PAYLOAD - HEAD_SIZE };

struct step {
	uint8_t op, a;
	uint16_t b;
	int32_t k;
};

struct value {
	uint16_t first, n; /* its steps in those of the program */
	uint32_t kind;     /* SCALAR, WIDE or BYTES */
};

struct side {
	uint16_t first, n; /* values in those of the program */
	uint16_t scalars;
	uint16_t simple;   /* only scalars from registers */
};

enum { EQUAL = 1, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST, BEGINS, CONTAINS };
enum { MOST_WANTED = 64, MOST_COMPARED = 192, MOST_CONDITIONS = 4 };
enum { UNSIGNED, SIGNED, FLOATING };

/* What a value is compared with, as xray sends it: see xr_values_read_condition. */
struct condition {
	uint8_t compare, numbers, size; /* size of a scalar in bytes, 0 of a text */
	uint8_t nwanted;
	uint32_t more; /* conditions that follow: all must hold */
	uint64_t number;
	uint8_t wanted[MOST_WANTED];
};

struct program {
	struct program *older; /* of the same function */
	struct program *next;  /* of all */
	uint64_t since;        /* TSC */
	const char *text, *missing;
	uint32_t id, on, ntext, size; /* size in bytes of what xray sent */
	struct condition conditions[MOST_CONDITIONS]; /* of each value, unless the program is of values */
	struct side side[2];
	struct value values[2 * MOST_VALUES];
	struct step steps[];
};

/* The latest programs by function ID. A longer table replaces a shorter one. */
static struct table {
	uint64_t n;
	struct program *of[];
} *table, *conditions;

static struct program *first, **last = &first;

static int bypassed;

/* The program's segments that nobody may write. */
enum { CONSTANTS = 2 };
static struct { uint64_t from, size; } constants[CONSTANTS];

static struct refused {
	struct refused *next;
	uint32_t n;
	char text[];
} *refused;

/* The kind 28 events' flags. */
enum { TRUNCATED = 1, UNREADABLE = 2, NOTHING = 4, OF_EXIT = 8, FORBIDDEN = 16 };

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Programs and their texts. */

/* Memory that is never freed, 8-byte aligned. Returns null if there is none. */
static void *take_memory(uint64_t n)
{
	enum { AT_ONCE = 256 << 10 };
	static uint8_t *p;
	static uint64_t left;
	n = (n + 7) & ~7ull;
	if (n > left) {
		uint64_t size = n > AT_ONCE ? n : AT_ONCE;
		uint8_t *more = xr_map(size);
		if (!more)
			return NULL;
		p = more;
		left = size;
	}
	p += n;
	left -= n;
	return p - n;
}

static struct program *latest_of(struct table *const *of, uint64_t id)
{
	struct table *t = __atomic_load_n(of, __ATOMIC_ACQUIRE);
	return t && id < t->n ? __atomic_load_n(&t->of[id], __ATOMIC_ACQUIRE) : NULL;
}

static struct program *latest(uint64_t id) { return latest_of(&table, id); }

static int set_latest(struct table **of, uint64_t id, struct program *p)
{
	struct table *t = *of;
	if (!t || id >= t->n) {
		uint64_t n = id + 1 > xr_root.max_function ? id + 1 : xr_root.max_function + 1;
		n = t && n < 2 * t->n ? 2 * t->n : n;
		struct table *more = take_memory(sizeof *more + n * sizeof *more->of);
		if (!more)
			return 0;
		more->n = n;
		if (t)
			xr_copy(more->of, t->of, t->n * sizeof *t->of);
		__atomic_store_n(of, more, __ATOMIC_RELEASE);
		t = more;
	}
	__atomic_store_n(&t->of[id], p, __ATOMIC_RELEASE);
	return 1;
}

static void find_constants(void)
{
	const ElfW(Phdr) *h = (const ElfW(Phdr) *)getauxval(AT_PHDR), *end = h ? h + getauxval(AT_PHNUM) : h;
	const ElfW(Phdr) *own = h;
	while (own < end && own->p_type != PT_PHDR)
		own++;
	if (own == end)
		return;
	uint64_t bias = (uintptr_t)h - own->p_vaddr;
	for (int n = 0; h < end && n < CONSTANTS; h++)
		if (h->p_type == PT_LOAD && h->p_flags == PF_R) {
			constants[n].from = bias + h->p_vaddr;
			constants[n++].size = h->p_filesz;
		}
}

static int is_end(int op) { return op >= SCALAR && op <= NONE; }

/* Returns whether a step does something that exists, among n steps of which it is number i. */
static int is_valid(const struct step *s, uint64_t i, uint64_t n)
{
	switch (s->op) {
	case REG:
		return s->a < XR_REGISTERS;
	case XMM:
		return s->a < 16 && s->b < 2;
	case LOAD:
		return s->a == 1 || s->a == 2 || s->a == 4 || s->a == 8;
	case SHL: case SHR: case SAR:
		return s->k >= 0 && s->k < 64;
	case JZ: case JUMP:
		return s->k >= 0 && s->k < (int64_t)(n - i - 1);
	case BYTES: case CSTRING:
		return s->k > 0 && s->k <= MOST_BYTES;
	case CFA: case ADD: case MOVE: case SWAP: case INDEX: case AND: case SCALAR: case WIDE: case NONE:
		return 1;
	}
	return 0;
}

/* Checks the n steps of a value. All jumps go forwards, so each path ends if the last step is an end. Returns the
 * most bytes that the value takes in a ring, or 0 if the steps are invalid. */
static uint64_t check_value(const struct step *s, uint64_t n, struct value *v, int *simple)
{
	uint64_t most = 8;
	v->kind = 0;
	if (!n || n > MOST_STEPS || !is_end(s[n - 1].op))
		return 0;
	for (uint64_t i = 0; i < n; i++) {
		if (!is_valid(&s[i], i, n))
			return 0;
		uint32_t kind = s[i].op == CSTRING ? BYTES : s[i].op;
		if (is_end(kind) && kind != NONE) {
			if (v->kind && v->kind != kind)
				return 0;
			v->kind = kind;
		}
		if (kind == WIDE || kind == BYTES) {
			uint64_t size = kind == WIDE ? 16 : min(s[i].k, MOST_READ);
			most = size > most ? size : most;
		}
		if (kind == LOAD || kind == BYTES || kind == WIDE || kind == NONE)
			*simple = 0;
	}
	return v->kind ? 16 + EVENT_SIZE + HEAD_SIZE + ((most + 7) & ~7ull) : 0;
}

struct bytes {
	const uint8_t *p, *end;
};

static int take(struct bytes *b, void *to, uint64_t n)
{
	if ((uint64_t)(b->end - b->p) < n)
		return 0;
	xr_copy(to, b->p, n);
	b->p += n;
	return 1;
}

/* Checks what xray has sent, and puts it into p, which has room for all steps of n bytes. */
static int read_program(struct program *p, const uint8_t *from, uint64_t n)
{
	struct bytes b = {from, from + n};
	uint16_t counts[2];
	uint64_t nvalues = 0, nsteps = 0;
	if (!take(&b, &p->id, sizeof p->id) || !take(&b, counts, sizeof counts) || counts[0] > MOST_VALUES || counts[1] > MOST_VALUES)
		return 0;
	for (int i = 0; i < 2; i++) {
		struct side *side = &p->side[i];
		uint64_t room = 8;
		int simple = 1;
		*side = (struct side){.first = nvalues, .n = counts[i]};
		for (int k = 0; k < counts[i]; k++) {
			struct { uint16_t nsteps, flags; uint32_t zero; } head;
			struct value *v = &p->values[nvalues++];
			if (!take(&b, &head, sizeof head) || head.flags || head.zero || head.nsteps > MOST_STEPS ||
			    !take(&b, &p->steps[nsteps], head.nsteps * sizeof *p->steps))
				return 0;
			v->first = nsteps;
			v->n = head.nsteps;
			uint64_t size = check_value(&p->steps[nsteps], head.nsteps, v, &simple);
			room += size;
			if (!size || room > MOST_ROOM)
				return 0;
			nsteps += head.nsteps;
			side->scalars += v->kind == SCALAR;
		}
		side->simple = simple && (!i || side->n == 1);
	}
	return b.p == b.end && nvalues;
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* A function's program is one that it had before, or a new one. */
static int use(struct table **of, struct program *p, uint32_t id, const uint8_t *sent, const char *text, uint64_t ntext)
{
	struct program *known = latest_of(of, id);
	if (known && known->size == p->size && known->ntext == ntext && !xr_memcmp(known->text, text, ntext) &&
	    !xr_memcmp(known->text + ntext, sent, p->size)) {
		if (!known->on)
			__atomic_store_n(&known->on, 1, __ATOMIC_RELEASE);
		return 1;
	}
	/* What was sent follows the text, for this comparison. */
	char *copy = take_memory(ntext + p->size);
	if (!copy)
		return 0;
	xr_copy(copy, text, ntext);
	xr_copy(copy + ntext, sent, p->size);
	uint64_t size = sizeof *p;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < p->side[i].n; k++)
			size += p->values[p->side[i].first + k].n * sizeof *p->steps;
	struct program *own = take_memory(size);
	if (!own)
		return 0;
	xr_copy(own, p, size);
	own->older = known;
	own->since = known ? xr_rdtsc() : 0;
	own->text = copy;
	own->ntext = ntext;
	own->id = id;
	own->on = 1;
	if (!set_latest(of, id, own))
		return 0;
	if (of == &table) {
		__atomic_store_n(last, own, __ATOMIC_RELEASE);
		last = &own->next;
	}
	return 1;
}

/* Reads the head of a condition from what was sent. Returns its size, or 0 if it is invalid. */
static uint64_t read_condition(struct condition *c, const uint8_t *from, uint64_t n)
{
	enum { SIZE = offsetof(struct condition, wanted) };
	if (n < SIZE)
		return 0;
	xr_copy(c, from, SIZE);
	int is_text = !c->size, known = c->compare >= EQUAL && c->compare <= (is_text ? CONTAINS : AT_LEAST);
	if (!known || c->numbers > FLOATING || (c->numbers == FLOATING && c->size < 4) || c->nwanted > MOST_WANTED || n < SIZE + (uint64_t)c->nwanted ||
	    (is_text ? c->compare > UNEQUAL && c->compare < BEGINS : c->nwanted || (c->size != 1 && c->size != 2 && c->size != 4 && c->size != 8)))
		return 0;
	xr_copy(c->wanted, from + SIZE, c->nwanted);
	return SIZE + c->nwanted;
}

/* Reads the heads of all conditions of a function. */
static uint64_t read_conditions(struct program *p, const uint8_t *from, uint64_t n)
{
	uint64_t all = 0;
	for (uint32_t i = 0; i < MOST_CONDITIONS; i++) {
		struct condition *c = &p->conditions[i];
		uint64_t size = read_condition(c, from + all, n - all);
		if (!size || c->more >= MOST_CONDITIONS - i || (i && c->more != c[-1].more - 1))
			return 0;
		all += size;
		if (!c->more)
			return all;
	}
	return 0;
}

/* Whether a program has only values at the entry, of the kinds that its conditions compare. */
static int fits_conditions(const struct program *p)
{
	int fits = p->side[0].n == p->conditions[0].more + 1 && !p->side[1].n, nsteps = 0;
	for (int i = 0; fits && i < p->side[0].n; i++) {
		fits = p->values[i].kind == (p->conditions[i].size ? SCALAR : BYTES);
		nsteps += p->values[i].n;
	}
	for (int i = 0; i < nsteps; i++)
		if ((p->steps[i].op == BYTES || p->steps[i].op == CSTRING) && p->steps[i].k > MOST_COMPARED)
			return 0;
	return fits;
}

int xr_values_read(const char *p, const char *end, const struct xr_object *o, int is_condition)
{
	const char *digits = p;
	while (p < end && hex_digit(*p) >= 0)
		p++;
	uint64_t n = (p - digits) / 2;
	if ((p - digits) % 2 || p == end || *p != ' ' || !n || n > MOST_ROOM)
		return 0;
	uint64_t size = sizeof(struct program) + 2 * n;
	struct program *made = xr_map(size);
	if (!made)
		return 0;
	/* The steps are at most as long as what was sent. */
	uint8_t *sent = (uint8_t *)made + size - n;
	for (uint64_t i = 0; i < n; i++)
		sent[i] = hex_digit(digits[2 * i]) << 4 | hex_digit(digits[2 * i + 1]);
	made->size = n;
	uint64_t head = is_condition ? read_conditions(made, sent, n) : 0;
	int valid = (head || !is_condition) && read_program(made, sent + head, n - head) && made->id && (!is_condition || fits_conditions(made));
	if (valid && o && made->id <= o->nfunctions) {
		if (!xr_root.values_changes)
			find_constants();
		valid = use(is_condition ? &conditions : &table, made, o->first_id + made->id - 1, sent, p + 1, end - p - 1);
		xr_root.values_changes++;
	}
	xr_unmap(made, size);
	return valid;
}

int xr_values_read_refused(const char *p, const char *end, int apply)
{
	uint64_t n = end - p;
	if (!n || *p != '{')
		return 0;
	struct refused *r, **to = &refused;
	for (; (r = *to); to = &r->next)
		if (r->n == n && !xr_memcmp(r->text, p, n))
			return 1;
	if (!apply)
		return 1;
	r = take_memory(sizeof *r + n);
	if (!r)
		return 0;
	r->n = n;
	xr_copy(r->text, p, n);
	__atomic_store_n(to, r, __ATOMIC_RELEASE);
	xr_root.values_changes++;
	return 1;
}

void xr_values_clear(const struct xr_object *o)
{
	for (uint64_t i = 0; (table || conditions) && i < o->nfunctions; i++) {
		struct program *of[] = {latest(o->first_id + i), latest_of(&conditions, o->first_id + i)};
		for (int k = 0; k < 2; k++)
			if (of[k] && of[k]->on) {
				__atomic_store_n(&of[k]->on, 0, __ATOMIC_RELEASE);
				xr_root.values_changes++;
			}
	}
}

int xr_values_of(uint64_t id)
{
	const struct program *p = latest(id), *c = latest_of(&conditions, id);
	return (p && p->on ? (p->side[0].n ? XR_VALUES_ENTRY : 0) | (p->side[1].n ? XR_VALUES_EXIT : 0) : 0) |
	       (c && c->on ? XR_VALUES_ENTRY : 0);
}

void xr_values_missing(uint64_t id, const char *why)
{
	struct program *p = latest(id);
	if (p)
		__atomic_store_n(&p->missing, why, __ATOMIC_RELEASE);
}

void xr_values_bypassed(void) { bypassed = 1; }

void xr_put_values(struct xr_text *t)
{
	xr_put_text(t, "{\"functions\":[");
	for (struct program *p = __atomic_load_n(&first, __ATOMIC_ACQUIRE); p; p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) {
		xr_put_comma(t);
		xr_put_text(t, "{");
		xr_put_field(t, "id", p->id);
		if (p->since)
			xr_put_field(t, "since", p->since);
		if (p->missing)
			xr_put_field_text(t, "missing", p->missing);
		xr_put_text(t, ",");
		xr_put(t, p->text, p->ntext);
		xr_put_text(t, "}");
	}
	xr_put_text(t, "],\"when\":[");
	for (uint64_t id = 0; conditions && id < conditions->n; id++)
		for (const struct program *p = latest_of(&conditions, id); p; p = p->older) {
			xr_put_comma(t);
			xr_put_text(t, "{");
			xr_put_field(t, "id", p->id);
			if (p->since)
				xr_put_field(t, "since", p->since);
			xr_put_text(t, ",");
			xr_put(t, p->text, p->ntext);
			xr_put_text(t, "}");
		}
	xr_put_text(t, "],\"refused\":[");
	for (struct refused *r = __atomic_load_n(&refused, __ATOMIC_ACQUIRE); r; r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE)) {
		xr_put_comma(t);
		xr_put(t, r->text, r->n);
	}
	if (bypassed) {
		xr_put_comma(t);
		xr_put_text(t, "{\"function\":\"all functions\",\"expression\":\"arguments and results\","
			       "\"why\":\"the program patches or handles calls itself: __xray_patch, __xray_set_handler\"}");
	}
	xr_put_text(t, "]}");
}

/* Reading. */

/* A piece is as long as a text needs, or LINE for a number, which may have others beside it. */
enum { LINE = 64, PIECE = 96, PIECES = 8, MOST_KEPT = PIECES - 2 };

/* A copy of memory, of which only the first n bytes could be read. */
struct piece {
	uint64_t at;
	uint16_t tried, n; /* tried is 0: unused */
	uint8_t kept;      /* a text is in it */
	uint8_t guessed;   /* no value has asked for it: GUESSED, or one has since: CONFIRMED */
	uint8_t copy[PIECE];
};
_Static_assert(PIECE % 8 == 0, "");
enum { GUESSED = 1, CONFIRMED };

/* What values asked for beyond what they asked for first. */
struct asked {
	uint64_t n;
	struct { uint64_t at, size; } list[PIECES / 2];
};

/* The same at the last entry or exit of a function on this thread. */
struct guesses {
	const struct side *of;
	struct asked asked;
};

/* A value while it is read. Afterwards it is in a, and b if it is wide; or it is the n bytes at text; or, if text
 * is null, those at address, which are still to be read. */
struct reading {
	uint64_t a, b, address;
	const uint8_t *text;
	uint32_t full;     /* length */
	uint16_t at;       /* the next step */
	uint16_t n, flags;
	uint8_t waits;     /* for this many bytes at address */
	uint8_t end;       /* the last step, once it is done */
};

/* An entry or an exit whose values are read. */
struct frame {
	const struct program *program;
	const uint64_t *registers;
	uint64_t from, to; /* what is read directly */
	uint32_t word, exit; /* of its record */
	int decides;         /* the value is that of a condition, and not recorded */
	uint32_t nkept, forbidden;
	struct reading *readings;
	struct memory *memory; /* null: none can be read */
	struct guesses *guesses; /* null: none are made */
	struct asked asked;
	struct xr_place place; /* of its records */
};

/* Copies of memory. */
struct memory {
	uint64_t n; /* pieces in use are among the first n */
	struct piece pieces[PIECES];
	uint64_t buffer[PIECES * PIECE / 8 + 1];
	struct iovec from[PIECES];
};

enum { GUESSES = 4 };

/* What a thread uses to read values. It survives a fork, because a handler may fork while the thread reads. */
struct room {
	uint64_t taken; /* address of the return address of the call that is read, plus 1 at an exit; 0: free */
	struct frame frame;
	struct reading readings[MOST_VALUES];
	struct memory memory;
	struct guesses guesses[GUESSES]; /* by function. Several may share one */
};
_Static_assert(sizeof(struct room) <= PAGE, "");

/* trampoline_amd64.S: stores vector register n, 16 bytes. */
void xr_store_vector(uint64_t n, uint64_t to[2]);

static uint64_t vector(const struct step *s)
{
	uint64_t v[2];
	xr_store_vector(s->a, v);
	return v[s->b];
}

/* Does a step that is neither a jump nor an end nor a load. */
static inline void compute(const struct step *s, const uint64_t *registers, uint64_t *a, uint64_t *b)
{
	uint64_t old = *a;
	switch (s->op) {
	case REG:
		*a = registers[s->a];
		break;
	case XMM:
		*a = vector(s);
		break;
	case CFA:
		*a = registers[7] + 8 + (int64_t)s->k;
		break;
	case ADD:
		*a += (int64_t)s->k;
		break;
	case SHL:
		*a <<= s->k;
		break;
	case SHR:
		*a >>= s->k;
		break;
	case SAR:
		*a = (int64_t)*a >> s->k;
		break;
	case MOVE:
		*b = *a;
		break;
	case SWAP:
		*a = *b;
		*b = old;
		break;
	case INDEX:
		*a = *b + *a * (int64_t)s->k;
		break;
	case AND:
		*a &= (uint32_t)s->k;
		break;
	}
}

static inline uint64_t simple_value(const struct step *s, const uint64_t *registers)
{
	uint64_t a = 0, b = 0;
	for (; s->op != SCALAR; s++) {
		if (s->op == JUMP || (s->op == JZ && !a))
			s += s->k;
		else if (s->op != JZ)
			compute(s, registers, &a, &b);
	}
	return a;
}

/* Returns how many bytes from an address on can be read directly. */
static uint64_t here(const struct frame *f, uint64_t at)
{
	if (at >= f->from && at < f->to)
		return f->to - at;
	for (int i = 0; i < CONSTANTS; i++)
		if (at - constants[i].from < constants[i].size)
			return constants[i].size - (at - constants[i].from);
	return 0;
}

/* Returns the piece for which all n bytes at this address were tried, or null. */
static struct piece *find(struct frame *f, uint64_t at, uint64_t n)
{
	for (uint64_t i = 0; f->memory && i < f->memory->n; i++) {
		struct piece *p = &f->memory->pieces[i];
		if (at - p->at < p->tried && at - p->at + n <= p->tried) {
			p->guessed = p->guessed ? CONFIRMED : 0;
			return p;
		}
	}
	return NULL;
}

/* Returns how many of n bytes at an address of a piece could be read. */
static uint64_t readable(const struct piece *p, uint64_t at, uint64_t n)
{
	uint64_t offset = at - p->at;
	return offset >= p->n ? 0 : min(p->n - offset, n);
}

static void wait_for(struct reading *r, uint64_t address, uint64_t n)
{
	r->address = address;
	r->waits = n;
}

static void fail(const struct frame *f, struct reading *r, uint8_t end)
{
	r->flags |= UNREADABLE | (f->forbidden ? FORBIDDEN : 0);
	r->a = r->b = r->n = r->full = 0;
	r->text = NULL;
	r->end = end;
}

/* Ends a value of most bytes, or a string of at most that many, unless it has to wait. Bytes that do not fit into a
 * piece are read later. */
static void take_text(struct frame *f, struct reading *r, uint8_t end, uint64_t at, uint64_t most)
{
	uint64_t n = min(most, PIECE), ready = 0;
	struct piece *p = NULL;
	const uint8_t *text = NULL;
	int string = end == CSTRING;
	r->end = end;
	r->address = at;
	r->n = most;
	if (!most)
		return;
	ready = min(here(f, at), most);
	if (ready)
		text = (const uint8_t *)at;
	if (string ? xr_strnlen((const char *)text, ready) == ready && ready < most : ready < most)
		text = NULL;
	if (!text && !string && most > PIECE)
		return;
	if (!text) {
		p = find(f, at, n);
		if (!p && f->nkept == MOST_KEPT)
			return;
		if (!p) {
			r->end = 0;
			return wait_for(r, at, n);
		}
		ready = readable(p, at, n);
		text = p->copy + (at - p->at);
	}
	uint64_t length = string ? xr_strnlen((const char *)text, ready) : ready;
	if (string && length < ready) {
		r->full = length;
	} else if (p && ready < n) {
		r->full = ready;
		r->flags |= UNREADABLE;
	} else if (length < most) {
		return; /* a longer string */
	} else if (string) {
		r->full = UINT32_MAX;
		r->flags |= TRUNCATED;
	}
	r->n = length;
	r->text = text;
	if (p && !p->kept)
		f->nkept += p->kept = 1;
}

static uint64_t load(const void *p, int size)
{
	uint64_t v = 0;
	if (size == 8)
		__builtin_memcpy(&v, p, 8);
	else if (size == 4)
		__builtin_memcpy(&v, p, 4);
	else if (size == 2)
		__builtin_memcpy(&v, p, 2);
	else
		__builtin_memcpy(&v, p, 1);
	return v;
}

/* Does the steps of a value until it has ended or waits. */
static void run(struct frame *f, struct reading *r, const struct step *steps)
{
	r->waits = 0;
	for (;; r->at++) {
		const struct step *s = &steps[r->at];
		const struct piece *p;
		uint64_t most = min(s->k, MOST_READ); /* of bytes */
		uint64_t at = s->op == LOAD ? r->a + (int64_t)s->k : 0;
		switch (s->op) {
		case LOAD:
			if (here(f, at) >= s->a)
				r->a = load((const void *)at, s->a);
			else if (!(p = find(f, at, s->a)))
				return wait_for(r, at, s->a);
			else if (readable(p, at, s->a) < s->a)
				return fail(f, r, s->op);
			else
				r->a = load(p->copy + (at - p->at), s->a);
			break;
		case JZ:
			r->at += r->a ? 0 : s->k;
			break;
		case JUMP:
			r->at += s->k;
			break;
		case BYTES:
			r->full = min(r->a, UINT32_MAX);
			r->flags = r->a > most ? TRUNCATED : 0;
			return take_text(f, r, BYTES, r->b, min(r->a, most));
		case CSTRING:
			return take_text(f, r, CSTRING, r->a, most);
		case NONE:
			r->flags = NOTHING;
			r->full = s->a;
			r->a = 0;
			r->end = NONE;
			return;
		case SCALAR: case WIDE:
			r->full = s->op == WIDE ? 16 : 8;
			r->end = s->op;
			return;
		default:
			compute(s, f->registers, &r->a, &r->b);
		}
	}
}

/* Copies memory that may be unreadable to n bytes at to, which are readable. Returns how much could be read of all
 * pieces, one after another, or -errno. */
static int64_t copy_in(void *to, uint64_t n, const struct iovec *pieces, uint64_t npieces)
{
	struct iovec own = {to, n};
	uint64_t tid = xr_tls && !xr_is_forked() ? xr_tls->tid : (uint64_t)xr_sys0(SYS_gettid);
	if (npieces == 1)
		return xr_sys6(SYS_process_vm_readv, tid, (intptr_t)&own, 1, (intptr_t)pieces, 1, 0);
	return xr_sys6(SYS_process_vm_writev, tid, (intptr_t)pieces, npieces, (intptr_t)&own, 1, 0);
}

/* The last address that memory of a program can have. The kernel refuses all pieces if one is beyond. */
#define LAST_ADDRESS ((1ull << 47) - PAGE - 1)

/* Reads pieces. If one is unreadable, the kernel reads only part of it and none of those after it. Those are read
 * again, unless they are guesses, which come last. Returns 0 if the system does not allow it. */
static int fill(struct memory *m, struct piece *const *of, uint64_t n)
{
	for (uint64_t i = 0; i < n;) {
		uint64_t size = 0, k = i;
		if (i && of[i]->guessed) {
			of[i++]->tried = 0;
			continue;
		}
		for (; k < n && of[k]->at < LAST_ADDRESS - PIECE; size += of[k++]->tried)
			m->from[k - i] = (struct iovec){(void *)of[k]->at, of[k]->tried};
		int64_t copied = size ? copy_in(m->buffer, size, m->from, k - i) : 0;
		if (copied < 0 && copied != -EFAULT)
			return 0;
		const uint8_t *p = (const uint8_t *)m->buffer;
		uint64_t left = copied < 0 ? 0 : copied;
		int complete = 1;
		while (complete && i < n) {
			struct piece *piece = of[i++];
			piece->n = min(piece->tried, left);
			for (uint64_t k = 0; k < piece->n; k += 8)
				__builtin_memcpy(piece->copy + k, p + k, 8);
			p += piece->n;
			left -= piece->n;
			complete = piece->n == piece->tried && left;
			if (piece->guessed && piece->n < piece->tried)
				piece->tried = 0;
		}
	}
	return 1;
}

static const struct side *side_of(const struct frame *f) { return &f->program->side[f->exit]; }

static void remember(struct frame *f, uint64_t at, uint64_t size)
{
	struct asked *a = &f->asked;
	if (a->n == PIECES / 2)
		return;
	a->list[a->n].at = at;
	a->list[a->n++].size = size;
}

/* Notes which guesses were right. */
static void confirm(struct frame *f)
{
	for (struct piece *p = f->memory->pieces; p < f->memory->pieces + f->memory->n; p++)
		if (p->guessed == CONFIRMED) {
			remember(f, p->at, p->tried);
			p->guessed = 0;
		}
}

/* Reads what n values wait for, as far as there are pieces. Returns 0 if the system does not allow it. */
static int fetch(struct frame *f, uint64_t n, int first)
{
	struct piece *of[PIECES], *p = f->memory->pieces, *used = p + f->memory->n, *end = p + PIECES;
	const struct guesses *g = first ? f->guesses : NULL;
	uint64_t nof = 0;
	confirm(f);
	for (uint64_t i = 0; i < n; i++) {
		const struct reading *r = &f->readings[i];
		int known = !r->waits;
		for (uint64_t k = 0; k < nof; k++)
			known |= r->address - of[k]->at < of[k]->tried && r->address - of[k]->at + r->waits <= of[k]->tried;
		while (p < used && p->kept)
			p++;
		if (known || p == end)
			continue;
		/* No more pages are touched than the value needs. */
		uint64_t rest = min(PAGE - r->address % PAGE, LINE), size = rest < r->waits ? r->waits : rest;
		if (!first)
			remember(f, r->address, size);
		p->at = r->address;
		p->tried = size;
		p->kept = p->guessed = p->n = 0;
		of[nof++] = p++;
	}
	for (uint64_t i = 0; g && g->of == side_of(f) && i < g->asked.n && p < end; i++, p++) {
		p->at = g->asked.list[i].at;
		p->tried = g->asked.list[i].size;
		p->guessed = GUESSED;
		p->kept = p->n = 0;
		of[nof++] = p;
	}
	f->memory->n = p > used ? (uint64_t)(p - f->memory->pieces) : f->memory->n;
	for (; p < used; p++)
		if (!p->kept)
			p->tried = 0;
	return fill(f->memory, of, nof);
}

/* Whether the bytes of a value are still to be read. */
static int is_late(const struct reading *r) { return r->n && r->end >= BYTES && !r->text; }

static const struct step *steps_of(const struct program *p, const struct side *side, int i)
{
	return &p->steps[p->values[side->first + i].first];
}

/* Reads what can be read directly. Returns whether that was all. */
static int read_here(struct frame *f)
{
	const struct side *side = &f->program->side[f->exit];
	int complete = 1;
	f->from = (uintptr_t)f->registers;
	f->to = (f->registers[7] | (PAGE - 1)) + 1;
	for (int i = 0; i < side->n; i++) {
		struct reading *r = &f->readings[i];
		*r = (struct reading){0};
		run(f, r, steps_of(f->program, side, i));
		complete &= !r->waits && !is_late(r);
	}
	return complete;
}

/* Gives up what the values wait for. */
static void forbid(struct frame *f)
{
	const struct side *side = &f->program->side[f->exit];
	f->forbidden = 1;
	for (int i = 0; i < side->n; i++) {
		struct reading *r = &f->readings[i];
		if (r->waits || is_late(r))
			fail(f, r, steps_of(f->program, side, i)[r->at].op);
		r->waits = 0;
	}
}

/* Reads everything else but late bytes. */
static void read_rest(struct frame *f)
{
	const struct side *side = side_of(f);
	for (int first = 1;; first = 0) {
		int waiting = 0;
		for (int i = 0; i < side->n; i++)
			waiting += f->readings[i].waits != 0;
		if (!waiting)
			break;
		if (!fetch(f, side->n, first))
			return forbid(f);
		for (int i = 0; i < side->n; i++)
			if (f->readings[i].waits)
				run(f, &f->readings[i], steps_of(f->program, side, i));
	}
	confirm(f);
	if (f->guesses)
		*f->guesses = (struct guesses){side, f->asked};
}

/* Writing. */

/* Takes room for n bytes of records. Returns no place if they are lost, which is counted. */
static struct xr_place take_place(uint64_t n)
{
	struct xr_place place;
	do {
		place = xr_take_room(n);
	} while (!place.at && xr_slow(n));
	return place;
}

static uint64_t *put_value(uint64_t *q, int kind, uint64_t value)
{
	q[1] = value << 1 | 1;
	q[0] = (value >> 63) << 8 | kind << 1 | 1;
	return q + 2;
}

struct head {
	char magic[4];
	uint16_t schema, kind, index, flags;
	uint32_t full;
};
_Static_assert(sizeof(struct head) == HEAD_SIZE, "");

/* How a value is written. */
struct form {
	uint64_t scalar; /* 1: as an argument, or as a result */
	uint64_t event;  /* size of its event, or 0 */
	uint64_t bytes;  /* in the event */
};

static struct form form_of(const struct reading *r, uint32_t kind, int exit, int only)
{
	struct form form = {0};
	int is_scalar = kind == SCALAR, failed = r->flags & (NOTHING | UNREADABLE);
	form.scalar = is_scalar && (!exit || (only && !failed));
	if (is_scalar)
		form.bytes = exit && !failed ? 8 : 0;
	else if (kind == WIDE)
		form.bytes = failed ? 0 : 16;
	else
		form.bytes = r->flags & NOTHING ? 0 : r->n;
	if (!form.scalar || failed)
		form.event = EVENT_SIZE + HEAD_SIZE + ((form.bytes + 7) & ~7ull);
	return form;
}

/* Reads the bytes of a value into its event. */
static void read_late(const struct reading *r, struct head *head, char *to)
{
	struct iovec from = {(void *)r->address, r->n};
	int64_t n = copy_in(to, r->n, &from, 1);
	uint64_t got = n < 0 ? 0 : n;
	int string = r->end == CSTRING;
	uint64_t length = string ? xr_strnlen(to, got) : got;
	if (length < got) {
		xr_zero(to + length, got - length);
		head->full = length;
	} else if (got < r->n) {
		head->full = got;
		head->flags |= UNREADABLE | (n < 0 && n != -EFAULT ? FORBIDDEN : 0);
	} else if (string) {
		head->full = UINT32_MAX;
		head->flags |= TRUNCATED;
	}
}

/* Writes the event of a value, except its first word, which it returns. */
static uint64_t put_event(uint64_t *q, uint64_t tsc, const struct reading *r, struct form form, uint64_t index, int exit)
{
	uint64_t size = HEAD_SIZE + form.bytes, ab[2] = {r->a, r->b};
	struct head head = {{'X', 'R', 'Y', 'M'}, 1, XR_META_VALUE, index, r->flags | (exit ? OF_EXIT : 0), r->full};
	if (is_late(r))
		read_late(r, &head, (char *)(q + 4));
	else
		xr_copy(q + 4, r->text ? r->text : (const uint8_t *)ab, form.bytes);
	xr_copy(q + 2, &head, sizeof head);
	q[1] = tsc << 1 | 1;
	q[form.event / 8 - 1] = XR_TRAILER | size << 1 | 1;
	return XR_REC_CUSTOM << 1 | 1 | size << 32;
}

/* Writes the records of an entry and its values. Readers see nothing before the first word. */
static void put_entry(const struct frame *f)
{
	const struct side *side = &f->program->side[0];
	const struct value *values = &f->program->values[side->first];
	uint64_t n = side->n, tsc = f->place.tsc, *first = f->place.at, *q = first + 1;
	for (uint64_t i = 0; i < n; i++)
		if (values[i].kind == SCALAR)
			q = put_value(q, XR_REC_ARG, f->readings[i].a);
	for (uint64_t i = 0; i < n; i++) {
		struct form form = form_of(&f->readings[i], values[i].kind, 0, 0);
		if (form.event)
			*q = put_event(q, tsc, &f->readings[i], form, i, 0);
		q += form.event / 8;
	}
	__atomic_store_n(first, f->word | tsc << 32, __ATOMIC_RELEASE);
}

/* The same for an exit, which follows its values. */
static void put_exit(const struct frame *f)
{
	const struct side *side = &f->program->side[1];
	const struct value *values = &f->program->values[side->first];
	uint64_t n = side->n, tsc = f->place.tsc, head = 0, *first = f->place.at, *q = first;
	for (uint64_t i = 0; i < n; i++) {
		struct form form = form_of(&f->readings[i], values[i].kind, 1, n == 1);
		uint64_t word, value = f->readings[i].a;
		if (form.event) {
			word = put_event(q, tsc, &f->readings[i], form, i, 1);
		} else {
			word = (value >> 63) << 8 | XR_REC_RESULT << 1 | 1;
			q[1] = value << 1 | 1;
			form.event = 16;
		}
		if (i)
			*q = word;
		else
			head = word;
		q += form.event / 8;
	}
	*q = f->word | tsc << 32;
	__atomic_store_n(first, head, __ATOMIC_RELEASE);
}

static void put(const struct frame *f) { f->exit ? put_exit(f) : put_entry(f); }

/* Records an entry or an exit and its values. */
static void record(struct frame *f)
{
	const struct side *side = &f->program->side[f->exit];
	uint64_t size = 8;
	for (int i = 0; i < side->n; i++) {
		struct form form = form_of(&f->readings[i], f->program->values[side->first + i].kind, f->exit, side->n == 1);
		size += form.event + 16 * form.scalar;
	}
	struct xr_place place = take_place(size);
	f->place.tsc = place.tsc;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&f->place.at, place.at, __ATOMIC_RELAXED);
	if (place.at)
		put(f);
}

static uint64_t exponent(int size) { return size == 8 ? 0x7ffull << 52 : 0xffull << 23; }

/* Whether the floating-point number with these bits is none. */
static int is_nan(uint64_t v, int size) { return (v & (UINT64_MAX >> (65 - 8 * size))) > exponent(size); }

/* Returns an integer that is less than another one if the floating-point number is. No vector register is used. */
static int64_t in_order(uint64_t v, int size)
{
	int64_t magnitude = v & (UINT64_MAX >> (65 - 8 * size));
	return v >> (8 * size - 1) & 1 ? -magnitude : magnitude;
}

/* Whether a number is as a condition wants it. */
static int compares(const struct condition *c, uint64_t v)
{
	int unused = 64 - 8 * c->size, sign = c->numbers != UNSIGNED;
	uint64_t number = c->number;
	v = c->numbers == SIGNED ? (uint64_t)((int64_t)(v << unused) >> unused) : v << unused >> unused;
	if (c->numbers == FLOATING) {
		if (is_nan(v, c->size))
			return c->compare == UNEQUAL;
		v = in_order(v, c->size);
		number = in_order(number, c->size);
	}
	int less = sign ? (int64_t)v < (int64_t)number : v < number, equal = v == number;
	switch (c->compare) {
	case EQUAL:
		return equal;
	case UNEQUAL:
		return !equal;
	case LESS:
		return less;
	case AT_MOST:
		return less || equal;
	case MORE:
		return !less && !equal;
	}
	return !less;
}

/* The same for a text, of which n bytes could be read. */
static int compares_text(const struct condition *c, const uint8_t *text, uint64_t n)
{
	int begins = n >= c->nwanted && !xr_memcmp(text, c->wanted, c->nwanted);
	switch (c->compare) {
	case EQUAL:
		return begins && n == c->nwanted;
	case UNEQUAL:
		return !(begins && n == c->nwanted);
	case BEGINS:
		return begins;
	}
	for (uint64_t i = 0; i + c->nwanted <= n; i++)
		if (!xr_memcmp(text + i, c->wanted, c->nwanted))
			return 1;
	return 0;
}

/* Whether a condition holds. One whose value cannot be read or does not exist does not. */
static int holds(const struct frame *f, int i)
{
	const struct reading *r = &f->readings[i];
	const struct condition *c = &f->program->conditions[i];
	if (r->flags & (UNREADABLE | NOTHING))
		return 0;
	if (c->size)
		return compares(c, r->a);
	if (!is_late(r))
		return compares_text(c, r->text, r->n);
	if (!f->memory)
		return 0;
	struct iovec from = {(void *)r->address, r->n};
	char *to = (char *)f->memory->buffer;
	int64_t n = copy_in(to, r->n, &from, 1);
	if (n < 0)
		return 0;
	uint64_t length = r->end == CSTRING ? xr_strnlen(to, n) : (uint64_t)n;
	if (length == (uint64_t)n && length < r->n)
		return 0; /* the rest cannot be read */
	return compares_text(c, (const uint8_t *)to, length);
}

/* What is done with the values: not 0. */
enum { RECORDED = 1, IS_FALSE, IS_TRUE };

static int finish(struct frame *f)
{
	for (int i = 0; f->decides && i < f->program->side[0].n; i++)
		if (!holds(f, i))
			return IS_FALSE;
	if (f->decides)
		return IS_TRUE;
	record(f);
	return RECORDED;
}

/* kind is whether the values are those of an exit; DECIDE: that of a condition. */
enum { DECIDE = 2 };

static void begin(struct frame *f, const struct program *p, const uint64_t *registers, uint32_t word, int kind, struct reading *readings, struct memory *m,
		  struct guesses *g)
{
	*f = (struct frame){
		.program = p, .registers = registers, .word = word, .exit = kind == 1, .decides = kind == DECIDE, .readings = readings, .memory = m, .guesses = g,
	};
	if (m)
		m->n = 0;
}

/* Reads all values, if they can be read. */
static void read_all(struct frame *f)
{
	if (read_here(f))
		return;
	if (xr_is_sealed())
		forbid(f);
	else
		read_rest(f);
}

/* Reads into the thread's room. Returns 0 if it is taken, or if a landing has freed it meanwhile. */
static int record_in_room(const struct program *p, const uint64_t *registers, uint32_t word, int kind)
{
	struct room *room = xr_tls && !xr_is_forked() ? (struct room *)xr_tls->room : NULL;
	uint64_t call = registers[7] | (kind == 1);
	if (!room || room->taken)
		return 0;
	__atomic_store_n(&room->frame.place.at, NULL, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&room->taken, call, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	begin(&room->frame, p, registers, word, kind, room->readings, &room->memory, &room->guesses[(p->id + kind) % GUESSES]);
	read_all(&room->frame);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&room->taken, __ATOMIC_RELAXED) != call)
		return 0;
	int done = finish(&room->frame);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&room->taken, 0, __ATOMIC_RELAXED);
	return done;
}

/* Returns a room, or null. Many are mapped at once: a program that unmaps memory twice would hit single pages. */
static uint64_t *take_room(void)
{
	enum { AT_ONCE = 64 };
	static uint8_t *rooms;
	static uint32_t left;
	uint8_t *room = NULL;
	xr_lock(XR_LOCK_THREADS);
	if (!left) {
		rooms = xr_map(AT_ONCE * PAGE);
		left = rooms ? AT_ONCE : 0;
	}
	if (left)
		room = rooms + --left * PAGE;
	xr_unlock(XR_LOCK_THREADS);
	return (uint64_t *)room;
}

static uint64_t record_inside(uint64_t program, uint64_t registers, uint64_t word, uint64_t kind)
{
	struct room room;
	begin(&room.frame, (const struct program *)program, (const uint64_t *)registers, word, kind, room.readings, &room.memory, NULL);
	read_all(&room.frame);
	int done = finish(&room.frame);
	if (xr_tls && !xr_is_forked() && !xr_tls->room)
		xr_tls->room = take_room();
	return done;
}

/* Behind a seccomp filter, where signals cannot be blocked. */
static __attribute__((noinline)) int record_sealed(const struct program *p, const uint64_t *registers, uint32_t word, int kind)
{
	struct reading readings[p->side[kind == 1].n];
	struct frame f;
	begin(&f, p, registers, word, kind, readings, NULL, NULL);
	read_all(&f);
	return finish(&f);
}

static int record_all(const struct program *p, const uint64_t *registers, uint32_t word, int kind)
{
	uint64_t from = xr_limited ? xr_rdtsc() : 0;
	int done = record_in_room(p, registers, word, kind);
	if (!done && !xr_is_sealed())
		done = xr_inside(record_inside, (uintptr_t)p, (uintptr_t)registers, word, kind);
	if (!done)
		done = record_sealed(p, registers, word, kind);
	if (from)
		xr_budget_charge(word >> 4, xr_rdtsc() - from);
	return done;
}

uint64_t xr_values_left(uint64_t sp)
{
	struct room *room = xr_tls ? (struct room *)xr_tls->room : NULL;
	uint64_t call = room ? room->taken & ~1ull : 0;
	if (!call || call >= sp || sp - call >= XR_SAME_STACK)
		return 0;
	const struct frame *f = &room->frame;
	int is_exit = room->taken & 1;
	if (f->place.at && !*f->place.at)
		put(f);
	room->taken = 0;
	return f->place.at || is_exit ? 0 : call;
}

static void record_plain(uint32_t word)
{
	struct xr_place place = take_place(8);
	if (place.at)
		__atomic_store_n(place.at, word | place.tsc << 32, __ATOMIC_RELEASE);
}

/* Called by the trampolines, with the record's word. */
void xr_values_at_entry(uint32_t word, const uint64_t *registers);
void xr_values_at_depth(uint32_t word, const uint64_t *registers);
void xr_values_at_exit(uint32_t word, const uint64_t *registers);

void xr_values_at_entry(uint32_t word, const uint64_t *registers)
{
	const struct program *p = latest(word >> 4);
	const struct side *side = p ? &p->side[0] : NULL;
	word &= ~15u;
	if (!p || !side->n || !__atomic_load_n(&p->on, __ATOMIC_RELAXED))
		return record_plain(word);
	word |= side->scalars ? XR_ENTER_ARG << 1 : 0;
	if (!side->simple)
		return (void)record_all(p, registers, word, 0);
	struct xr_place place = take_place(8 + 16 * side->n);
	if (!place.at)
		return;
	uint64_t *q = place.at + 1;
	for (int i = 0; i < side->n; i++)
		q = put_value(q, XR_REC_ARG, simple_value(&p->steps[p->values[side->first + i].first], registers));
	__atomic_store_n(place.at, word | place.tsc << 32, __ATOMIC_RELEASE);
}

void xr_values_at_exit(uint32_t word, const uint64_t *registers)
{
	const struct program *p = latest(word >> 4);
	const struct side *side = p ? &p->side[1] : NULL;
	if (!p || !side->n || !__atomic_load_n(&p->on, __ATOMIC_RELAXED))
		return record_plain(word);
	if (!side->simple)
		return (void)record_all(p, registers, word, 1);
	struct xr_place place = take_place(24);
	if (!place.at)
		return;
	uint64_t value = simple_value(&p->steps[p->values[side->first].first], registers);
	place.at[1] = value << 1 | 1;
	place.at[2] = word | place.tsc << 32;
	__atomic_store_n(place.at, (value >> 63) << 8 | XR_REC_RESULT << 1 | 1, __ATOMIC_RELEASE);
}

/* Whether a function has a condition that holds. */
static int is_wanted(uint32_t word, const uint64_t *registers)
{
	const struct program *p = latest_of(&conditions, word >> 4);
	if (!p || !__atomic_load_n(&p->on, __ATOMIC_RELAXED))
		return 0;
	if (!p->side[0].simple)
		return record_all(p, registers, word, DECIDE) == IS_TRUE;
	for (int i = 0; i < p->side[0].n; i++)
		if (!compares(&p->conditions[i], simple_value(&p->steps[p->values[i].first], registers)))
			return 0;
	return 1;
}

void xr_values_at_depth(uint32_t word, const uint64_t *registers)
{
	int wanted = xr_depth_wants(word, registers[7] - 8);
	if (!wanted && xr_depth_asks() && is_wanted(word, registers))
		wanted = xr_depth_begins(registers[7]);
	if (wanted)
		xr_values_at_entry(word, registers);
}
