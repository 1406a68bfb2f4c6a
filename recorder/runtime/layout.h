/* The layout of the recorder's memory, which the readers of cores and other processes know too.
 *
 * Layout rules: little-endian, fixed widths, no bit-fields. A reader outside the process starts
 * at xray_recorder_root. The root gives the sizes of table entries, so entries can grow at
 * their ends. */
#ifndef XRAY_RECORDER_LAYOUT_H
#define XRAY_RECORDER_LAYOUT_H

/* Offsets used by the assembly. ring.c checks them against the structs below. */
#define XR_THREAD_CURSOR 0
#define XR_THREAD_EPOCH 8
#define XR_THREAD_CPU 12
#define XR_THREAD_COUNTERS 16
#define XR_THREAD_PROFILE 24
#define XR_THREAD_NCOUNTERS 128
#define XR_THREAD_SUMS 2224
#define XR_THREAD_NSUMS 2232
#define XR_THREAD_RSEQ 2248
#define XR_THREAD_AGAIN 2272
#define XR_THREAD_TOP 2448
#define XR_THREAD_END 2456
#define XR_THREAD_FIBER_TOP 2512
#define XR_THREAD_FIBER_END 2520
#define XR_ROOT_THRESHOLD 48

#define XR_CHUNK_SIZE 65536 /* also the alignment of chunks */
#define XR_CHUNK_HEADER 64

/* Records. A function record is 8 bytes: a word, id<<4 | kind<<1, which is also the FDR word,
 * and the low half of the time stamp. A word of 0 is a slot that is not yet written. If bit 0
 * of the first byte is set, another kind of record begins there. Such records are multiples of
 * 8 bytes. Bit 0 of their last 8 bytes must be set, because prune mode looks back at those
 * bytes. Only function records may have it clear.
 *
 *   stamp     16 B  byte 0 = XR_REC_STAMP<<1|1, bytes 2-3 cpu; second qword = TSC<<1|1
 *   argument  16 B  byte 0 = XR_REC_ARG<<1|1, byte 1 = top bit of the value; second
 *                   qword = value<<1|1. Follows its entry (kind 3) or the argument
 *                   before it. A reader of a running thread may see it before its
 *                   entry, and may see a second qword of 0: not yet written.
 *   result    16 B  like an argument, directly before the exit that it belongs to.
 *   event     24 B + payload padded to 8 (16 B before the payload, the trailer after):
 *                   byte 0 = XR_REC_CUSTOM or XR_REC_TYPED <<1|1, bytes 2-3 type of
 *                   a typed event, bytes 4-7 length of the payload in bytes;
 *                   second qword = TSC<<1|1; payload; trailer = XR_TRAILER | length<<1|1.
 *                   The cursor moves past an event only when the event is complete. */
#define XR_ENTER 0
#define XR_EXIT 1
#define XR_TAIL 2
#define XR_ENTER_ARG 3
#define XR_REC_STAMP 1
#define XR_REC_ARG 2
#define XR_REC_CUSTOM 3
#define XR_REC_TYPED 4
#define XR_REC_RESULT 5
#define XR_TRAILER (1ull << 63) /* distinguishes a trailer from an argument value */

/* Maximum recorded payload. Longer payloads are truncated and counted. */
#define XR_MAX_PAYLOAD 4096

/* Function IDs have 28 bits in FDR. 0 is not used. */
#define XR_MAX_FUNCTION ((1u << 28) - 1)

/* Requests that xr_slow accepts besides a size, which is a multiple of 8. */
#define XR_COUNTERS 0
#define XR_PATHS 1
#define XR_SUMS 2

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum xr_mode {
	XR_OFF,     /* sleds are off, or their trampolines only return */
	XR_RECORD,  /* records every entry and exit */
	XR_PRUNE,   /* drops calls shorter than the threshold that contain no kept call */
	XR_COUNT,   /* counts entries per thread and function */
	XR_PROFILE, /* call paths with counts, sums and histograms */
	XR_DEPTH,   /* as XR_RECORD or XR_PRUNE (threshold != 0), only the outermost calls */
};

/* One chunk of a ring: XR_CHUNK_SIZE bytes, aligned to that size. Only its thread writes it. A
 * reader copies chunks from newest to oldest and discards a copy if seq changed in the
 * meantime. */
