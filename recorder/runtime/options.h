/* What the environment asks for. */
#ifndef XRAY_RECORDER_OPTIONS_H
#define XRAY_RECORDER_OPTIONS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* docs/runtime.md describes the options. Texts are null where there is none. */
struct xr_options {
	int asked; /* the environment has options for this process */
	enum xr_mode mode;
	uint64_t threshold_ns, depth, ring, limit, budget, pid, session;
	int stream, follow, dontdump, start, offcpu;
	char *output, *control, *filter, *shm, *observer, *dump;
	char template[4096]; /* of the output, an absolute path; empty if there is none */
};
extern struct xr_options xr_options;

/* Reads them, once: those of text, or with null those of the environment. */
void xr_read_options(const char *text);

#pragma GCC visibility pop

#endif
