/* The interface between gcc.c, gcc_amd64.S and the code that switches the hooks. */
#ifndef XRAY_RECORDER_GCC_H
#define XRAY_RECORDER_GCC_H

/* Indexes of xr_gcc_hooks and xr_gcc_next. */
#define XR_CYG_ENTER 0
#define XR_CYG_EXIT 1
#define XR_FENTRY 2
#define XR_RETURN 3
#define XR_GCC_HOOKS 4

#ifndef __ASSEMBLER__

#include "layout.h"

#pragma GCC visibility push(hidden)

/* gcc_amd64.S: what hooks run while they are on, and where they jump in profile mode. */
void xr_on_cyg_enter(void), xr_on_cyg_exit(void), xr_on_fentry(void), xr_on_return(void);
void xr_gcc_profile(void), xr_gcc_profile_inlined(void);
/* trampoline_amd64.S */
void xr_nothing(void);

/* gcc.c: called by gcc_amd64.S. Each returns a function's ID, or 0 if the event is not
 * recorded. frame is the address of the function's return address. */
uint64_t xr_gcc_id(uint64_t function);
uint64_t xr_gcc_enter(uint64_t behind_call, uint64_t frame);
uint64_t xr_gcc_leave(uint64_t frame);

/* The rest of gcc.c. The caller holds XR_LOCK_CONTROL. */
/* Points the hooks at the trampolines of a mode. xr_gcc_switch activates them. */
void xr_gcc_set_mode(enum xr_mode mode, void (*enter)(void), void (*leave)(void));
void xr_gcc_switch(int on);
/* xr_gcc_functions returns how many functions have called a hook. xr_gcc_any_in returns whether
 * one of them, except the first but functions, is in [first, end). */
uint64_t xr_gcc_functions(void);
int xr_gcc_any_in(uint64_t but, uint64_t first, uint64_t end);
/* Passes the body of the metadata event with the addresses to put. */
void xr_gcc_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* For a forked child. */

/* The open calls of -mfentry; see landings.h. */
uint32_t xr_gcc_open_at(uint64_t slot, uint64_t *n);
void xr_gcc_leave_open(uint64_t n);

/* Returns the ID of the function at this address if it has called a hook of
 * -finstrument-functions, otherwise 0. */
uint32_t xr_gcc_known(uint64_t function);

#pragma GCC visibility pop

#endif
#endif
