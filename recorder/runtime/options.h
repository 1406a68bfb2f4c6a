/* The options that the environment sets. */
#ifndef XRAY_RECORDER_OPTIONS_H
#define XRAY_RECORDER_OPTIONS_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* The options of a process take fewer bytes, with the terminating 0. */
enum { XR_MAX_OPTIONS = 16384 };

/* docs/runtime.md describes the options. Unset texts are null. */
struct xr_options {
	int asked; /* the environment has options for this process */
	enum xr_mode mode;
	uint64_t threshold_ns, depth, ring, memory, limit, budget, pid, session, window, every;
	int stream, follow, dontdump, start, offcpu, fibers;
	uint64_t limited; /* record only within an observer's budget: its share of the CPU time, in millionths */
	char *output, *control, *filter, *select, *shm, *observer, *dump;
	char *preload; /* the objects that xray record preloads */
	char *own;     /* the variable itself, as xray record has set it */
	char *given;   /* LD_PRELOAD as the program was given it */
	uint64_t await; /* the process that starts a recording before main, if it is the parent */
	uint64_t restore; /* 1: the program was given another LD_PRELOAD; 2: and no options */
	char template[4096]; /* template of the output path, absolute; empty if there is none */
};
extern struct xr_options xr_options;

/* Reads the options, once: from text, or from the environment if text is null. */
void xr_read_options(const char *text);

#pragma GCC visibility pop

#endif
