/* Events with a payload. */
#ifndef XRAY_RECORDER_EVENTS_H
#define XRAY_RECORDER_EVENTS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Returns whether events are recorded: in the modes that record individual calls. */
int xr_wants_events(void);
void xr_custom_event(const void *p, uint64_t n);
/* The same for a payload in the recorder's own memory. */
void xr_note_event(const void *p, uint64_t n);
/* Writes such an event at q, which has room for it. The first word comes last: readers see nothing before it. */
void xr_put_note(uint64_t *q, uint64_t tsc, const void *p, uint64_t n);
/* Records that the thread switches to another stack: its open calls are no longer those of one stack. At most one
 * event in some 10 ms, because programs may switch a million times a second. */
void xr_note_stacks(void);
void xr_typed_event(uint64_t type, const void *p, uint64_t n);

/* Records a landing and the exits of the n calls that it leaves, innermost first. */
void xr_record_left(uint32_t cause, const uint32_t *ids, uint32_t n);

#pragma GCC visibility pop

#endif
