/* Snapshots that are written later. See later.c. */
#ifndef XRAY_RECORDER_LATER_H
#define XRAY_RECORDER_LATER_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* A snapshot to be written: the records from since to until, as the rings held them at until. */
struct xr_later {
	uint64_t since, until; /* TSC; until 0: none */
	uint64_t torn;         /* wanted chunks that were overwritten, because there was no memory */
	uint64_t ended;        /* records in rings of ended threads that had made room for others */
	uint32_t writing;
	char path[4096];
};

/* Keeps a snapshot since begin for the file at path if took is more than *longest, which becomes took. It
 * replaces one for the same path that is not written yet. Returns 1; 0 if the request was not slower; or -1
 * if it must be written at once. */
int xr_later_keep(const char *path, uint64_t *longest, uint64_t begin, uint64_t took);
/* Returns 1 if a thread will write what is kept. Otherwise the caller must. */
int xr_later_is_awaited(void);
/* Writes what is kept. The caller holds XR_LOCK_CONTROL. */
void xr_later_write(void);
/* The same for callers that do not hold the lock. Does nothing in a child of vfork. */
void xr_later_flush(void);
/* A file could be written after one could not, so later ones are kept again. */
void xr_later_works(void);
/* Forgets a snapshot for this path, because another one replaces it. */
void xr_later_forget(const char *path);
/* Writes a snapshot beside path and renames it to path when it is complete. kept may be null: then it has
 * everything since that time. The caller holds XR_LOCK_CONTROL. Returns 0 or -errno. */
int64_t xr_write_snapshot(const char *path, uint64_t since, const struct xr_later *kept);
void xr_later_forked(void);

/* For the slow path and the writer. The caller holds the thread's lock. */
/* Saves a chunk of t that is about to be overwritten, if a snapshot needs it. */
void xr_later_save(const struct xr_thread *t, const struct xr_chunk *c);
/* Returns the saved chunk of t that was in its ring at until with this number, or with number 0 the newest
 * one, or null. */
const struct xr_chunk *xr_later_chunk(const struct xr_thread *t, uint64_t until, uint64_t number);
/* Returns the time of the first record in all saved chunks that were in rings at until. Needs no lock. */
uint64_t xr_later_first(uint64_t until);

#pragma GCC visibility pop

#endif
