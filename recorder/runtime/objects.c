/* Finds the instrumented objects of the program and assigns IDs to their functions. All objects
 * are treated alike: the loader says what is mapped, and the section headers of the mapped file
 * say where the sled table is. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "code.h"
#include "gcc.h"
#include "hooks.h"
#include "layout.h"
#include "libcalls.h"
#include "objects.h"
#include "patch.h"
#include "sleds.h"
#include "state.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

struct xr_mapping xr_mappings[XR_MAX_OBJECTS];
uint64_t xr_last_scan;

/* Objects known to have no sleds, as hashes of their keys. */
static uint64_t without_sleds[1024];

/* Limits for the values in a file. */
enum { MAX_SECTIONS = 1 << 16, MAX_NAMES = 1 << 24, MAX_NOTES = 1 << 16, MAX_HEADERS = 1 << 16 };

/* What is known about an object during discovery. */
struct finding {
	const struct dl_phdr_info *info;
	const char *name;      /* name to open the file by */
	const uint8_t *build_id;
	uint32_t build_id_size;
	uint64_t key;
	int fd;
	uint64_t nhead;        /* bytes of the file's beginning that head has */
	uint64_t table, size;  /* the sled table: address, bytes */
	uint64_t old_text, old_size; /* code of which BOLT has made copies: address, bytes */
	struct xr_symbol_table symbols;
	const char *why;       /* why the object is refused */
	int64_t error;
};

static uint64_t hash(uint64_t h, const void *p, uint64_t n)
{
	const uint8_t *b = p;
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return h;
}

static int refuse(struct finding *f, const char *why, int64_t error)
{
	f->why = why;
	f->error = error;
	return -1;
}

const ElfW(Phdr) *xr_segment_at(const struct dl_phdr_info *info, uint32_t flags, uint64_t address, uint64_t size)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t first = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && address >= first &&
		    size <= p->p_memsz && address - first <= p->p_memsz - size)
			return p;
	}
	return NULL;
}

static void find_build_id(struct finding *f)
{
	for (int i = 0; i < f->info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &f->info->dlpi_phdr[i];
		uint64_t at = f->info->dlpi_addr + p->p_vaddr, left = p->p_memsz;
		if (p->p_type != PT_NOTE || left > MAX_NOTES || !xr_segment_at(f->info, PF_R, at, left))
			continue;
		while (left >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)at;
			uint64_t desc = sizeof *n + ((n->n_namesz + 3ull) & ~3ull);
			uint64_t size = desc + ((n->n_descsz + 3ull) & ~3ull);
			if (size > left)
				break;
			if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !xr_memcmp(n + 1, "GNU", 4)) {
				f->build_id = (const uint8_t *)at + desc;
				f->build_id_size = n->n_descsz < 32 ? n->n_descsz : 32;
				return;
			}
			at += size;
			left -= size;
		}
	}
}

/* What discovery reads of one file after another: the beginning, which has most of it, and two parts. Larger
 * parts are mapped. */
static uint8_t head[4096], parts[2][1 << 13];

static void *borrow(int which, uint64_t n) { return n <= sizeof parts[0] ? parts[which] : xr_map(n); }

static void give_back(void *p, uint64_t n)
{
	if (n > sizeof parts[0])
		xr_unmap(p, n);
}

static int read_at(struct finding *f, void *to, uint64_t n, uint64_t offset)
{
	if (offset <= f->nhead && n <= f->nhead - offset) {
		xr_copy(to, head + offset, n);
		return 0;
	}
	for (uint64_t done = 0; done < n;) {
		int64_t k = xr_sys4(SYS_pread64, f->fd, (intptr_t)to + done, n - done, offset + done);
		if (k == -EINTR)
			continue;
		if (k <= 0)
			return refuse(f, "cannot read its file", k);
		done += k;
	}
	return 0;
}

/* Compares n bytes of the file with those mapped at p. Returns 0 if they are equal. */
static int same_bytes(struct finding *f, const void *p, uint64_t n, uint64_t offset)
{
	if (!n)
		return 0;
	void *copy = borrow(0, n);
	if (!copy)
		return refuse(f, "no memory to read its file", 0);
	int err = read_at(f, copy, n, offset);
	if (!err && xr_memcmp(copy, p, n))
		err = refuse(f, "its file is not the one that is mapped", 0);
	give_back(copy, n);
	return err;
}

