/* Converts records to blocks of a trace. See writer.c. */
#ifndef XRAY_RECORDER_WRITER_H
#define XRAY_RECORDER_WRITER_H

#include "layout.h"
#include "text.h"

#pragma GCC visibility push(hidden)

/* No libc, general registers only, because the slow path calls xr_stream. */
/* Writes the records of the thread's latest chunk that are not yet in the stream file, as one
 * FDR block. If a signal handler interrupted the writing of a record, the chunk waits for the
 * next one, unless it is the last. The caller holds the thread's lock. */
void xr_stream(struct xr_thread *t, int last);
/* Returns the number of records in a chunk. */
uint64_t xr_count_records(const struct xr_chunk *c);
/* What a snapshot wrote. torn counts chunks that were overwritten while they were copied. */
struct xr_written {
	uint64_t records, bytes, torn;
};
/* Writes a complete trace of the rings to fd without stopping any thread: the records at or
 * after since (TSC). w may be null. Returns the number of records written, or -errno. The
 * caller holds XR_LOCK_CONTROL, here and for the stream functions below. */
int64_t xr_snapshot(int fd, uint64_t since, struct xr_written *w);
/* The same for a snapshot that was kept: what the rings held at its until. */
struct xr_later;
int64_t xr_snapshot_kept(int fd, const struct xr_later *kept);
/* Forgets what only kept snapshots need, if there are none. */
void xr_kept_done(void);
/* Start and end streaming to fd, an open regular file. The start writes the header and the
 * first metadata block. The end writes what is left in the chunks and the last metadata block.
 * xr_stream_begin returns 0 and takes over fd, or returns -errno. Without a stream,
 * xr_stream_end returns 0. */
int xr_stream_begin(int fd);
/* Like xr_stream_begin, for a process whose observer has ended early. It first writes what the
 * observer has not written. */
int xr_stream_rest(int fd);
int xr_stream_end(void);
/* Appends a metadata block to the stream, if there is one. Call it after the objects change. */
int xr_stream_metadata(void);
/* Appends the windows that are not in the stream yet, if there is a stream. With records, it first
 * writes what threads have recorded so far. */
void xr_stream_windows(int records);
/* Returns 0 if a trace can be written to fd, otherwise -errno. */
int xr_file_refusal(int fd);
/* Saves a thread's row for the stream's last metadata, before its struct is reused. The caller
 * holds the thread's lock. Callable on the slow path. */
void xr_thread_gone(struct xr_thread *t);
/* Forgets the parent's stream. For a forked child. */
void xr_writer_forked(void);
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

#pragma GCC visibility pop

#endif
