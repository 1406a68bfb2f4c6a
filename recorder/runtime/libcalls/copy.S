/* Copies of memory: records the number of bytes. Compilers copy small objects without these functions. */
#include "calls.h"

#define COPY(name) LIBCALL name, XR_CALL_ARG, THIRD_ARG

	COPY(memcpy)
	COPY(memmove)
	COPY(mempcpy)
#ifdef __GLIBC__
	COPY(__memcpy_chk)
	COPY(__memmove_chk)
	COPY(__mempcpy_chk)
#endif

	END_OF_CALLS
