/* What other files need of the functions in recorder.h. */
#ifndef XRAY_RECORDER_API_H
#define XRAY_RECORDER_API_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Stores a thread's new name. The name is recorded if the caller records. */
void xr_thread_named(uint32_t tid, const char *name);

#pragma GCC visibility pop

#endif
