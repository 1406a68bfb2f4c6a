/* Finds the functions that the program would call without these. dlsym is unsuitable, because
 * it may call malloc and so recurse into this code.
 *
 * A function is the first of its name in the objects after this one in load order, which is the
 * order in which the program's own calls are bound. If no object after this one has any, this one was
 * loaded into a running process. Then it is the first in all objects but the program, which may have
 * functions of these names that are not libc's. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(hidden)

void xr_find_calls(void);

/* The rows that calls.h makes. The last one has no name. */
extern struct call {
	const char *name;
	void *real;
} xr_calls[];

/* Stands in for a function that no object has. */
static long missing(void)
{
	errno = ENOSYS;
	return -1;
}

/* The symbols of an object. */
struct symbols {
	const ElfW(Sym) *table;
	const char *strings;
	const ElfW(Versym) *versions; /* or null */
	const uint32_t *gnu_hash, *hash; /* one of them may be null */
	ElfW(Addr) base;
};

static int read_symbols(const struct dl_phdr_info *info, struct symbols *s)
{
	const ElfW(Dyn) *d = NULL;
	*s = (struct symbols){.base = info->dlpi_addr};
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		/* In musl and the kernel's object (vDSO), these addresses are file addresses. */
		const void *at = (const void *)(d->d_un.d_ptr + (d->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr : 0));
		if (d->d_tag == DT_SYMTAB)
			s->table = at;
		else if (d->d_tag == DT_STRTAB)
			s->strings = at;
		else if (d->d_tag == DT_VERSYM)
			s->versions = at;
		else if (d->d_tag == DT_GNU_HASH)
			s->gnu_hash = at;
		else if (d->d_tag == DT_HASH)
			s->hash = at;
	}
	return s->table && s->strings && (s->gnu_hash || s->hash);
}

/* Returns whether symbol i is the function of this name to which new programs are bound: the
 * default one of several versions. */
static int is_function(const struct symbols *s, uint32_t i, const char *name)
{
	enum { HIDDEN_VERSION = 0x8000 };
	const ElfW(Sym) *y = &s->table[i];
	int type = ELF64_ST_TYPE(y->st_info), bind = ELF64_ST_BIND(y->st_info);
	return y->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) && bind != STB_LOCAL &&
	       !(s->versions && s->versions[i] & HIDDEN_VERSION) && !strcmp(s->strings + y->st_name, name);
}

static uint32_t find_by_gnu_hash(const struct symbols *s, const char *name)
{
	const uint32_t *h = s->gnu_hash;
	uint32_t nbuckets = h[0], first = h[1], nbloom = h[2], hash = 5381;
	const uint32_t *buckets = h + 4 + 2 * nbloom, *chain = buckets + nbuckets;
	for (const unsigned char *p = (const void *)name; *p; p++)
		hash = hash * 33 + *p;
	uint32_t i = nbuckets ? buckets[hash % nbuckets] : 0;
	for (; i >= first && i; i++) {
		uint32_t other = chain[i - first];
		if ((other | 1) == (hash | 1) && is_function(s, i, name))
			return i;
		if (other & 1)
			break;
	}
	return 0;
}

static uint32_t find_symbol(const struct symbols *s, const char *name)
{
	if (s->gnu_hash)
		return find_by_gnu_hash(s, name);
	for (uint32_t i = 1; i < s->hash[1]; i++)
		if (is_function(s, i, name))
			return i;
	return 0;
}

static void *address_of(const struct symbols *s, uint32_t i)
{
	ElfW(Addr) at = s->base + s->table[i].st_value;
	if (ELF64_ST_TYPE(s->table[i].st_info) == STT_GNU_IFUNC)
		at = ((ElfW(Addr)(*)(void))at)();
	return (void *)at;
}

static int contains(const struct dl_phdr_info *info, const void *p)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		if (h->p_type == PT_LOAD && (uintptr_t)p - info->dlpi_addr - h->p_vaddr < h->p_memsz)
			return 1;
	}
	return 0;
}

enum { MAX_CALLS = 256 };

struct search {
	int behind; /* this object, or the program if this one was loaded late */
	int late, nfound;
	uint8_t found[MAX_CALLS];
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	struct symbols s;
	(void)size;
	if (!search->behind) {
		search->behind = search->late || contains(info, xr_calls);
		return 0;
	}
	if (!read_symbols(info, &s))
		return 0;
	for (struct call *c = xr_calls; c->name; c++) {
		uint8_t *found = &search->found[c - xr_calls];
		uint32_t i = *found ? 0 : find_symbol(&s, c->name);
		if (!i)
			continue;
		*found = 1;
		search->nfound++;
		__atomic_store_n(&c->real, address_of(&s, i), __ATOMIC_RELEASE);
	}
	return 0;
}

/* Runs early, as a constructor, and at the first call if that comes earlier. Running it twice
 * is harmless. */
__attribute__((constructor(101))) void xr_find_calls(void)
{
	struct search search = {0};
	dl_iterate_phdr(look, &search);
	if (!search.nfound) {
		search = (struct search){.late = 1};
		dl_iterate_phdr(look, &search);
	}
	for (struct call *c = xr_calls; c->name; c++)
		if (!search.found[c - xr_calls])
			__atomic_store_n(&c->real, missing, __ATOMIC_RELEASE);
}
