/* Time, and what recording costs. */
#ifndef XRAY_RECORDER_CLOCK_H
#define XRAY_RECORDER_CLOCK_H

#include "layout.h"

#pragma GCC visibility push(hidden)

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

#pragma GCC visibility pop

#endif
