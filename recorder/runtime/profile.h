/* Between profile.c, folded.c and profile_dump.c: the layout of a thread's profile. The
 * observer reads it too; recorder/observed_profile_linux.go repeats it. */
#ifndef XRAY_RECORDER_PROFILE_H
#define XRAY_RECORDER_PROFILE_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* Calls deeper than that have no path of their own. */
enum { XR_PATH_DEPTH = 1024 };

/* All threads together have so many paths, which take 50 MB. */
enum { XR_MAX_PATHS = 1 << 17 };

/* A path: a function called through the path of its parent. */
struct xr_path {
	struct xr_path *parent, *child, *sibling; /* the parent is null in sums of folded calls */
	uint32_t id, number;      /* of the function; of the path in its thread, from 0 */
	uint64_t ticks, min, max; /* of calls that ended */
	/* Calls made from here, and from those and so on, that have no path and are over; and
	 * the time of those made directly from here. */
	uint64_t folded, folded_ticks;
	uint64_t calls[XR_PROFILE_OCTAVES]; /* that ended, by the length of their ticks in bits */
	uint64_t switches, off, queued; /* while it was the innermost open call; ns */
};

/* Calls of a path that had not ended with their thread. */
struct xr_left {
	uint64_t calls, ticks;
};

enum { XR_PAGE_PATHS = 154 };
struct xr_path_page {
	struct xr_path_page *next;
	struct xr_path paths[XR_PAGE_PATHS];
	struct xr_left left[XR_PAGE_PATHS];
};

/* Calls without a path, of a function by a caller. The calls of a function by callers that
 * there was no room to tell apart are in one of them, which every function has. */
struct xr_fold {
	struct xr_path sums;   /* its number is the place of this among those of the thread */
	struct xr_fold *next;  /* in the same bucket */
	struct xr_fold *any;   /* the function's by any caller */
	uint32_t caller;       /* id of the function; 0 if there is none, XR_ANY_CALLER for any */
	uint32_t is_on;        /* with any caller: whether the path on has the function */
	const struct xr_path *on;
	uint64_t first;        /* with any caller: the outermost open call, if it still is */
	uint64_t inside;       /* ticks of the calls that these made */
	uint64_t nested;       /* ticks of those made while another call of the function was open */
	/* Of calls that had not ended with their thread. */
	struct xr_left left;
	uint64_t left_nested;
};
#define XR_ANY_CALLER UINT32_MAX

enum { XR_PAGE_FOLDS = 134 };
struct xr_fold_page {
	struct xr_fold_page *next;
	struct xr_fold folds[XR_PAGE_FOLDS];
};

/* A hash table of them, by function and caller. */
enum { XR_FOLD_BUCKETS = 1 << 12 };

/* An open call. */
struct xr_frame {
	uint64_t at;          /* where the return address is */
	uint64_t start;       /* TSC */
	struct xr_path *path; /* or the sums of a fold */
};

struct xr_profile {
	uint64_t depth;    /* open calls in frames, and then in deep */
	uint64_t last;     /* TSC of the latest event */
	uint64_t lost;     /* calls that there was no memory for */
	uint32_t tid;      /* owner of the open calls */
	uint32_t owners;   /* threads that had this profile, one after the other */
	uint32_t searching; /* paths may be moved */
	uint32_t npaths;
	uint64_t first;    /* TSC of the first event */
	struct xr_path_page *pages; /* the first */
	uint64_t near;     /* with no more calls open, all have paths; see profile.c */
	struct xr_path top;   /* what outermost calls are called by; its own parent */
	struct xr_frame frames[XR_PATH_DEPTH];
	struct xr_frame *deep; /* those after frames: room for ndeep */
	uint64_t ndeep;
	struct xr_path *folding; /* the path that open folded calls were made from */
	struct xr_path_page *page; /* the latest */
	struct xr_fold **buckets;
	struct xr_fold_page *folds, *fold; /* the first page and the latest */
	uint32_t nfolds;
	uint32_t put;      /* 1 when metadata has had it */
	uint32_t put_paths, put_folds; /* how many paths and folds the latest has */
};

static inline int xr_is_folded(const struct xr_path *c) { return !c->parent; }

/* The nth open call, from 0. */
static inline struct xr_frame *xr_frame_at(struct xr_profile *p, uint64_t n)
{
	/* A signal handler may move those that are deep. */
	return n >= XR_PATH_DEPTH ? &(*(struct xr_frame *volatile *)&p->deep)[n - XR_PATH_DEPTH] : &p->frames[n];
}

/* profile.c: how much of something all threads have taken together. A forked child begins
 * with nothing taken. */
struct xr_quota {
	uint32_t taken, pid;
};
/* Whether less than most is taken; and takes one more, if so. */
int xr_quota_is_left(struct xr_quota *q, uint32_t most);
int xr_quota_take(struct xr_quota *q, uint32_t most);

/* folded.c: for calls that have no path. */
/* The sums for a call of the function from parent, a path or the sums of a folded call.
 * Null when there is no memory. */
struct xr_path *xr_fold(struct xr_profile *p, struct xr_path *parent, uint32_t id);
/* Notes that such a call is open, as the nth from 1; that it ended and took so long; or that
 * it had not ended with its thread. */
void xr_fold_opened(struct xr_profile *p, uint64_t n);
void xr_fold_ended(struct xr_profile *p, uint64_t n, uint64_t ticks);
void xr_fold_left(struct xr_profile *p, uint64_t n, uint64_t ticks);
/* Whether the path has the function. */
int xr_path_has(const struct xr_profile *p, const struct xr_path *c, uint32_t id);

#pragma GCC visibility pop

#endif
