/* The loader's lock. See loader.c. */
#ifndef XRAY_RECORDER_LOADER_H
#define XRAY_RECORDER_LOADER_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Calls what(arg) with XR_LOCK_LOADER held, while no object can be loaded or unloaded. Fork
 * takes this lock too, because otherwise a child could find the loader locked by a thread that
 * the child does not have. */
void xr_with_loader(void (*what)(void *arg), void *arg);
/* Returns whether the caller cannot lock the loader. Then xr_with_loader calls what(arg) without, and
 * what may not touch late objects. See threads.h. */
int xr_loader_is_barred(void);
/* Starts a thread of libc, unless there is one, that locks the loader for the raw thread. */
void xr_loader_help(void);
int xr_loader_is_helped(void);
/* Makes this thread end, and waits for that. */
void xr_loader_dismiss(void);
void xr_loader_end_help(void);
/* Returns how many objects have been loaded and unloaded so far. */
uint64_t xr_loader_changes(void);
/* Finds the loader's lock. */
void xr_loader_init(void);
/* Called in a forked child, whose parent had several threads or one. */
void xr_loader_forked(int had_threads);
/* Returns whether the loader's list is out of reach, because a thread that stayed behind in the
 * parent may hold its lock. Then xr_with_loader does nothing, and there are no changes. */
int xr_loader_is_lost(void);

#pragma GCC visibility pop

#endif
