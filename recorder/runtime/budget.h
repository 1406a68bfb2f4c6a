/* Recording within a budget. See budget.c. */
#ifndef XRAY_RECORDER_BUDGET_H
#define XRAY_RECORDER_BUDGET_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Recording within a budget. xr_limits has, by id, the number of calls of a function after
 * which a thread only counts them. The controller sets it: to 0 for functions whose sleds are off, and
 * to XR_UNLIMITED for those that are always recorded. The limits apply while xr_limited is 1. */
#define XR_LIMITS (1 << 22) /* number of limits */
/* After the limits, there is a bit for each function whose calls the next sample does not count. Then there are, by
 * id, the ticks that all threads took to read the values of the function's recorded calls: see xr_budget_charge. */
#define XR_CHARGES_AT (XR_LIMITS * sizeof(uint64_t) + XR_LIMITS / 8)
#define XR_LIMITS_SIZE (XR_CHARGES_AT + XR_LIMITS * sizeof(uint64_t))
#define XR_UNLIMITED UINT64_MAX
#define XR_TRIAL 32 /* initial limit of a function */
extern uint64_t *xr_limits;
extern uint32_t xr_limited;
/* Counts how often threads reach a limit. */
extern uint32_t *xr_exhausted;
/* Begins the budget of an observer, for the rest of the process. */
void xr_budget_begin(uint64_t *limits, uint32_t *exhausted, const uint32_t *decisions, const struct xr_sampled *sampled);
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
/* Gives the functions of an object their first limits. */
void xr_budget_admit(const struct xr_object *o);
/* Before a fork: switches sleds by the limits, so that the child need not. */
void xr_budget_before_fork(void);
/* In a forked child: ends a sample of the parent, and forgets what its own budget was charged. */
void xr_budget_forked(void);
/* Returns which sleds of a function should be on: 1 for entries, plus 2 for exits. */
unsigned xr_budget_wants(uint64_t id);
/* Finds out which functions have noted calls, so that their exits stay on. */
void xr_budget_note_open(void);
/* Charges a function with the ticks that reading its values took. Any thread may call it, also in a signal handler. */
void xr_budget_charge(uint64_t id, uint64_t ticks);
/* Prepares a thread for noting calls: with room allocates its table, otherwise empties it. No libc. */
void xr_budget_attach(struct xr_thread *t, int room);
/* Returns whether the exit of the call whose return address is at slot belongs to a noted call, and
 * removes that call. Also removes calls that were left. */
int xr_budget_exits(uint64_t slot);
/* Removes the noted calls below sp, at most this many. Stores their IDs, innermost first, and returns
 * their number. The call whose return address is at unrecorded is removed without its ID. */
uint32_t xr_budget_take_left(uint64_t sp, uint64_t unrecorded, uint32_t *ids, uint32_t most);
/* Like xr_depth_open_at and xr_depth_leave. */
uint64_t xr_budget_depth(void);
uint32_t xr_budget_open_at(uint64_t slot, uint64_t *n);
void xr_budget_leave(uint64_t n);
/* The result of xr_budget_apply. */
struct xr_sample {
	uint64_t tsc, cpu_ns;       /* duration of the sample in ticks; CPU time of the recorded threads in it */
	uint64_t patching_ns;       /* CPU time of switching sleds */
	uint64_t cut_tsc;           /* TSC from which on the exits of the functions in cut are also off */
	uint32_t ncut, cut[64];
	int whole;                  /* objects were searched for sleds, so the list of objects may have changed */
};
/* Switches sleds by the limits, and gives up noted calls of functions whose entries were already off.
 * If sample_ns is not 0, it is a sample: for that time, entries of functions that are off are on to be
 * counted, except those that the sample leaves out. The functions of sampled are recorded, and their limits
 * set to 0 at the end. The caller holds XR_LOCK_CONTROL, which is released during the sample. */
void xr_budget_apply(uint64_t sample_ns, struct xr_sample *seen);

#pragma GCC visibility pop

#endif
