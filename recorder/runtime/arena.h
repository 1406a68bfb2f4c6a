/* Memory that the recorder shares with an observer: the process of `xray record`
 * that writes the trace.
 *
 * The observer makes the memory and hands it over when the recorder starts. The
 * program keeps no descriptor of it. Threads fill chunks, the observer writes them
 * to the file. What is in the arena is there however the program ends, so nothing
 * that was recorded is lost, and recording makes no system calls.
 *
 * Forked children share the arena. Each process has an entry of its own and each
 * thread a slot. Pointers in the arena are addresses of the processes, which map it
 * at arena.base. The observer maps it elsewhere.
 *
 * All fields have one writer at a time. There are no locks: a process may be killed
 * at any instruction. recorder/arena_linux.go has the same layout. */
#ifndef XRAY_RECORDER_ARENA_H
#define XRAY_RECORDER_ARENA_H

#include "internal.h"

#pragma GCC visibility push(hidden)

#define XR_ARENA_MAGIC "XRAY-ARENA-1" /* 16 bytes with zeros */
#define XR_ARENA_VERSION 1
#define XR_ARENA_SLOTS 65536
#define XR_ARENA_PROCESSES 16384
#define XR_ARENA_TEXT (4 << 20) /* room for one version of a process's metadata */

/* State of a thread's slot. A slot that was used once keeps its ring. */
enum {
	XR_SLOT_FREE,  /* may be taken by any process */
	XR_SLOT_TAKEN, /* of a process; it is being set up */
	XR_SLOT_LIVE,  /* a thread records */
	XR_SLOT_ENDED, /* its thread has ended: the observer writes the rest */
	XR_SLOT_DONE,  /* and has done so: its process may use it again */
};

/* A thread, for the observer. */
struct xr_slot {
	uint32_t state;     /* XR_SLOT_...; the observer moves ENDED to DONE, and all of a process that is gone to FREE */
	uint32_t process;   /* index of its process */
	uint32_t tid;
	uint32_t owner;     /* how many threads had the slot: tells one from the next */
	uint64_t ring;      /* address of nchunks chunks */
	uint64_t nchunks;
	uint64_t taken;     /* chunks taken by the thread; the last of them is current */
	uint64_t consumed;  /* by the observer: chunks that are in the file; 0 for rings */
	uint32_t waiting;   /* 1 while the thread waits for consumed: a futex */
	uint32_t reserved;
	uint64_t first, last;        /* TSC, of struct xr_thread */
	uint64_t dropped, truncated; /* likewise */
	uint64_t waited;    /* ticks that the thread waited for the observer */
	char name[16];
	uint64_t counters, ncounters; /* count mode: address and number of counters by function id */
	uint64_t profile;   /* profile mode: address of struct xr_profile */
	uint64_t sums, nsums; /* of pruned calls */
	uint64_t unused[13];
};
_Static_assert(sizeof(struct xr_slot) == 256, "");

enum { XR_PROCESS_FREE, XR_PROCESS_TAKEN, XR_PROCESS_LIVE };

/* A process, for the observer. */
struct xr_process {
	uint32_t state;     /* XR_PROCESS_...; the observer frees it when the process is gone */
	uint32_t pid, ppid; /* as the process knows itself */
	uint32_t reserved;
	uint64_t since;     /* TSC: no record is older */
	uint32_t flush_asked, flush_done; /* counts of requests to write all there is, and of those done: futex */
	uint32_t mode;      /* enum xr_mode */
	uint32_t texts;     /* versions of the metadata so far; version n is in text[n & 1] */
	uint64_t text[2];   /* addresses */
	uint64_t text_size[2];
	uint64_t dropped;   /* records of threads without memory */
	uint64_t hooked, nhooked; /* a copy of xr_root.hooked, functions without sleds */
	uint64_t unused[4];
};
_Static_assert(sizeof(struct xr_process) == 128, "");

struct xr_arena {
	char magic[16];
	uint32_t version, slot_size, process_size, chunk_size;
	uint64_t size;       /* of all */
	uint64_t base;       /* where the processes map it; set by the first */
	uint64_t next;       /* bytes that are used, from the start */
	uint64_t session;
	uint32_t nslots, nprocesses; /* that were ever used */
	uint64_t slots_at, processes_at; /* offsets */
	uint32_t stream;     /* 1: the observer writes chunks all along; 0: rings, at the end */
	uint32_t drop;       /* 1: lose records rather than wait for the observer */
	uint64_t beat;       /* rounds of the observer so far: it is alive while this grows */
	uint32_t doorbell;   /* 1 while the observer sleeps: a futex that threads wake it by */
	uint32_t closed;     /* 1 when the observer has ended early */
	uint32_t observer;   /* its process id, as the program sees it; 0 if that is not known */
	uint32_t nfree;      /* slots that are XR_SLOT_FREE */
};

/* lifecycle.c and ring.c. Joins the observer that listens at the abstract socket with
 * this name. Returns 0 or -errno; from then on xr_observed is 1. */
int xr_arena_join(const char *name);
int xr_observed(void);
/* Whether the observer writes chunks all along. */
int xr_arena_streams(void);
/* Gives a thread a ring in the arena. Returns 0 when there is none. */
int xr_arena_attach(struct xr_thread *t);
/* Whether the next chunk of t may be taken. Waits until the observer has written it,
 * or returns 0 when the thread should lose records instead. */
int xr_arena_room(struct xr_thread *t);
/* Shows the observer what changed: t has taken a chunk, or has ended. */
void xr_arena_thread(struct xr_thread *t);
void xr_arena_ended(struct xr_thread *t);
/* Shows it the new name of t, which another thread may have given it. */
void xr_arena_named(struct xr_thread *t);
/* Shows the observer new tables of t: counters, a profile. */
void xr_arena_tables(struct xr_thread *t);
/* Shows it new functions without sleds, and records that were dropped. */
void xr_arena_hooked(void);
void xr_arena_dropped(void);
/* Whether the slot of an ended thread may be used again. */
int xr_arena_done(const struct xr_thread *t);
/* Gives back the addresses that are not in use, which count where the program limits
 * itself. More threads than some 100 get no ring from then on. */
void xr_arena_trim(void);
/* Makes room for what comes when there may be no more system calls. */
void xr_arena_seal(void);
/* Renews the metadata that the observer has of this process. XR_LOCK_CONTROL is
 * held. */
void xr_arena_publish(void);
/* Has the observer write all that was recorded, and waits for that at most a second. */
void xr_arena_flush(void);
/* Whether the observer ended early. Then the program must write the rings itself. */
int xr_arena_lost(void);
/* Makes an entry of its own for a forked child of a process. */
void xr_arena_forked(uint32_t parent);

#pragma GCC visibility pop

#endif
