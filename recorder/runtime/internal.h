/* What the files of the recorder share: the layout of what is in memory, which
 * cores and other processes read too, and what each file offers the others.
 *
 * Layout rules: little-endian, fixed widths, no bit-fields. Whoever reads this
 * memory from outside starts at xray_recorder_root, which says how large its
 * tables' entries are, so that entries can grow at their ends. */
#ifndef XRAY_RECORDER_INTERNAL_H
#define XRAY_RECORDER_INTERNAL_H

/* Offsets that the assembly uses. Checked against the structs below. */
#define XR_THREAD_CURSOR 0
#define XR_THREAD_EPOCH 8
#define XR_THREAD_CPU 12
#define XR_THREAD_COUNTERS 16
#define XR_THREAD_PROFILE 24
#define XR_THREAD_NCOUNTERS 128
#define XR_THREAD_SUMS 2224
#define XR_THREAD_NSUMS 2232
#define XR_THREAD_RSEQ 2248
#define XR_ROOT_THRESHOLD 48

#define XR_CHUNK_SIZE 65536 /* also the alignment of chunks */
#define XR_CHUNK_HEADER 64

/* Records. A function record is 8 bytes: a word, id<<4 | kind<<1, which is also
 * the word of FDR, and the low half of the time stamp. A word of 0 is a slot not
 * yet written. Where bit 0 of the first byte is set, other records begin, each in
 * units of 8 bytes, of which none but function records may have bit 0 of their
 * last 8 bytes clear: prune mode looks back at those.
 *
 *   stamp     16 B  byte 0 = XR_REC_STAMP<<1|1, bytes 2-3 cpu; second qword = TSC<<1|1
 *   argument  16 B  byte 0 = XR_REC_ARG<<1|1, byte 1 = top bit of the value; second
 *                   qword = value<<1|1. Directly after its entry (kind 3)
 *                   or the argument before it. Of a
 *                   running thread, it may be seen before its entry, and with a
 *                   second qword of 0: not yet written either.
 *   result    16 B  as an argument, directly before the exit that it belongs to.
 *   event     24 B + payload padded to 8 (16 B in front of it, the trailer after):
 *                   byte 0 = XR_REC_CUSTOM or XR_REC_TYPED <<1|1, bytes 2-3 type of
 *                   a typed event, bytes 4-7 length of the payload in bytes;
 *                   second qword = TSC<<1|1; payload; trailer = XR_TRAILER | length<<1|1.
 *                   The cursor passes an event only when it is complete. */
#define XR_ENTER 0
#define XR_EXIT 1
#define XR_TAIL 2
#define XR_ENTER_ARG 3
#define XR_REC_STAMP 1
#define XR_REC_ARG 2
#define XR_REC_CUSTOM 3
#define XR_REC_TYPED 4
#define XR_REC_RESULT 5
#define XR_TRAILER (1ull << 63) /* tells a trailer from the value of an argument */

/* Longest payload that is recorded; the rest is cut off and counted. */
#define XR_MAX_PAYLOAD 4096

/* Function ids have 28 bits in FDR; 0 is not used. */
#define XR_MAX_FUNCTION ((1u << 28) - 1)

/* What xr_slow gets besides room for records, which is a multiple of 8. */
#define XR_COUNTERS 0
#define XR_PATHS 1
#define XR_SUMS 2

#ifndef __ASSEMBLER__

#include "locks.h"
#include "warnings.h"

#pragma GCC visibility push(hidden)

enum xr_mode {
	XR_OFF,     /* sleds are off, or their trampolines only return */
	XR_RECORD,  /* every entry and exit */
	XR_PRUNE,   /* calls shorter than the threshold without kept calls inside are taken back */
	XR_COUNT,   /* entries are counted per thread and function */
	XR_PROFILE, /* call paths with counts, sums and histograms */
	XR_DEPTH,   /* as XR_RECORD or XR_PRUNE (threshold != 0), outermost calls only */
};

/* One chunk of a ring, XR_CHUNK_SIZE bytes at a multiple of that. Written by its
 * thread alone. A reader copies it, newest first, and drops the copy if seq
 * changed meanwhile. */
struct xr_chunk {
	uint64_t seq;       /* 2 * (number of the chunk in its thread, from 1); odd while being taken */
	uint64_t first;     /* TSC at the start */
	uint64_t last;      /* TSC at hand-over; 0 while current */
	uint32_t tid, pid;
	struct xr_thread *thread;
	uint64_t magic;     /* XR_CHUNK_MAGIC */
	uint32_t streamed;  /* bytes of the chunk, header included, that are in the stream's file */
	uint32_t used;      /* bytes of it, header included, at hand-over; 0 while current */
	uint64_t wall;      /* CLOCK_REALTIME at the start, ns */
	/* records up to the cursor, then zeros */
};
#define XR_CHUNK_MAGIC 0x4b4e484359415258ull /* "XRAYCHNK" */

