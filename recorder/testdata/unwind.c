/* Calls recorded functions for a debugger to step through: unwind
 * MODE|arg|events. */
#include "walk.h"

static volatile long sink;

TRACED static long plain(long x) { sink += x; return x + 1; }
TRACED __attribute__((__xray_always_instrument__, xray_log_args(1))) static long logged(long x) { sink += x; return x + 1; }
TRACED static long last_call(long x) { sink += x; return plain(x); }

TRACED static long events(long x)
{
#ifdef __clang__
	static const char text[] = "text";
	__xray_customevent(text, 4);
	__xray_typedevent(1, text, 4);
#endif
	return x + 1;
}

static long (*volatile called)(long) = plain;

/* The debugger stops here and steps from here on. */
PLAIN __attribute__((noinline, no_instrument_function)) static void caller(void)
{
	sink += called(1);
	sink += called(2);
	sink += last_call(3);
}

PLAIN int main(int argc, char **argv)
{
	enum xr_mode mode = XR_RECORD;
	uint64_t hour = 3600000000000ull;
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "arg"))
		called = logged;
	else if (!strcmp(argv[1], "events"))
		called = events;
	else if (!xr_parse_mode(argv[1], &mode))
		return 2;
	const char *why = xr_start(mode, mode == XR_PRUNE ? hour : 0, mode == XR_DEPTH ? 1 : 0, -1, 0);
	if (why) {
		fprintf(stderr, "%s\n", why);
		return 3;
	}
	caller();
	xr_stop();
	return 0;
}
