/* Measures the work under the recorder, which is linked in, in all of its modes in
 * turn: ours RUNS FILE. Prints lines of a mode and ns for each unit of work; how many
 * calls a unit has, and the frequency of the clock. Streaming modes write to FILE. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lifecycle.h"
#include "measure.h"
#include "patch.h"
#include "state.h"

/* The minimum for any recorder: read the clock and store the time. */
void floor_trampoline(void);
__asm__(".text\n"
	".type floor_trampoline, @function\n"
	".p2align 6\n"
	"floor_trampoline:\n"
	"	endbr64\n"
	"	pushq %rax\n"
	"	pushq %rdx\n"
	"	rdtsc\n"
	"	movl %r10d, floor_record(%rip)\n"
	"	movl %eax, floor_record+4(%rip)\n"
	"	popq %rdx\n"
	"	popq %rax\n"
	"	ret\n"
	".size floor_trampoline, . - floor_trampoline\n"
	".local floor_record\n"
	".comm floor_record, 8, 8\n");

static const char *file;

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "ours: %s\n", what);
		exit(1);
	}
}

PLAIN static int start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth)
{
	const char *why = xr_start(mode, threshold_ns, depth, -1, 0);
	if (why)
		fprintf(stderr, "ours: %s\n", why);
	return !why;
}

PLAIN static int unpatched(void) { return 1; }
PLAIN static int record(void) { return start(XR_RECORD, 0, 0); }
PLAIN static int prune(void) { return start(XR_PRUNE, 5000, 0); }
PLAIN static int count(void) { return start(XR_COUNT, 0, 0); }
PLAIN static int profile(void) { return start(XR_PROFILE, 0, 0); }
PLAIN static int depth(void) { return start(XR_DEPTH, 0, 1); }

PLAIN static int stream(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	must(fd >= 0 && !xr_start(XR_RECORD, 0, 0, fd, 0), "streaming");
	return 1;
}

PLAIN static int off(void) { return record() && !xr_set_mode(XR_OFF); }

PLAIN static int bare(void)
{
	if (!record())
		return 0;
	void (**slots)(void) = (void (**)(void))(xr_root.objects[0].thunks + 4096);
	for (int i = 0; i < 3; i++)
		slots[i] = floor_trampoline;
	return 1;
}

PLAIN static void stop(void)
{
	xr_stop();
}

static const struct {
	const char *name;
	int (*start)(void);
} variants[] = {
	{"unpatched", unpatched}, {"off", off}, {"count", count}, {"floor", bare}, {"record", record},
	{"stream", stream}, {"prune", prune}, {"depth", depth}, {"profile", profile},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

PLAIN static void print_calls(void)
{
	uint64_t calls = 0;
	must(count(), "counting");
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		for (uint64_t id = 0; xr_root.threads[i]->counters && id < xr_root.threads[i]->ncounters; id++)
			calls -= xr_root.threads[i]->counters[id];
	unsigned long units = work();
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		for (uint64_t id = 0; xr_root.threads[i]->counters && id < xr_root.threads[i]->ncounters; id++)
			calls += xr_root.threads[i]->counters[id];
	stop();
	printf("calls %f\n", (double)calls / units);
}

PLAIN int main(int argc, char **argv)
{
	must(argc == 3, "usage: ours RUNS FILE");
	int missing[VARIANTS] = {0};
	file = argv[2];
	xr_init();
	if (xr_root.mode != XR_OFF) /* an observer has joined */
		stop();
	work();
	for (int run = 0; run < atoi(argv[1]); run++)
		for (int i = 0; i < VARIANTS; i++) {
			if (missing[i] || (missing[i] = !variants[i].start()))
				continue;
			work();
			double begin = cpu_time();
			unsigned long units = work();
			printf("%s %f\n", variants[i].name, (cpu_time() - begin) / units);
			stop();
		}
	print_calls();
	printf("hz %f\n", (double)xr_root.frequency);
	unlink(file);
	return 0;
}