/* A thread's struct has a page of its own, and its ring begins after that page. */
#define XR_THREAD_PAGE 4096
#define XR_MAX_DEPTH 256

enum { XR_THREAD_FREE, XR_THREAD_LIVE, XR_THREAD_DEAD };

/* What happened to a thread between two looks at it; docs/format.md has these as the body of
 * a switch event. */
struct xr_switch {
	uint64_t off, queued; /* ns, or XR_UNKNOWN */
	uint32_t voluntary, involuntary, minor, major;
	uint64_t recorder;    /* ns of off that are not in queued: the thread waited for the recorder */
};
#define XR_UNKNOWN UINT64_MAX

/* What the kernel said of a thread when it was looked at the last time: counters, and ns. */
struct xr_offcpu {
	uint64_t looked;     /* TSC */
	uint64_t off;        /* ns off the processor, since the clocks began */
	uint64_t voluntary, involuntary, minor, major;
	uint64_t queued;     /* ns in the run queue that were written down, and those before; or all ones */
	uint64_t unasked;    /* blocked ns since the run queue was asked for */
	uint64_t idle, idle_since; /* looks without a switch, and TSC of the first */
	uint64_t cursor, again; /* xr_thread.cursor after a look, and looks since without a record in between */
	struct xr_switch kept;  /* switches found but not yet written */
	uint64_t keeps;         /* whether there is any */
};

/* What a thread records with. Lives outside thread-local storage, so that it
 * outlives its thread; only the pointer to it is thread-local. Fields above tid
 * are written by the thread in assembly. */
struct xr_thread {
	uint64_t cursor;     /* where the next record goes; low 16 bits 0: take the slow path */
	uint32_t epoch;      /* high half of the TSC of the latest stamp record */
	uint32_t cpu;        /* of the latest stamp record */
	uint64_t *counters;  /* count mode: calls by function id, ncounters of them; or null */
	struct xr_profile *profile; /* profile mode; or null */
	uint32_t tid, pid;
	uint32_t state;      /* XR_THREAD_...; changed with the tables' lock held, or by the thread from FREE to LIVE */
	uint32_t lock;       /* held to stream or to recycle the ring: xr_lock */
	uint8_t *ring;       /* nchunks chunks */
	uint64_t nchunks;
	uint64_t taken;      /* chunks taken so far; the current one is ring[(taken-1) % nchunks] */
	uint64_t first, last; /* TSC of the first record and of the latest hand-over */
	uint64_t dropped;    /* records lost: no memory, no file, limit */
	uint64_t truncated;  /* payloads cut off, or not readable */
	uint64_t streamed;   /* bytes written to the stream's file */
	char name[16];       /* at the latest hand-over */
	uint64_t ncounters;  /* room in counters */
	uint64_t depth;      /* XR_DEPTH: open calls in frames, outermost first */
	uint64_t frames[XR_MAX_DEPTH]; /* where their return addresses are */
	uint64_t nopen;      /* gcc's -mfentry: calls in open */
	struct xr_open *open;
	uint64_t shared;     /* where in the file of rings this one is; 0 when nowhere */
	struct xr_slot *slot; /* in the arena; null when the ring is in private memory */
	struct xr_sum *sums; /* prune mode: calls that were left out, by function id, nsums of them; or null */
	uint64_t nsums;
	uint64_t late;       /* number of the chunk that waits to be streamed, for a record in it that is being made; 0 for none */
	const volatile uint64_t *rseq; /* 0 there: the kernel has interfered with the thread; see offcpu.c */
	const volatile uint64_t *place; /* where rseq leads while the thread is looked at; or null */
	void *area;          /* where that is if it is our own; or null */
	struct xr_offcpu off;
};

/* Calls of a function. The first of a table stands for no function: it has the place and
 * the length of the table before, which was too short and is part of the sums. */
struct xr_sum {
	uint64_t calls, ticks;
};

