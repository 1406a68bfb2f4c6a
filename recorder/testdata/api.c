/* Uses all of xray/recorder.h, in C and in C++: api DIRECTORY. It reports failures on
 * standard error. Without a recorder, all functions must do nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xray/recorder.h>

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, fprintf(stderr, "line %d: %s; %s\n", __LINE__, #x, xray_last_error())))

static volatile unsigned long sink;

__attribute__((noinline)) void step(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

__attribute__((noinline)) void handle(int steps)
{
	for (int i = 0; i < steps; i++)
		step(1000);
}

/* Takes longer than any other request, even if those are interrupted. */
static void handle_slowly(uint64_t begin, uint64_t longest)
{
	handle(3000);
	usleep(200000);
	while (xray_now() - begin < 2 * longest)
		;
}

static char directory[1024];

static const char *in_directory(const char *name)
{
	static char path[2048];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static void absent(void)
{
	static struct xray_slowest slowest = {"never.xray", 0};
	char answer[128];
	CHECK(xray_start(NULL) == XRAY_NO_RECORDER);
	CHECK(xray_stop() == XRAY_NO_RECORDER);
	CHECK(xray_snapshot("never.xray", 0) == XRAY_NO_RECORDER);
	CHECK(xray_rescan() == XRAY_NO_RECORDER);
	CHECK(xray_command("status", answer, sizeof answer) == XRAY_NO_RECORDER);
	CHECK(xray_request_end(xray_request_begin(1, "a"), &slowest) == XRAY_NO_RECORDER);
	CHECK(xray_ticks(1000) == 0);
	xray_event("e", 1);
	xray_mark("m");
	xray_name_thread("n");
	xray_request_ready(7);
	CHECK(xray_request_resume(7) == 0);
	xray_request_suspend(0);
	handle(3);
	printf("absent\n");
}

static void present(void)
{
	static char slow[2048], stream[3072], answer[128 << 10];
	struct xray_slowest slowest;
	int kept = 0;

	xray_mark("not recorded: nothing is");
	CHECK(xray_start("mode=nonsense") == XRAY_FAILED);
	CHECK(strstr(xray_last_error(), "start: mode must be"));
	CHECK(xray_snapshot("/dev/null/a.xray", 0) == XRAY_FAILED);
	CHECK(strstr(xray_last_error(), "snapshot: "));

	snprintf(stream, sizeof stream, "mode=record output=%s", in_directory("stream.%25p.xray"));
	CHECK(xray_start(stream) == 0);
	CHECK(xray_start(stream) == XRAY_FAILED);
	xray_name_thread("the main one");
	xray_mark("before");
	xray_event("payload", 7);

	snprintf(slow, sizeof slow, "%s", in_directory("slowest.xray"));
	slowest.path = slow;
	slowest.longest = 0;
	for (int i = 1; i <= 20; i++) {
		uint64_t begin = xray_request_begin(i, i == 15 ? "the slow one" : NULL);
		if (i == 15)
			handle_slowly(begin, slowest.longest);
		else
			handle(3);
		int k = xray_request_end(begin, &slowest);
		CHECK(k >= 0);
		if (i == 15)
			CHECK(k == 1);
		kept += k;
	}
	/* Parts: one of request 31, and inside it one of request 32. */
	xray_request_ready(31);
#ifdef __cplusplus
	{
		xray::request outer(31);
		xray::request inner(32);
	}
#else
	uint64_t none = xray_request_resume(31), outer = xray_request_resume(32);
	CHECK(none == 0 && outer == 31);
	xray_request_suspend(outer);
	xray_request_suspend(none);
#endif
	CHECK(kept >= 1);
	CHECK(slowest.longest > 0);
	CHECK(xray_ticks(1000000000) > 100000000);
	CHECK(xray_rescan() == 0);
	CHECK(xray_command("status", answer, sizeof answer) == 0 && strstr(answer, "\"recording\":true"));
	CHECK(xray_command("status", answer, 128) == XRAY_FAILED);
	CHECK(xray_snapshot(in_directory("all.xray"), 0) == 0);
	CHECK(xray_stop() == 0);
	handle(1);
	printf("present %d\n", (int)getpid());
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	snprintf(directory, sizeof directory, "%s", argv[1]);
	if (xray_present())
		present();
	else
		absent();
	return failures != 0;
}
