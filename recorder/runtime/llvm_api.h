/* Declarations that patch.c and the files of LLVM's API share. The API is that of compiler-rt's
 * xray/xray_interface.h and xray/xray_log_interface.h. */
#ifndef XRAY_RECORDER_LLVM_API_H
#define XRAY_RECORDER_LLVM_API_H

#include "hooks.h"
#include "layout.h"

#pragma GCC visibility push(hidden)

/* Weak, so that programs that also link compiler-rt's runtime use that one. */
#define XR_LLVM_API __attribute__((visibility("default"), weak))
/* Returns the handler of these events, or null. */
xr_function *xr_handler_of(enum xr_events events);
/* Sets a handler, or none. The caller holds XR_LOCK_CONTROL. */
void xr_handle(enum xr_events events, xr_function *handler);
/* Gives the functions of an object that has just been loaded their first state. */
void xr_program_admit(const struct xr_object *o);
/* Patches all objects, including those loaded later, like patch_premain of XRAY_OPTIONS. The caller
 * holds XR_LOCK_CONTROL. */
void xr_patch_before_main(void);
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
