/* Between writer.c, which turns records into the blocks of a trace, and
 * metadata.c, which says what they were recorded from. */
#ifndef XRAY_RECORDER_TRACE_H
#define XRAY_RECORDER_TRACE_H

#include "internal.h"
#include "text.h"

/* Kinds of metadata events; docs/format.md has their bodies. */
enum {
	XR_META_PROCESS = 1, XR_META_OBJECTS, XR_META_THREADS, XR_META_CLOCK, XR_META_LOSSES,
	XR_META_ADDRESSES, XR_META_COUNTERS, XR_META_CHANGES, XR_META_PROFILE,
	XR_META_PRUNED = 12, XR_META_PROFILE_OFF, /* 10 and 11 are of xray pack, 14 and 15 of xray record */
	XR_META_MARK = 16, XR_META_REQUEST, XR_META_LANDING, XR_META_NAME,
	XR_META_SWITCH, XR_META_RESULT, XR_META_DESCRIPTOR,
};

/* Why records are missing in a trace. */
enum xr_loss {
	XR_LOST_WRITE,     /* the stream's file could not be written */
	XR_LOST_LIMIT,     /* the stream's file had reached its limit */
	XR_LOST_UNWRITTEN, /* a signal handler filled the chunk while a record was being made */
	XR_LOST_DAMAGED,   /* bytes of a chunk that are no record */
	XR_LOST_MEMORY,    /* none to convert a chunk in */
	XR_LOSSES,
};

/* A trace being written. */
struct xr_trace {
	int fd;           /* -1: none */
	uint32_t blocks;  /* of metadata so far */
	uint64_t since;   /* TSC: records before are left out; no block has an earlier one */
	uint64_t bytes;   /* written */
	uint64_t torn;    /* chunks that were overwritten while they were copied */
	uint64_t lost[XR_LOSSES]; /* records, by cause */
	struct xr_text gone; /* rows of threads whose struct has another owner by now */
	uint64_t unlisted;   /* such threads that there was no room for */
};

/* The four records that begin a block, BufferExtents to PID; extent is what follows
 * the first of them. order grows with the blocks of a thread. */
#define XR_BLOCK_HEAD 64
struct xr_order {
	uint64_t major;
	uint32_t minor;
};
uint8_t *xr_block_head(uint8_t *out, uint64_t extent, uint32_t pid, uint32_t tid, struct xr_order order);
#define XR_CPU_RECORD 16
uint8_t *xr_cpu_record(uint8_t *out, uint16_t cpu, uint64_t tsc);

/* Puts a block of metadata into t: the tables of now, and what only a finished
 * trace knows if complete. */
void xr_put_metadata(struct xr_text *t, struct xr_trace *trace, int complete);
/* Puts fields of a JSON object: that of the program, and those of the mode. */
void xr_put_exe(struct xr_text *t);
void xr_put_mode(struct xr_text *t);
/* {"objects":[...]}, and an array of the refused ones with the reasons. */
void xr_put_objects(struct xr_text *t);
void xr_put_refusals(struct xr_text *t);
/* Puts the thread's row of the table of threads. */
void xr_put_thread(struct xr_text *t, const struct xr_thread *thread, uint64_t overwritten);

#endif
