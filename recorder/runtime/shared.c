/* Rings in a file that survives the process.
 *
 * The file is an ELF core file of only part of the memory: its segments say which addresses
 * they hold. The rings are mapped from the file, so the file has them as the threads write
 * them. The root and the tables stay in private memory. So does a thread's struct, which must
 * be zero in a forked child. The file has copies of these, which are updated when a thread
 * takes a chunk. The copy of a struct has no cursor. A reader continues as long as it finds
 * records, and there are none after the cursor.
 *
 * No libc, because the slow path calls this code. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include "layout.h"
#include "locks.h"
#include "output.h"
#include "shared.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

/* The maximum number of segments, one for each ring, and the size of the part before the
 * first segment. */
enum { MAX_SEGMENTS = 4096, HEADER_SIZE = 1 << 18 };
_Static_assert(sizeof(Elf64_Ehdr) + MAX_SEGMENTS * sizeof(Elf64_Phdr) <= HEADER_SIZE, "");

enum { MAX_PATH = 4096 };
static char path[MAX_PATH]; /* up to prefix, the same as in forked children */
static uint64_t prefix;

/* The state of the file. */
static struct {
	int fd;            /* -1: not open yet */
	int failed;
	uint32_t nsegments;
	uint64_t end;      /* of the file */
	uint64_t root_at, objects_at, table_at, hooked_at;
	struct xr_thread **table;
	uint64_t nthreads, nobjects, nhooked;
} file = {.fd = -1};

int xr_share_begin(const char *directory, const char *program)
{
	struct xr_text t = xr_text_in(path, sizeof path - 64);
	xr_put_text(&t, directory);
	xr_put_text(&t, "/xray-");
	xr_put_text(&t, program);
	xr_put_text(&t, ".");
	prefix = t.cut ? 0 : t.n;
	return t.cut ? -ENAMETOOLONG : 0;
}

static int put(uint64_t at, const void *p, uint64_t n)
{
	int64_t k = xr_sys4(SYS_pwrite64, file.fd, (intptr_t)p, n, at);
	return k == (int64_t)n ? 0 : k < 0 ? k : -ENOSPC;
}

/* Extends the file by this many bytes, and returns their offset. */
static int64_t extend(uint64_t size)
{
	uint64_t at = file.end, end = (at + size + XR_THREAD_PAGE - 1) & -(uint64_t)XR_THREAD_PAGE;
	int64_t err = xr_sys2(SYS_ftruncate, file.fd, end);
	if (err == -EFBIG)
		xr_forget_file_size_signal();
	if (err < 0)
		return err;
	file.end = end;
	return at;
}

static int add_segment(uint32_t type, const void *p, uint64_t size, uint64_t at)
{
	if (file.nsegments == MAX_SEGMENTS)
		return -EMFILE;
	Elf64_Phdr segment = {
		.p_type = type, .p_flags = PF_R | PF_W, .p_align = 1,
		.p_vaddr = (uintptr_t)p, .p_memsz = p ? size : 0,
		.p_offset = at, .p_filesz = size,
	};
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = sizeof header, .e_ehsize = sizeof header,
		.e_phentsize = sizeof segment, .e_phnum = file.nsegments + 1,
	};
	int err = put(sizeof header + file.nsegments * sizeof segment, &segment, sizeof segment);
	if (!err)
		err = put(0, &header, sizeof header);
	if (!err)
		file.nsegments++;
	return err;
}

/* Reserves space for a copy of memory. The contents come later. */
static int64_t add_copy(const void *p, uint64_t size)
{
	int64_t at = extend(size);
	int err = at < 0 ? at : add_segment(PT_LOAD, p, size, at);
	return err ? err : at;
}

/* Adds the kernel's note that identifies the process. */
static int add_note(void)
{
	struct {
		Elf64_Nhdr head;
		char name[8];
		uint8_t state[16];
		uint32_t uid, gid;
		int32_t pid, ppid, group, session;
		char file[16], command[80];
	} note = {
		.head = {.n_namesz = 5, .n_descsz = 136, .n_type = NT_PRPSINFO},
		.name = "CORE",
		.uid = xr_sys0(SYS_getuid), .gid = xr_sys0(SYS_getgid),
		.pid = xr_root.pid, .ppid = xr_sys0(SYS_getppid),
	};
	_Static_assert(sizeof note == 20 + 136, "");
	int fd = xr_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	int64_t n = fd < 0 ? 0 : xr_read(fd, note.command, sizeof note.command - 1);
	if (fd >= 0)
		xr_close(fd);
	for (int64_t i = 0; i < n; i++)
		if (!note.command[i])
			note.command[i] = ' ';
	int64_t at = extend(sizeof note);
	int err = at < 0 ? at : put(at, &note, sizeof note);
	return err ? err : add_segment(PT_NOTE, 0, sizeof note, at);
}

