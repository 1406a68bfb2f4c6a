/* The file that a process writes its trace to. Callable on the slow path. */
#ifndef XRAY_RECORDER_OUTPUT_H
#define XRAY_RECORDER_OUTPUT_H

#include "text.h"

#pragma GCC visibility push(hidden)

/* Makes a new file for a trace, readable by its user alone, named by template: %p is the
 * process id, %e the program's name, %% a percent sign. Numbers are added to names that
 * are taken. Returns the descriptor or -errno. */
int xr_open_output(const char *template);
/* Puts the base name of the program. */
void xr_put_base_name(struct xr_text *t);

/* The file that is streamed to: fd is taken over. */
void xr_output_hold(int fd);
/* Its descriptor in the calling thread's table. It is opened again if need be. -1 with a
 * warning if that fails. */
int xr_output_fd(void);
void xr_output_release(void);
/* In a forked child. */
void xr_output_forked(void);

#pragma GCC visibility pop

#endif
