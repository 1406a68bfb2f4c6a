/* Which sleds can be switched. See sleds.c. */
#ifndef XRAY_RECORDER_SLEDS_H
#define XRAY_RECORDER_SLEDS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Why the sleds of a function cannot be switched. Only events stay on. */
enum xr_unsafe { XR_SAFE, XR_ONE_SIDED /* recorded, without duration */, XR_FOLDED, XR_SHARES_EXIT, XR_IS_LOOP, XR_POPS, XR_UNKNOWN_CODE, XR_RED_ZONE, XR_MOVED, XR_CHANGED, XR_UNSAFE_KINDS };
extern const char *const xr_unsafe_texts[XR_UNSAFE_KINDS];
/* Finds such functions of an object. */
struct dl_phdr_info;
void xr_examine(const struct xr_object *o, const struct dl_phdr_info *info);
/* The reason for the function with this index, from 0, and a way to set it. */
enum xr_unsafe xr_unsafe(const struct xr_object *o, uint64_t i);
void xr_leave_off(const struct xr_object *o, uint64_t i, enum xr_unsafe why);
/* Returns the number of functions with this reason. */
uint64_t xr_left_off(const struct xr_object *o, enum xr_unsafe why);

#pragma GCC visibility pop

#endif
