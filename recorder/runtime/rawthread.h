/* A thread that libc does not know.
 *
 * glibc locks its allocator and more only once a program has created a thread, and from then on Programs with one thread run some percent slower then, and threads of the recorder
 * must not have that effect. So the control thread is created by clone alone. Such a thread may
 * only call functions of libc that use neither its locks nor its thread-local data. */
#ifndef XRAY_RECORDER_RAWTHREAD_H
#define XRAY_RECORDER_RAWTHREAD_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Runs the function in a new thread, of which there is at most one. Returns 0 or -errno: -ENOSYS
 * where libc is not known well enough, so that the thread has to be one of libc's. */
int xr_raw_thread_start(void (*run)(void));
/* Waits until the thread has ended. */
void xr_raw_thread_join(void);
/* Called in a forked child, which does not have the thread. */
void xr_raw_thread_forked(void);
/* Returns whether the caller is the thread. */
int xr_is_raw_thread(void);

#pragma GCC visibility pop

#endif
