/* Makes calls that are pruned in two recordings, one after the other: sums FOLDER. */
#include <fcntl.h>

#include "walk.h"

__attribute__((noinline)) void quick(void) { __asm__ volatile("" ::: "memory"); }

PLAIN static int record(const char *folder, const char *name, int n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	const char *why = xr_start(XR_PRUNE, 1000000000, 0, fd, 0);
	if (why)
		return fprintf(stderr, "%s\n", why);
	for (int i = 0; i < n; i++)
		quick();
	xr_stop();
	return 0;
}

PLAIN int main(int argc, char **argv) { return argc < 2 || record(argv[1], "0", 1000) || record(argv[1], "1", 30); }
