/* The flags of compiler-rt's runtime that have an effect here. */
#ifndef XRAY_RECORDER_LLVM_FLAGS_H
#define XRAY_RECORDER_LLVM_FLAGS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* compiler-rt's modes. */
enum xr_llvm_mode { XR_LLVM_FDR, XR_LLVM_BASIC, XR_LLVM_PROFILING, XR_LLVM_MODES };

/* The flags in XRAY_OPTIONS. Thresholds are in microseconds. */
struct xr_llvm_flags {
	char *base, *mode;
	uint64_t patch, verbosity, fdr_threshold, basic_threshold;
};
extern struct xr_llvm_flags xr_llvm_flags;
/* Reads the program's default options, and XRAY_OPTIONS. */
void xr_read_llvm_flags(void);

/* The flags for a log, from the mode's environment variable and the program. */
struct xr_llvm_settings {
	uint64_t threshold_us, buffer_size, buffers, no_file;
};
/* Reads the mode's variable, and then config, which has at most size bytes, or ends with a 0 if
 * size is 0. It may be null. */
struct xr_llvm_settings xr_read_llvm_settings(enum xr_llvm_mode mode, const char *config, uint64_t size);

#pragma GCC visibility pop

#endif
