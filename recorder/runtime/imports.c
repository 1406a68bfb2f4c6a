/* Records the calls of libc functions in a process that is already running.
 *
 * If the objects of libcalls/ are preloaded, the loader binds calls to their functions. In a running
 * process the calls are bound already: each object has a table of addresses, its GOT, through which it
 * calls the functions of other objects. While a recording lasts, the words there that hold the address
 * of a function of libc hold that of its replacement. A word that holds any other address is left alone:
 * it is not bound yet, or bound to another function, such as an older version or another allocator.
 *
 * The words are the only state. To undo the change, the recorder replaces the addresses of its functions
 * by those of libc's, so it does not matter which objects were opened or closed meanwhile. A thread
 * that is inside a replacement returns through it: the objects are never unloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "descriptors.h"
#include "imports.h"
#include "loader.h"
#include "objects.h"
#include "syscall.h"
#include "text.h"

/* Static programs have no dlopen. */
extern __typeof(dlopen) dlopen __attribute__((weak));
extern __typeof(dlsym) dlsym __attribute__((weak));

enum { MAX_LOADED = 16, MAX_CALLS = 512, MAX_SEEN = 1024, PAGE = 4096 };

static struct call {
	uint64_t libc, ours;
	int left; /* some object loads the function's address */
} calls[MAX_CALLS];
static unsigned ncalls;
static uint64_t lowest, highest; /* addresses of libc's functions */

static int on;
static uint64_t next; /* TSC from which to look for newly bound words */

/* Objects whose data words were redirected, by their load addresses. The loader binds these words before
 * any of the object's code runs. */
static uint64_t seen[MAX_SEEN];
static unsigned nseen;

/* As in libcalls/find.c. */
struct row {
	const char *name;
	void *real;
};

/* The objects that were loaded so far. */
static struct {
	uint64_t file[2]; /* device and inode */
	void *set;
} loaded[MAX_LOADED];
static unsigned nloaded;

/* Loads an object from an open file, unless it is loaded already. The loader takes objects with the same
 * name for one, and descriptors repeat, so each gets a path of its own. */
static void *load(int fd)
{
	uint64_t file[2];
	char path[64] = "/proc/thread-self/fd/";
	struct xr_text t = xr_text_in(path + 21, sizeof path - 22);
	if (xr_identify(fd, file))
		return NULL;
	for (unsigned i = 0; i < nloaded; i++, xr_put_text(&t, "./"))
		if (loaded[i].file[0] == file[0] && loaded[i].file[1] == file[1])
			return loaded[i].set;
	xr_put_number(&t, fd);
	path[21 + t.n] = 0;
	void *set = nloaded < MAX_LOADED ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
	if (set) {
		loaded[nloaded].file[0] = file[0];
		loaded[nloaded].file[1] = file[1];
		loaded[nloaded++].set = set;
	}
	return set;
}

static const char *add_set(int fd)
{
	void *set = load(fd);
	const struct row *r = set ? dlsym(set, "xray_libcalls") : NULL;
	if (!r)
		return "the process cannot load the functions that record calls of the C library";
	for (; r->name; r++) {
		uint64_t ours = (uintptr_t)dlsym(set, r->name), libc = (uintptr_t)__atomic_load_n(&r->real, __ATOMIC_ACQUIRE);
		if (!ours || ours == libc || ncalls == MAX_CALLS)
			continue;
		calls[ncalls++] = (struct call){libc, ours, 0};
		lowest = libc < lowest ? libc : lowest;
		highest = libc > highest ? libc : highest;
	}
	return NULL;
}

const char *xr_imports_load(const int *fds, int nfds)
{
	if (!dlopen || !dlsym)
		return "the program is static: link these functions into it";
	if (on)
		return "it is already recording calls of the C library";
	ncalls = 0;
	lowest = UINT64_MAX;
	highest = 0;
	for (int i = 0; i < nfds; i++) {
		const char *why = add_set(fds[i]);
		if (why)
			return why;
	}
	return NULL;
}

/* An object and its tables. */
struct object {
	const struct dl_phdr_info *info;
	uint64_t tables[2], sizes[2]; /* of relocations: of calls, and of the rest */
};
enum { OF_CALLS, OF_DATA };

