/* Waits for time, signals and child processes. */
#include "calls.h"

	PLAIN(nanosleep)
	PLAIN(clock_nanosleep)
	PLAIN(usleep)
	PLAIN(sleep)
	PLAIN(sched_yield)
	PLAIN(pause)
	PLAIN(sigsuspend)
	PLAIN(sigwait)
	PLAIN(sigwaitinfo)
	PLAIN(sigtimedwait)
	PLAIN(wait)
	PLAIN(waitpid)
	PLAIN(wait3)
	PLAIN(wait4)
	PLAIN(waitid)

	END_OF_CALLS
