/* Sums of pruned calls. See sums.c. */
#ifndef XRAY_RECORDER_SUMS_H
#define XRAY_RECORDER_SUMS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* General registers only. */
/* Gives a thread an entry for every function's sums. Returns 0 if there is no memory. */
int xr_sums_make(struct xr_thread *t);
/* Resets the sums, so that they cover only calls that are pruned later. */
void xr_sums_begin(void);
/* xr_sums_any returns whether there are any sums. xr_sums_dump passes them to put, as the body
 * of a metadata event. */
int xr_sums_any(void);
void xr_sums_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);

#pragma GCC visibility pop

#endif
