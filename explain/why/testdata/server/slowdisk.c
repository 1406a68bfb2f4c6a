/* A disk that is slow now and then, to be preloaded. */
#include <stdatomic.h>
#include <time.h>

int fdatasync(int file)
{
	static atomic_uint calls;
	struct timespec t = {0, 30 * 1000 * 1000};
	(void)file;
	if (atomic_fetch_add(&calls, 1) % 4 == 3)
		nanosleep(&t, 0);
	return 0;
}
