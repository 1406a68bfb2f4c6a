/* Helpers of io.S: the table of the descriptors whose names the recorder has written, one bit
 * each, and errno. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "../libcalls.h"

#pragma GCC visibility push(hidden)

uint64_t xr_named[XR_NAMED / 64];

void xr_forget_descriptors(void)
{
	for (unsigned i = 0; i < XR_NAMED / 64; i++)
		if (__atomic_load_n(&xr_named[i], __ATOMIC_RELAXED))
			__atomic_store_n(&xr_named[i], 0, __ATOMIC_RELAXED);
}

int xr_stream_descriptor(FILE *f)
{
	int error = errno;
	int fd = fileno(f);
	errno = error;
	return fd;
}

/* The error of a call that has just failed, as a negative number. */
int64_t xr_error(void)
{
	int error = errno;
	return error > 0 && error < 4096 ? -error : -1;
}
