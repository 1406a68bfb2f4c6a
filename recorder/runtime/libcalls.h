/* Between the functions of libcalls/, which stand in for libc's, and the recorder. */
#ifndef XRAY_RECORDER_LIBCALLS_H
#define XRAY_RECORDER_LIBCALLS_H

/* What a sled of these functions records, in the byte of its row that compilers leave 0.
 * Entries: an argument, in r11; two, in r11 and rax; a descriptor, in r11, with the table of
 * those that have names in rax. Exits: nothing; the result, in r11. */
#define XR_CALL_ARG 1
#define XR_CALL_ARGS 2
#define XR_CALL_DESCRIPTOR 3
#define XR_CALL_EXIT 4
#define XR_CALL_RESULT 5
#define XR_CALLS 5

/* Descriptors that can have names: one bit for each is in the table. */
#define XR_NAMED 1048576

#ifndef __ASSEMBLER__

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* trampoline_amd64.S, by way of libcalls_amd64.h */
#define XR_CALL_TRAMPOLINES(suffix) \
	void xr_call_arg##suffix(void), xr_call_args##suffix(void), xr_call_descriptor##suffix(void), \
		xr_call_result##suffix(void), xr_call_prune##suffix(void), xr_call_prune_result##suffix(void)
XR_CALL_TRAMPOLINES();
XR_CALL_TRAMPOLINES(_nocpu);
XR_CALL_TRAMPOLINES(_rseq);
void xr_depth_call_arg(void), xr_depth_call_args(void), xr_depth_call_descriptor(void), xr_depth_call_exit(void),
	xr_depth_call_result(void);

/* libcalls.c */
/* Records what a descriptor stands for, and marks it in the table. */
void xr_name_descriptor(int64_t fd, uint64_t *named);
/* Around what the recorder calls of libc, whose calls are not the program's: the calling
 * thread records nothing. Signals are blocked. */
extern __thread uint32_t xr_muted __attribute__((tls_model("initial-exec")));
struct xr_thread *xr_mute(void);
void xr_unmute(struct xr_thread *t);
/* Has names written again, where a new trace begins. */
void xr_forget_names(void);

#pragma GCC visibility pop

#endif
#endif
