/* The layout of a thread's profile, shared by profile.c, folded.c and profile_dump.c. The
 * observer reads it too; recorder/ring/layout.go has the same layout. */
#ifndef XRAY_RECORDER_PROFILE_H
#define XRAY_RECORDER_PROFILE_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Octave i counts durations whose tick count has i bits. The last octave also counts longer
 * ones. */
#define XR_PROFILE_OCTAVES 39
/* Frames that are further apart than this are on different stacks. */
#define XR_SAME_STACK (1 << 20)

/* Deeper calls have no path of their own. */
enum { XR_PATH_DEPTH = 1024 };

/* Maximum number of paths of all threads together: 50 MB. */
enum { XR_MAX_PATHS = 1 << 17 };

/* A path: a function called from the path of its parent. */
struct xr_path {
	struct xr_path *parent, *child, *sibling; /* parent is null in the sums of folded calls */
	uint32_t id, number;      /* ID of the function; number of the path in its thread, from 0 */
	uint64_t ticks, min, max; /* of ended calls */
	/* Ended calls without a path, made from here directly or through other such calls, and the
	 * time of those made directly from here. */
	uint64_t folded, folded_ticks;
	uint64_t calls[XR_PROFILE_OCTAVES]; /* ended calls, by the number of bits of their ticks */
	uint64_t switches, off, queued; /* while this was the innermost open call; ns */
};

/* Calls of a path that were still open when their thread ended. */
struct xr_left {
	uint64_t calls, ticks;
};

enum { XR_PAGE_PATHS = 154 };
struct xr_path_page {
	struct xr_path_page *next;
	struct xr_path paths[XR_PAGE_PATHS];
	struct xr_left left[XR_PAGE_PATHS];
};

/* Sums of calls without a path: calls of a function by a caller. If there is no room to keep
 * callers apart, the calls are in the function's sums for any caller, which every function has. */
struct xr_fold {
	struct xr_path sums;   /* sums.number is the index of this struct within its thread */
	struct xr_fold *next;  /* next in the same bucket */
	struct xr_fold *any;   /* the function's sums for any caller */
	uint32_t caller;       /* ID of the calling function; 0: none; XR_ANY_CALLER: any */
	uint32_t is_on;        /* any caller: whether the path in on has the function */
	const struct xr_path *on;
	uint64_t first;        /* any caller: index of the outermost open call, if it is still open */
	uint64_t inside;       /* ticks of the calls made by these calls */
	uint64_t nested;       /* ticks of calls made while another call of the function was open */
	/* Calls that were still open when their thread ended. */
	struct xr_left left;
	uint64_t left_nested;
};
#define XR_ANY_CALLER UINT32_MAX

enum { XR_PAGE_FOLDS = 134 };
struct xr_fold_page {
	struct xr_fold_page *next;
	struct xr_fold folds[XR_PAGE_FOLDS];
};

/* Number of buckets in the hash table of folds, by function and caller. */
enum { XR_FOLD_BUCKETS = 1 << 12 };

/* An open call. */
struct xr_frame {
	uint64_t at;          /* address of the return address; see GOES_ON in profile.c */
	uint64_t start;       /* TSC */
	struct xr_path *path; /* or the sums of a fold */
};

struct xr_profile {
	uint64_t depth;    /* open calls, first in frames, then in deep */
	uint64_t last;     /* TSC of the latest event */
	uint64_t lost;     /* calls without memory */
	uint32_t tid;      /* owner of the open calls; XR_CUT is set if they were cut */
	uint32_t owners;   /* number of threads that have had this profile, one after another */
	uint32_t searching; /* set while paths may be moving */
	uint32_t npaths;
	uint64_t first;    /* TSC of the first event */
	struct xr_path_page *pages; /* the first page */
	uint64_t near;     /* if at most this many calls are open, all have paths; see profile.c */
	struct xr_path top;   /* the caller of the outermost calls; its own parent */
	struct xr_frame frames[XR_PATH_DEPTH];
	struct xr_frame *deep; /* open calls after frames; capacity ndeep */
	uint64_t ndeep;
	struct xr_path *folding; /* the path that open folded calls were made from */
	struct xr_path_page *page; /* the latest page */
	struct xr_fold **buckets;
	struct xr_fold_page *folds, *fold; /* the first page and the latest */
	uint32_t nfolds;
	uint32_t put;      /* 1 once the metadata has the profile */
	uint32_t put_paths, put_folds; /* number of paths and folds in the latest metadata */
};

#define XR_CUT (1u << 31)

static inline int xr_is_folded(const struct xr_path *c) { return !c->parent; }

/* The nth open call, from 0. */
static inline struct xr_frame *xr_frame_at(struct xr_profile *p, uint64_t n)
{
	/* A signal handler may move deep frames. */
	return n >= XR_PATH_DEPTH ? &(*(struct xr_frame *volatile *)&p->deep)[n - XR_PATH_DEPTH] : &p->frames[n];
}

/* profile.c: how much of a resource all threads have taken together. A forked child starts with
 * nothing taken. */
struct xr_quota {
	uint32_t taken, pid;
};
/* xr_quota_is_left returns whether less than most is taken. xr_quota_take also takes one more
 * if so. */
int xr_quota_is_left(struct xr_quota *q, uint32_t most);
int xr_quota_take(struct xr_quota *q, uint32_t most);

/* folded.c: functions for calls without a path. */
/* Returns the sums for a call of the function from parent, which is a path or the sums of a
 * folded call. Returns null if there is no memory. */
struct xr_path *xr_fold(struct xr_profile *p, struct xr_path *parent, uint32_t id);
/* Record that such a call is open, as the nth from 1; that it ended after this many ticks; or
 * that it was still open when its thread ended. */
void xr_fold_opened(struct xr_profile *p, uint64_t n);
void xr_fold_ended(struct xr_profile *p, uint64_t n, uint64_t ticks);
void xr_fold_left(struct xr_profile *p, uint64_t n, uint64_t ticks);
/* Returns whether the path contains the function. */
int xr_path_has(const struct xr_profile *p, const struct xr_path *c, uint32_t id);

/* General registers only. */
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
/* The same for off-CPU times; call it after xr_profile_dump. */
void xr_profile_dump_off(void (*put)(void *to, const void *p, uint64_t n), void *to);
/* Like xr_counters_dump, for the profile. */
void xr_profile_dump(void (*put)(void *to, const void *p, uint64_t n), void *to);

/* The open calls of profile mode; see landings.h. */
uint64_t xr_profile_depth(void);
void xr_profile_open_at(uint64_t slot, uint64_t *n);
void xr_profile_leave(uint64_t n);

#pragma GCC visibility pop

#endif