struct xr_chunk {
	uint64_t seq;       /* 2 * (number of the chunk in its thread, from 1); odd while the thread takes the chunk */
	uint64_t first;     /* TSC at the start */
	uint64_t last;      /* TSC at hand-over; 0 while current */
	uint32_t tid, pid;
	struct xr_thread *thread;
	uint64_t magic;     /* XR_CHUNK_MAGIC */
	uint32_t streamed;  /* bytes of the chunk, header included, that are in the stream file */
	uint32_t used;      /* bytes used, header included, at hand-over; 0 while current */
	uint64_t wall;      /* CLOCK_REALTIME at the start, ns */
	/* records up to the cursor, then zeros */
};
#define XR_CHUNK_MAGIC 0x4b4e484359415258ull /* "XRAYCHNK" */

/* The limit of files of one name. A process that executes programs in turn has one for each. */
enum { XR_MOST_NAMES = 1 << 14 };

/* A thread's struct has its own page. The ring follows that page. */
#define XR_THREAD_PAGE 4096
#define XR_MAX_DEPTH 256

enum { XR_THREAD_FREE, XR_THREAD_LIVE, XR_THREAD_DEAD };

/* What happened to a thread between two checks. It is the body of a switch event; see
 * docs/dev/format.md. */
struct xr_switch {
	uint64_t off, queued; /* ns, or XR_UNKNOWN */
	uint32_t voluntary, involuntary, minor, major;
	uint64_t recorder;    /* ns in off but not in queued: the thread waited for the recorder */
};
#define XR_UNKNOWN UINT64_MAX

/* The kernel's counters and times for a thread at the latest check. */
struct xr_offcpu {
	uint64_t checked;     /* TSC */
	uint64_t off;        /* ns off the CPU since the clocks began */
	uint64_t anchor_tsc, anchor_raw; /* one moment by both clocks */
	uint64_t rate;       /* ns per 2^32 ticks from there on; 0: ask the kernel for the time */
	uint64_t voluntary, involuntary, minor, major;
	uint64_t queued;     /* ns in the run queue: recorded so far plus those before; or all ones */
	uint64_t unasked;    /* blocked ns since the run-queue time was last read */
	uint64_t left;       /* ns in the run queue that no switch has got: of waits before the last reading */
	uint64_t idle, idle_since; /* checks without a switch, and the thread's CPU time at the first, ns */
	uint64_t cursor;     /* xr_thread.cursor after a check */
	struct xr_switch kept;  /* switches found but not yet written */
	uint64_t keeps;         /* whether kept holds any */
};

/* A thread's recording state. It is not in thread-local storage, so it outlives its thread.
 * Only the pointer to it is thread-local. The thread writes the fields above tid in assembly. */
struct xr_thread {
	uint64_t cursor;     /* address of the next record; low 16 bits 0: take the slow path */
	uint32_t epoch;      /* high half of the TSC of the latest stamp record */
	uint32_t cpu;        /* of the latest stamp record */
	uint64_t *counters;  /* count mode: calls by function id, ncounters of them; or null */
	struct xr_profile *profile; /* profile mode; or null */
	uint32_t tid, pid;
	uint32_t state;      /* XR_THREAD_...; changed under the table lock, or by the thread itself from FREE to LIVE */
	uint32_t lock;       /* held to stream or to recycle the ring; see xr_lock */
	uint8_t *ring;       /* nchunks chunks */
	uint64_t nchunks;
	uint64_t taken;      /* chunks taken so far; the current one is ring[(taken-1) % nchunks] */
	uint64_t first, last; /* TSC of the first record and of the latest hand-over */
	uint64_t dropped;    /* lost records: no memory, no file, or size limit */
	uint64_t truncated;  /* payloads that were truncated or unreadable */
	uint64_t streamed;   /* bytes written to the stream file */
	char name[16];       /* at the latest hand-over */
	uint64_t ncounters;  /* capacity of counters */
	uint64_t depth;      /* XR_DEPTH: number of open calls in frames, outermost first */
	uint64_t frames[XR_MAX_DEPTH]; /* addresses of their return addresses */
	uint64_t nopen;      /* gcc -mfentry: number of calls in open */
	struct xr_open *open;
	uint64_t shared;     /* offset of this ring in the file of rings; 0 if it is not in one */
	struct xr_slot *slot; /* slot in the arena; null if the ring is in private memory */
	struct xr_sum *sums; /* prune mode: sums of dropped calls by function ID, nsums of them; or null */
	uint64_t nsums;
	uint64_t late;       /* number of the chunk that cannot be streamed until a record in it is complete; 0: none */
	const volatile uint64_t *rseq; /* points to 0 after the kernel has interrupted the thread; see offcpu.c */
	const volatile uint64_t *place; /* target of rseq while the thread is checked; or null */
	void *area;          /* memory of place if the recorder allocated it; or null */
	uint64_t again;      /* checks since the latest record, even if that was removed */
	struct xr_offcpu off;
	struct xr_kept *top, *end; /* with a budget: end of the noted calls, and end of their table */
	struct xr_kept *held;      /* the table, or null */
	uint64_t fresh;            /* chunks up to this number are in memory that was never used */
	uint64_t tail;             /* where the entry after the latest tail exit belongs, if that may be removed */
	uint64_t gone;             /* chunks up to this number have given their memory to other threads */
	uint64_t holds;            /* chunks of xr_memory.used */
	uint64_t *room;            /* what values are read into, or null; see values.c. Its first word is 0 if it is free */
	uint64_t *fiber_top, *fiber_end; /* where the open calls of the current stack are noted, and the end of the table */
	struct xr_fibers *fibers;  /* the stacks that the thread switches between, or null; see fibers.c */
	uint64_t fiber;            /* number of the current one, or 0 for the thread's own */
};

