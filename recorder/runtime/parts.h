/* Functions of which the compiler has split off parts. See parts.c. */
#ifndef XRAY_RECORDER_PARTS_H
#define XRAY_RECORDER_PARTS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Returns the function of which the code at start is a part, or 0 if it is none. object is the
 * index of its object. Needs no lock. */
uint64_t xr_function_of_part(uint64_t object, uint64_t start);
/* Sets a bit for each byte from first to end, addresses in the object's file, at which a function begins
 * according to its symbols. Returns 0 if it has none. */
int xr_mark_functions(uint64_t object, uint64_t first, uint64_t end, uint8_t *bits);

#pragma GCC visibility pop

#endif
