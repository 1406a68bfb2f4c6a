/* The program's side of the arena. See arena.h.
 *
 * No libc, because the slow path calls this code. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "arena.h"
#include "budget.h"
#include "descriptors.h"
#include "hooks.h"
#include "layout.h"
#include "locks.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

static struct xr_arena *arena;
static struct xr_process *self; /* null if no entry is left */
static uint32_t forked_from;    /* process id of the parent, in a forked child */
/* The latest published metadata. Freed under XR_LOCK_ENTRY. A forked child has it too, even if a
 * thread of the parent was replacing it during the fork. */
static struct xr_text *latest;

/* Joining. */

/* Returns the length of the name in an address. */
static uint64_t name_length(const char *address)
{
	uint64_t n = 0;
	while (address[n] && address[n] != ':')
		n++;
	return n;
}

static socklen_t abstract(struct sockaddr_un *a, const char *name)
{
	uint64_t n = name_length(name);
	if (n > sizeof a->sun_path - 1)
		n = sizeof a->sun_path - 1;
	a->sun_family = AF_UNIX;
	a->sun_path[0] = 0;
	xr_copy(a->sun_path + 1, name, n);
	return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

/* Any user can listen on an abstract name. The program sends its calls only to its own user or
 * to root. */
static int is_trusted(int fd)
{
	struct ucred peer = {.uid = -1};
	socklen_t size = sizeof peer;
	if (xr_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (intptr_t)&peer, (intptr_t)&size, 0) < 0 || xr_is_unknown_user(peer.uid))
		return 0;
	return peer.uid == 0 || peer.uid == (uid_t)xr_sys0(SYS_geteuid) || peer.uid == (uid_t)xr_sys0(SYS_getuid);
}

static int receive_descriptor(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char answer;
	struct iovec part = {&answer, 1};
	struct msghdr m = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof control,
	};
	int64_t n;
	do {
		n = xr_sys3(SYS_recvmsg, fd, (intptr_t)&m, MSG_CMSG_CLOEXEC);
	} while (n == -EINTR);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (n != 1 || !c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return n < 0 ? n : -EPROTO;
	int got;
	__builtin_memcpy(&got, CMSG_DATA(c), sizeof got);
	return got;
}

/* Sends a packet to the observer at an address, and returns the descriptor that it answers with, or -errno. */
static int ask(const char *address, const void *packet, uint64_t size, int64_t seconds)
{
	struct { int64_t s, us; } patience = {seconds, 0};
	struct sockaddr_un a;
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	xr_sys6(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, (intptr_t)&patience, sizeof patience, 0);
	xr_sys6(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (intptr_t)&patience, sizeof patience, 0); /* others may fill the queue */
	int64_t err = xr_sys3(SYS_connect, fd, (intptr_t)&a, abstract(&a, address));
	if (!err && !is_trusted(fd))
		err = -EPERM;
	if (!err)
		err = xr_sys6(SYS_sendto, fd, (intptr_t)packet, size, MSG_NOSIGNAL, 0, 0);
	if (err >= 0)
		err = receive_descriptor(fd);
	xr_close(fd);
	return err;
}

/* Copies the key in an address. */
static void put_key(char key[XR_KEY_SIZE], const char *address)
{
	address += name_length(address);
	if (*address)
		xr_copy(key, address + 1, xr_strnlen(address + 1, XR_KEY_SIZE));
}

int xr_arena_select(const char *address, const struct xr_object *o)
{
	static struct xr_question q; /* under XR_LOCK_LOADER */
	q = (struct xr_question){.magic = XR_SELECT_MAGIC, .session = xr_root.session, .nfunctions = o->nfunctions, .build_id_size = o->build_id_size};
	xr_copy(q.build_id, o->build_id, sizeof q.build_id);
	xr_copy(q.path, o->path, sizeof q.path);
	put_key(q.key, address);
	return ask(address, &q, sizeof q, 20); /* the first time, the observer reads debug information */
}

void xr_arena_left(const char *address, int program)
{
	struct xr_question q = {.magic = XR_LEFT_MAGIC, .session = xr_root.session};
	char link[40] = "/proc/self/fd/";
	struct xr_text t = xr_text_in(link + 14, sizeof link - 15);
	xr_put_number(&t, program);
	put_key(q.key, address);
	/* Waits for the answer, because the program may end at once. */
	if (xr_sys3(SYS_readlink, (intptr_t)link, (intptr_t)q.path, sizeof q.path - 1) > 0)
		ask(address, &q, sizeof q, 2);
}

