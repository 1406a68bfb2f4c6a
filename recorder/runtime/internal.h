/* Shared declarations of the recorder: the layout of its memory, which the readers of cores and
 * other processes know too, and the functions that each file exports to the others.
 *
 * Layout rules: little-endian, fixed widths, no bit-fields. A reader outside the process starts
 * at xray_recorder_root. The root gives the sizes of table entries, so entries can grow at
 * their ends. */
#ifndef XRAY_RECORDER_INTERNAL_H
#define XRAY_RECORDER_INTERNAL_H

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

#include "locks.h"
#include "warnings.h"

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
	uint64_t looked;     /* TSC */
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

/* The entry point for readers. Symbol xray_recorder_root, in .data. In stripped cores, readers
 * find it by its magic. */
struct xr_root {
	char magic[16];
	uint32_t version;     /* of this layout: 1 */
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
	const void *hooked;   /* functions without sleds: {u64 address, u64 id}, nhooked of at most XR_MAX_HOOKED */
	uint64_t nhooked;
	uint64_t session;     /* ID of the xray run that this recording belongs to; 0: none */
	uint64_t window_ns, every_ns; /* records for window_ns in each period of every_ns; 0: all the time */
	struct xr_window *windows;    /* window i is in row i % XR_WINDOWS; or null */
	uint64_t nwindows;
	struct xr_budget *budget;     /* a budget of this process alone, or null */
};

/* The functions that a look records, see xr_budget_apply. */
struct xr_burst {
	uint32_t n, ids[255];
};

/* A budget of one process, in its memory, which its controller (see budget.c) reads and writes. */
struct xr_budget {
	uint64_t limits;     /* address of XR_LIMITS_SIZE bytes, see below */
	uint32_t on;         /* 1 while the process records within the limits */
	uint32_t exhausted;  /* how often threads have reached a limit */
	uint32_t decisions;  /* how often the controller has switched functions off or on */
	struct xr_burst burst; /* for the command budget */
	uint32_t share;      /* of the CPU time, in millionths */
};
extern struct xr_root xr_root __asm__("xray_recorder_root");

/* state.c: what is recorded now. */
const char *xr_mode_name(enum xr_mode mode);
/* Finds the mode with this name. Returns 0 if there is none. */
int xr_parse_mode(const char *s, enum xr_mode *mode);
/* Returns whether the mode records individual calls. */
int xr_keeps_records(void);
/* xr_root.threshold as requested. */
extern uint64_t xr_threshold_ns;
/* CPU time of the process and TSC when recording began. */
extern uint64_t xr_cpu_before, xr_cpu_from;
/* Sleds are off. The mode is the one from before the pause. */
extern uint32_t xr_paused;
int xr_is_paused(void);
/* Whether the recording has windows, and whether nothing should be recorded now, which differs from an open window
 * while sleds are being switched. window.c sets them. */
struct xr_windows {
	uint32_t active, quiet;
};
extern struct xr_windows xr_windows;
/* Returns whether sleds are off because no window is open. Needs no lock. */
int xr_between_windows(void);
/* Nonzero while the process starts, before the recorder has a thread. */
extern enum xr_starts { XR_STARTED, XR_STARTS, XR_STARTS_ALL /* and will record at once */ } xr_starts;
/* Nonzero if the recorder was loaded into a running process. The loader writes 1 into the
 * object. The environment then has no options for this process. */
extern volatile int32_t xray_recorder_late __attribute__((visibility("default")));

/* trampoline_amd64.S */
extern __thread struct xr_thread *xr_tls __attribute__((tls_model("initial-exec")));

/* ring.c: no libc, general registers only, callable with signals enabled or blocked. The
 * trampolines call xr_slow. It gives the thread a chunk with room for n bytes after a stamp
 * that is valid now, or does what n says if n is XR_COUNTERS, XR_PATHS or XR_SUMS. Returns 0 on
 * failure; the event is then lost. */
int xr_slow(uint64_t n);
/* Returns where n bytes (a multiple of 8) of records can be written after a stamp that is valid
 * now, and stores the current TSC in *tsc. Returns null on failure, which is counted. xr_commit
 * adds the records to the ring. The caller keeps signals blocked until then. */
uint8_t *xr_reserve(uint32_t n, uint64_t *tsc);
void xr_commit(uint32_t n);
/* trampoline_amd64.S, chosen by xr_set_mode: a faster xr_reserve that makes no system call. Signals
 * may be enabled. The n bytes (a multiple of 8) are part of the ring at once, and readers see them
 * when the first 8 are written. Returns null if xr_reserve is needed. */
