/* Recording the calls of libc functions in a process that is already running. */
#ifndef XRAY_RECORDER_IMPORTS_H
#define XRAY_RECORDER_IMPORTS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Loads the objects of libcalls/ from open files, and forgets those that were loaded before. Returns
 * null or the reason why that is not possible. It takes locks of the loader, so the caller holds none
 * of the recorder's. */
const char *xr_imports_load(const int *fds, int nfds);
/* Redirects the calls of the program and its objects to the loaded functions, or back to libc's. The
 * caller holds XR_LOCK_CONTROL, here and below. */
void xr_imports_redirect(int on);
/* Redirects what has been bound since. Call it often: the loader binds most functions at their first
 * call. */
void xr_imports_follow(void);
/* Returns how many functions some object calls through a pointer that the program may also compare.
 * These calls are not recorded. */
unsigned xr_imports_left(void);

#pragma GCC visibility pop

#endif
