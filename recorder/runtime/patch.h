/* Switching sleds, and the trampolines that they call. See patch.c. */
#ifndef XRAY_RECORDER_PATCH_H
#define XRAY_RECORDER_PATCH_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* The caller holds XR_LOCK_CONTROL. */
/* Finds objects that were loaded or unloaded. Returns how many changed. */
int xr_rescan(void);
/* Switches on the sleds that the mode of the last xr_set_mode and the filter select, and
 * switches all others off. With on == 0, switches all off. Sleds record nothing until all are on,
 * or once they are to be off. The same selection applies to objects that xr_rescan finds later.
 * Returns 0, or -1 if an object was refused; its why field has the reason. */
int xr_patch(int on);
/* In a forked child: ends switching that the fork interrupted. */
void xr_patch_forked(void);
/* Points the near thunks of all objects at the trampolines of mode. Set xr_root.threshold and
 * xr_root.depth first. Returns -1 if the mode does not exist. */
int xr_set_mode(enum xr_mode mode);
/* Sets which functions are recorded. The text has lines "object PATH". After each of them
 * follow lines "3" or "5-9": functions of that object, counted from 1. A line "default off"
 * switches off all functions of objects that are not named. Lines "values 3 ..." give a function of the object
 * values, "unread ..." says what cannot be read, and "when ..." gives it a condition: see values.h. With a line
 * "when", depth mode records only calls whose condition holds, and what is inside. xr_set_filter copies the text. Null
 * selects all functions. It takes effect with the next xr_patch. Returns the number of the
 * first invalid line, 0 if all are valid, or -1 if there is no memory. */
int xr_set_filter(const char *text, size_t size);
/* Maps the contents of a regular file, a filter, and a byte more. Returns its size or -errno. */
int64_t xr_read_file(int fd, char **text, uint64_t *mapped);
/* Selects the functions of each object that xray record selects: asks the observer when an object is
 * found, before its sleds are switched. or_all says what to do if that fails. Call it before the first
 * xr_rescan. A later xr_set_filter replaces this. */
void xr_ask_filter(int or_all);
/* Returns whether only the exits of a function are on. */
int xr_only_exits_on(uint64_t id);
/* Switches the sleds of functions for which xr_budget_wants has changed. Returns whether it had
 * to search objects for sleds. */
int xr_patch_changed(void);
/* Returns whether objects were loaded or unloaded since the last discovery. Needs no lock. */
int xr_objects_changed(void);
/* If no unknown objects are loaded, notes the time. So the next discovery knows when the objects
 * that it finds were absent. Needs no lock. */
void xr_before_open(void);
/* Makes the near thunks of an object. Returns -errno. */
int xr_make_thunks(struct xr_object *o);
/* Copies the pages of an object's code if all its sleds are about to be switched on. Copying takes less time
 * before the pages are read. */
void xr_copy_code(const struct xr_object *o);
/* Returns whether the filter keeps the function with this ID. */
int xr_filter_wants(uint32_t id);
/* Applies the filter to an object's IDs. */
void xr_filter_object(const struct xr_object *o);
/* Called once, before the first xr_patch. */
void xr_patch_init(void);
/* Bits of the functions that the program has patched, by ID. Null before the first. */
extern uint8_t *xr_asked;
static inline int xr_program_wants(uint32_t id) { return xr_asked && xr_asked[id / 8] >> id % 8 & 1; }
/* 1 if the recording is the program's own log. It then records the functions that the program has
 * patched, as far as xr_recorded handles their events, and may prune calls of any function. */
extern uint32_t xr_log_records;
/* For callers with XR_LOCK_CONTROL. */
/* Points the thunks at the trampolines for the handlers and the mode. */
void xr_set_targets(void);
/* Switches sleds after a change of xr_asked: those of all functions, or of function i of an
 * object, from 0. Both return -1 if not all could be switched. */
int xr_patch_asked(void);
int xr_patch_function(struct xr_object *o, uint64_t i);
/* Returns the address of function i of an object, from 0, or 0 if it is not loaded. */
uint64_t xr_function_address(struct xr_object *o, uint64_t i);
/* Returns whether the recorder, and not only a handler, gets the events of a function. */
int xr_recorder_wants(uint32_t id);

#pragma GCC visibility pop

#endif