/* Returns the number of the oldest chunk of t that is in memory, if it has taken one. */
static inline uint64_t xr_oldest_chunk(const struct xr_thread *t)
{
	uint64_t overwritten = t->taken > t->nchunks ? t->taken - t->nchunks : 0;
	return 1 + (t->gone > overwritten ? t->gone : overwritten);
}

/* A noted call, which is open and was recorded: the address of its return address, and its function. */
struct xr_kept {
	uint64_t slot, id;
};

/* Sums of a function's calls. The first entry of a table stands for no function: it holds the
 * address and length of the previous table, which was too short. The sums include both tables. */
struct xr_sum {
	uint64_t calls, ticks;
};

/* One instrumented object: the program or a shared object. */
struct xr_object {
	uint64_t bias;                 /* load address minus virtual address in the file */
	uint64_t text_first, text_end; /* address of the first sled, and address after the last */
	uint64_t sleds;                /* address of the sled table */
	uint64_t nsleds;
	uint32_t first_id, nfunctions;
	uint64_t loaded, unloaded;     /* TSC; unloaded 0 while mapped */
	uint32_t state;                /* XR_OBJECT_... */
	uint32_t build_id_size;
	uint8_t build_id[32];
	uint64_t thunks;               /* address of the two pages of near thunks; 0 when none */
	uint64_t patched;              /* sleds that are on */
	char why[64];                  /* why the object was refused, for people */
	char path[512];
	/* For an object that was opened during a recording: the longest interval between the last
	 * moment at which it was absent and the moment at which its sleds were on, both ends as
	 * TSC. Then the number of times it was opened this way, and the total ticks of these
	 * intervals. */
	uint64_t absent, recorded;
	uint64_t opened, missed;
};
enum { XR_OBJECT_NEW, XR_OBJECT_READY, XR_OBJECT_REFUSED, XR_OBJECT_GONE };

/* One moment, by the TSC and by the kernel's clocks. */
struct xr_anchor {
	uint64_t tsc;       /* midpoint of the bracket */
	uint64_t raw, real; /* CLOCK_MONOTONIC_RAW and CLOCK_REALTIME, ns */
	uint64_t width;     /* width of the bracket, in ticks */
};

/* The limit of memory for the records of all threads, and what has become of it, in chunks. */
struct xr_memory {
	uint64_t limit;      /* 0: none, and nothing is counted */
	uint64_t used, peak; /* that threads hold now, and at most */
	uint64_t given;      /* rings of ended threads that were given up for others */
	uint64_t given_chunks;
};
extern struct xr_memory xr_memory;

/* Defaults: chunks in a new thread's ring, and bytes of rings kept for dead threads. */
#define XR_NCHUNKS 16
#define XR_RING_BUDGET (32 << 20)

#define XR_MAX_OBJECTS 1024
#define XR_MAX_HOOKED (1 << 20)
#define XR_ROOT_MAGIC "XRAY-RECORDER-1" /* 16 bytes with the terminating 0 */
#define XR_ROOT_VERSION 1

/* A function without sleds. */
struct xr_hooked {
	uint64_t address, id;
};

/* The entry point for readers. Symbol xray_recorder_root, in .data. In stripped cores, readers
 * find it by its magic. */