struct xr_place {
	uint64_t *at;
	uint64_t tsc;
};
extern struct xr_place (*xr_take_room)(uint64_t n);
/* Marks ended threads as dead and keeps their rings within ring_budget. */
void xr_reap(void);
/* Returns how many records were in rings of ended threads that have made room for others. */
uint64_t xr_ended_lost(void);
/* Returns 1 in a forked child before its first call of xr_forked. Returns 0 in a vfork child. */
int xr_is_forked(void);
/* Forgets all threads. For a forked child. */
void xr_ring_forked(void);

/* objects.c and patch.c: the caller holds XR_LOCK_CONTROL. */
/* Finds objects that were loaded or unloaded. Returns how many changed. */
int xr_rescan(void);
/* Switches on the sleds that the mode of the last xr_set_mode and the filter select, and
 * switches all others off. With on == 0, switches all off. Sleds record nothing until all are on,
 * or once they are to be off. The same selection applies to objects that xr_rescan finds later.
 * Returns 0, or -1 if an object was refused; its why field has the reason. */
int xr_patch(int on);
/* In a forked child: ends switching that the fork interrupted. */
void xr_patch_forked(void);
/* Points the near thunks of all objects at the trampolines of mode. Set xr_root.threshold and
 * xr_root.depth first. Returns -1 if the mode does not exist. */
int xr_set_mode(enum xr_mode mode);
/* Sets which functions are recorded. The text has lines "object PATH". After each of them
 * follow lines "3" or "5-9": functions of that object, counted from 1. A line "default off"
 * switches off all functions of objects that are not named. xr_set_filter copies the text. Null
 * selects all functions. It takes effect with the next xr_patch. Returns the number of the
 * first invalid line, 0 if all are valid, or -1 if there is no memory. */
int xr_set_filter(const char *text, size_t size);
/* Maps the contents of a regular file, a filter, and a byte more. Returns its size or -errno. */
int64_t xr_read_file(int fd, char **text, uint64_t *mapped);
/* Selects the functions of each object that xray record selects: asks the observer when an object is
 * found, before its sleds are switched. or_all says what to do if that fails. Call it before the first
 * xr_rescan. A later xr_set_filter replaces this. */
void xr_ask_filter(int or_all);

/* lifecycle.c: functions to call with XR_LOCK_CONTROL held. */
/* Starts recording. If fd is not -1, it becomes the stream file, and xr_start takes it over.
 * Returns null or the reason why recording cannot start. Some objects may have been refused. */
const char *xr_start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth, int fd, uint64_t limit);
/* Switches sleds off and ends the stream. */
void xr_stop(void);
/* Change the mode during a recording. XR_OFF pauses recording; xr_resume ends the pause. */
void xr_resume(void);
const char *xr_switch(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth);
/* Applies a new filter. */
void xr_refilter(void);
/* Initializes whatever is not yet initialized. The constructor calls it. So do the public
 * functions, because other constructors may call those earlier. */
void xr_init(void);
/* arena.c */
/* Returns zeroed memory that is never freed. Under an observer it outlives the process. Returns
 * null if there is no memory. */
void *xr_keep(uint64_t size);

/* clock.c */
void xr_anchor(struct xr_anchor *a);
/* Returns CLOCK_MONOTONIC, in ns, at an anchor that was taken just now. */
uint64_t xr_monotonic(const struct xr_anchor *a);
/* Sets xr_root.frequency from xr_root.start and a. */
void xr_calibrate(const struct xr_anchor *a);
/* Calibrates with an anchor taken now, unless the frequency is known. Waits at most 2 ms first
 * if xr_root.start is too recent. */
void xr_calibrated(void);
/* Returns a * b / c, rounded. The result must fit. */
uint64_t xr_muldiv(uint64_t a, uint64_t b, uint64_t c);
/* Convert by xr_root.frequency. xr_ns returns 0 while the frequency is unknown. */
uint64_t xr_ticks(uint64_t ns);
uint64_t xr_ns(uint64_t ticks);
int xr_invariant_tsc(void);
/* Cost of recording one call, in thousandths of a tick. Measured once, in about 0.05 ms, as two
 * probes in a row with nothing else between. */
uint64_t xr_probe_cost(void);
/* CPU time of the process. */
uint64_t xr_cpu_ns(void);
/* CPU time that recording has used in this process, besides probes: to set up, to take chunks,
 * and to walk stacks at landings. */
struct xr_spent {
	uint64_t setup_ns, chunks_ns, landings_ns;
};
extern struct xr_spent xr_spent;
/* Returns the CPU time of the thread, or 0 if a seccomp filter might forbid the query. The
 * query is a system call, so callers measure only one of several operations: xr_spend adds the
 * time since start, multiplied by times. */
