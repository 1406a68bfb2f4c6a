/* Memory that the recorder shares with an observer: the `xray record` process that writes the
 * trace.
 *
 * The observer creates the memory and sends its descriptor when the recorder starts. The program
 * maps it and keeps no descriptor. Threads fill chunks, and the observer writes them to the file.
 * The arena survives the program, however it ends, so no recorded data is lost. Recording makes
 * no system calls.
 *
 * Forked children share the arena. Each process has its own entry and each thread its own slot.
 * Pointers in the arena are addresses in the processes, which map it at arena.base. The
 * observer maps it elsewhere.
 *
 * Every field has one writer at a time. There are no locks, because a process may be killed at
 * any instruction. recorder/ring/layout.go has the same layout. */
#ifndef XRAY_RECORDER_ARENA_H
#define XRAY_RECORDER_ARENA_H

#include "layout.h"

#pragma GCC visibility push(hidden)

#define XR_ARENA_MAGIC "XRAY-ARENA-1" /* 16 bytes with zeros */
#define XR_SELECT_MAGIC "XRAY-SELECT-1"
#define XR_LEFT_MAGIC "XRAY-LEFT-1"
#define XR_ARENA_VERSION 6
#define XR_ARENA_SLOTS 65536
#define XR_ARENA_PROCESSES 16384
#define XR_ARENA_TEXT (4 << 20) /* room for one version of a process's metadata */

/* State of a thread's slot. A slot keeps its ring once it has been used. */
enum {
	XR_SLOT_FREE,  /* any process may take it */
	XR_SLOT_TAKEN, /* a process has taken it and is setting it up */
	XR_SLOT_LIVE,  /* a thread records into it */
	XR_SLOT_ENDED, /* its thread has ended; the observer writes the rest */
	XR_SLOT_DONE,  /* the observer has written the rest; the process may reuse it */
};

/* A thread's slot, as the observer sees it. */
struct xr_slot {
	uint32_t state;     /* XR_SLOT_...; the observer moves ENDED to DONE, and all slots of an ended process to FREE */
	uint32_t process;   /* index of its process */
	uint32_t tid;
	uint32_t owner;     /* number of threads that have had the slot; distinguishes one from the next */
	uint64_t ring;      /* address of nchunks chunks */
	uint64_t nchunks;
	uint64_t taken;     /* chunks taken by the thread; the last one is current */
	uint64_t consumed;  /* chunks that the observer has written to the file; 0 for rings */
	uint32_t waiting;   /* 1 while the thread waits for consumed; a futex */
	uint32_t reserved;
	uint64_t first, last;        /* TSC, from struct xr_thread */
	uint64_t dropped, truncated; /* from struct xr_thread */
	uint64_t waited;    /* ticks for which the thread waited for the observer */
	char name[16];
	uint64_t counters, ncounters; /* count mode: address and number of the counters by function ID */
	uint64_t profile;   /* profile mode: address of struct xr_profile */
	uint64_t sums, nsums; /* sums of pruned calls */
	uint64_t writing;   /* number of the chunk that the observer is writing to the file, or 0 */
	uint64_t gone;      /* from struct xr_thread */
	uint64_t room;      /* chunks at ring; nchunks may be fewer */
	uint64_t unused[10];
};
_Static_assert(sizeof(struct xr_slot) == 256, "");

enum { XR_PROCESS_FREE, XR_PROCESS_TAKEN, XR_PROCESS_LIVE };

/* A process, as the observer sees it. */
struct xr_process {
	uint32_t state;     /* XR_PROCESS_...; the observer frees it when the process has ended */
	uint32_t pid, ppid; /* in the process's own PID namespace */
	uint32_t reserved;
	uint64_t since;     /* TSC: no record is older */
	uint32_t flush_asked, flush_done; /* number of requests to write everything, and number of those completed; a futex */
	uint32_t mode;      /* enum xr_mode */
	uint32_t texts;     /* versions of the metadata so far; version n is in text[n & 1] */
	uint64_t text[2];   /* addresses */
	uint64_t text_size[2];
	uint64_t dropped;   /* records lost by threads without memory */
	uint64_t hooked, nhooked; /* a copy of xr_root.hooked, functions without sleds */
	uint64_t windows, nwindows; /* address of XR_WINDOWS rows, and number of windows so far; see window.h */
	uint64_t space;     /* inode of its PID namespace; 0 if unknown */
	uint64_t ended;     /* records in rings of ended threads that have made room for others */
	struct xr_memory memory; /* a copy */
	uint64_t unused[3];
};
_Static_assert(sizeof(struct xr_process) == 192, "");

/* How the observer sleeps: briefly, or for long because the processes are idle. Full chunks end both, and
 * what changes the numbers of processes and threads ends a long sleep. */
enum xr_sleep { XR_NAPS = 1, XR_SLEEPS_LONG = 2 };

