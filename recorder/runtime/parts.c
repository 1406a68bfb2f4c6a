/* Functions in parts: compilers move code that runs rarely out of a function (foo.cold), or give each
 * basic block a section of its own (foo.__part.1, foo.eh). To an unwinder, each part is a function. Only
 * symbols say to which function it belongs, so the parts of stripped objects are unknown.
 *
 * LLVM's foo.cold.1 is not a part, but a function that foo calls.
 *
 * All of this runs at landings: no libc, and no locks. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "layout.h"
#include "objects.h"
#include "parts.h"
#include "syscall.h"

/* The parts of an object, in a hash table by start. Addresses are those in the file. A start of 0 is a
 * free place. */
struct part {
	uint64_t start, function;
};
struct parts {
	uint64_t mask; /* the number of places, a power of 2, minus 1 */
	struct part at[];
};

static struct parts none;
static struct parts *tables[XR_MAX_OBJECTS]; /* null: not read yet */

struct symbols {
	const Elf64_Sym *list;
	uint64_t n, size;
	const char *names;
	uint64_t names_size;
};

/* The name of a function. Functions of several source files may have the same name, and are local then.
 * They follow the symbol of their file. */
struct name {
	const char *text;
	uint64_t length;
	uint64_t file; /* 0: a global symbol */
	int is_part;
};

static int ends_part(const char *s, uint64_t n)
{
	static const char numbered[] = ".__part.";
	uint64_t k = sizeof numbered - 1;
	if ((n == 5 && !xr_memcmp(s, ".cold", n)) || (n == 3 && !xr_memcmp(s, ".eh", n)))
		return 1;
	if (n <= k || xr_memcmp(s, numbered, k))
		return 0;
	while (k < n && s[k] >= '0' && s[k] <= '9')
		k++;
	return k == n;
}

/* Returns the name of symbol i, without what marks a part. The length is 0 if it is no function's. */
static struct name name_of(const struct symbols *s, uint64_t i, uint64_t *file)
{
	const Elf64_Sym *y = &s->list[i];
	unsigned type = ELF64_ST_TYPE(y->st_info), local = ELF64_ST_BIND(y->st_info) == STB_LOCAL;
	struct name name = {0};
	*file += type == STT_FILE;
	if ((type != STT_FUNC && type != STT_NOTYPE) || y->st_shndx == SHN_UNDEF || y->st_name >= s->names_size)
		return name;
	name.text = s->names + y->st_name;
	name.length = xr_strnlen(name.text, s->names_size - y->st_name);
	name.file = local ? *file : 0;
	for (uint64_t k = name.length; k-- > 1 && name.length - k < 32;) {
		if (name.text[k] == '.' && ends_part(name.text + k, name.length - k)) {
			name.length = k;
			name.is_part = 1;
			break;
		}
	}
	return name;
}

static uint64_t hash(uint64_t v) { return (v * 0x9e3779b97f4a7c15ull) >> 20; }

static uint64_t hash_name(struct name n, uint64_t file)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (uint64_t i = 0; i < n.length; i++)
		h = (h ^ (uint8_t)n.text[i]) * 0x100000001b3ull;
	return (h + file) * 0x9e3779b97f4a7c15ull | 1;
}

/* Returns the place of a start, or the free place where it belongs. */
static struct part *place(struct parts *p, uint64_t start)
{
	uint64_t i = hash(start) & p->mask;
	while (p->at[i].start && p->at[i].start != start)
		i = (i + 1) & p->mask;
	return &p->at[i];
}

static struct parts *make_table(uint64_t n)
{
	uint64_t size = 16;
	while (size < 2 * n)
		size *= 2;
	struct parts *p = xr_map(sizeof *p + size * sizeof *p->at);
	if (p)
		p->mask = size - 1;
	return p;
}

static void free_table(struct parts *p) { xr_unmap(p, sizeof *p + (p->mask + 1) * sizeof *p->at); }

/* Finds the parts: first by the hashes of their functions' names, then those functions. A part is local,
 * even if its function is not. */