/* One instrumented object: the program or a shared object. */
struct xr_object {
	uint64_t bias;                 /* address minus virtual address in the file */
	uint64_t text_first, text_end; /* addresses from the first to after the last sled */
	uint64_t sleds;                /* address of the sled table */
	uint64_t nsleds;
	uint32_t first_id, nfunctions;
	uint64_t loaded, unloaded;     /* TSC; unloaded 0 while mapped */
	uint32_t state;                /* XR_OBJECT_... */
	uint32_t build_id_size;
	uint8_t build_id[32];
	uint64_t thunks;               /* address of the two pages of near thunks; 0 when none */
	uint64_t patched;              /* sleds that are on */
	char why[64];                  /* when refused: the reason, for people */
	char path[512];
	/* When it was opened while others were recorded: of the longest time between the latest
	 * moment at which it was not there and that at which its sleds were on, both ends in
	 * TSC. Then how often it was opened so, and the ticks of all these times. */
	uint64_t absent, recorded;
	uint64_t opened, missed;
};
enum { XR_OBJECT_NEW, XR_OBJECT_READY, XR_OBJECT_REFUSED, XR_OBJECT_GONE };

/* TSC and the kernel's clocks at one moment. */
struct xr_anchor {
	uint64_t tsc;       /* middle of the bracket */
	uint64_t raw, real; /* CLOCK_MONOTONIC_RAW and CLOCK_REALTIME, ns */
	uint64_t width;     /* of the bracket, ticks */
};

/* Rings of new threads and rings of dead ones, when nobody says otherwise. */
#define XR_NCHUNKS 16
#define XR_RING_BUDGET (32 << 20)

#define XR_MAX_OBJECTS 1024
#define XR_MAX_HOOKED (1 << 20)
#define XR_ROOT_MAGIC "XRAY-RECORDER-1" /* 16 bytes with the 0 */

/* The way in. Symbol xray_recorder_root, in .data; found in stripped cores by
 * its magic. */
struct xr_root {
	char magic[16];
	uint32_t version;     /* of this layout: 1 */
	uint32_t size;        /* of this struct */
	uint32_t chunk_size, chunk_header, thread_size, object_size;
	uint32_t pid, mode;   /* enum xr_mode */
	uint64_t threshold;   /* ticks */
	uint64_t nchunks;     /* of the rings of new threads */
	struct xr_thread **threads; /* table of nthreads pointers, room for cap; grows by copying */
	uint64_t nthreads, cap_threads;
	struct xr_object *objects;  /* nobjects, room for XR_MAX_OBJECTS; entries never move */
	uint64_t nobjects;
	uint64_t max_function;
	uint64_t frequency;   /* of the TSC, Hz; 0 until measured */
	struct xr_anchor start;
	uint64_t min_tsc;     /* no record is older */
	uint64_t dropped;     /* records of threads that could not get a block */
	uint32_t depth;       /* XR_DEPTH: deepest call that is recorded, from 1 */
	uint32_t stream;      /* 1 while full chunks go to stream_fd */
	int32_t stream_fd;
	uint32_t invariant;   /* 1 when the TSC always runs at one speed */
	uint64_t stream_limit, streamed; /* bytes; limit 0 is none */
	uint64_t ring_budget; /* bytes of rings of dead threads that are kept */
	const void *hooked;   /* functions without sleds: {u64 address, u64 id}, nhooked of at most XR_MAX_HOOKED */
	uint64_t nhooked;
	uint64_t session;     /* which run of xray record this is of; 0 for none */
};
extern struct xr_root xr_root __asm__("xray_recorder_root");

/* trampoline_amd64.S */
extern __thread struct xr_thread *xr_tls __attribute__((tls_model("initial-exec")));

/* ring.c: no libc, general registers only, callable with signals on or off.
 * xr_slow is called by the trampolines: gets the thread a chunk with room for n
 * bytes after a stamp that holds now, or what n of XR_COUNTERS, XR_PATHS or XR_SUMS says. Returns 0
 * when that is not available, and the event is lost. */
int xr_slow(uint64_t n);
/* Where n bytes (a multiple of 8) of records can be written after a stamp that
 * holds now, and in *tsc that now. Null when that is not available, which is counted.
 * They become part of the ring with xr_commit. Signals are blocked by the caller
 * until then. */
uint8_t *xr_reserve(uint32_t n, uint64_t *tsc);
void xr_commit(uint32_t n);
/* Marks threads that are gone as dead; keeps their rings within ring_budget. */
void xr_reap(void);
/* 1 in a forked child before its first call of xr_forked; not in one of vfork. */
int xr_is_forked(void);
/* Forgets all threads, in a forked child. */
void xr_ring_forked(void);

/* objects.c and patch.c: the caller holds XR_LOCK_CONTROL. */
/* Finds objects that came and went. Returns how many changed. */
int xr_rescan(void);
/* Switches on the sleds that mode (of the last xr_set_mode) and filter want, and
 * all others off; or all off. Objects that xr_rescan finds later are switched
 * likewise. Returns 0, or -1 when an object was refused, with the reason in its
 * why. */
