/* Between descriptors.c and those who open files and sockets that stay open. Callable on
 * the slow path. */
#ifndef XRAY_RECORDER_DESCRIPTORS_H
#define XRAY_RECORDER_DESCRIPTORS_H

#include <stdint.h>

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

/* The device and inode of an open file. Returns 0 or -errno. */
int xr_identify(int fd, uint64_t id[2]);
/* Takes a copy of a descriptor from the table of another thread of the process: 0 is that of
 * the first. Others can be named since Linux 6.9. Returns it or -errno. */
int xr_fetch(uint32_t tid, int fd);

/* 1 in a thread that has a table of descriptors of its own. */
extern __thread uint32_t xr_own_table __attribute__((tls_model("initial-exec")));
/* Gives the calling thread an empty table of its own, where the kernel has all that this
 * takes (Linux 6.9). Returns whether it has. */
int xr_leave_table(void);

/* Notes which file standard error is. */
void xr_remember_stderr(void);
/* Writes there, unless the program has put something else in its place. */
void xr_write_stderr(const char *text, uint64_t n);

#pragma GCC visibility pop

#endif
