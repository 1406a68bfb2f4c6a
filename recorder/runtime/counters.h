/* Count mode. See counters.c. */
#ifndef XRAY_RECORDER_COUNTERS_H
#define XRAY_RECORDER_COUNTERS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Passes the counters, as the body of a metadata event, to put. */
void xr_counters_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* Returns how many calls of a function all threads have counted. */
uint64_t xr_calls_of(uint64_t id);

#pragma GCC visibility pop

#endif
