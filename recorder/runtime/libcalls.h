/* The interface between the recorder and libcalls/, whose functions replace those of libc. */
#ifndef XRAY_RECORDER_LIBCALLS_H
#define XRAY_RECORDER_LIBCALLS_H

/* What a sled of these functions records. It is in the byte of the sled's row that compilers
 * leave 0. Entries record one argument, in r11; two, in r11 and rax; or a descriptor, in r11,
 * with the table of named descriptors in rax. Exits record nothing, or the result, in r11. */
#define XR_CALL_ARG 1
#define XR_CALL_ARGS 2
#define XR_CALL_DESCRIPTOR 3
#define XR_CALL_EXIT 4
#define XR_CALL_RESULT 5
#define XR_CALLS 5

/* Before each function are 16 bytes, by which tailcalls.c recognizes the target of a jump: a mark of 8 bytes,
 * and the distance from the function to its entry sled in the last byte. The function's address is 16 more
 * than a multiple of 32, so both are in the same page. */
#define XR_CALL_MARK 0x6c61436372615258
#define XR_CALL_ALIGN 32
#define XR_CALL_HEAD 16
/* Where a function's entry sled leads while it is off, from the sled on: behind the sled and a short jump. */
#define XR_CALL_BYPASS 13

/* Number of descriptors that can have names. The table has one bit for each. */
#define XR_NAMED 1048576

#ifndef __ASSEMBLER__

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* trampoline_amd64.S, which includes libcalls_amd64.h. */
#define XR_CALL_TRAMPOLINES(suffix) \
	void xr_call_arg##suffix(void), xr_call_args##suffix(void), xr_call_descriptor##suffix(void), \
		xr_call_result##suffix(void), xr_call_prune##suffix(void), xr_call_prune_result##suffix(void)
XR_CALL_TRAMPOLINES();
XR_CALL_TRAMPOLINES(_nocpu);
XR_CALL_TRAMPOLINES(_rseq);
void xr_depth_call_arg(void), xr_depth_call_args(void), xr_depth_call_descriptor(void), xr_depth_call_exit(void),
	xr_depth_call_result(void);

/* libcalls.c */
/* Records what a descriptor refers to, and marks it in the table. */
void xr_name_descriptor(int64_t fd, uint64_t *named);
/* Bracket the recorder's own libc calls, which are not the program's: the calling thread
 * records nothing in between. The caller blocks signals. */
extern __thread uint32_t xr_muted __attribute__((tls_model("initial-exec")));
struct xr_thread *xr_mute(void);
void xr_unmute(struct xr_thread *t);
/* Forgets which names were written, because a new trace begins. */
void xr_forget_names(void);

#pragma GCC visibility pop

#endif
#endif