int xr_patch(int on);
/* Directs the near thunks of all objects to the trampolines of mode, with
 * xr_root.threshold and xr_root.depth, which were set before. Returns -1 for a mode
 * that is not there. */
int xr_set_mode(enum xr_mode mode);
/* Which functions are recorded: a text of lines "object PATH", after each of
 * which are lines "3" or "5-9" of functions counted from 1 within that object; with
 * a line "default off", all those of objects that are not named are off. The text
 * is copied; null is all functions. Takes effect with the next xr_patch. Returns
 * the number of the first line that is wrong, or 0, or -1 for no memory. */
int xr_set_filter(const char *text, size_t size);

/* lifecycle.c: functions to call with XR_LOCK_CONTROL held. */
/* Starts recording, to the stream's file fd when that is not -1 (it is taken over).
 * Returns null, or what prevents it. Some objects may have been refused. */
const char *xr_start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth, int fd, uint64_t limit);
/* Switches sleds off and ends the stream. */
void xr_stop(void);
/* xr_root.threshold as requested. */
extern uint64_t xr_threshold_ns;
/* Changes what is recorded, while that is going on: XR_OFF pauses it, xr_resume ends the
 * pause. */
int xr_is_paused(void);
void xr_resume(void);
const char *xr_switch(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth);
/* Sets up everything that is not set up yet; called by the constructor and by the
 * public functions, which constructors of others may call earlier. */
void xr_init(void);
/* arena.c */
/* Memory of zeros that is never given back. Under an observer it outlives the process.
 * Null when there is none. */
void *xr_keep(uint64_t size);

/* clock.c */
void xr_anchor(struct xr_anchor *a);
/* CLOCK_MONOTONIC at an anchor that was taken just now, ns. */
uint64_t xr_monotonic(const struct xr_anchor *a);
/* Sets xr_root.frequency from xr_root.start and a. */
void xr_calibrate(const struct xr_anchor *a);
/* Does so with an anchor of now unless the frequency is known, after a wait of at most
 * 2 ms if xr_root.start is too close. */
void xr_calibrated(void);
/* Conversions by xr_root.frequency; xr_ns is 0 while that is unknown. */
uint64_t xr_ticks(uint64_t ns);
uint64_t xr_ns(uint64_t ticks);
int xr_invariant_tsc(void);
/* What recording a call takes, in thousandths of ticks: measured once, in some 0.2 ms, as
 * two probes one after the other and nothing else. */
uint64_t xr_probe_cost(void);
/* CPU time of the process, and when recording began: its CPU time and TSC of then. */
uint64_t xr_cpu_ns(void);
extern uint64_t xr_cpu_before, xr_cpu_from;
/* CPU time that recording has taken in this process besides probes: to set up, to take
 * chunks, and to walk stacks at landings. */
struct xr_spent {
	uint64_t setup_ns, chunks_ns, landings_ns;
};
extern struct xr_spent xr_spent;
/* CPU time of the thread; 0 where a seccomp filter may not allow to ask for it. Asking takes
 * a system call, so only one of some times is measured: xr_spend adds what passed since
 * start so many times. */
uint64_t xr_thread_cpu_ns(void);
void xr_spend(uint64_t *part, uint64_t times, uint64_t start);

/* writer.c: no libc, general registers only: xr_stream is called on the slow path. */
/* Writes the records of the thread's latest chunk that are not yet in the stream's file to
 * it as one FDR block. A chunk with a record that a signal handler keeps from being made
 * waits for the next one, unless it is the last. The thread's lock is held. */
void xr_stream(struct xr_thread *t, int last);
/* Records in a chunk. */
uint64_t xr_count_records(const struct xr_chunk *c);
/* What a snapshot wrote; torn are chunks overwritten while they were copied. */
struct xr_written {
	uint64_t records, bytes, torn;
};
/* Writes a whole trace of the rings to fd without stopping anybody: records at or
 * after since (TSC). w may be null. Returns records written, or -errno. The caller
 * holds XR_LOCK_CONTROL, here and for the streams. */
int64_t xr_snapshot(int fd, uint64_t since, struct xr_written *w);
/* Starts and ends streaming to fd, which is an open regular file: header and first
 * metadata block; what is left in the chunks, then the last metadata block. A begin
 * that returns 0 takes fd over; else it returns -errno. Streaming nothing, an end is 0. */
