/* Commands that control the recorder. See commands.c. */
#ifndef XRAY_RECORDER_COMMANDS_H
#define XRAY_RECORDER_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Maximum sizes of a request and of an answer. */
#define XR_MAX_REQUEST (64 << 10)
#define XR_MAX_ANSWER (128 << 10)
/* Runs one command; takes XR_LOCK_CONTROL. Writes the answer, JSON, to out, which has at least
 * 128 bytes. Returns 0, or -1 for an error. The caller keeps the descriptors. */
int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size);

/* What a command changes about the connection that it came from. */
struct xr_after {
	uint64_t holds; /* the recording that ends with the connection; 0: none */
	int stays;      /* the connection stays open for more requests */
};
/* Like xr_command, for a request from a connection. */
int xr_command_from(const void *from, const char *line, const int *fds, int nfds, char *out, size_t size, struct xr_after *after);
/* Returns whether this recording still runs. */
int xr_is_recording(uint64_t recording);
/* Ends the recording that a closed connection held. Another connection may now control the budget. */
void xr_disconnected(const void *from, uint64_t holds);

#pragma GCC visibility pop

#endif
