/* Snapshots that are written later, so that the thread that asks for one does not wait.
 *
 * Records do not change, so a snapshot is only a time at first. Whoever is about to overwrite a chunk that
 * was in its ring at that time saves the chunk before. So the asking thread copies nothing, and nobody
 * does if the snapshot is written before the rings are full again. The control thread writes it. In a
 * process without one, a thread that exists for a moment does. Stopping, exec and the end of the process
 * write it, too.
 *
 * The slow path calls xr_later_save, so nothing here calls libc. */
#include <errno.h>
#include <fcntl.h>

#include "hooks.h"
#include "later.h"
#include "layout.h"
#include "locks.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"
#include "threads.h"
#include "warnings.h"
#include "writer.h"

enum {
	MOST = 8,              /* snapshots at once, each for another file */
	MOST_SAVED = 1 << 14,
	DELAY = 20000000,      /* ns until the temporary thread writes: slower requests often follow each other */
};

/* XR_LOCK_LATER protects these. */
static struct xr_later laters[MOST];
static struct saved {
	struct xr_chunk *chunk;      /* memory, which stays for reuse while anything is kept */
	const struct xr_thread *of;  /* null: free */
	uint64_t gone;               /* TSC at which it was overwritten in its ring */
	uint32_t filling;
} *saved;
static uint64_t nsaved;
static uint32_t writes; /* a temporary thread exists */
static uint32_t failed; /* the latest file could not be written, so the next is written at once */

/* A chunk was in its ring at a time if it began before and was overwritten after it. */
static int was_there(const struct saved *s, uint64_t until)
{
	return s->of && s->chunk->first <= until && until < s->gone;
}

/* The snapshots have changed. */
static void renew(void)
{
	uint64_t until = 0;
	for (int i = 0; i < MOST; i++)
		if (laters[i].until > until)
			until = laters[i].until;
	__atomic_store_n(&xr_later_until, until, __ATOMIC_SEQ_CST);
	for (uint64_t i = 0; i < nsaved; i++) {
		int wanted = saved[i].filling;
		for (int k = 0; k < MOST && !wanted; k++)
			wanted = laters[k].until && was_there(&saved[i], laters[k].until);
		if (!wanted)
			saved[i].of = NULL;
	}
}

/* Returns the place for a path: that of an earlier snapshot, or a free one, or null. */
static struct xr_later *place_for(const char *path)
{
	struct xr_later *free = NULL;
	for (struct xr_later *l = laters; l < laters + MOST; l++) {
		if (!l->until)
			free = l;
		else if (!l->writing && xr_equal(l->path, path))
			return l;
	}
	return free;
}

/* Makes a path absolute, because the program may change its directory. Returns 0 if it is too long. */
static int resolve(char *to, uint64_t room, const char *path)
{
	struct xr_text t = xr_text_in(to, room - sizeof ".part");
	if (*path != '/') {
		int64_t n = xr_sys2(SYS_getcwd, (intptr_t)to, room - sizeof ".part");
		if (n <= 1 || *to != '/')
			return 0;
		t.n = n - 1;
		xr_put_text(&t, "/");
	}
	xr_put_text(&t, path);
	to[t.n] = 0;
	return !t.cut;
}

int xr_later_keep(const char *path, uint64_t *longest, uint64_t begin, uint64_t took)
{
	char absolute[sizeof laters->path];
	int result = -1;
	if (xr_sealed || __atomic_load_n(&failed, __ATOMIC_RELAXED) || !resolve(absolute, sizeof absolute, path))
		return -1;
	xr_lock(XR_LOCK_LATER);
	if (!saved)
		saved = xr_map(MOST_SAVED * sizeof *saved);
	struct xr_later *l = saved ? place_for(absolute) : NULL;
	/* Another thread may have finished a longer request in the meantime. */
	if (took <= *longest) {
		result = 0;
	} else if (l) {
		__atomic_store_n(longest, took, __ATOMIC_RELAXED);
		xr_copy(l->path, absolute, xr_strlen(absolute) + 1);
		l->since = begin;
		l->until = xr_rdtsc();
		l->torn = 0;
		l->ended = xr_ended_lost();
		renew();
		result = 1;
	}
	xr_unlock(XR_LOCK_LATER);
	return result;
}

/* Returns memory for a chunk, or null. There is at most one for each chunk of a ring. */
static struct saved *take_room(void)
{
	uint64_t most = xr_memory.limit ? xr_memory.limit : xr_root.nthreads * xr_root.nchunks;
	for (uint64_t i = 0; i < nsaved; i++)
		if (!saved[i].of && !saved[i].filling && saved[i].chunk)
			return &saved[i];
	if (nsaved == (most < MOST_SAVED ? most : MOST_SAVED) || !(saved[nsaved].chunk = xr_map(XR_CHUNK_SIZE)))
		return NULL;
	return &saved[nsaved++];
}

void xr_later_save(const struct xr_thread *t, const struct xr_chunk *c)
{
	if (c->first > __atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST) || c->magic != XR_CHUNK_MAGIC || !c->seq)
		return;
	xr_lock(XR_LOCK_LATER);
	int wanted = 0;
	for (struct xr_later *l = laters; l < laters + MOST; l++)
		wanted += c->first <= l->until;
	struct saved *s = wanted ? take_room() : NULL;
	if (s) {
		s->of = t;
		s->gone = xr_rdtsc();
		s->chunk->first = c->first;
		s->filling = 1;
	}
	for (struct xr_later *l = laters; !s && l < laters + MOST; l++)
		l->torn += c->first <= l->until && c->last >= l->since;
	xr_unlock(XR_LOCK_LATER);
	if (!s)
		return;
	xr_copy(s->chunk, c, c->used >= XR_CHUNK_HEADER && c->used < XR_CHUNK_SIZE ? c->used : XR_CHUNK_SIZE);
	__atomic_store_n(&s->filling, 0, __ATOMIC_RELEASE);
}

