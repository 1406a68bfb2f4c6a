/* Between gcc.c, gcc_amd64.S and those that switch them. */
#ifndef XRAY_RECORDER_GCC_H
#define XRAY_RECORDER_GCC_H

/* Places in xr_gcc_hooks and xr_gcc_next. */
#define XR_CYG_ENTER 0
#define XR_CYG_EXIT 1
#define XR_FENTRY 2
#define XR_RETURN 3
#define XR_GCC_HOOKS 4

#ifndef __ASSEMBLER__

#include "internal.h"

#pragma GCC visibility push(hidden)

/* gcc_amd64.S: what hooks do while they are on, and where they go on to in profile
 * mode. */
void xr_on_cyg_enter(void), xr_on_cyg_exit(void), xr_on_fentry(void), xr_on_return(void);
void xr_gcc_profile(void), xr_gcc_profile_inlined(void);
/* trampoline_amd64.S */
void xr_nothing(void);

/* gcc.c: called by gcc_amd64.S. Each returns the id of a function, or 0 when the event
 * is not recorded. frame is where the function's return address is. */
uint64_t xr_gcc_id(uint64_t function);
uint64_t xr_gcc_enter(uint64_t behind_call, uint64_t frame);
uint64_t xr_gcc_leave(uint64_t frame);

/* The rest of gcc.c; XR_LOCK_CONTROL is held. */
/* Directs the hooks to the trampolines of a mode; xr_gcc_switch makes use of them. */
void xr_gcc_set_mode(enum xr_mode mode, void (*enter)(void), void (*leave)(void));
void xr_gcc_switch(int on);
/* How many functions called a hook so far, and whether one of them, not counting the
 * first ones, is in [first, end). */
uint64_t xr_gcc_functions(void);
int xr_gcc_any_in(uint64_t but, uint64_t first, uint64_t end);
/* Appends the body of the metadata event with the addresses. */
void xr_gcc_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* In a forked child. */


#pragma GCC visibility pop

#endif
#endif