struct xr_arena {
	char magic[16];
	uint32_t version, slot_size, process_size, chunk_size;
	uint64_t size;       /* total bytes */
	uint64_t base;       /* address at which the processes map it; the first one sets it */
	uint64_t next;       /* bytes in use, from the start */
	uint64_t session;
	uint32_t nslots, nprocesses; /* highest number in use so far */
	uint64_t slots_at, processes_at; /* offsets */
	uint32_t stream;     /* 1: the observer writes chunks continuously; 0: rings, which it writes at the end */
	uint32_t drop;       /* 1: lose records instead of waiting for the observer */
	uint64_t beat;       /* rounds of the observer so far; it is alive while this grows */
	uint32_t doorbell;   /* a futex through which threads wake the observer: 0 while it is awake, else xr_sleep */
	uint32_t closed;     /* 1 once the observer has ended early, and writes nothing more */
	uint32_t keeper;     /* a robust futex of the observer: the kernel sets FUTEX_OWNER_DIED when the observer ends; 0 if unknown */
	uint32_t nfree;      /* slots that are XR_SLOT_FREE */
	uint64_t limits_at;  /* with a budget: offset of the limits of functions, XR_LIMITS_SIZE bytes, shared by all processes; else 0 */
	uint32_t exhausted;  /* how often threads have reached a limit */
	uint32_t decisions;  /* how often the observer has switched functions off or on */
	struct xr_sampled sampled; /* for the command budget */
	uint64_t schedule;   /* when a window begins, in ns of CLOCK_MONOTONIC; the first process sets it, and the observer copies it to the arenas of executed programs */
	uint32_t sealed;     /* 1 once a process is behind a seccomp filter, so that it cannot wake the observer */
	uint32_t unused;
};

/* What programs send to the socket of an observer. The answer is a byte with a descriptor. */
enum { XR_KEY_SIZE = 32 };
/* The first packet: asks for the arena. */
struct xr_hello {
	char magic[16]; /* XR_ARENA_MAGIC */
	uint32_t version, pid;
	uint64_t session, nchunks;
	char key[XR_KEY_SIZE];
};
/* Asks which functions of an object to record, or says that the program at path is executed. */
struct xr_question {
	char magic[16]; /* XR_SELECT_MAGIC or XR_LEFT_MAGIC */
	uint64_t session, nfunctions;
	uint32_t build_id_size, unused;
	uint8_t build_id[32];
	char path[512];
	char key[XR_KEY_SIZE];
};
_Static_assert(sizeof((struct xr_object *)0)->path == sizeof((struct xr_question *)0)->path, "");

/* lifecycle.c and ring.c. Joins the observer at an address: the name of its abstract socket, a
 * colon, and the key that proves that the process belongs to the recording. Returns 0 or -errno.
 * After success, xr_observed returns 1. */
int xr_arena_join(const char *address);
/* Tells the observer at an address that the process executes an open program that cannot load the
 * recorder. */
void xr_arena_left(const char *address, int program);
/* Asks the observer at an address which functions of an object to record. Returns a file as for
 * xr_set_filter, or -errno. */
struct xr_object;
int xr_arena_select(const char *address, const struct xr_object *o);
int xr_observed(void);
/* Returns whether the observer writes chunks continuously. */
int xr_arena_streams(void);
/* Gives a thread a ring of so many chunks in the arena. Returns 0 if there is none. */
int xr_arena_attach(struct xr_thread *t, uint64_t nchunks);
/* Returns whether t may take its next chunk. Waits until the observer has written that chunk's
 * old content, or returns 0 if the thread should lose records instead. */
int xr_arena_room(struct xr_thread *t);
/* Tell the observer that t has taken a chunk, or has ended. */
void xr_arena_thread(struct xr_thread *t);
void xr_arena_ended(struct xr_thread *t);
/* Tells the observer that chunks of t are gone, or that t has a smaller ring. */
void xr_arena_shrunk(struct xr_thread *t);
/* Tells the observer that t's ring is about to be emptied. */
void xr_arena_emptied(struct xr_thread *t);
/* Tells the observer the new name of t, which another thread may have set. */
void xr_arena_named(struct xr_thread *t);
/* Tells the observer about new tables of t: counters or a profile. */
void xr_arena_tables(struct xr_thread *t);
/* Tell the observer about new functions without sleds, and about dropped records. */
void xr_arena_hooked(void);
void xr_arena_dropped(void);
/* Wakes the observer, because threads have ended. */
void xr_arena_hurry(void);
/* Returns a number that changes before slots of ended threads become reusable, or 0 without an observer that
 * writes continuously. */
uint64_t xr_arena_round(void);
/* Returns whether the slot of an ended thread may be reused. */
int xr_arena_done(const struct xr_thread *t);
/* Unmaps the unused part of the arena, because it counts towards the program's address-space
 * limit. After that, only about 100 more threads get a ring, or fewer if the limit, unless it is 0, leaves
 * less. */
void xr_arena_trim(uint64_t limit);
/* Makes memory accessible for later use, before a filter may forbid system calls. */
void xr_arena_seal(void);
/* Publishes this process's metadata to the observer again. The caller holds XR_LOCK_CONTROL. */
void xr_arena_publish(void);
/* Returns the process's table of windows in the arena, or null if it has none. xr_arena_windows_are
 * tells the observer how many windows there have been. */
struct xr_window *xr_arena_windows(void);
void xr_arena_windows_are(uint64_t n);
/* Returns when a window begins in all processes of the observer. Sets it to now if it is not set. */
uint64_t xr_arena_schedule(uint64_t now);
/* Makes the observer write everything recorded so far, and waits for it at most one second. */
void xr_arena_flush(void);
/* Returns whether the observer ended early. The program must then write the rest itself. */
int xr_arena_lost(void);
/* The same for the end of a process, which has no later chance: asks also whether anything listens at the
 * observer's address, and if not, whether the observer still moves. */
void xr_arena_check(const char *address);
/* Returns the number of chunks of t that the observer has written. *unsure becomes 1 if it may not
 * have written all of the last one. */
uint64_t xr_arena_written(const struct xr_thread *t, int *unsure);
/* Creates a new entry for a forked child. */
void xr_arena_forked(uint32_t parent);

/* Returns zeroed memory that is never freed. Under an observer it outlives the process. Returns
 * null if there is no memory. */
void *xr_keep(uint64_t size);

#pragma GCC visibility pop

#endif
