/* The interface of ring.c for setup. */
#ifndef XRAY_RECORDER_RING_H
#define XRAY_RECORDER_RING_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* ring.c: once, before anything is recorded. Returns -1 when there is no memory. */
int xr_ring_init(int dont_dump);
/* Whether the cpu can be told by rdpid. */
int xr_has_rdpid(void);
/* Around what signal handlers that record must not interrupt. Entering returns 0 for a
 * handler that does so all the same, in a process that may not block signals: its event
 * is lost. */
int xr_enter(uint64_t *signals);
void xr_leave(uint64_t signals);
/* Counts an event that was lost for want of memory. */
void xr_drop(void);
/* Copies n bytes that may not be readable. Returns how many are. */
uint64_t xr_copy_from(void *to, const void *from, uint64_t n);
/* The id of the calling thread, without a system call where a seccomp filter may forbid it;
 * 0 where that takes one. */
uint32_t xr_thread_id(void);
/* Whether depth mode records the function event; sp is the stack pointer in its
 * trampoline. */
int xr_depth_wants(uint32_t word, uint64_t sp);

/* shared.c: rings in a file. Before anything else: the folder of the file, and the
 * program's base name. Returns 0 or -errno. */
int xr_share_begin(const char *directory, const char *program);
/* Moves the ring of a thread, which has nothing in it, to the file. Where that cannot
 * be done it stays as it is. */
void xr_share_ring(struct xr_thread *t);
/* Renew the copies in the file, of t and of the objects. */
void xr_share_thread(const struct xr_thread *t);
void xr_share_objects(void);
/* Adds to the file the functions without sleds that were met since the last time. Signals
 * are blocked. */
void xr_share_hooked(void);
/* Removes the file. */
void xr_share_end(void);
/* Leaves the file to the parent. Returns 1 if rings were in it: they still are. */
int xr_share_forked(void);

/* lifecycle.c: callable on the slow path. */
/* Makes a forked child forget its parent's threads and stream. */
void xr_forked(void);
/* Opens the output of a forked child, whose first record this is. */
void xr_open_pending(void);

#pragma GCC visibility pop

#endif
