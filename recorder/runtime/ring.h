/* The interface of ring.c for setup, and of the code that the slow path calls. */
#ifndef XRAY_RECORDER_RING_H
#define XRAY_RECORDER_RING_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* Set once a thread has forbidden itself to read the TSC. */
extern uint32_t xr_some_forbid_tsc;

/* ring.c: called once, before anything is recorded. Returns -1 if there is no memory. */
int xr_ring_init(int dont_dump);
/* Returns whether rdpid can tell the CPU. */
int xr_has_rdpid(void);
/* Returns f(a, b, c, d), which recording signal handlers must not interrupt and which needs more stack than
 * an alternate signal stack may have: it runs with signals blocked, on a stack of the recorder's. In a process
 * that may not block signals, a handler may interrupt it anyway. xr_inside then returns 0 without calling f,
 * and the handler's event is lost. */
typedef uint64_t xr_inner(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t xr_inside(xr_inner *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* trampoline_amd64.S: the same on the stack that ends at top. */
uint64_t xr_call_on(xr_inner *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint8_t *top);
/* Counts an event that was lost because there was no memory. */
void xr_drop(void);
/* Copies n bytes that may be unreadable. Returns how many were readable. */
uint64_t xr_copy_from(void *to, const void *from, uint64_t n);
/* Returns the calling thread's ID. Makes no system call if a seccomp filter may forbid it, and
 * then returns 0 if the ID cannot be read otherwise. */
uint32_t xr_thread_id(void);
/* Returns whether depth mode records this function event. sp is the stack pointer in its
 * trampoline. */
int xr_depth_wants(uint32_t word, uint64_t sp);

/* shared.c: rings in a file. Called first, with the file's directory and the program's base
 * name. Returns 0 or -errno. */
int xr_share_begin(const char *directory, const char *program);
/* Moves a thread's empty ring to the file. On failure the ring stays where it is. */
void xr_share_ring(struct xr_thread *t);
/* Update the copies of t and of the objects in the file. */
void xr_share_thread(const struct xr_thread *t);
void xr_share_objects(void);
/* Adds functions without sleds that are new since the last call to the file. The caller blocks
 * signals. */
void xr_share_hooked(void);
/* Removes the file. */
void xr_share_end(void);
/* Leaves the file to the parent. Returns 1 if rings were in it. They still are. */
int xr_share_forked(void);

/* lifecycle.c: callable on the slow path. */
/* Makes a forked child forget its parent's threads and stream. */
void xr_forked(void);
/* Opens the output of a forked child before its first record. */
void xr_open_pending(void);
/* Opens an output of the process after its observer has ended early, once. */
void xr_lost_observer(void);

#pragma GCC visibility pop

#endif