static void read_tables(struct object *o)
{
	for (const ElfW(Dyn) *d = xr_dynamic_section(o->info); d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			o->tables[OF_CALLS] = xr_dynamic_address(o->info, d->d_un.d_ptr);
		else if (d->d_tag == DT_PLTRELSZ)
			o->sizes[OF_CALLS] = d->d_un.d_val;
		else if (d->d_tag == DT_RELA)
			o->tables[OF_DATA] = xr_dynamic_address(o->info, d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			o->sizes[OF_DATA] = d->d_un.d_val;
	}
	for (int i = 0; i < 2; i++)
		if (!o->sizes[i] || !xr_segment_at(o->info, PF_R, o->tables[i], o->sizes[i]))
			o->sizes[i] = 0;
}

/* A word of the GOT that is bound to a function of libc. */
struct word {
	uint64_t *at;
	struct call *call;
	int loaded; /* some code loads the address instead of calling it */
};

/* Finds out which words the object's code loads, and does not only call through: the program may compare
 * addresses of functions. Each byte of the code is taken for the beginning of a displacement. Some of
 * these are none, and then a word is left alone needlessly. */
static void find_loaded(const struct object *o, struct word *words, unsigned n)
{
	uint64_t first = UINT64_MAX, last = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t at = (uintptr_t)words[i].at;
		first = at < first ? at : first;
		last = at > last ? at : last;
	}
	for (int i = 0; n && i < o->info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || (p->p_flags & (PF_R | PF_X)) != (PF_R | PF_X) || p->p_filesz < 6)
			continue;
		const uint8_t *code = (const uint8_t *)o->info->dlpi_addr + p->p_vaddr, *end = code + p->p_filesz - 4;
		for (const uint8_t *at = code + 2; at <= end; at++) {
			int32_t displacement;
			__builtin_memcpy(&displacement, at, 4);
			uint64_t word = (uintptr_t)at + 4 + displacement;
			if (word - first > last - first || (at[-2] == 0xff && (at[-1] == 0x15 || at[-1] == 0x25)))
				continue;
			for (unsigned k = 0; k < n; k++)
				words[k].loaded |= (uintptr_t)words[k].at == word;
		}
	}
}

/* Returns whether the loader made a page read-only after binding. It rounds the range down at both ends. */
static int is_sealed(const struct dl_phdr_info *info, uint64_t page)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t first = info->dlpi_addr + p->p_vaddr, end = first + p->p_memsz;
		if (p->p_type == PT_GNU_RELRO && page >= (first & -(uint64_t)PAGE) && page < (end & -(uint64_t)PAGE))
			return 1;
	}
	return 0;
}

static void write_word(const struct dl_phdr_info *info, uint64_t *word, uint64_t from, uint64_t to)
{
	uint64_t page = (uintptr_t)word & -(uint64_t)PAGE;
	int sealed = is_sealed(info, page);
	if (sealed && xr_sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE) < 0)
		return;
	__atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (sealed)
		xr_sys3(SYS_mprotect, page, PAGE, PROT_READ);
}

/* Returns the function to whose address a word is bound and which is to be replaced, or null. */
static struct call *bound_to(uint64_t value)
{
	if (on && (value < lowest || value > highest))
		return NULL;
	for (struct call *c = calls; c < calls + ncalls; c++)
		if (value == (on ? c->libc : c->ours))
			return c;
	return NULL;
}

/* Finds the bound words of a table. Returns their number. */
static unsigned find_words(const struct object *o, int table, struct word *words, unsigned most)
{
	uint32_t type = table == OF_CALLS ? R_X86_64_JUMP_SLOT : R_X86_64_GLOB_DAT;
	const ElfW(Rela) *r = (const ElfW(Rela) *)o->tables[table], *end = r + o->sizes[table] / sizeof *r;
	unsigned n = 0;
	for (; r < end && n < most; r++) {
		uint64_t at = o->info->dlpi_addr + r->r_offset;
		if (ELF64_R_TYPE(r->r_info) != type || at & 7 || !xr_segment_at(o->info, PF_R | PF_W, at, sizeof(uint64_t)))
			continue;
		struct call *c = bound_to(__atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED));
		if (c)
			words[n++] = (struct word){(uint64_t *)at, c, 0};
	}
	return n;
}

static void change_table(const struct object *o, int table)
{
	static struct word words[MAX_CALLS]; /* the loader is locked */
	unsigned n = find_words(o, table, words, MAX_CALLS);
	if (on && table == OF_DATA)
		find_loaded(o, words, n);
	for (struct word *w = words; w < words + n; w++) {
		w->call->left |= w->loaded;
		if (!w->loaded)
			write_word(o->info, w->at, on ? w->call->libc : w->call->ours, on ? w->call->ours : w->call->libc);
	}
}

/* Returns whether the object's data words were redirected already. */
static int was_seen(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < nseen; i++)
		if (seen[i] == info->dlpi_addr)
			return 1;
	if (nseen == MAX_SEEN)
		return 1;
	seen[nseen++] = info->dlpi_addr;
	return 0;
}

static int change_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object o = {.info = info};
	(void)size;
	(void)arg;
	for (unsigned i = 0; i < ncalls; i++)
		if (xr_segment_at(info, PF_X, calls[i].ours, 1))
			return 0;
	read_tables(&o);
	change_table(&o, OF_CALLS);
	if (!on || !was_seen(info))
		change_table(&o, OF_DATA);
	return 0;
}

static void change_all(void *arg)
{
	(void)arg;
	dl_iterate_phdr(change_object, NULL);
}

/* Looking takes at most a two-hundredth of the time. */
static void change(void)
{
	uint64_t began = xr_rdtsc();
	xr_with_loader(change_all, NULL);
	uint64_t ended = xr_rdtsc();
	next = ended + 200 * (ended - began);
}

void xr_imports_redirect(int redirect)
{
	if (on == redirect || !ncalls)
		return;
	on = redirect;
	nseen = 0;
	for (unsigned i = 0; i < ncalls; i++)
		calls[i].left = 0;
	change();
	if (!on)
		ncalls = 0;
}

void xr_imports_follow(void)
{
	if (on && xr_rdtsc() >= next)
		change();
}

unsigned xr_imports_left(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < ncalls; i++)
		n += calls[i].left;
	return n;
}
