/* The interface of landings.c for code that knows which calls are left. */
#ifndef XRAY_RECORDER_LANDINGS_H
#define XRAY_RECORDER_LANDINGS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Causes of a landing. docs/dev/format.md has these numbers. */
enum { XR_LEFT_BY_UNWINDING = 1, XR_LEFT_BY_JUMP };

/* landings.c: records the calls that are left when control goes to a frame further out, whose
 * stack pointer is or was sp. Does nothing if it cannot find the frame, for example on another
 * stack. Preserves errno. */
void xr_land(uint64_t sp, int cause);
/* Finds the program's unwinder, or loads one. Called once, in a constructor. */
void xr_landings_init(int load);

/* Depth mode, profile mode and gcc's -mfentry identify open calls by the addresses of their
 * return addresses. A stack walk visits these calls from the innermost outwards, and n is the
 * number of calls further out. These functions subtract the calls at and below slot from n. They
 * return whether a call is at slot; the one in gcc.c returns its ID. xr_..._leave ends all calls except
 * the outermost n. They are in ring.h, profile.h, gcc.h and budget.h. */

#pragma GCC visibility pop

#endif
