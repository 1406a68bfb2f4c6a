/* The loader's list of objects, and the lock that glibc protects it with.
 *
 * fork in a process with several threads may copy that lock while another thread holds it.
 * glibc does not reset it in the child, so it is never released there. So the recorder finds out
 * where the lock is, and a child that has it locked never asks for the list again. */
#define _GNU_SOURCE
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "descriptors.h"
#include "loader.h"
#include "locks.h"
#include "syscall.h"
#include "threads.h"

/* A recursive mutex of glibc. */
struct mutex {
	uint32_t word, count, owner, users, kind;
};

enum { RECURSIVE = 1, MAX_CANDIDATES = 8, MAX_SEGMENT = 1 << 20 };

struct search {
	struct {
		const struct mutex *at;
		uint32_t count;
	} candidates[MAX_CANDIDATES];
	int ncandidates, nfound;
	const struct mutex *found;
	uint32_t tid;
};

/* Null if it is unknown, for example with C libraries other than glibc. */
static const struct mutex *lock;
static uint32_t lost;

/* Called while the loader holds its lock once more, so the count of that mutex is one higher. */
static int compare_counts(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	(void)info;
	(void)size;
	for (int i = 0; i < s->ncandidates; i++)
		if (s->candidates[i].at->count == s->candidates[i].count + 1) {
			s->found = s->candidates[i].at;
			s->nfound++;
		}
	return 1;
}

static void find_held(struct search *s, uint64_t first, uint64_t size)
{
	if (size > MAX_SEGMENT)
		return;
	for (uint64_t at = (first + 7) & ~7ull; at + sizeof(struct mutex) <= first + size; at += 8) {
		const struct mutex *m = (const struct mutex *)at;
		if (m->kind != RECURSIVE || m->owner != s->tid || !m->word || !m->count)
			continue;
		if (s->ncandidates < MAX_CANDIDATES) {
			s->candidates[s->ncandidates].at = m;
			s->candidates[s->ncandidates].count = m->count;
		}
		s->ncandidates++;
	}
}

/* Looks for mutexes that this thread holds in the object that contains the loader. */
static int search_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	const ElfW(Phdr) *p = info->dlpi_phdr, *end = p + info->dlpi_phnum;
	/* An address in the dynamic loader. It has no interpreter itself if it was started as a command. Nor has
	 * a static program, which has the same code in itself. */
	uint64_t inside = (getauxval(AT_BASE) ? getauxval(AT_BASE) : getauxval(AT_ENTRY)) - info->dlpi_addr;
	(void)size;
	while (p < end && !(p->p_type == PT_LOAD && inside - p->p_vaddr < p->p_memsz))
		p++;
	if (p == end)
		return 0;
	for (p = info->dlpi_phdr; p < end; p++)
		if (p->p_type == PT_LOAD && p->p_flags & PF_W)
			find_held(s, info->dlpi_addr + p->p_vaddr, p->p_memsz);
	if (s->ncandidates <= MAX_CANDIDATES)
		dl_iterate_phdr(compare_counts, s);
	return 1;
}

void xr_loader_init(void)
{
	struct search s = {.tid = xr_sys0(SYS_gettid)};
	uint64_t signals = xr_block_signals();
	dl_iterate_phdr(search_loader, &s);
	xr_restore_signals(signals);
	lock = s.nfound == 1 ? s.found : NULL;
}

int xr_loader_is_lost(void) { return lost; }

struct locked {
	void (*what)(void *arg);
	void *arg;
};

static int call_locked(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct locked *l = arg;
	(void)info;
	(void)size;
	l->what(l->arg);
	return 1;
}

/* A thread of libc, which does with the loader locked what a raw thread wants done. */
static struct {
	struct xr_pthread thread;
	uint32_t on;   /* there is the thread */
	uint32_t word; /* a futex: one of the following */
	struct locked *work;
} helper;

enum { IDLE, BUSY, LEAVING };

int xr_loader_is_helped(void) { return __atomic_load_n(&helper.on, __ATOMIC_ACQUIRE); }

static void help(void)
{
	xr_leave_table();
	while (xr_await_change(&helper.word, IDLE) == BUSY) {
		dl_iterate_phdr(call_locked, helper.work);
		xr_set_word(&helper.word, IDLE);
	}
}

void xr_loader_help(void)
{
	if (xr_loader_is_helped())
		return;
	helper.word = IDLE;
	if (!xr_pthread_start(&helper.thread, help))
		__atomic_store_n(&helper.on, 1, __ATOMIC_RELEASE);
}

void xr_loader_dismiss(void)
{
	if (xr_loader_is_helped())
		xr_set_word(&helper.word, LEAVING);
}

void xr_loader_end_help(void)
{
	if (!xr_loader_is_helped())
		return;
	xr_loader_dismiss();
	xr_pthread_join(&helper.thread);
	helper.on = 0;
}

void xr_loader_forked(int had_threads)
{
	helper.on = 0;
	lost |= lock ? lock->word != 0 : had_threads != 0;
}

int xr_loader_is_barred(void) { return xr_is_raw_thread() && !xr_loader_is_helped(); }

static int read_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

uint64_t xr_loader_changes(void)
{
	uint64_t changes = 0;
	if (!lost)
		dl_iterate_phdr(read_changes, &changes);
	return changes;
}

void xr_with_loader(void (*what)(void *arg), void *arg)
{
	struct locked l = {what, arg};
	if (lost)
		return;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_LOADER);
	if (!xr_is_raw_thread()) {
		dl_iterate_phdr(call_locked, &l);
	} else if (xr_loader_is_barred()) {
		what(arg);
	} else {
		helper.work = &l;
		xr_set_word(&helper.word, BUSY);
		xr_await_change(&helper.word, BUSY);
	}
	xr_unlock(XR_LOCK_LOADER);
	xr_restore_signals(signals);
}
