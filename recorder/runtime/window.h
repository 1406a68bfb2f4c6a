/* Windows: recording for a part of the time. See window.c. */
#ifndef XRAY_RECORDER_WINDOW_H
#define XRAY_RECORDER_WINDOW_H

#include "internal.h"

#pragma GCC visibility push(hidden)

struct xr_text;
struct xr_trace;

/* A time in which everything was recorded, from TSC from to TSC to, which is 0 while the window is
 * open. The CPU time is that of the process in it; of an open window, it is from some ms ago. */
struct xr_window {
	uint64_t from, to, cpu_ns;
};

#define XR_WINDOWS (1 << 16)     /* that are kept; older ones are overwritten */
#define XR_MAX_WINDOWS (1 << 21) /* of a recording, as many as readers accept */

/* Whether the recording has windows, and whether sleds are off because none is open. These need no
 * lock, all others XR_LOCK_CONTROL. */
int xr_windows_on(void);
int xr_between_windows(void);
/* Plans windows of a length, one every so many ns, for the next recording. */
void xr_windows_plan(uint64_t length_ns, uint64_t every_ns);
/* Returns why the planned windows, or those of the recording, are not possible in a mode, or null. */
const char *xr_windows_check(enum xr_mode mode, uint64_t threshold_ns, int planned);
/* Begins a recording as planned. No window is open then, unless there are none. */
void xr_windows_begin(void);
/* Opens or closes a window if it is time for it. Returns how long it will take until it is time
 * again. The control thread calls this. */
uint64_t xr_windows_step(void);
/* Closes the window if one is open. xr_windows_end also opens no other. */
void xr_windows_close(void);
/* After a pause. A recording without windows is a window, too, if one with windows came before. */
void xr_windows_resume(void);
void xr_windows_end(void);
/* In a forked child: what is recorded from here on is in windows of its own. */
void xr_windows_forked(void);
/* Moves the table to the observer's memory, after the process has joined it. */
void xr_windows_share(void);

/* Put fields of the metadata and of the status. */
void xr_put_schedule(struct xr_text *t);
void xr_put_window_status(struct xr_text *t);
/* Returns the first window that the trace does not have yet, and puts the body of an event with
 * all from there on. */
uint64_t xr_windows_from(const struct xr_trace *trace);
void xr_put_windows(struct xr_text *t, struct xr_trace *trace);

#pragma GCC visibility pop

#endif
