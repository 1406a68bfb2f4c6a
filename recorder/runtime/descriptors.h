/* Between descriptors.c and those who open files and sockets that stay open. Callable on
 * the slow path. */
#ifndef XRAY_RECORDER_DESCRIPTORS_H
#define XRAY_RECORDER_DESCRIPTORS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* A descriptor of ours, and which file or socket it is: device and inode. */
struct xr_held {
	int32_t fd; /* -1: none */
	uint64_t id[2];
};
/* Takes fd over: moves it to a high number, to be closed by exec. Returns 0 or -errno. */
int xr_hold(struct xr_held *h, int fd);
/* The descriptor, or -1 when it is not ours any more. */
int xr_held_fd(const struct xr_held *h);
/* Closes it if it is still ours. */
void xr_release(struct xr_held *h);

/* 1 in a thread that has a table of descriptors of its own. */
extern __thread uint32_t xr_own_table __attribute__((tls_model("initial-exec")));
/* Gives the calling thread an empty table of its own, where the kernel has all that this
 * takes (Linux 6.9). Returns whether it has. */
int xr_leave_table(void);

/* Notes which file standard error is. */
void xr_remember_stderr(void);
/* Writes there, unless the program has put something else in its place. */
void xr_say(const char *text, uint64_t n);

/* The output that is streamed to: fd is taken over. */
void xr_output_hold(int fd);
/* Its descriptor in the calling thread's table; it is opened again if need be. -1 with a
 * warning where that cannot be had. */
int xr_output_fd(void);
void xr_output_release(void);
/* In a forked child. */
void xr_output_forked(void);

#pragma GCC visibility pop

#endif
