/* Which stack of its thread a call is on. See fibers.c. */
#ifndef XRAY_RECORDER_FIBERS_H
#define XRAY_RECORDER_FIBERS_H

/* Calls whose return addresses are at most this far below that of an open call are on its stack. */
#define XR_FIBER_NEAR 8192

#ifndef __ASSEMBLER__

#include "layout.h"

#pragma GCC visibility push(hidden)

/* With the option fibers, modes record and prune tell the stacks of a thread apart.
 *
 * A thread begins, on its own stack. */
void xr_fibers_attach(struct xr_thread *t);
/* An entry or an exit, whose return address is at slot and which is not that of a call right inside the innermost
 * noted call, or of this one. If it is on another stack, writes an event first. For the trampolines; no libc. */
void xr_fiber_enters(uint64_t slot);
void xr_fiber_exits(uint64_t slot);
/* The thread is about to switch to a stack of size bytes from first on. */
void xr_fibers_expect(uint64_t first, uint64_t size);
/* Returns whether a signal handler is running on a stack of its own, and this is an address of that. Behind a seccomp
 * filter, that is unknown, and 0. */
int xr_is_of_handler(uint64_t address);
/* A longjmp has left whatever the thread was doing. */
void xr_fibers_jumped(void);
/* Writes at the cursor of a new chunk which stack the thread is on, unless that is its own. */
void xr_fiber_again(struct xr_thread *t, uint64_t tsc);

#pragma GCC visibility pop

#endif
#endif