uint64_t xr_thread_cpu_ns(void);
void xr_spend(uint64_t *part, uint64_t times, uint64_t start);

/* writer.c: no libc, general registers only, because the slow path calls xr_stream. */
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
/* Adds a change of the recording to the metadata. what is a few words, which are copied. */
void xr_change(const char *what);

/* Stores a thread's new name. The name is recorded if the caller records. */
void xr_thread_named(uint32_t tid, const char *name);

/* events.c */
void xr_custom_event(const void *p, uint64_t n);
/* The same for a payload in the recorder's own memory. */
void xr_note_event(const void *p, uint64_t n);
void xr_typed_event(uint64_t type, const void *p, uint64_t n);

/* profile.c: general registers only. */
/* Gives a thread its profile. Returns 0 if there is no memory. */
int xr_profile_make(struct xr_thread *t);
/* Adds a sled event to the profile. sp is the stack pointer in its trampoline. */
void xr_profile_event(uint32_t word, uint64_t sp);
/* The same for an event from the middle of a function. Functions inlined into it have the same
 * sp. */
void xr_profile_inlined(uint32_t word, uint64_t sp);
/* Cuts the calls that are open in all threads: they last until the latest event before. */
void xr_profiles_cut(void);
/* Returns the number of calls in no profile, because they were too deep or there were too many
 * paths. */
uint64_t xr_profile_lost(void);
/* Octave i counts durations whose tick count has i bits. The last octave also counts longer
 * ones. */
#define XR_PROFILE_OCTAVES 39
/* Frames that are further apart than this are on different stacks. */
#define XR_SAME_STACK (1 << 20)
/* Pass the counters or the profile, as the body of a metadata event, to put. */
void xr_counters_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* Returns how many calls of a function all threads have counted. */
uint64_t xr_calls_of(uint64_t id);
void xr_profile_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* The same for off-CPU times; call it after xr_profile_dump. */
void xr_profile_dump_off(void (*put)(void *to, const void *p, uint64_t n), void *to);

/* budget.c: recording within a budget. xr_limits has, by id, the number of calls of a function after
 * which a thread only counts them. The controller sets it: to 0 for functions whose sleds are off, and
 * to XR_UNLIMITED for those that are always recorded. The limits apply while xr_limited is 1. */
#define XR_LIMITS (1 << 22) /* number of limits */
/* Size of the limits, followed by a bit for each function whose calls the next look does not count. */
#define XR_LIMITS_SIZE (XR_LIMITS * sizeof(uint64_t) + XR_LIMITS / 8)
#define XR_UNLIMITED UINT64_MAX
#define XR_TRIAL 32 /* initial limit of a function */
extern uint64_t *xr_limits;
extern uint32_t xr_limited;
/* Counts how often threads reach a limit. */
extern uint32_t *xr_exhausted;
/* Begins the budget of an observer, for the rest of the process. */
void xr_budget_begin(uint64_t *limits, uint32_t *exhausted, const uint32_t *decisions, const struct xr_burst *burst);
/* Begins a budget of this process alone, in xr_root.budget. Nothing may be recorded at the time. Returns
 * null or the reason why there can be no budget. xr_budget_stop ends it, if there is one. The caller
 * holds XR_LOCK_CONTROL. */
const char *xr_budget_start(uint32_t share);
void xr_budget_stop(void);
/* Gives up all noted calls: no exit of theirs is recorded. */
void xr_budget_give_up_all(void);
/* Returns whether the process records within such a budget. */
int xr_budget_is_own(void);
/* Passes the body of a metadata event to put: that the trace has a budget from this TSC on and, if the
 * recording is complete, all calls that were counted. */
void xr_budget_dump(uint64_t from, int complete, void (*put)(void *to, const void *p, uint64_t n), void *to);
/* ring.c: gives threads counters, set to 0. The caller holds XR_LOCK_CONTROL. */
void xr_count_anew(void);
/* Gives the functions of an object their first limits. */
void xr_budget_admit(const struct xr_object *o);
/* Before a fork: switches sleds by the limits, so that the child need not. */
void xr_budget_before_fork(void);
/* In a forked child: ends a look of the parent. */
void xr_budget_forked(void);
/* Returns which sleds of a function should be on: 1 for entries, plus 2 for exits. */
unsigned xr_budget_wants(uint64_t id);
/* Finds out which functions have noted calls, so that their exits stay on. */
void xr_budget_note_open(void);
/* patch.c: returns whether only the exits of a function are on. */
int xr_only_exits_on(uint64_t id);
/* Prepares a thread for noting calls: with room allocates its table, otherwise empties it. No libc. */
void xr_budget_attach(struct xr_thread *t, int room);
/* Returns whether the exit of the call whose return address is at slot belongs to a noted call, and
 * removes that call. Also removes calls that were left. */