int xr_stream_begin(int fd);
int xr_stream_end(void);
/* Appends a metadata block to the stream, if there is one: after a change of the objects. */
int xr_stream_metadata(void);
/* Takes back a SIGXFSZ that a write at the limit of file sizes has left pending: signals are
 * blocked, and it would end the program later. */
void xr_forget_file_size_signal(void);
/* 0 if a trace can be written to fd, else -errno. */
int xr_file_refusal(int fd);
/* Notes a thread for the stream's last metadata, before its struct is used again. Its
 * lock is held. Callable on the slow path. */
void xr_thread_gone(struct xr_thread *t);
/* Forgets the parent's stream, in a forked child. */
void xr_writer_forked(void);
/* Notes a change of the recording for the metadata: a few words, which it copies. */
void xr_change(const char *what);
const char *xr_mode_name(enum xr_mode mode);
/* The mode of that name; 0 if there is none. */
int xr_parse_mode(const char *s, enum xr_mode *mode);

/* Notes the new name of a thread, which is recorded if the caller is. */
void xr_thread_named(uint32_t tid, const char *name);
/* Whether calls are recorded one by one. */
int xr_keeps_records(void);

/* events.c */
void xr_custom_event(const void *p, uint64_t n);
/* The same for a payload in memory of ours. */
void xr_note_event(const void *p, uint64_t n);
void xr_typed_event(uint64_t type, const void *p, uint64_t n);

/* profile.c: general registers only. */
/* Gives a thread its profile; 0 when there is no memory. */
int xr_profile_make(struct xr_thread *t);
/* Adds an event of a sled to the profile; sp is the stack pointer in its trampoline. */
void xr_profile_event(uint32_t word, uint64_t sp);
/* The same for an event from the middle of a function: the functions inlined into it
 * have the same sp. */
void xr_profile_inlined(uint32_t word, uint64_t sp);
/* Calls that no profile has, because they were too deep or there were too many paths. */
uint64_t xr_profile_lost(void);
/* Durations whose ticks have i bits are counted in octave i; longer ones in the last. */
#define XR_PROFILE_OCTAVES 39
/* Frames that are further apart are on different stacks. */
#define XR_SAME_STACK (1 << 20)
/* Appends the counters or the profile as the body of a metadata event to what put
 * collects. */
void xr_counters_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
void xr_profile_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* The same of times off the processor, after that. */
void xr_profile_dump_off(void (*put)(void *to, const void *p, uint64_t n), void *to);

/* sums.c: general registers only. */
/* Gives a thread room for the sums of all functions; 0 when there is no memory. */
int xr_sums_make(struct xr_thread *t);
/* From here on, sums are of calls pruned later. */
void xr_sums_begin(void);
/* Whether there are any; and appends them as the body of a metadata event. */
int xr_sums_any(void);
void xr_sums_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);

/* control.c */
/* What an answer may need. */
#define XR_MAX_ANSWER (128 << 10)
/* Runs one command, taking XR_LOCK_CONTROL; the answer, JSON, goes to out, of at least 128 bytes. Returns 0,
 * or -1 for an error. Descriptors stay the caller's. */
int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size);
/* Starts the thread that serves the socket at where: a path, or "1" for the abstract
 * name. Returns 0 or -errno when it listens or cannot. */
int xr_control_start(const char *where);

/* The same for a process that the recorder was loaded into while it ran. The thread ends when
 * nobody has anything recorded any more. */
int xr_control_attach(void);

/* Whether the recorder is loaded into a process that runs: who does that writes 1 into the
 * object. The environment has no options for this process then. */
extern volatile int32_t xray_recorder_late __attribute__((visibility("default")));
/* Has a signal, by its name or number, write what the rings hold to a new file, unless
 * somebody handles it. Returns null, or why that is not done. */
const char *xr_dump_at(const char *signal);
/* lifecycle.c: writes that file. XR_LOCK_CONTROL is held. */
void xr_dump(void);
/* Around fork: before it, and in the child, whose parent's sockets are closed. A child of a
 * process with no threads but the recorder's can be controlled, too, if again. The first
 * returns whether it is one. */
int xr_control_fork(void);
void xr_control_forked(void);
void xr_control_again(void);
/* Whether the process has one thread besides it. */
int xr_control_is_second(void);
/* Ends the thread, for what the kernel allows only processes of one thread; 1 if there
 * was one to start again. */
int xr_control_pause(void);
void xr_control_resume(void);
/* Starts the thread in a forked child that had no use for it before. */
void xr_control_wanted(void);
/* -errno in words. */
const char *xr_errno_text(int64_t err);

/* syscall.h has raw system calls for the files without libc. */

#pragma GCC visibility pop

#endif
#endif