const struct xr_chunk *xr_later_chunk(const struct xr_thread *t, uint64_t until, uint64_t number)
{
	const struct xr_chunk *found = NULL;
	xr_lock(XR_LOCK_LATER);
	for (uint64_t i = 0; i < nsaved; i++) {
		const struct xr_chunk *c = saved[i].chunk;
		if (saved[i].of == t && was_there(&saved[i], until) && (number ? c->seq == 2 * number : !found || c->seq > found->seq))
			found = c;
	}
	xr_unlock(XR_LOCK_LATER);
	return found;
}

uint64_t xr_later_first(uint64_t until)
{
	uint64_t first = UINT64_MAX;
	xr_lock(XR_LOCK_LATER);
	for (uint64_t i = 0; i < nsaved; i++)
		if (was_there(&saved[i], until) && saved[i].chunk->first < first)
			first = saved[i].chunk->first;
	xr_unlock(XR_LOCK_LATER);
	return first;
}

int64_t xr_write_snapshot(const char *path, uint64_t since, const struct xr_later *kept)
{
	char room[sizeof kept->path];
	struct xr_text part = xr_text_in(room, sizeof room - 1);
	xr_put_text(&part, path);
	xr_put_text(&part, ".part");
	if (part.cut)
		return -ENAMETOOLONG;
	room[part.n] = 0;

	xr_sys1(SYS_unlink, (intptr_t)room); /* a leftover of a process that has ended */
	int fd = xr_open(room, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int64_t err = fd;
	if (fd >= 0) {
		err = kept ? xr_snapshot_kept(fd, kept) : xr_snapshot(fd, since, NULL);
		xr_close(fd);
		if (err >= 0)
			err = xr_sys2(SYS_rename, (intptr_t)room, (intptr_t)path);
		if (err < 0)
			xr_sys1(SYS_unlink, (intptr_t)room);
	}
	return err < 0 ? err : 0;
}

/* Releases the memory if nothing is kept. */
static void release(void)
{
	for (void *p = saved;;) {
		xr_lock(XR_LOCK_LATER);
		p = NULL;
		if (!xr_later_until && nsaved && !saved[nsaved - 1].filling) {
			p = saved[--nsaved].chunk;
			saved[nsaved].chunk = NULL;
		}
		xr_unlock(XR_LOCK_LATER);
		if (!p)
			return;
		xr_unmap(p, XR_CHUNK_SIZE);
	}
}

static void warn(const char *path, int64_t err)
{
	char room[sizeof laters->path + 64];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, path);
	xr_put_text(&t, ": ");
	xr_put_text(&t, xr_errno_text(err));
	room[t.n] = 0;
	xr_warn("cannot write the snapshot of the slowest request", room);
}

static void write_one(struct xr_later *l)
{
	xr_lock(XR_LOCK_LATER);
	int there = l->until != 0;
	l->writing = there;
	xr_unlock(XR_LOCK_LATER);
	if (!there)
		return;
	int64_t err = xr_write_snapshot(l->path, l->since, l);
	if (err)
		warn(l->path, err);
	xr_lock(XR_LOCK_LATER);
	l->writing = l->until = 0;
	failed = err != 0;
	renew();
	xr_unlock(XR_LOCK_LATER);
}

void xr_later_write(void)
{
	if (!__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST))
		return;
	uint64_t signals = xr_block_signals();
	for (struct xr_later *l = laters; l < laters + MOST; l++)
		write_one(l);
	release();
	xr_kept_done();
	xr_restore_signals(signals);
}

void xr_later_flush(void)
{
	if (!__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST) || xr_sealed || xr_root.pid != (uint32_t)xr_sys0(SYS_getpid))
		return;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	xr_later_write();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
}

void xr_later_works(void) { __atomic_store_n(&failed, 0, __ATOMIC_RELAXED); }

void xr_later_forget(const char *path)
{
	char absolute[sizeof laters->path];
	if (!__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST) || !resolve(absolute, sizeof absolute, path))
		return;
	xr_lock(XR_LOCK_LATER);
	struct xr_later *l = place_for(absolute);
	if (l)
		l->until = 0;
	renew();
	xr_unlock(XR_LOCK_LATER);
}

/* The temporary thread. */

static int is_done(void)
{
	xr_lock(XR_LOCK_LATER);
	int done = !xr_later_until;
	writes = !done;
	xr_unlock(XR_LOCK_LATER);
	return done;
}

static void write_soon(void)
{
	do {
		xr_sleep_ns(DELAY);
		xr_later_flush();
	} while (!is_done());
}

int xr_later_is_awaited(void)
{
	if (xr_above.control_exists())
		return 1;
	xr_lock(XR_LOCK_LATER);
	int first = !writes;
	writes = 1;
	xr_unlock(XR_LOCK_LATER);
	if (!first || !xr_raw_thread_start(XR_RAW_WRITER, write_soon))
		return 1;
	xr_lock(XR_LOCK_LATER);
	writes = 0;
	xr_unlock(XR_LOCK_LATER);
	return 0;
}

void xr_later_forked(void)
{
	/* The parent writes what is kept. */
	for (uint64_t i = 0; i < nsaved; i++)
		if (saved[i].chunk)
			xr_unmap(saved[i].chunk, XR_CHUNK_SIZE);
	if (saved)
		xr_zero(saved, nsaved * sizeof *saved);
	for (struct xr_later *l = laters; l < laters + MOST; l++)
		l->until = l->writing = 0;
	nsaved = xr_later_until = writes = failed = 0;
	xr_raw_thread_forked(XR_RAW_WRITER);
}
