/* The interface of descriptors.c for code that keeps files and sockets open. Callable on the
 * slow path. */
#ifndef XRAY_RECORDER_DESCRIPTORS_H
#define XRAY_RECORDER_DESCRIPTORS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A descriptor of the recorder, and the file or socket it refers to: device and inode. */
struct xr_held {
	int32_t fd; /* -1: none */
	uint64_t id[2];
};
/* Takes over fd: moves it to a high number, with close-on-exec. Returns 0 or -errno. */
int xr_hold(struct xr_held *h, int fd);
/* Returns the descriptor, or -1 if it is no longer the recorder's. */
int xr_held_fd(const struct xr_held *h);
/* Closes the descriptor if it is still the recorder's. */
void xr_release(struct xr_held *h);

/* Gets the device and inode of an open file. Returns 0 or -errno. */
int xr_identify(int fd, uint64_t id[2]);
/* Copies a descriptor from another thread of the process. tid 0 is the first thread. Naming
 * another thread needs Linux 6.9. Returns the copy or -errno. */
int xr_fetch(uint32_t tid, int fd);

/* 1 in a thread with its own descriptor table. */
extern __thread uint32_t xr_own_table __attribute__((tls_model("initial-exec")));
/* Gives the calling thread its own, empty descriptor table if the kernel supports it (Linux
 * 6.9). Returns whether it does. */
int xr_leave_table(void);

/* Notes which file is standard error. */
void xr_remember_stderr(void);
/* Writes to standard error, unless the program has replaced it. */
void xr_write_stderr(const char *text, uint64_t n);

/* Returns whether a user ID of a peer may stand for several users, because the process's user
 * namespace does not know them. */
int xr_is_unknown_user(uint32_t uid);

#pragma GCC visibility pop

#endif
