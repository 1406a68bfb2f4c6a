/* The control socket and its clients. Only the control thread calls this, except where it says so. See
 * server.c. */
#ifndef XRAY_RECORDER_SERVER_H
#define XRAY_RECORDER_SERVER_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Maximum number of clients. */
#define XR_CLIENTS 16

/* Allocates memory, and notes the user who may control the process from now on. Returns 0 or -errno. Runs
 * before there is a thread, and so does xr_server_reset, which forgets all sockets without closing them. */
int xr_server_open(void);
void xr_server_reset(void);
/* Listens at a path, or at "1", an abstract name. Returns 0 or -errno. */
int xr_server_listen(const char *where);
/* Listens at the abstract name if the program has closed the socket. */
void xr_server_keep_listening(void);
/* Waits at most so many ns for requests, and for clients if listening, and answers the requests. */
void xr_server_wait(int listening, uint64_t ns);
/* Accepts one client. Returns 1, -1 if there is none, or 0 if it failed, perhaps because there were no
 * descriptors left. */
int xr_server_accept(void);
int xr_server_is_busy(void);
void xr_server_close(void);
/* Closes the parent's sockets in a forked child. */
void xr_server_forked(void);
/* Wakes the control thread from xr_server_wait. For other threads. */
void xr_server_wake(void);

#pragma GCC visibility pop

#endif
