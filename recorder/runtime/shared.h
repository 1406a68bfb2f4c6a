/* Rings in a file. See shared.c. */
#ifndef XRAY_RECORDER_SHARED_H
#define XRAY_RECORDER_SHARED_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Rings in a file. Called first, with the file's directory and the program's base
 * name. Returns 0 or -errno. */
int xr_share_begin(const char *directory, const char *program);
/* Moves a thread's empty ring to the file. On failure the ring stays where it is. */
void xr_share_ring(struct xr_thread *t);
/* Update the copies of t and of the objects in the file. */
void xr_share_thread(const struct xr_thread *t);
void xr_share_objects(void);
/* Adds functions without sleds that are new since the last call to the file. The caller blocks
 * signals. */
void xr_share_hooked(void);
/* Removes the file. */
void xr_share_end(void);
/* Leaves the file to the parent. Returns 1 if rings were in it. They still are. */
int xr_share_forked(void);

#pragma GCC visibility pop

#endif
