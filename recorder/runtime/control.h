/* The control thread. See control.c. */
#ifndef XRAY_RECORDER_CONTROL_H
#define XRAY_RECORDER_CONTROL_H

#pragma GCC visibility push(hidden)

/* Starts the thread that serves the control socket at where: a path, or "1" for the abstract
 * name. Returns 0 once it listens, or -errno. */
int xr_control_start(const char *where);
/* Return whether there is such a thread, and whether there is one or it starts. */
int xr_control_runs(void);
int xr_control_exists(void);
/* Like xr_control_start, for a recorder that was loaded into a running process. The thread ends when no
 * client records any more. */
int xr_control_attach(void);
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

#pragma GCC visibility pop

#endif