/* Checks that the file is still the mapped one: it may have been replaced. */
static int check_identity(struct finding *f, const ElfW(Ehdr) *e)
{
	const struct dl_phdr_info *info = f->info;
	if (xr_memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->e_machine != EM_X86_64 || e->e_phnum != info->dlpi_phnum || e->e_phentsize != sizeof(ElfW(Phdr)))
		return refuse(f, "its file is not the one that is mapped", 0);
	if (same_bytes(f, info->dlpi_phdr, info->dlpi_phnum * sizeof(ElfW(Phdr)), e->e_phoff))
		return -1;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint8_t *notes = (const uint8_t *)info->dlpi_addr + p->p_vaddr;
		if (f->build_id && p->p_type == PT_NOTE && f->build_id >= notes && f->build_id < notes + p->p_filesz)
			return same_bytes(f, notes, p->p_filesz, p->p_offset);
	}
	return 0;
}

static void find_symbols(struct finding *f, const ElfW(Ehdr) *e, const ElfW(Shdr) *sections)
{
	struct stat st;
	for (int i = 0; i < e->e_shnum; i++) {
		const ElfW(Shdr) *s = &sections[i];
		if (s->sh_type != SHT_SYMTAB || s->sh_link >= e->e_shnum || xr_sys2(SYS_fstat, f->fd, (intptr_t)&st))
			continue;
		const ElfW(Shdr) *names = &sections[s->sh_link];
		f->symbols = (struct xr_symbol_table){
			s->sh_offset, s->sh_size, names->sh_offset, names->sh_size, st.st_dev, st.st_ino, st.st_mtime,
		};
	}
}

/* Finds the sled table among the sections. */
static int search_sections(struct finding *f, const ElfW(Ehdr) *e, const ElfW(Shdr) *sections)
{
	const ElfW(Shdr) *names = &sections[e->e_shstrndx];
	if (names->sh_size == 0 || names->sh_size > MAX_NAMES)
		return 0;
	char *text = borrow(1, names->sh_size + 1);
	if (!text)
		return refuse(f, "no memory to read its file", 0);
	int err = read_at(f, text, names->sh_size, names->sh_offset);
	text[names->sh_size] = 0;
	for (int i = 0; !err && i < e->e_shnum; i++) {
		const ElfW(Shdr) *s = &sections[i];
		if (!f->size && s->sh_name < names->sh_size && !xr_strncmp(text + s->sh_name, "xray_instr_map", 15) && s->sh_flags & SHF_ALLOC) {
			f->table = f->info->dlpi_addr + s->sh_addr;
			f->size = s->sh_size;
		}
		if (s->sh_name < names->sh_size && xr_equal(text + s->sh_name, ".bolt.org.text")) {
			f->old_text = f->info->dlpi_addr + s->sh_addr;
			f->old_size = s->sh_size;
		}
	}
	give_back(text, names->sh_size + 1);
	return err;
}

static int read_sections(struct finding *f, const ElfW(Ehdr) *e)
{
	uint64_t size = e->e_shnum * sizeof(ElfW(Shdr));
	if (!e->e_shoff || !size || e->e_shentsize != sizeof(ElfW(Shdr)) || e->e_shstrndx >= e->e_shnum)
		return 0;
	ElfW(Shdr) *sections = borrow(0, size);
	if (!sections)
		return refuse(f, "no memory to read its file", 0);
	int err = read_at(f, sections, size, e->e_shoff);
	if (!err)
		err = search_sections(f, e, sections);
	if (f->size)
		find_symbols(f, e, sections);
	give_back(sections, size);
	return err;
}

/* Finds the sled table of an object, or the reason why it is not available. The table is 0
 * for objects without one. */
static int find_table(struct finding *f)
{
	ElfW(Ehdr) e;
	int64_t n = xr_sys4(SYS_pread64, f->fd, (intptr_t)head, sizeof head, 0);
	f->nhead = n > 0 ? n : 0;
	int err = read_at(f, &e, sizeof e, 0);
	if (!err)
		err = check_identity(f, &e);
	return err ? err : read_sections(f, &e);
}

