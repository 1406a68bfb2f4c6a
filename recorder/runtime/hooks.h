/* Calls upwards. A file calls what is on its own floor of the runtime and below. What a lower floor needs
 * of a higher one is in this one table; docs/dev/hacking.md has the floors. None of this is on the path of an
 * event that finds room in its ring. */
#ifndef XRAY_RECORDER_HOOKS_H
#define XRAY_RECORDER_HOOKS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

struct xr_text;

/* Events that a program can handle. Without a handler for arguments, the handler for calls gets
 * them. */
enum xr_events { XR_CALLS_OF_FUNCTIONS, XR_ARGUMENTS, XR_CUSTOM_EVENTS, XR_TYPED_EVENTS, XR_EVENTS };
/* Functions of any type. As a handler, xr_recorded stands for the recorder. */
typedef void xr_function(void);
xr_function xr_recorded;

extern const struct xr_above {
	/* For ring.c, on the slow path. */
	void (*stream)(struct xr_thread *t, int last);
	uint64_t (*count_records)(const struct xr_chunk *c);
	void (*thread_gone)(struct xr_thread *t);
	void (*later_save)(const struct xr_thread *t, const struct xr_chunk *c);
	void (*forked)(void);
	void (*open_pending)(void);
	void (*lost_observer)(void);
	/* For arena.c. */
	void (*put_tables)(struct xr_text *t);
	/* For budget.c and offcpu.c. */
	int (*only_exits_on)(uint64_t id);
	int (*patch_changed)(void);
	int (*set_mode)(enum xr_mode mode);
	/* For objects.c and patch.c: the handlers of LLVM's API, and their trampolines by kind of thunk. */
	void (*program_admit)(const struct xr_object *o);
	xr_function *(*handler_of)(enum xr_events events);
	xr_function *handle[6];
	/* For later.c. */
	int (*control_exists)(void);
} xr_above;

#pragma GCC visibility pop

#endif
