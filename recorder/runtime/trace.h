/* The interface between writer.c, which converts records to blocks of a trace, and metadata.c,
 * which describes the process that they come from. */
#ifndef XRAY_RECORDER_TRACE_H
#define XRAY_RECORDER_TRACE_H

#include "internal.h"
#include "text.h"

/* Kinds of metadata events. docs/dev/format.md describes their bodies. */
enum {
	XR_META_PROCESS = 1, XR_META_OBJECTS, XR_META_THREADS, XR_META_CLOCK, XR_META_LOSSES,
	XR_META_ADDRESSES, XR_META_COUNTERS, XR_META_CHANGES, XR_META_PROFILE,
	XR_META_PRUNED = 12, XR_META_PROFILE_OFF, /* xray pack uses 10 and 11, xray record 14 and 15 */
	XR_META_MARK = 16, XR_META_REQUEST, XR_META_LANDING, XR_META_NAME,
	XR_META_SWITCH, XR_META_RESULT, XR_META_DESCRIPTOR, XR_META_BUDGET,
	XR_META_WINDOWS = 25, /* xray record uses 24 */
	XR_META_EDGE, XR_META_CUT,
	XR_META_CHECKSUM = 32,
};

/* Reasons for records missing from a trace. */
enum xr_loss {
	XR_LOST_WRITE,     /* the stream file could not be written */
	XR_LOST_LIMIT,     /* the stream file reached its limit */
	XR_LOST_UNWRITTEN, /* a signal handler filled the chunk while a record was incomplete */
	XR_LOST_DAMAGED,   /* bytes of a chunk that are not a valid record */
	XR_LOST_MEMORY,    /* no memory to convert a chunk */
	XR_LOST_OBSERVER,  /* the observer ended while it wrote a chunk */
	XR_LOSSES,
};

/* A trace being written. */
struct xr_trace {
	int fd;           /* -1: none */
	uint32_t blocks;  /* metadata blocks so far */
	uint64_t since;   /* TSC: earlier records are left out; no block starts earlier */
	uint64_t until;   /* of a snapshot: TSC; later records are left out. UINT64_MAX: none are */
	const struct xr_later *kept; /* if it was kept, otherwise null */
	int cut;          /* there may be earlier records */
	uint64_t bytes;   /* written */
	int stream;       /* it has all records, not only what the rings hold */
	uint64_t torn;    /* chunks that were overwritten while they were copied */
	uint64_t lost[XR_LOSSES]; /* records, by cause */
	struct xr_text gone; /* rows of threads whose structs have been reused */
	uint64_t unlisted;   /* such threads that did not fit */
	uint64_t windows;    /* number of windows in the trace that have ended */
};

/* Writes the four records that begin a block, BufferExtents to PID. extent is the number of
 * bytes after the first of them. order grows with the blocks of a thread. */
#define XR_BLOCK_HEAD 64
struct xr_order {
	uint64_t major;
	uint32_t minor;
};
uint8_t *xr_block_head(uint8_t *out, uint64_t extent, uint32_t pid, uint32_t tid, struct xr_order order);
#define XR_CPU_RECORD 16
uint8_t *xr_cpu_record(uint8_t *out, uint16_t cpu, uint64_t tsc);
/* An event follows them that has the checksum of the block. xr_seal writes it when the block is
 * complete. */
#define XR_CHECKSUM 40
#define XR_BLOCK_START (XR_BLOCK_HEAD + XR_CPU_RECORD + XR_CHECKSUM)
void xr_seal(uint8_t *block, const uint8_t *end);

/* Puts a metadata block into t: the current tables and, if complete, what only a finished trace
 * has. */
void xr_put_metadata(struct xr_text *t, struct xr_trace *trace, int complete);
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

#endif