struct xr_root {
	char magic[16];
	uint32_t version;     /* of this layout: XR_ROOT_VERSION */
	uint32_t size;        /* of this struct */
	uint32_t chunk_size, chunk_header, thread_size, object_size;
	uint32_t pid, mode;   /* enum xr_mode */
	uint64_t threshold;   /* ticks */
	uint64_t nchunks;     /* in the ring of a new thread */
	struct xr_thread **threads; /* nthreads pointers, capacity cap_threads; grows by copying */
	uint64_t nthreads, cap_threads;
	struct xr_object *objects;  /* nobjects entries, capacity XR_MAX_OBJECTS; entries never move */
	uint64_t nobjects;
	uint64_t max_function;
	uint64_t frequency;   /* of the TSC, in Hz; 0 until measured */
	struct xr_anchor start;
	uint64_t min_tsc;     /* TSC; no record is older */
	uint64_t dropped;     /* records of threads for which there was no memory */
	uint32_t depth;       /* XR_DEPTH: maximum recorded depth, from 1 */
	uint32_t stream;      /* 1 while full chunks go to stream_fd */
	int32_t stream_fd;
	uint32_t invariant;   /* 1 if the TSC always runs at one speed */
	uint64_t stream_limit, streamed; /* bytes; a limit of 0 means none */
	uint64_t ring_budget; /* maximum bytes of rings kept for dead threads */
	const struct xr_hooked *hooked; /* functions without sleds, nhooked of at most XR_MAX_HOOKED */
	uint64_t nhooked;
	uint64_t session;     /* ID of the xray run that this recording belongs to; 0: none */
	uint64_t window_ns, every_ns; /* records for window_ns in each period of every_ns; 0: all the time */
	struct xr_window *windows;    /* window i is in row i % XR_WINDOWS; or null */
	uint64_t nwindows;
	struct xr_budget *budget;     /* a budget of this process alone, or null */
	uint64_t values_changes;      /* changes whenever values and conditions of functions may have; 0 before there were any */
};

/* The functions that a sample records, see xr_budget_apply. */
struct xr_sampled {
	uint32_t n, ids[255];
};

/* A budget of one process, in its memory, which its controller (see budget.c) reads and writes. */
struct xr_budget {
	uint64_t limits;     /* address of XR_LIMITS_SIZE bytes, see below */
	uint32_t on;         /* 1 while the process records within the limits */
	uint32_t exhausted;  /* how often threads have reached a limit */
	uint32_t decisions;  /* how often the controller has switched functions off or on */
	struct xr_sampled sampled; /* for the command budget */
	uint32_t share;      /* of the CPU time, in millionths */
};
extern struct xr_root xr_root __asm__("xray_recorder_root");

/* Kinds of metadata events. docs/dev/format.md describes their bodies. */
enum {
	XR_META_PROCESS = 1, XR_META_OBJECTS, XR_META_THREADS, XR_META_CLOCK, XR_META_LOSSES,
	XR_META_ADDRESSES, XR_META_COUNTERS, XR_META_CHANGES, XR_META_PROFILE,
	XR_META_PRUNED = 12, XR_META_PROFILE_OFF, /* xray pack uses 10 and 11, xray record 14 and 15 */
	XR_META_MARK = 16, XR_META_REQUEST, XR_META_LANDING, XR_META_NAME,
	XR_META_SWITCH, XR_META_RESULT, XR_META_DESCRIPTOR, XR_META_BUDGET,
	XR_META_WINDOWS = 25, /* xray record uses 24 */
	XR_META_EDGE, XR_META_CUT, XR_META_VALUE, XR_META_VALUES, XR_META_PART, XR_META_STACKS,
	XR_META_CHECKSUM = 32,
};
/* An entry of the sled table, possibly unaligned. Offsets are relative to their own addresses. */
struct xr_sled {
	int64_t sled, function;
	uint8_t kind, always, version;
	uint8_t call; /* XR_CALL_... for libc functions; otherwise 0 */
	uint8_t padding[12];
} __attribute__((packed));
enum { XR_SLED_ENTRY, XR_SLED_EXIT, XR_SLED_TAIL, XR_SLED_ARG, XR_SLED_CUSTOM, XR_SLED_TYPED, XR_SLED_KINDS };
static inline uint64_t xr_sled_address(const struct xr_sled *s) { return (uintptr_t)&s->sled + s->sled; }
static inline uint64_t xr_sled_function(const struct xr_sled *s) { return (uintptr_t)&s->function + s->function; }
/* Returns the ID of the function whose entry sled is at p and on, or 0. See patch.c. */
static inline uint32_t xr_id_in_entry(const uint8_t *p)
{
	uint32_t id;
	if (p[0] != 0xeb || p[1] != 4 || p[6] != 0xe8)
		return 0;
	__builtin_memcpy(&id, p + 2, sizeof id);
	return id;
}

/* A time in which everything was recorded, between the TSCs from and to. to is 0 while the window is
 * open. cpu_ns is the CPU time of the process in it, for an open window up to some ms ago. */
struct xr_window {
	uint64_t from, to, cpu_ns;
};

#define XR_WINDOWS (1 << 16)     /* number of windows that are kept; older ones are overwritten */
#define XR_MAX_WINDOWS (1 << 21) /* maximum number of windows in a recording, as in readers */

#pragma GCC visibility pop

#endif
#endif