static struct parts *find_parts(const struct symbols *s)
{
	uint64_t n = 0, file = 0;
	for (uint64_t i = 0; i < s->n; i++)
		n += name_of(s, i, &file).is_part;
	struct parts *names = n ? make_table(2 * n) : NULL, *found = names ? make_table(n) : NULL;
	file = 0;
	for (uint64_t i = 0; found && i < s->n; i++) {
		struct name name = name_of(s, i, &file);
		if (!name.is_part)
			continue;
		place(names, hash_name(name, name.file))->start = hash_name(name, name.file);
		place(names, hash_name(name, 0))->start = hash_name(name, 0);
	}
	file = 0;
	for (uint64_t i = 0; found && i < s->n; i++) {
		struct name name = name_of(s, i, &file);
		struct part *at = name.length && !name.is_part ? place(names, hash_name(name, name.file)) : NULL;
		if (at && at->start)
			at->function = s->list[i].st_value;
	}
	file = 0;
	for (uint64_t i = 0; found && i < s->n; i++) {
		struct name name = name_of(s, i, &file);
		if (!name.is_part || !s->list[i].st_value)
			continue;
		uint64_t function = place(names, hash_name(name, name.file))->function;
		if (!function)
			function = place(names, hash_name(name, 0))->function;
		struct part *at = place(found, s->list[i].st_value);
		at->start = s->list[i].st_value;
		at->function = function;
	}
	if (names)
		free_table(names);
	return found;
}

static void *read_range(int fd, uint64_t offset, uint64_t size)
{
	enum { MOST = 1 << 30 };
	uint8_t *p = size && size < MOST ? xr_map(size) : NULL;
	for (uint64_t done = 0; p && done < size;) {
		int64_t k = xr_sys4(SYS_pread64, fd, (intptr_t)p + done, size - done, offset + done);
		if (k > 0) {
			done += k;
		} else if (k != -EINTR) {
			xr_unmap(p, size);
			p = NULL;
		}
	}
	return p;
}

/* Reads the symbols of an object, if its file is still the same. */
static int read_symbols(uint64_t object, struct symbols *s)
{
	const struct xr_mapping *m = &xr_mappings[object];
	const struct xr_symbol_table *t = &m->symbols;
	struct stat st;
	int fd = t->size ? xr_open(m->program ? "/proc/self/exe" : xr_root.objects[object].path, O_RDONLY | O_CLOEXEC, 0) : -1;
	if (fd < 0)
		return 0;
	if (!xr_sys2(SYS_fstat, fd, (intptr_t)&st) && (uint64_t)st.st_dev == t->dev && st.st_ino == t->ino && (uint64_t)st.st_mtime == t->mtime) {
		s->size = t->size;
		s->list = read_range(fd, t->offset, t->size);
		s->n = t->size / sizeof *s->list;
		s->names = read_range(fd, t->names_offset, t->names_size);
		s->names_size = t->names_size;
	}
	xr_close(fd);
	return s->list && s->names;
}

static void free_symbols(struct symbols *s)
{
	if (s->list)
		xr_unmap((void *)s->list, s->size);
	if (s->names)
		xr_unmap((void *)s->names, s->names_size);
}

static struct parts *read_parts(uint64_t object)
{
	struct symbols s = {0};
	struct parts *found = read_symbols(object, &s) ? find_parts(&s) : NULL;
	free_symbols(&s);
	return found;
}

int xr_mark_functions(uint64_t object, uint64_t first, uint64_t end, uint8_t *bits)
{
	struct symbols s = {0};
	int any = read_symbols(object, &s);
	for (uint64_t i = 0; any && i < s.n; i++) {
		uint64_t at = s.list[i].st_value - first;
		if (ELF64_ST_TYPE(s.list[i].st_info) == STT_FUNC && at < end - first)
			bits[at / 8] |= 1 << at % 8;
	}
	free_symbols(&s);
	return any;
}

uint64_t xr_function_of_part(uint64_t object, uint64_t start)
{
	struct parts *known = __atomic_load_n(&tables[object], __ATOMIC_ACQUIRE), *expected = NULL;
	uint64_t bias = xr_root.objects[object].bias;
	if (!known) {
		if (xr_sealed)
			return 0;
		struct parts *found = read_parts(object);
		known = found ? found : &none;
		/* Another thread may have read them in the meantime. */
		if (!__atomic_compare_exchange_n(&tables[object], &expected, known, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			known = expected;
			if (found)
				free_table(found);
		}
	}
	uint64_t function = known == &none ? 0 : place(known, start - bias)->function;
	return function ? bias + function : 0;
}
