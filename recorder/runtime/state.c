/* What is recorded now: the root that readers find, the mode, and whether the recording is paused. */
#include "layout.h"
#include "state.h"
#include "text.h"

static struct xr_object objects[XR_MAX_OBJECTS];

struct xr_root xr_root = {
	.magic = XR_ROOT_MAGIC,
	.version = XR_ROOT_VERSION,
	.size = sizeof(struct xr_root),
	.chunk_size = XR_CHUNK_SIZE,
	.chunk_header = XR_CHUNK_HEADER,
	.thread_size = sizeof(struct xr_thread),
	.object_size = sizeof(struct xr_object),
	.objects = objects,
	.stream_fd = -1,
};

static const char *const modes[] = {
	[XR_OFF] = "off", [XR_RECORD] = "record", [XR_PRUNE] = "prune",
	[XR_COUNT] = "count", [XR_PROFILE] = "profile", [XR_DEPTH] = "depth",
};

const char *xr_mode_name(enum xr_mode mode) { return modes[mode]; }

int xr_parse_mode(const char *s, enum xr_mode *mode)
{
	for (enum xr_mode m = XR_OFF; m <= XR_DEPTH; m++) {
		if (xr_equal(s, modes[m])) {
			*mode = m;
			return 1;
		}
	}
	return 0;
}

int xr_keeps_records(void) { return xr_root.mode == XR_RECORD || xr_root.mode == XR_PRUNE || xr_root.mode == XR_DEPTH; }
int xr_is_paused(void) { return xr_paused; }
int xr_between_windows(void) { return xr_windows.active && xr_windows.quiet; }

uint32_t xr_paused;
struct xr_windows xr_windows;
uint64_t xr_threshold_ns, xr_cpu_before, xr_cpu_from;
enum xr_starts xr_starts;

/* In .data, not .bss, because the attaching process sets it in the object file. */
volatile int32_t xray_recorder_late __attribute__((section(".data"))) = 0;