static int create(void)
{
	int fd = -EEXIST;
	for (int attempt = 0; fd == -EEXIST && attempt < XR_MOST_NAMES; attempt++) {
		struct xr_text t = xr_text_in(path + prefix, sizeof path - 1 - prefix);
		xr_put_number(&t, xr_root.pid);
		if (attempt) {
			xr_put_text(&t, ".");
			xr_put_number(&t, attempt);
		}
		xr_put_text(&t, ".ring");
		path[prefix + t.n] = 0;
		fd = xr_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	return fd;
}

static int put_objects(void)
{
	uint64_t n = xr_root.nobjects;
	int err = put(file.objects_at, xr_root.objects, n * sizeof *xr_root.objects);
	if (!err)
		file.nobjects = n;
	return err;
}

static int put_root(void)
{
	struct xr_root copy = xr_root;
	copy.threads = file.table;
	copy.nthreads = file.nthreads;
	copy.nobjects = file.nobjects;
	copy.nhooked = file.nhooked;
	return put(file.root_at, &copy, sizeof copy);
}

static int put_hooked(void)
{
	const uint64_t size = sizeof *xr_root.hooked;
	uint64_t n = __atomic_load_n(&xr_root.nhooked, __ATOMIC_ACQUIRE), from = file.nhooked;
	if (n == from)
		return 0;
	if (!file.hooked_at) {
		int64_t at = add_copy(xr_root.hooked, XR_MAX_HOOKED * size);
		if (at < 0)
			return at;
		file.hooked_at = at;
	}
	int err = put(file.hooked_at + from * size, (const uint8_t *)xr_root.hooked + from * size, (n - from) * size);
	if (!err)
		file.nhooked = n;
	return err ? err : put_root();
}

static int put_table(void)
{
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **table = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	if (table != file.table) {
		int64_t at = add_copy(table, xr_root.cap_threads * sizeof *table);
		if (at < 0)
			return at;
		file.table_at = at;
		file.table = table;
	}
	int err = put(file.table_at, table, n * sizeof *table);
	if (!err)
		file.nthreads = n;
	return err;
}

static int start(void)
{
	file.fd = create();
	if (file.fd < 0)
		return file.fd;
	file.end = HEADER_SIZE;
	int err = add_note();
	if (err)
		return err;
	int64_t at = add_copy(&xr_root, sizeof xr_root);
	file.root_at = at;
	if (at < 0)
		return at;
	at = add_copy(xr_root.objects, XR_MAX_OBJECTS * sizeof *xr_root.objects);
	file.objects_at = at;
	return at < 0 ? at : put_objects();
}

/* Copies a struct to the front of its ring. */
static int put_thread(const struct xr_thread *t)
{
	uint8_t copy[offsetof(struct xr_thread, depth)];
	xr_copy(copy, t, sizeof copy);
	xr_zero(copy, offsetof(struct xr_thread, tid)); /* cursor, and pointers that are invalid here */
	return put(t->shared, copy, sizeof copy);
}

static int add_ring(struct xr_thread *t)
{
	uint64_t size = t->nchunks * XR_CHUNK_SIZE;
	int64_t at = extend(XR_THREAD_PAGE + size);
	if (at < 0)
		return at;
	/* Allocate the space now. A write to a mapped page without space on the file system
	 * would kill the program. */
	int64_t err = xr_sys4(SYS_fallocate, file.fd, 0, at, XR_THREAD_PAGE + size);
	if (err < 0)
		return err;
	int64_t p = xr_sys6(SYS_mmap, (intptr_t)t->ring, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			    file.fd, at + XR_THREAD_PAGE);
	if (p != (intptr_t)t->ring)
		return p;
	t->shared = at;
	return add_segment(PT_LOAD, t, XR_THREAD_PAGE + size, at);
}

static void remove_file(void)
{
	xr_sys3(SYS_unlinkat, -100 /* AT_FDCWD */, (intptr_t)path, 0);
	xr_close(file.fd);
	file.fd = -1;
}

void xr_share_ring(struct xr_thread *t)
{
	if (!prefix || t->shared)
		return;
	xr_lock(XR_LOCK_RINGS);
	if (!file.failed) {
		int err = file.fd < 0 ? start() : 0;
		if (!err)
			err = add_ring(t);
		if (!err)
			err = put_table();
		if (!err)
			err = put_hooked();
		if (err) {
			file.failed = 1;
			if (file.fd >= 0 && !file.nthreads)
				remove_file();
			xr_warn("cannot keep more rings in a file", xr_errno_text(err));
		}
	}
	xr_unlock(XR_LOCK_RINGS);
}

void xr_share_thread(const struct xr_thread *t)
{
	if (!t->shared)
		return;
	xr_lock(XR_LOCK_RINGS);
	if (file.fd >= 0) {
		put_thread(t);
		put_root();
	}
	xr_unlock(XR_LOCK_RINGS);
}

void xr_share_hooked(void)
{
	xr_lock(XR_LOCK_RINGS);
	if (file.fd >= 0)
		put_hooked();
	xr_unlock(XR_LOCK_RINGS);
}

void xr_share_objects(void)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_RINGS);
	if (file.fd >= 0 && file.objects_at) {
		put_objects();
		put_root();
	}
	xr_unlock(XR_LOCK_RINGS);
	xr_restore_signals(signals);
}

void xr_share_end(void)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_RINGS);
	if (file.fd >= 0) {
		remove_file();
		file.failed = 1;
	}
	xr_unlock(XR_LOCK_RINGS);
	xr_restore_signals(signals);
}

int xr_share_forked(void)
{
	int shared = file.fd >= 0 || file.failed;
	if (file.fd >= 0)
		xr_close(file.fd);
	xr_zero(&file, sizeof file);
	file.fd = -1;
	return shared;
}
