/* The interface of ring.c for setup, and of the code that the slow path calls. */
#ifndef XRAY_RECORDER_RING_H
#define XRAY_RECORDER_RING_H

#include "layout.h"

#pragma GCC visibility push(hidden)

extern __thread struct xr_thread *xr_tls __attribute__((tls_model("initial-exec")));
/* No libc, general registers only, callable with signals enabled or blocked. The
 * trampolines call xr_slow. It gives the thread a chunk with room for n bytes after a stamp
 * that is valid now, or does what n says if n is XR_COUNTERS, XR_PATHS or XR_SUMS. Returns 0 on
 * failure; the event is then lost. */
int xr_slow(uint64_t n);
/* Returns where n bytes (a multiple of 8) of records can be written after a stamp that is valid
 * now, and stores the current TSC in *tsc. Returns null on failure, which is counted. xr_commit
 * adds the records to the ring. The caller keeps signals blocked until then. */
uint8_t *xr_reserve(uint32_t n, uint64_t *tsc);
void xr_commit(uint32_t n);
/* Chosen by xr_set_mode: a faster xr_reserve that makes no system call. Signals
 * may be enabled. The n bytes (a multiple of 8) are part of the ring at once, and readers see them
 * when the first 8 are written. Returns null if xr_reserve is needed. */
struct xr_place {
	uint64_t *at;
	uint64_t tsc;
};
extern struct xr_place (*xr_take_room)(uint64_t n);
/* Marks ended threads as dead and keeps their rings within ring_budget. */
void xr_reap(void);
/* Returns how many records were in rings of ended threads that have made room for others. */
uint64_t xr_ended_lost(void);
/* Returns 1 in a forked child before its first call of xr_forked. Returns 0 in a vfork child. */
int xr_is_forked(void);
/* Forgets all threads. For a forked child. */
void xr_ring_forked(void);
/* Gives threads counters, set to 0. The caller holds XR_LOCK_CONTROL. */
void xr_count_anew(void);
/* Set once a thread has forbidden itself to read the TSC. */
extern uint32_t xr_some_forbid_tsc;
/* Called once, before anything is recorded. Returns -1 if there is no memory. */
int xr_ring_init(int dont_dump);
/* Returns whether rdpid can tell the CPU. */
int xr_has_rdpid(void);
/* Returns f(a, b, c, d), which recording signal handlers must not interrupt and which needs more stack than
 * an alternate signal stack may have: it runs with signals blocked, on a stack of the recorder's. In a process
 * that may not block signals, a handler may interrupt it anyway. xr_inside then returns 0 without calling f,
 * and the handler's event is lost. */
typedef uint64_t xr_inner(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t xr_inside(xr_inner *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* The same on the stack that ends at top. */
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

/* Whether it records only calls whose condition holds, and calls inside them. */
extern uint32_t xr_when;
/* For a call that xr_depth_wants has refused: returns whether it is recorded if its condition holds. */
int xr_depth_asks(void);
/* Begins such a call, whose return address is at slot. Returns 1. */
int xr_depth_begins(uint64_t slot);

/* The latest until of kept snapshots, or 0. later.c sets it. */
extern uint64_t xr_later_until;

/* The open calls of depth mode; see landings.h. */
int xr_depth_open_at(uint64_t slot, uint64_t *n);
void xr_depth_leave(uint64_t n);

#pragma GCC visibility pop

#endif
