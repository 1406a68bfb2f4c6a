/* Tail calls. See tailcalls.c. */
#ifndef XRAY_RECORDER_TAILCALLS_H
#define XRAY_RECORDER_TAILCALLS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Returns the ID of the function with sleds that are on to which a function's last instruction jumps,
 * directly or through the procedure linkage table, or 0. Also returns 0 if both are known to form a loop by
 * tail calls. */
uint32_t xr_tail_target(uint32_t from, const uint8_t *jump);
/* Notes that the function is part of such a loop. */
void xr_tail_loop(uint32_t id);
/* Called from the trampolines of prune mode for an exit after its entry, which has this size: at a tail
 * exit, or if a tail exit precedes the entry. Returns 0 if the exit is to be recorded, 1 if everything is
 * done, and 2 if this is about the call alone. */
int xr_prune_linked(uint64_t *cursor, uint32_t stamp, uint32_t word, const uint8_t *jump, uint64_t size);

#pragma GCC visibility pop

#endif