/* Only the used part of the arena is readable and writable. A program that locks its memory
 * (mlockall) would otherwise make all of it resident. */
static uint64_t opened;

/* The mapped size. */
static uint64_t reach;

enum { AHEAD = 16 << 20 };

/* Makes the arena at base accessible up to an offset. Returns 0 on failure. */
static int open_up_to(uint64_t base, uint64_t end, uint64_t size)
{
	uint64_t from = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
	if (end <= from)
		return 1;
	uint64_t to = (end + 2 * AHEAD - 1) & -(uint64_t)AHEAD;
	if (to > size)
		to = size;
	if (xr_sealed || end > to || xr_sys3(SYS_mprotect, base + from, to - from, PROT_READ | PROT_WRITE) < 0)
		return 0;
	/* Other threads may have done the same in the meantime. */
	while (from < to && !__atomic_compare_exchange_n(&opened, &from, to, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 1;
}

static int open_more(uint64_t end) { return open_up_to(arena->base, end, reach); }

/* Also opens memory that other processes use, because this process may reuse their slots later. */
static int open_all(void) { return open_more(__atomic_load_n(&arena->next, __ATOMIC_ACQUIRE)); }

/* The offset of the end of the arena's tables. */
static uint64_t processes_end(void)
{
	return XR_THREAD_PAGE + XR_ARENA_SLOTS * sizeof(struct xr_slot) + XR_ARENA_PROCESSES * sizeof(struct xr_process);
}

/* Maps as much of the arena as this process may use. Memory is allocated only when used. */
static int map_arena(int fd)
{
	enum { LEAST = 64 << 20 };
	struct xr_arena *p = NULL;
	/* Memory that shrinks would end the program. */
	int64_t seals = xr_sys3(SYS_fcntl, fd, F_GET_SEALS, 0);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EPROTO;
	int64_t head = xr_sys6(SYS_mmap, 0, XR_THREAD_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (head < 0 && head > -4096)
		return head;
	uint64_t size = ((struct xr_arena *)head)->size;
	int known = ((struct xr_arena *)head)->version == XR_ARENA_VERSION;
	xr_unmap((void *)head, XR_THREAD_PAGE);
	if (!known)
		return -EPROTO;
	for (; !p && size >= LEAST; size /= 4) {
		int64_t at = xr_sys6(SYS_mmap, 0, size + XR_CHUNK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at < 0 && at > -4096)
			continue;
		/* Chunks are identified by the low bits of their addresses. */
		uint64_t base = (at + XR_CHUNK_SIZE - 1) & -(uint64_t)XR_CHUNK_SIZE;
		if (base > (uint64_t)at)
			xr_unmap((void *)at, base - at);
		xr_unmap((void *)(base + size), XR_CHUNK_SIZE - (base - at));
		at = xr_sys6(SYS_mmap, base, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
		if ((at < 0 && at > -4096) || !open_up_to(base, processes_end(), size)) {
			xr_unmap((void *)base, size);
			continue;
		}
		p = (struct xr_arena *)base;
		p->size = size;
		break;
	}
	if (!p)
		return -ENOMEM;
	if (p->limits_at && !open_up_to((uintptr_t)p, p->limits_at + XR_LIMITS_SIZE, p->size)) {
		xr_unmap(p, p->size);
		return -ENOMEM;
	}
	reach = p->size;
	xr_sys3(SYS_madvise, (intptr_t)p, reach, MADV_DONTDUMP);
	p->base = (uintptr_t)p;
	arena = p;
	return 0;
}

static void enroll(void);

int xr_arena_join(const char *address)
{
	if (arena || xr_root.nthreads)
		return arena ? 0 : -EBUSY;
	struct xr_hello hello = {
		.magic = XR_ARENA_MAGIC, .version = XR_ARENA_VERSION, .pid = xr_root.pid,
		.session = xr_root.session, .nchunks = xr_root.nchunks,
	};
	put_key(hello.key, address);
	int memory = ask(address, &hello, sizeof hello, 5);
	if (memory < 0)
		return memory;
	int err = map_arena(memory);
	xr_close(memory);
	if (err)
		return err;
	if (arena->limits_at)
		xr_budget_begin((uint64_t *)(arena->base + arena->limits_at), &arena->exhausted, &arena->decisions, &arena->sampled);
	enroll();
	return self ? 0 : -ENOMEM;
}

int xr_observed(void) { return arena != NULL; }
int xr_arena_streams(void) { return arena && arena->stream; }

/* Memory. */

static uint64_t take_bytes(uint64_t size, uint64_t align)
{
	uint64_t at = __atomic_load_n(&arena->next, __ATOMIC_RELAXED), first;
	do {
		first = (at + align - 1) & -align;
		if (first + size > reach || first + size < first)
			return 0;
	} while (!__atomic_compare_exchange_n(&arena->next, &at, first + size, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return open_more(first + size) ? arena->base + first : 0;
}

void *xr_keep(uint64_t size)
{
	if (!arena)
		return xr_map(size);
	return (void *)take_bytes(size, size < XR_CHUNK_SIZE ? XR_THREAD_PAGE : XR_CHUNK_SIZE);
}

static struct xr_slot *slot_at(uint32_t i) { return (struct xr_slot *)(arena->base + arena->slots_at) + i; }
static struct xr_process *process_at(uint32_t i) { return (struct xr_process *)(arena->base + arena->processes_at) + i; }

static uint32_t index_of(const struct xr_process *p) { return p - process_at(0); }

/* The observer. */

static void wake(uint32_t *word) { xr_sys3(SYS_futex, (intptr_t)word, FUTEX_WAKE, 1); }

static void ring_doorbell(void)
{
	if (!xr_sealed && __atomic_load_n(&arena->doorbell, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&arena->doorbell, 0, __ATOMIC_ACQ_REL))
		wake(&arena->doorbell);
}

/* Ends a long sleep of the observer. */
static void stir(void)
{
	if (__atomic_load_n(&arena->doorbell, __ATOMIC_RELAXED) == XR_SLEEPS_LONG)
		ring_doorbell();
}

/* Processes. */

static int claim(uint32_t *state, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The PID namespace, which the observer needs to know which process this is. A child is in its
 * parent's, unless its parent's ID is 0 there. */
static uint64_t find_space(void)
{
	static uint64_t space;
	struct stat st;
	if (!xr_sealed && (!space || !xr_sys0(SYS_getppid)))
		space = xr_sys2(SYS_stat, (intptr_t)"/proc/self/ns/pid", (intptr_t)&st) < 0 ? 0 : st.st_ino;
	return space;
}

/* Creates an entry for this process. */
static void enroll(void)
{
	struct xr_process *p = NULL;
	if (!open_all())
		return;
	uint32_t n = __atomic_load_n(&arena->nprocesses, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n && i < XR_ARENA_PROCESSES && !p; i++)
		if (claim(&process_at(i)->state, XR_PROCESS_FREE, XR_PROCESS_TAKEN))
			p = process_at(i);
	if (!p) {
		n = __atomic_fetch_add(&arena->nprocesses, 1, __ATOMIC_ACQ_REL);
		if (n >= XR_ARENA_PROCESSES)
			return;
		p = process_at(n);
		p->state = XR_PROCESS_TAKEN;
	}
	p->pid = xr_root.pid;
	p->ppid = forked_from;
	p->since = xr_root.min_tsc;
	p->mode = xr_root.mode;
	p->texts = p->flush_asked = p->flush_done = 0;
	p->dropped = p->nhooked = p->nwindows = p->ended = 0;
	p->memory = xr_memory;
	p->space = find_space();
	__atomic_store_n(&p->state, XR_PROCESS_LIVE, __ATOMIC_RELEASE);
	self = p;
	stir();
}

void xr_arena_forked(uint32_t parent)
{
	forked_from = parent;
	self = NULL;
	if (arena)
		enroll();
}

/* Publishes the metadata in latest to the observer. The caller holds XR_LOCK_ENTRY. */
static void show(void)
{
	uint32_t version = self->texts + 1, at = version & 1;
	if (!self->text[at])
		self->text[at] = (uintptr_t)xr_keep(XR_ARENA_TEXT);
	if (!self->text[at] || !latest || latest->n > XR_ARENA_TEXT)
		return;
	xr_copy((void *)self->text[at], latest->p, latest->n);
	self->text_size[at] = latest->n;
	self->mode = xr_root.mode;
	__atomic_store_n(&self->texts, version, __ATOMIC_RELEASE);
}

/* A forked child starts with its parent's metadata. */
static int is_enrolled(void)
{
	if (!open_all())
		return 0;
	xr_lock(XR_LOCK_ENTRY);
	if (!self)
		enroll();
	if (self && !self->texts)
		show();
	xr_unlock(XR_LOCK_ENTRY);
	xr_arena_hooked();
	return self != NULL;
}

/* Returns the bytes of the process's address space that are mapped, or 0 if that is unknown. */
static uint64_t mapped_bytes(void)
{
	char text[32];
	uint64_t pages = 0;
	int fd = xr_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
	int64_t n = fd < 0 ? 0 : xr_read(fd, text, sizeof text - 1);
	if (fd >= 0)
		xr_close(fd);
	for (int64_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = 10 * pages + text[i] - '0';
	return pages * XR_THREAD_PAGE;
}

void xr_arena_trim(uint64_t limit)
{
	enum { ROOM = 128 << 20, LEAST = 4 << 20, SCARCE = 32 << 20 };
	if (!arena || xr_sealed)
		return;
	uint64_t used = (__atomic_load_n(&arena->next, __ATOMIC_ACQUIRE) + XR_CHUNK_SIZE - 1) & -(uint64_t)XR_CHUNK_SIZE;
	uint64_t mapped = limit ? mapped_bytes() : 0, room = ROOM;
	if (mapped) {
		/* Half of what is left is for the program. */
		uint64_t least = LEAST + 2 * xr_root.nchunks * XR_CHUNK_SIZE, taken = mapped - reach + used;
		uint64_t left = limit > taken ? limit - taken : 0;
		if (left / 2 < room)
			room = left / 2 & -(uint64_t)XR_CHUNK_SIZE;
		if (room < least)
			room = least;
		if (left < room + SCARCE)
			xr_warn("the program limits its address space, of which the recorder needs a part: raise the limit if memory or threads cannot be created", NULL);
	}
	uint64_t end = used + room;
	if (end >= reach)
		return;
	uint64_t from = reach;
	__atomic_store_n(&reach, end, __ATOMIC_SEQ_CST);
	if (opened > end)
		opened = end;
	xr_unmap((uint8_t *)arena + end, from - end);
}

void xr_arena_seal(void)
{
	enum { COUNTERS = 256 << 20, THREADS = 250 };
	uint64_t room = COUNTERS + THREADS * xr_root.nchunks * XR_CHUNK_SIZE;
	uint64_t end = arena ? __atomic_load_n(&arena->next, __ATOMIC_ACQUIRE) + room : 0;
	if (!arena)
		return;
	open_more(end < reach ? end : reach);
	__atomic_store_n(&arena->sealed, 1, __ATOMIC_SEQ_CST);
	stir();
}

void xr_arena_publish(void)
{
	if (!arena || xr_is_sealed() || xr_root.mode == XR_OFF)
		return;
	uint64_t signals = xr_block_signals();
	struct xr_text *t = xr_map(sizeof *t);
	if (t)
		xr_above.put_tables(t);
	xr_lock(XR_LOCK_ENTRY);
	if (t && t->n && !t->cut)
		t = __atomic_exchange_n(&latest, t, __ATOMIC_ACQ_REL);
	if (!self)
		enroll();
	if (self)
		show();
	xr_unlock(XR_LOCK_ENTRY);
	if (t) {
		xr_text_free(t);
		xr_unmap(t, sizeof *t);
	}
	xr_restore_signals(signals);
}

void xr_arena_hooked(void)
{
	const uint64_t size = sizeof *xr_root.hooked;
	uint64_t n = __atomic_load_n(&xr_root.nhooked, __ATOMIC_ACQUIRE);
	if (!self || n == self->nhooked)
		return;
	if (!self->hooked)
		self->hooked = (uintptr_t)xr_keep(XR_MAX_HOOKED * size);
	if (!self->hooked)
		return;
	uint64_t from = self->nhooked;
	xr_copy((uint8_t *)self->hooked + from * size, (const uint8_t *)xr_root.hooked + from * size, (n - from) * size);
	__atomic_store_n(&self->nhooked, n, __ATOMIC_RELEASE);
}

struct xr_window *xr_arena_windows(void)
{
	if (!arena || !self || !open_all())
		return NULL;
	if (!self->windows)
		self->windows = (uintptr_t)xr_keep(XR_WINDOWS * sizeof(struct xr_window));
	return (struct xr_window *)self->windows;
}

void xr_arena_windows_are(uint64_t n)
{
	if (self && (uintptr_t)xr_root.windows == self->windows)
		__atomic_store_n(&self->nwindows, n, __ATOMIC_RELEASE);
}

uint64_t xr_arena_schedule(uint64_t now)
{
	uint64_t known = 0;
	if (!arena || __atomic_compare_exchange_n(&arena->schedule, &known, now, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return now;
	return known;
}

void xr_arena_dropped(void)
{
	if (!self)
		return;
	__atomic_store_n(&self->dropped, xr_root.dropped, __ATOMIC_RELAXED);
	__atomic_store_n(&self->ended, xr_ended_lost(), __ATOMIC_RELAXED);
	self->memory = xr_memory;
}

/* Threads. */

int xr_arena_attach(struct xr_thread *t, uint64_t nchunks)
{
	struct xr_slot *s = t->slot;
	if (!is_enrolled())
		return 0;
	uint32_t n = __atomic_load_n(&arena->nslots, __ATOMIC_ACQUIRE);
	/* Reuse slots of processes that have ended. Search only if there are any, because the time
	 * grows with the number of slots. */
	for (uint32_t i = 0; !s && __atomic_load_n(&arena->nfree, __ATOMIC_ACQUIRE) && i < n && i < XR_ARENA_SLOTS; i++) {
		if (slot_at(i)->room != xr_root.nchunks || !claim(&slot_at(i)->state, XR_SLOT_FREE, XR_SLOT_TAKEN))
			continue;
		__atomic_fetch_sub(&arena->nfree, 1, __ATOMIC_ACQ_REL);
		s = slot_at(i);
	}
	if (!s) {
		uint64_t ring = take_bytes(xr_root.nchunks * XR_CHUNK_SIZE, XR_CHUNK_SIZE);
		n = ring ? __atomic_fetch_add(&arena->nslots, 1, __ATOMIC_ACQ_REL) : XR_ARENA_SLOTS;
		if (n >= XR_ARENA_SLOTS)
			return 0;
		s = slot_at(n);
		s->state = XR_SLOT_TAKEN;
		s->ring = ring;
		s->room = xr_root.nchunks;
		t->fresh = nchunks;
	} else {
		t->fresh = 0;
	}
	if (t->slot != s) {
		t->slot = s;
		s->counters = s->ncounters = s->profile = s->sums = s->nsums = 0;
	}
	t->ring = (uint8_t *)s->ring;
	t->nchunks = s->nchunks = nchunks;
	s->process = index_of(self);
	s->tid = t->tid;
	s->taken = s->gone = s->consumed = s->writing = s->waiting = 0;
	s->dropped = s->truncated = s->waited = s->first = s->last = 0;
	xr_zero(s->name, sizeof s->name);
	s->owner++;
	__atomic_store_n(&s->state, XR_SLOT_LIVE, __ATOMIC_RELEASE);
	return 1;
}

void xr_arena_tables(struct xr_thread *t)
{
	struct xr_slot *s = t->slot;
	if (!s)
		return;
	s->counters = (uintptr_t)t->counters;
	s->profile = (uintptr_t)t->profile;
	s->sums = (uintptr_t)t->sums;
	__atomic_store_n(&s->nsums, t->nsums, __ATOMIC_RELEASE);
	__atomic_store_n(&s->ncounters, t->ncounters, __ATOMIC_RELEASE);
}

void xr_arena_hurry(void) { ring_doorbell(); }

void xr_arena_thread(struct xr_thread *t)
{
	struct xr_slot *s = t->slot;
	if (!s)
		return;
	if (self && xr_memory.limit)
		self->memory = xr_memory;
	s->first = t->first;
	s->last = t->last;
	s->dropped = t->dropped;
	s->truncated = t->truncated;
	xr_copy(s->name, t->name, sizeof s->name);
	__atomic_store_n(&s->taken, t->taken, __ATOMIC_RELEASE);
	if (arena->stream && t->taken - __atomic_load_n(&s->consumed, __ATOMIC_RELAXED) > t->nchunks / 4)
		ring_doorbell();
}

void xr_arena_named(struct xr_thread *t)
{
	if (t->slot)
		xr_copy(t->slot->name, t->name, sizeof t->name);
}

void xr_arena_ended(struct xr_thread *t)
{
	xr_arena_thread(t);
	if (t->slot)
		__atomic_store_n(&t->slot->state, XR_SLOT_ENDED, __ATOMIC_RELEASE);
	if (t->slot && arena->stream)
		stir();
}

void xr_arena_shrunk(struct xr_thread *t)
{
	if (!t->slot)
		return;
	t->slot->nchunks = t->nchunks;
	__atomic_store_n(&t->slot->gone, t->gone, __ATOMIC_RELEASE);
}

void xr_arena_emptied(struct xr_thread *t)
{
	if (t->slot && !arena->stream)
		__atomic_store_n(&t->slot->taken, 0, __ATOMIC_RELEASE);
}

uint64_t xr_arena_round(void)
{
	return xr_arena_streams() && !arena->closed ? __atomic_load_n(&arena->beat, __ATOMIC_ACQUIRE) + 1 : 0;
}

int xr_arena_done(const struct xr_thread *t)
{
	return !t->slot || !arena->stream || arena->closed || __atomic_load_n(&t->slot->state, __ATOMIC_ACQUIRE) == XR_SLOT_DONE;
}

int xr_arena_lost(void)
{
	if (!arena)
		return 0;
	if (!arena->closed && __atomic_load_n(&arena->keeper, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED)
		arena->closed = 1;
	return arena->closed;
}

/* Returns whether nothing listens at an address any more. That is also so in another network namespace. */
static int is_deserted(const char *address)
{
	struct sockaddr_un a;
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	int64_t err = xr_sys3(SYS_bind, fd, (intptr_t)&a, abstract(&a, address));
	xr_close(fd);
	return err >= 0;
}

void xr_arena_check(const char *address)
{
	if (!arena || xr_arena_lost() || !is_deserted(address))
		return;
	uint64_t beat = __atomic_load_n(&arena->beat, __ATOMIC_RELAXED);
	for (int i = 0; i < 50; i++) {
		ring_doorbell();
		xr_sleep_ns(20000000);
		if (xr_arena_lost() || __atomic_load_n(&arena->beat, __ATOMIC_RELAXED) != beat)
			return;
	}
	arena->closed = 1;
}

uint64_t xr_arena_written(const struct xr_thread *t, int *unsure)
{
	uint64_t consumed = __atomic_load_n(&t->slot->consumed, __ATOMIC_ACQUIRE);
	uint64_t writing = __atomic_load_n(&t->slot->writing, __ATOMIC_ACQUIRE);
	*unsure = writing > consumed;
	return *unsure ? writing : consumed;
}

static int has_room(const struct xr_slot *s, uint64_t number)
{
	return number <= s->nchunks || __atomic_load_n(&s->consumed, __ATOMIC_ACQUIRE) >= number - s->nchunks;
}

/* If the observer makes no progress for this many ticks, about 10 s on most machines, the
 * process assumes that it has ended. */
#define GIVE_UP (30ull << 30)

int xr_arena_room(struct xr_thread *t)
{
	struct xr_slot *s = t->slot;
	uint64_t number = t->taken + 1;
	if (!arena->stream || arena->closed || has_room(s, number))
		return 1;
	if (arena->drop)
		return 0;
	uint64_t start = xr_rdtsc(), moved = start, beat = arena->beat;
	for (;;) {
		__atomic_store_n(&s->waiting, 1, __ATOMIC_SEQ_CST);
		if (has_room(s, number))
			break;
		ring_doorbell();
		struct { int64_t s, ns; } patience = {0, 20000000};
		if (xr_sealed)
			for (int i = 0; i < 1000; i++)
				__builtin_ia32_pause();
		else
			xr_sys6(SYS_futex, (intptr_t)&s->waiting, FUTEX_WAIT, 1, (intptr_t)&patience, 0, 0);
		uint64_t now = xr_rdtsc(), latest = __atomic_load_n(&arena->beat, __ATOMIC_RELAXED);
		if (latest != beat) {
			beat = latest;
			moved = now;
		}
		if (now - moved > GIVE_UP)
			arena->closed = 1;
		if (xr_arena_lost())
			break;
	}
	s->waiting = 0;
	s->waited += xr_rdtsc() - start;
	return 1;
}

void xr_arena_flush(void)
{
	if (!arena || !arena->stream || !self || xr_is_sealed() || xr_arena_lost())
		return;
	uint32_t asked = __atomic_add_fetch(&self->flush_asked, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < 50; i++) {
		uint32_t done = __atomic_load_n(&self->flush_done, __ATOMIC_ACQUIRE);
		if ((int32_t)(done - asked) >= 0)
			return;
		ring_doorbell();
		struct { int64_t s, ns; } patience = {0, 20000000};
		xr_sys6(SYS_futex, (intptr_t)&self->flush_done, FUTEX_WAIT, done, (intptr_t)&patience, 0, 0);
	}
}
