/* What is recorded now. */
#ifndef XRAY_RECORDER_STATE_H
#define XRAY_RECORDER_STATE_H

#include "layout.h"

#pragma GCC visibility push(hidden)

const char *xr_mode_name(enum xr_mode mode);
/* Finds the mode with this name. Returns 0 if there is none. */
int xr_parse_mode(const char *s, enum xr_mode *mode);
/* Returns whether the mode records individual calls. */
int xr_keeps_records(void);
/* xr_root.threshold as requested. */
extern uint64_t xr_threshold_ns;
/* CPU time of the process and TSC when recording began. */
extern uint64_t xr_cpu_before, xr_cpu_from;
/* Sleds are off. The mode is the one from before the pause. */
extern uint32_t xr_paused;
int xr_is_paused(void);
/* Whether the recording has windows, and whether nothing should be recorded now, which differs from an open window
 * while sleds are being switched. window.c sets them. */
struct xr_windows {
	uint32_t active, quiet;
};
extern struct xr_windows xr_windows;
/* Returns whether sleds are off because no window is open. Needs no lock. */
int xr_between_windows(void);
/* Nonzero while the process starts, before the recorder has a thread. */
extern enum xr_starts { XR_STARTED, XR_STARTS, XR_STARTS_ALL /* and will record at once */ } xr_starts;
/* Nonzero if the recorder was loaded into a running process. The loader writes 1 into the
 * object. The environment then has no options for this process. */
extern volatile int32_t xray_recorder_late __attribute__((visibility("default")));

#pragma GCC visibility pop

#endif
