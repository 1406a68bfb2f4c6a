/* Arguments and results of functions that the user has asked for. See values.c. */
#ifndef XRAY_RECORDER_VALUES_H
#define XRAY_RECORDER_VALUES_H

/* Registers as the trampolines of values_amd64.h store them, in DWARF's numbering. */
#define XR_REGISTERS 16
/* Where depth mode and budgets have the trampolines of entries and exits with values. */
#define XR_NEXT_VALUES (4 + XR_CALLS)

#ifndef __ASSEMBLER__

#include "layout.h"
#include "libcalls.h"
#include "text.h"

#pragma GCC visibility push(hidden)

/* The caller holds XR_LOCK_CONTROL, except for the last two functions. */
/* Reads a line of a filter from behind "values ": the values of a function, in hexadecimal digits, and their
 * description for the trace, fields of a JSON object. The values are the function's number in its object, 4 bytes;
 * how many there are at entries and at exits, 2 and 2; and for each, the number of its steps, 2, six zeros, and
 * the steps of 8 bytes: see values.c. With an object, the function gets these values. Returns 0 if the line is
 * invalid or there is no memory.
 *
 * A condition is a line "when " with up to four values at the entry. Before them is what each is compared with: how,
 * from EQUAL on, 1 byte; whether numbers are unsigned, signed or floating, 1; their size, or 0 for a text, 1; the length
 * of the text, 1; how many more follow, 4; the number, 8; the text. */
int xr_values_read(const char *p, const char *end, const struct xr_object *o, int is_condition);
/* The same for a line from behind "unread ": an element of the JSON array of what cannot be read. */
int xr_values_read_refused(const char *p, const char *end, int apply);
/* The functions of an object have no values from now on. */
void xr_values_clear(const struct xr_object *o);
/* Bits: the function has values at its entry, and at its exits. */
enum { XR_VALUES_ENTRY = 1, XR_VALUES_EXIT = 2 };
int xr_values_of(uint64_t id);
/* Notes that the values of a function are not recorded. why is a constant. */
void xr_values_missing(uint64_t id, const char *why);
/* Notes that calls go through the trampolines of handlers, which record no values. */
void xr_values_bypassed(void);
/* Puts what the values are: the body of XR_META_VALUES. */
void xr_put_values(struct xr_text *t);
/* For a landing in the frame with this stack pointer: ends the reading of values in a frame below. Returns the
 * address of the return address of the call whose entry is not recorded because of that, or 0. */
uint64_t xr_values_left(uint64_t sp);

/* The trampolines. */
void xr_values_enter(void), xr_values_exit(void), xr_depth_values_enter(void), xr_depth_values_exit(void),
	xr_budget_values_enter(void), xr_budget_values_exit(void), xr_fiber_values_enter(void), xr_fiber_values_exit(void);

#pragma GCC visibility pop

#endif
#endif
