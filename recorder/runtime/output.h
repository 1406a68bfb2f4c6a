/* The file that a process writes its trace to. Callable on the slow path. */
#ifndef XRAY_RECORDER_OUTPUT_H
#define XRAY_RECORDER_OUTPUT_H

#include "layout.h"
#include "text.h"

#pragma GCC visibility push(hidden)

/* Creates a new trace file, readable only by its user, with a name made from template: %p is
 * the process ID, %e the program's name, %% a percent sign. If the name is taken, a number is
 * added. Returns the descriptor or -errno. */
int xr_open_output(const char *template);
/* Puts the base name of the program. */
void xr_put_base_name(struct xr_text *t);

/* Takes over fd as the stream file. */
void xr_output_hold(int fd);
/* Returns the stream file's descriptor in the calling thread's table. Reopens the file if
 * necessary. Returns -1, with a warning, if that fails. */
int xr_output_fd(void);
void xr_output_release(void);
/* Discards a SIGXFSZ left pending by a write at the file-size limit. Signals are blocked, so it
 * would end the program later. */
void xr_forget_file_size_signal(void);
/* For a forked child. */
void xr_output_forked(void);

#pragma GCC visibility pop

#endif
