/* The interface of landings.c for callers that know which calls are left. */
#ifndef XRAY_RECORDER_LANDINGS_H
#define XRAY_RECORDER_LANDINGS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* What a landing is written down with; docs/format.md has these numbers. */
enum { XR_LEFT_BY_UNWINDING = 1, XR_LEFT_BY_JUMP };

/* landings.c: control goes to a frame further out, whose stack pointer is or was sp. Notes
 * the calls that are left. Where the frame cannot be found, as on another stack, it does
 * nothing. errno stays. */
void xr_land(uint64_t sp, int cause);
/* Once, in a constructor. Finds the program's unwinder, or loads one. */
void xr_landings_init(int load);

/* Some open calls are known by where their return addresses are: those of depth mode, of
 * profile mode and of gcc's -mfentry. A walk of the stack goes through them from the
 * innermost outwards: n is how many are further out. These take off those at and below slot,
 * and tell whether one is at slot: gcc.c by its id. */
int xr_depth_open_at(uint64_t slot, uint64_t *n);
uint64_t xr_profile_depth(void);
void xr_profile_open_at(uint64_t slot, uint64_t *n);
uint32_t xr_gcc_open_at(uint64_t slot, uint64_t *n);
/* These end all but the outermost n. */
void xr_depth_leave(uint64_t n);
void xr_profile_leave(uint64_t n);
void xr_gcc_leave_open(uint64_t n);

/* gcc.c: the id of the function with this address if it has called a hook of
 * -finstrument-functions, or 0. */
uint32_t xr_gcc_known(uint64_t function);

/* events.c: records a landing and the exits of the n calls that are left, the innermost
 * first. */
void xr_record_left(uint32_t cause, const uint32_t *ids, uint32_t n);

#pragma GCC visibility pop

#endif