static const uint8_t sled_sizes[XR_SLED_KINDS] = {11, 11, 11, 11, 17, 22};

/* Checks the sled table and finds the range that it covers. */
static int read_sleds(struct finding *f, struct xr_object *o, struct xr_mapping *place)
{
	if (f->size % sizeof(struct xr_sled) || !xr_segment_at(f->info, PF_R, f->table, f->size))
		return refuse(f, "its sled table is damaged", 0);
	const struct xr_sled *sleds = (const struct xr_sled *)f->table;
	uint64_t n = f->size / sizeof *sleds, first = UINT64_MAX, end = 0, function = 0, functions = 0;
	const ElfW(Phdr) *text = xr_segment_at(f->info, PF_X, xr_sled_address(sleds), 1);
	if (!text)
		return refuse(f, "its sled table is damaged", 0);
	uint64_t seg_first = f->info->dlpi_addr + text->p_vaddr, seg_end = seg_first + text->p_memsz;
	for (uint64_t i = 0; i < n; i++) {
		const struct xr_sled *s = &sleds[i];
		uint64_t at = xr_sled_address(s);
		if (s->version < 2)
			return refuse(f, "its sled table is older than version 2", 0);
		if (s->kind >= XR_SLED_KINDS)
			return refuse(f, "it has sleds of an unknown kind", 0);
		if (s->call > XR_CALLS)
			return refuse(f, "it needs a newer recorder", 0);
		uint64_t behind = at + sled_sizes[s->kind];
		if (at < seg_first || behind > seg_end)
			return refuse(f, "its sleds are in several segments", 0);
		if (at & 1)
			return refuse(f, "it has sleds at odd addresses", 0);
		if (xr_sled_function(s) != function || !i) {
			function = xr_sled_function(s);
			functions++;
		}
		first = at < first ? at : first;
		end = behind > end ? behind : end;
	}
	o->sleds = f->table;
	o->nsleds = n;
	o->nfunctions = functions;
	o->text_first = first;
	o->text_end = end;
	place->seg_first = seg_first & -4096ull;
	place->seg_end = (seg_end + 4095) & -4096ull;
	place->prot = PROT_READ | PROT_EXEC | (text->p_flags & PF_W ? PROT_WRITE : 0);
	place->unwind = 0;
	for (int i = 0; i < f->info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &f->info->dlpi_phdr[i];
		uint64_t at = f->info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_GNU_EH_FRAME && xr_segment_at(f->info, PF_R, at, p->p_memsz) && xr_has_unwind_table((const uint8_t *)at, p->p_memsz))
			place->unwind = at;
	}
	return 0;
}

void xr_refuse(struct xr_object *o, const char *why, int64_t error)
{
	struct xr_text t = xr_text_in(o->why, sizeof o->why - 1);
	xr_zero(o->why, sizeof o->why);
	xr_put_text(&t, why);
	if (error < 0) {
		xr_put_text(&t, ": ");
		xr_put_text(&t, xr_errno_text(error));
	}
	o->state = XR_OBJECT_REFUSED;

	char room[sizeof o->path + sizeof o->why + 4];
	t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, o->path);
	xr_put_text(&t, ": ");
	xr_put_text(&t, o->why);
	room[t.n] = 0;
	xr_warn("an object is not recorded", room);
}

/* The path of the open file, or the name it was opened by if the path is unknown. */
static void name_object(struct xr_object *o, const struct finding *f)
{
	char link[40] = "/proc/thread-self/fd/";
	struct xr_text t = xr_text_in(link + 21, sizeof link - 22);
	int64_t n = -1;
	if (f->fd >= 0) {
		xr_put_number(&t, f->fd);
		n = xr_sys3(SYS_readlink, (intptr_t)link, (intptr_t)o->path, sizeof o->path - 1);
	}
	if (n <= 0) {
		n = xr_strnlen(f->name, sizeof o->path - 1);
		xr_copy(o->path, f->name, n);
	}
	o->path[n] = 0;
}

