/* The tables of a trace, which describe the process. See metadata.c. */
#ifndef XRAY_RECORDER_METADATA_H
#define XRAY_RECORDER_METADATA_H

#include "layout.h"
#include "text.h"
#include "writer.h"

#pragma GCC visibility push(hidden)

/* Adds a change of the recording to the metadata. what is a few words, which are copied. */
void xr_change(const char *what);
/* Puts a metadata block into t: the current tables and, if complete, what only a finished trace
 * has. */
void xr_put_metadata(struct xr_text *t, struct xr_trace *trace, int complete);
/* Puts the current tables for the observer, without those of the beginning of a trace. */
void xr_put_tables(struct xr_text *t);
/* Puts a metadata block with the windows that are not in the trace yet. */
void xr_put_window_block(struct xr_text *t, struct xr_trace *trace);
/* Put fields of a JSON object: those of the program, and those of the mode. */
void xr_put_exe(struct xr_text *t);
void xr_put_mode(struct xr_text *t);
/* Puts the limit of memory and what has become of it, if there is one. */
void xr_put_memory(struct xr_text *t);
/* Put {"objects":[...]}, and an array of the refused objects with the reasons. */
void xr_put_objects(struct xr_text *t);
void xr_put_refusals(struct xr_text *t);
/* Puts the thread's row in the table of threads. */
void xr_put_thread(struct xr_text *t, const struct xr_thread *thread, uint64_t overwritten);

#pragma GCC visibility pop

#endif
