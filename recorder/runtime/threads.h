/* The recorder's threads: one that libc does not know, and those that it knows.
 *
 * Once a program has created a thread, glibc locks its allocator and more, for as long as the
 * process lives. A single-threaded program then runs a few percent slower. A thread of the recorder
 * must not have that effect, so clone alone creates the control thread, and the one that writes a
 * snapshot later. They may call only functions of libc that need no locks, and no thread-local data
 * except errno. In particular, they cannot lock the loader. So they neither find objects nor touch
 * those that the program may close. */
#ifndef XRAY_RECORDER_THREADS_H
#define XRAY_RECORDER_THREADS_H

#include <pthread.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The threads that libc does not know. There is at most one of each at a time. */
enum xr_raw { XR_RAW_CONTROL, XR_RAW_WRITER, XR_RAWS };

/* Runs the function in a new thread that libc does not know. Returns 0 or -errno: -ENOSYS if the process
 * has too much static TLS. */
int xr_raw_thread_start(enum xr_raw which, void (*run)(void));
/* Waits until the kernel has removed the thread. */
void xr_raw_thread_join(enum xr_raw which);
/* Called in a forked child, which does not have the thread. */
void xr_raw_thread_forked(enum xr_raw which);
/* Returns whether the caller is one of them. */
int xr_is_raw_thread(void);

struct xr_pthread {
	pthread_t thread;
	uint32_t tid;
	void (*run)(void);
};

/* Runs the function in a new thread of libc. Returns 0 or -errno. */
int xr_pthread_start(struct xr_pthread *t, void (*run)(void));
/* Waits until the kernel has removed the thread. */
void xr_pthread_join(struct xr_pthread *t);

#pragma GCC visibility pop

#endif