int xr_budget_exits(uint64_t slot);
/* Removes the noted calls below sp, at most this many. Stores their IDs, innermost first, and returns
 * their number. */
uint32_t xr_budget_take_left(uint64_t sp, uint32_t *ids, uint32_t most);
/* Like xr_depth_open_at and xr_depth_leave. */
uint64_t xr_budget_depth(void);
uint32_t xr_budget_open_at(uint64_t slot, uint64_t *n);
void xr_budget_leave(uint64_t n);
/* The result of xr_budget_apply. */
struct xr_look {
	uint64_t tsc, cpu_ns;       /* duration of the look in ticks; CPU time of the recorded threads in it */
	uint64_t patching_ns;       /* CPU time of switching sleds */
	uint64_t cut_tsc;           /* TSC from which on the exits of the functions in cut are also off */
	uint32_t ncut, cut[64];
	int whole;                  /* objects were searched for sleds, so the list of objects may have changed */
};
/* Switches sleds by the limits, and gives up noted calls of functions whose entries were already off.
 * If look_ns is not 0, it is a look: for that time, entries of functions that are off are on to be
 * counted, except those that the look leaves out. The functions of burst are recorded, and their limits
 * set to 0 at the end. The caller holds XR_LOCK_CONTROL, which is released during the look. */
void xr_budget_apply(uint64_t look_ns, struct xr_look *seen);
/* patch.c: switches the sleds of functions for which xr_budget_wants has changed. Returns whether it had
 * to search objects for sleds. */
int xr_patch_changed(void);

/* sums.c: general registers only. */
/* Gives a thread an entry for every function's sums. Returns 0 if there is no memory. */
int xr_sums_make(struct xr_thread *t);
/* Resets the sums, so that they cover only calls that are pruned later. */
void xr_sums_begin(void);
/* xr_sums_any returns whether there are any sums. xr_sums_dump passes them to put, as the body
 * of a metadata event. */
int xr_sums_any(void);
void xr_sums_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);

/* control.c */
/* Maximum size of an answer. */
#define XR_MAX_ANSWER (128 << 10)
/* Runs one command; takes XR_LOCK_CONTROL. Writes the answer, JSON, to out, which has at least
 * 128 bytes. Returns 0, or -1 for an error. The caller keeps the descriptors. */
int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size);
/* Starts the thread that serves the control socket at where: a path, or "1" for the abstract
 * name. Returns 0 once it listens, or -errno. */
int xr_control_start(const char *where);
/* Return whether there is such a thread, and whether there is one or it starts. */
int xr_control_runs(void);
int xr_control_exists(void);
/* If the observer has ended early, the process begins to write the rest of its trace itself. The caller holds
 * XR_LOCK_CONTROL. */
void xr_continue_alone(void);

/* The same for a recorder that was loaded into a running process. The thread ends when no
 * client records any more. */
int xr_control_attach(void);

/* Makes a signal, given by name or number, write the contents of the rings to a new file,
 * unless the program handles the signal. Returns null or the reason for a failure. */
const char *xr_dump_at(const char *signal);
/* lifecycle.c: writes that file. The caller holds XR_LOCK_CONTROL. */
void xr_dump(void);
/* xr_control_fork runs before a fork. It returns whether the process has no threads besides the
 * recorder's. xr_control_forked runs in the child and closes the parent's sockets. xr_control_again
 * also starts the thread in the child, if that is safe. */
int xr_control_fork(void);
void xr_control_forked(void);
void xr_control_again(void);
/* Returns whether the process has exactly one thread besides the control thread. */
int xr_control_is_second(void);
/* Ends the control thread, because the kernel allows some operations only in single-threaded
 * processes. Returns 1 if there was a thread to restart. */
int xr_control_pause(void);
void xr_control_resume(void);
/* Starts the control thread in a forked child that did not need one until now. */
void xr_control_wanted(void);
/* interpose.c: defined where the program's calls reach that file. */
extern char xr_interposes __attribute__((weak));
/* Returns whether libc does not know the control thread. See threads.h. */
int xr_control_is_raw(void);
/* Makes sure that the control thread sees objects that the program opens, and may touch them. The
 * caller holds no lock. */
void xr_control_see_objects(void);
/* Called after a thread of the program has changed its user or groups. Gives the control thread the
 * same ones. */
void xr_control_follow_credentials(void);

/* syscall.h has raw system calls for files without libc. */

#pragma GCC visibility pop

#endif
#endif
