/* The measured work, and the clock. */
#include <time.h>

#define PLAIN __attribute__((xray_never_instrument))

#ifdef __cplusplus
extern "C" {
#endif

/* One run of the measured work, some hundred microseconds or more. Returns how many units
 * of work that was. */
unsigned long work(void);

/* CPU time of this thread, in ns: the machine may do other things as well. */
PLAIN static inline double cpu_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

#ifdef __cplusplus
}
#endif
