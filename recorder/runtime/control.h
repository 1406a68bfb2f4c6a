/* The control socket and its commands. See control.c. */
#ifndef XRAY_RECORDER_CONTROL_H
#define XRAY_RECORDER_CONTROL_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Maximum size of an answer. */
#define XR_MAX_ANSWER (128 << 10)
/* Runs one command; takes XR_LOCK_CONTROL. Writes the answer, JSON, to out, which has at least
 * 128 bytes. Returns 0, or -1 for an error. The caller keeps the descriptors. */
int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size);
/* Starts the thread that serves the control socket at where: a path, or "1" for the abstract
 * name. Returns 0 once it listens, or -errno. */
int xr_control_start(const char *where);
/* Return whether there is such a thread, and whether there is one or it starts. */
int xr_control_runs(void);
int xr_control_exists(void);
/* Like xr_control_start, for a recorder that was loaded into a running process. The thread ends when no
 * client records any more. */
int xr_control_attach(void);
/* Makes a signal, given by name or number, write the contents of the rings to a new file,
 * unless the program handles the signal. Returns null or the reason for a failure. */
const char *xr_dump_at(const char *signal);
/* xr_control_fork runs before a fork. It returns whether the process has no threads besides the
 * recorder's. xr_control_forked runs in the child and closes the parent's sockets. xr_control_again
 * also starts the thread in the child, if that is safe. */
int xr_control_fork(void);
void xr_control_forked(void);
void xr_control_again(void);
/* Returns whether the process has exactly one thread besides the control thread. */
int xr_control_is_second(void);
/* Ends the control thread, because the kernel allows some operations only in single-threaded
 * processes. Returns 1 if there was a thread to restart. */
int xr_control_pause(void);
void xr_control_resume(void);
/* Starts the control thread in a forked child that did not need one until now. */
void xr_control_wanted(void);
/* Returns whether libc does not know the control thread. See threads.h. */
int xr_control_is_raw(void);
/* Makes sure that the control thread sees objects that the program opens, and may touch them. The
 * caller holds no lock. */
void xr_control_see_objects(void);
/* Called after a thread of the program has changed its user or groups. Gives the control thread the
 * same ones. */
void xr_control_follow_credentials(void);
/* syscall.h has raw system calls for files without libc. */

#pragma GCC visibility pop

#endif
