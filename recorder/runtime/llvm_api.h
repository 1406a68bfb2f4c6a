/* Declarations that patch.c and the files of LLVM's API share. The API is that of compiler-rt's
 * xray/xray_interface.h and xray/xray_log_interface.h. */
#ifndef XRAY_RECORDER_LLVM_API_H
#define XRAY_RECORDER_LLVM_API_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* Weak, so that programs that also link compiler-rt's runtime use that one. */
#define XR_LLVM_API __attribute__((visibility("default"), weak))

/* Events that a program can handle. Without a handler for arguments, the handler for calls gets
 * them. */
enum xr_events { XR_CALLS_OF_FUNCTIONS, XR_ARGUMENTS, XR_CUSTOM_EVENTS, XR_TYPED_EVENTS, XR_EVENTS };

/* Functions of any type. As a handler, xr_recorded stands for the recorder. */
typedef void xr_function(void);
xr_function xr_recorded;
/* Returns the handler of these events, or null. */
xr_function *xr_handler_of(enum xr_events events);
/* Sets a handler, or none. The caller holds XR_LOCK_CONTROL. */
void xr_handle(enum xr_events events, xr_function *handler);

/* Bits of the functions that the program has patched, by ID. Null before the first. */
extern uint8_t *xr_asked;
static inline int xr_program_wants(uint32_t id) { return xr_asked && xr_asked[id / 8] >> id % 8 & 1; }
/* Gives the functions of an object that has just been loaded their first state. */
void xr_program_admit(const struct xr_object *o);
/* Patches all objects, including those loaded later, like patch_premain of XRAY_OPTIONS. The caller
 * holds XR_LOCK_CONTROL. */
void xr_patch_before_main(void);

/* 1 if the recording is the program's own log. It then records the functions that the program has
 * patched, as far as xr_recorded handles their events, and may prune calls of any function. */
extern uint32_t xr_log_records;

/* patch.c: for callers with XR_LOCK_CONTROL. */
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

/* Bracket functions of the API: between them, the thread holds XR_LOCK_CONTROL, blocks signals
 * and may make system calls, and the objects are known. */
struct xr_api_call {
	uint64_t signals;
	uint32_t unsealed;
};
struct xr_api_call xr_api_begin(void);
void xr_api_end(struct xr_api_call c);

#pragma GCC visibility pop

#endif