uint32_t xr_take_ids(uint32_t n)
{
	uint64_t max = __atomic_load_n(&xr_root.max_function, __ATOMIC_RELAXED);
	do {
		if (n > XR_MAX_FUNCTION - max)
			return 0;
	} while (!__atomic_compare_exchange_n(&xr_root.max_function, &max, max + n, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return max + 1;
}

/* An object that was loaded before keeps its place in the table and its ids. */
static struct xr_object *find_earlier(const struct xr_object *o)
{
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		struct xr_object *old = &xr_root.objects[i];
		if (old->state == XR_OBJECT_GONE && old->nfunctions == o->nfunctions && old->nsleds == o->nsleds &&
		    old->build_id_size == o->build_id_size && !xr_memcmp(old->build_id, o->build_id, o->build_id_size) &&
		    !xr_strncmp(old->path, o->path, sizeof o->path))
			return old;
	}
	return NULL;
}

/* Moves o into the table; do not use *o afterwards. Returns null if the table is full. */
static struct xr_object *add_to_table(struct xr_object *o)
{
	struct xr_object *old = find_earlier(o), *to = old ? old : &xr_root.objects[xr_root.nobjects];
	if (!old && xr_root.nobjects == XR_MAX_OBJECTS)
		return NULL;
	if (old) {
		o->first_id = old->first_id;
		o->thunks = old->thunks;
		o->absent = old->absent;
		o->recorded = old->recorded;
		o->opened = old->opened;
		o->missed = old->missed;
	} else if (o->nfunctions && !(o->first_id = xr_take_ids(o->nfunctions))) {
		o->nfunctions = 0;
		xr_refuse(o, "there are not enough function IDs", 0);
	}
	xr_copy(to, o, sizeof *o);
	if (!old)
		__atomic_store_n(&xr_root.nobjects, xr_root.nobjects + 1, __ATOMIC_RELEASE);
	return to;
}

const void *xr_dynamic_section(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

uint64_t xr_dynamic_address(const struct dl_phdr_info *info, uint64_t value)
{
	return value < info->dlpi_addr ? info->dlpi_addr + value : value;
}

/* Returns whether an object calls the hooks of gcc's instrumentation. The string table follows
 * the symbol table, though other tables may lie between. */
static int imports_hooks(const struct dl_phdr_info *info)
{
	static const char *const hooks[] = {"__cyg_profile_func_enter", "__fentry__"};
	uint64_t symbols = 0, strings = 0, size = 0;
	for (const ElfW(Dyn) *d = xr_dynamic_section(info); d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = xr_dynamic_address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			strings = xr_dynamic_address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRSZ)
			size = d->d_un.d_val;
	}
	if (!symbols)
		return 0;
	for (const ElfW(Sym) *s = (const ElfW(Sym) *)symbols; (uintptr_t)(s + 1) <= strings; s++) {
		const char *name = (const char *)strings + s->st_name;
		if (s->st_shndx != SHN_UNDEF || s->st_name >= size || *name != '_')
			continue;
		for (unsigned i = 0; i < sizeof hooks / sizeof *hooks; i++)
			if (xr_equal(name, hooks[i]))
				return 1;
	}
	return 0;
}

/* Functions known by their hooks. The last discovery examined those before this index. */
static uint64_t first_hooked;

/* Finds the code of an object that has no sleds but calls hooks, or may call hooks that have
 * not run yet. */
static int find_hooked(const struct dl_phdr_info *info, struct xr_object *o, int hooked)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		o->text_first = info->dlpi_addr + p->p_vaddr;
		o->text_end = o->text_first + p->p_memsz;
		if (hooked || xr_gcc_any_in(first_hooked, o->text_first, o->text_end))
			return 1;
	}
	return 0;
}

/* Static, because it is too large for the caller's stack. */
static struct xr_object candidate;

static int discovered_first, has_late;

void xr_discovered_first(void) { discovered_first = 1; }

int xr_has_gcc_objects(void)
{
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		if (xr_root.objects[i].state == XR_OBJECT_READY && !xr_root.objects[i].nsleds)
			return 1;
	return 0;
}

int xr_has_late_objects(void) { return __atomic_load_n(&has_late, __ATOMIC_RELAXED); }

