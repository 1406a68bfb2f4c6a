/* Windows: the times in which calls are recorded. See window.c. */
#ifndef XRAY_RECORDER_WINDOW_H
#define XRAY_RECORDER_WINDOW_H

#include "layout.h"

#pragma GCC visibility push(hidden)

struct xr_text;
struct xr_trace;

/* Returns whether records of this time are in a window, and which. This needs no lock. */
int xr_window_at(uint64_t tsc, struct xr_window *w);
/* Returns whether the recording has windows. This needs no lock. All other functions need
 * XR_LOCK_CONTROL. */
int xr_windows_on(void);
/* Plans windows for the next recording: length_ns in each period of every_ns. */
void xr_windows_plan(uint64_t length_ns, uint64_t every_ns);
/* Returns why a mode does not allow the planned windows, or those of the recording, or null. */
const char *xr_windows_check(enum xr_mode mode, uint64_t threshold_ns, int planned);
/* Begins a recording with the planned windows, if any. xr_windows_step opens the first one. */
void xr_windows_begin(void);
/* Opens or closes a window if it is time to. Returns the ns until the next time. The control thread
 * calls this. */
uint64_t xr_windows_step(void);
/* Switch all sleds off and close the open window, if any. xr_windows_end also prevents others from
 * opening. */
void xr_windows_close(void);
void xr_windows_end(void);
/* Call xr_windows_pause before, and xr_windows_resume after a change that may switch exits of open calls
 * off: such calls are cut, because their ends are unknown. The open window ends before the change. With
 * sleds, which says that the sleds are on after it, another window begins, unless a schedule opens it. */
void xr_windows_pause(void);
void xr_windows_resume(int sleds);
/* In a forked child: starts a table of its own. */
void xr_windows_forked(void);
/* Moves the table to the observer's memory, after the process has joined it. */
void xr_windows_share(void);

/* Put fields of the metadata and of the status. */
void xr_put_schedule(struct xr_text *t);
void xr_put_window_status(struct xr_text *t);
/* xr_windows_from returns the number of the first window that is not in the trace yet. xr_put_windows
 * puts the body of an event with all windows from there on. */
uint64_t xr_windows_from(const struct xr_trace *trace);
void xr_put_windows(struct xr_text *t, struct xr_trace *trace);

#pragma GCC visibility pop

#endif
