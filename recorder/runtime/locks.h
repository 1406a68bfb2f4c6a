/* The recorder's locks. This header and warnings.h include nothing else of the recorder except
 * the helpers in syscall.h, text.h and descriptors.h. */
#ifndef XRAY_RECORDER_LOCKS_H
#define XRAY_RECORDER_LOCKS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* All locks, in locking order: a thread that holds one takes only those below. The slow path
 * takes the locks from XR_LOCK_THREADS on, so signals are blocked while one of those is held. */
enum xr_lock_id {
	XR_LOCK_PAUSE,   /* from the end of the control thread until the operation that needed it; see interpose.c */
	XR_LOCK_CONTROL, /* what is recorded: mode, objects, patching, start and end of the stream */
	XR_LOCK_LOADER,  /* the loader's own lock: no object is loaded or unloaded, and no process forks, while it is held */
	XR_LOCK_THREADS, /* the table of threads */
	XR_LOCK_THREAD,  /* one thread's ring: to stream it, to copy it, or to give it to another thread */
	XR_LOCK_LATER,   /* snapshots to be written later, and the chunks saved for them */
	XR_LOCK_FUNCTIONS, /* the table of functions known by their hooks */
	XR_LOCK_STREAM,  /* the stream file */
	XR_LOCK_RINGS,   /* the file of rings */
	XR_LOCK_ENTRY,   /* the process's entry in the arena, and the metadata that it shows */
	XR_LOCKS,
};

void xr_lock(enum xr_lock_id lock);
void xr_unlock(enum xr_lock_id lock);
/* Takes the lock if it is free. Returns whether it did. */
int xr_trylock(enum xr_lock_id lock);
/* The same for a lock that exists more than once. word is the lock's word. */
void xr_lock_one(enum xr_lock_id lock, uint32_t *word);
void xr_unlock_one(enum xr_lock_id lock, uint32_t *word);
/* Releases all locks in a forked child, even those that a thread of the parent held. */
void xr_locks_forked(void);

#pragma GCC visibility pop

#endif
