/* The locks of the recorder. This header and warnings.h include nothing of the rest but
 * the helpers of syscall.h, text.h and descriptors.h. */
#ifndef XRAY_RECORDER_LOCKS_H
#define XRAY_RECORDER_LOCKS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* All locks, in the order in which a thread takes them: while it holds one, it takes only
 * those below. Signals are blocked while a lock that the slow path takes is held, which are
 * those from XR_LOCK_THREADS on. */
enum xr_lock_id {
	XR_LOCK_PAUSE,   /* from the end of the control thread to what may follow it; see interpose.c */
	XR_LOCK_CONTROL, /* what is recorded: mode, objects, patching, the stream's begin and end */
	XR_LOCK_LOADER,  /* the loader's own lock, which is taken inside: no object comes or goes, and no process forks */
	XR_LOCK_THREADS, /* the table of threads */
	XR_LOCK_THREAD,  /* one thread's ring: to stream it, to copy it, to give it to another thread */
	XR_LOCK_FUNCTIONS, /* the table of functions that were met by their hooks */
	XR_LOCK_STREAM,  /* the file that is streamed to */
	XR_LOCK_RINGS,   /* the file that rings are in */
	XR_LOCKS,
};

void xr_lock(enum xr_lock_id lock);
void xr_unlock(enum xr_lock_id lock);
/* Takes the lock if it is free, and returns whether it was. */
int xr_trylock(enum xr_lock_id lock);
/* The same for a lock of which there are several: its word. */
void xr_lock_one(enum xr_lock_id lock, uint32_t *word);
void xr_unlock_one(enum xr_lock_id lock, uint32_t *word);
/* In a forked child, no lock is held, even if a thread of the parent held it. */
void xr_locks_forked(void);

#pragma GCC visibility pop

#endif