static int add(struct finding *f, int is_program)
{
	struct xr_object *o = &candidate;
	struct xr_mapping place = {.key = f->key, .seen = 1, .program = is_program, .late = discovered_first, .absent = xr_last_scan};
	xr_zero(o, sizeof *o);
	f->fd = xr_open(is_program ? "/proc/self/exe" : f->name, O_RDONLY | O_CLOEXEC, 0);
	if (f->fd < 0)
		refuse(f, "cannot open its file", f->fd);
	else if (!find_table(f) && f->size)
		read_sleds(f, o, &place);
	if (!f->size && !f->why && !find_hooked(f->info, o, imports_hooks(f->info))) {
		xr_close(f->fd);
		without_sleds[f->key % 1024] = f->key;
		return 0;
	}
	name_object(o, f);
	if (f->fd >= 0)
		xr_close(f->fd);
	o->bias = f->info->dlpi_addr;
	o->loaded = xr_rdtsc();
	o->build_id_size = f->build_id_size;
	xr_copy(o->build_id, f->build_id, f->build_id_size);
	if (f->why)
		xr_refuse(o, f->why, f->error);
	o = add_to_table(o);
	if (!o) {
		xr_warn("too many objects with sleds: one is not recorded", f->name);
		return 0;
	}
	place.symbols = f->symbols;
	place.old_first = f->old_text;
	place.old_end = f->old_text + f->old_size;
	xr_mappings[o - xr_root.objects] = place;
	if (o->state == XR_OBJECT_NEW) {
		xr_filter_object(o);
		xr_above.program_admit(o);
		if (o->nsleds) {
			xr_copy_code(o);
			xr_examine(o, f->info);
		}
		int err = o->nsleds ? xr_make_thunks(o) : 0;
		if (err)
			xr_refuse(o, "no free memory near it", err);
		else
			o->state = XR_OBJECT_READY;
	}
	has_late |= discovered_first;
	return 1;
}

static struct xr_object *known(uint64_t key)
{
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		if (xr_mappings[i].key == key && xr_root.objects[i].state != XR_OBJECT_GONE)
			return &xr_root.objects[i];
	return NULL;
}

static int is_path(const char *name)
{
	while (name && *name && *name != '/')
		name++;
	return name && *name;
}

struct discovery {
	int changed;
	int first;
	int unknown; /* objects that may have sleds and are not in the table */
	int adds;    /* add them */
};

/* Returns whether an object is a recorder loaded into a running process, whose file has been
 * removed. */
static int is_recorder(const struct dl_phdr_info *info)
{
	uint64_t own = (uintptr_t)&xray_recorder_late;
	for (int i = 0; xray_recorder_late && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && own - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			return 1;
	}
	return 0;
}

static int discover_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct discovery *d = arg;
	int is_program = d->first;
	d->first = 0;
	struct finding f = {.info = info, .name = info->dlpi_name, .fd = -1};
	(void)size;
	if (is_program)
		f.name = "/proc/self/exe";
	if (!is_path(f.name) || is_recorder(info))
		return 0; /* or the vDSO, which has no file */
	find_build_id(&f);
	f.key = hash(0xcbf29ce484222325ull, &info->dlpi_addr, sizeof info->dlpi_addr);
	f.key = hash(f.key, f.name, xr_strlen(f.name));
	f.key = hash(f.key, info->dlpi_phdr, info->dlpi_phnum * sizeof *info->dlpi_phdr);
	f.key = hash(f.key, f.build_id, f.build_id_size);
	struct xr_object *o = known(f.key);
	if (o) {
		xr_mappings[o - xr_root.objects].seen = 1;
	} else if (without_sleds[f.key % 1024] != f.key || find_hooked(info, &candidate, 0)) {
		d->unknown++;
		d->changed += d->adds && add(&f, is_program);
	}
	return 0;
}

int xr_discover(void)
{
	struct discovery d = {.first = 1};
	uint64_t hooked = xr_gcc_functions();
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		xr_mappings[i].seen = 0;
	dl_iterate_phdr(discover_one, &d);
	d.changed += hooked != first_hooked;
	/* Before others are added: an object that was closed and opened again keeps its place. */
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		struct xr_object *o = &xr_root.objects[i];
		if (xr_mappings[i].seen || o->state == XR_OBJECT_GONE)
			continue;
		o->state = XR_OBJECT_GONE;
		o->unloaded = xr_rdtsc();
		o->patched = 0;
		d.changed++;
	}
	if (d.unknown) {
		d.first = d.adds = 1;
		dl_iterate_phdr(discover_one, &d);
	}
	first_hooked = hooked;
	return d.changed;
}
