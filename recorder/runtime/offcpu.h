/* Between offcpu.c, which notices that threads were switched out, and those who write
 * it down. */
#ifndef XRAY_RECORDER_OFFCPU_H
#define XRAY_RECORDER_OFFCPU_H

#include "internal.h"
#include "text.h"

#pragma GCC visibility push(hidden)

/* Once, after the options were read. Finds out whether switches can be noticed. */
void xr_offcpu_init(void);
/* Whether they are, so that trampolines can rely on it in place of the cpu's number. */
int xr_offcpu_on(void);
/* Gives the calling thread its place of xr_thread.rseq, and notes what has been so far. */
void xr_offcpu_attach(struct xr_thread *t);
/* Whether the kernel has interfered with the thread since it was looked at. */
static inline int xr_interfered(const struct xr_thread *t) { return !*t->rseq; }
/* Looks at the calling thread, with which the kernel has interfered, signals blocked. Returns
 * whether it was switched out; t->off.looked is when. From then on, the next time is noticed. */
int xr_offcpu_look(struct xr_thread *t, struct xr_switch *s);
/* The same for what is to be written down: adds it to t->off.kept. With ours, the recorder is
 * the reason for all since the look before. */
void xr_offcpu_keep(struct xr_thread *t, int ours);
/* A debugger that steps through a trampoline interferes at each instruction, so that no look
 * would be the last. After some without a record in between, the thread goes without looks
 * until the next slow path. These are called there, before all and after all. */
void xr_offcpu_resume(struct xr_thread *t);
void xr_offcpu_looked(struct xr_thread *t);
/* The cpu that the calling thread runs on, if that is known. */
int xr_offcpu_cpu(const struct xr_thread *t, uint32_t *cpu);
/* Has all threads go without this once it turned out not to work. Called without a lock. */
void xr_offcpu_settle(void);
/* Around fork: children inherit no descriptor. */
void xr_offcpu_fork(void);
void xr_offcpu_fork_done(void);
void xr_offcpu_forked(void);
/* Puts fields of a JSON object: offcpu, or no_offcpu with the reason. */
void xr_put_offcpu(struct xr_text *t);

#pragma GCC visibility pop

#endif
