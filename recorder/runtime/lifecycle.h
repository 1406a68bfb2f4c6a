/* Start, stop, fork and end. See lifecycle.c. */
#ifndef XRAY_RECORDER_LIFECYCLE_H
#define XRAY_RECORDER_LIFECYCLE_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Functions to call with XR_LOCK_CONTROL held. */
/* Starts recording. If fd is not -1, it becomes the stream file, and xr_start takes it over.
 * Returns null or the reason why recording cannot start. Some objects may have been refused. */
const char *xr_start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth, int fd, uint64_t limit);
/* Switches sleds off and ends the stream. */
void xr_stop(void);
/* Change the mode during a recording. XR_OFF pauses recording; xr_resume ends the pause. */
void xr_resume(void);
const char *xr_switch(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth);
/* Applies a new filter. */
void xr_refilter(void);
/* Initializes whatever is not yet initialized. The constructor calls it. So do the public
 * functions, because other constructors may call those earlier. */
void xr_init(void);
/* If the observer has ended early, the process begins to write the rest of its trace itself. The caller holds
 * XR_LOCK_CONTROL. */
void xr_continue_alone(void);
/* Writes the file of xr_dump_at. The caller holds XR_LOCK_CONTROL. */
void xr_dump(void);
/* Callable on the slow path. */
/* Makes a forked child forget its parent's threads and stream. */
void xr_forked(void);
/* Opens the output of a forked child before its first record. */
void xr_open_pending(void);
/* Opens an output of the process after its observer has ended early, once. */
void xr_lost_observer(void);

#pragma GCC visibility pop

#endif
