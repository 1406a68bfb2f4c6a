/* The interface between offcpu.c, which notices that threads were switched out, and the code
 * that records it. */
#ifndef XRAY_RECORDER_OFFCPU_H
#define XRAY_RECORDER_OFFCPU_H

#include "layout.h"
#include "text.h"

#pragma GCC visibility push(hidden)

/* Called once, after the options were read. Finds out whether switches can be noticed. */
void xr_offcpu_init(void);
/* Returns whether switches are noticed, so that trampolines can rely on it instead of the CPU's
 * number. */
int xr_offcpu_on(void);
/* Disables the detection of switches and notes the reason, or enables it if why is null. Call
 * xr_set_mode afterwards. Nothing may be recorded in the meantime; the caller holds
 * XR_LOCK_CONTROL. */
void xr_offcpu_pause(const char *why);
/* Stops detecting switches while threads record. The caller holds XR_LOCK_CONTROL. */
void xr_offcpu_give_up(const char *why);
/* Sets xr_thread.rseq of the calling thread, and reads the kernel's counters so far. brief says that the
 * thread will probably end soon. */
void xr_offcpu_attach(struct xr_thread *t, int brief);
/* Returns whether the kernel has interrupted the thread since the previous check. */
static inline int xr_interfered(const struct xr_thread *t) { return !*t->rseq; }
/* Checks the calling thread after the kernel has interrupted it, with signals blocked. Returns
 * whether it was switched out; t->off.checked is the time. From then on, the next switch is
 * noticed. */
int xr_offcpu_look(struct xr_thread *t, struct xr_switch *s);
/* The same, and adds the switch to t->off.kept for recording. With ours, the recorder caused
 * all of it since the previous check. */
void xr_offcpu_keep(struct xr_thread *t, int ours);
/* Returns whether another thread has been off the CPU since it was last checked, and for how long. */
int xr_offcpu_waits(const struct xr_thread *t, struct xr_switch *s);
/* A debugger that steps through a trampoline interrupts at each instruction, so checks would
 * never end. After several checks without a record in between, the thread is not checked until
 * the next slow path, which calls xr_offcpu_resume first and xr_offcpu_looked last. */
void xr_offcpu_resume(struct xr_thread *t);
void xr_offcpu_looked(struct xr_thread *t);
/* Gets the CPU of the calling thread. Returns whether it is known. */
int xr_offcpu_cpu(const struct xr_thread *t, uint32_t *cpu);
/* Makes all threads stop using this once it turned out not to work. Called without a lock. */
void xr_offcpu_settle(void);
/* Bracket fork, so that children inherit no descriptor. */
void xr_offcpu_fork(void);
void xr_offcpu_fork_done(void);
void xr_offcpu_forked(void);
/* Puts fields of a JSON object: offcpu, or no_offcpu with the reason. */
void xr_put_offcpu(struct xr_text *t);

#pragma GCC visibility pop

#endif
