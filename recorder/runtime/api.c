/* The functions declared in xray/recorder.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/prctl.h>

#include "api.h"
#include "arena.h"
#include "clock.h"
#include "commands.h"
#include "events.h"
#include "later.h"
#include "layout.h"
#include "lifecycle.h"
#include "locks.h"
#include "ring.h"
#include "shared.h"
#include "state.h"
#include "syscall.h"
#include "text.h"

#include "xray/recorder.h"

/* The reason why the thread's latest call failed. */
static __thread char last_error[128] __attribute__((tls_model("initial-exec")));

static int fail(const char *what, const char *why)
{
	struct xr_text t = xr_text_in(last_error, sizeof last_error - 1);
	xr_put_text(&t, what);
	xr_put_text(&t, why);
	last_error[t.n] = 0;
	return XRAY_FAILED;
}

static const char *error(void) { return last_error; }

/* The same, with the reason from the answer to a command. */
static int fail_as_answered(const char *what, char *answer)
{
	static const char before[] = "{\"ok\":false,\"error\":\"";
	uint64_t skip = sizeof before - 1, n = xr_strlen(answer);
	if (n < skip + 2 || xr_memcmp(answer, before, skip))
		return fail(what, answer);
	answer[n - 2] = 0; /* "} */
	return fail(what, answer + skip);
}

static int command(const char *line, char *answer, size_t size)
{
	if (!line || !answer || size < 128)
		return fail("the buffer for the response needs at least 128 bytes", "");
	xr_init();
	if (xr_command(line, NULL, 0, answer, size))
		return fail("command failed: ", answer);
	return 0;
}

/* Allows system calls, because the program asked for something that requires them. */
static uint32_t may_call(void)
{
	uint32_t was = xr_unsealed;
	xr_unsealed = 1;
	return was;
}

/* Runs a command with options. Only the error in the answer matters. */
static int run(const char *command, const char *what, const char *options)
{
	struct xr_text line = {0};
	uint32_t was = may_call();
	char *answer = xr_map(XR_MAX_ANSWER);
	int result = fail("out of memory", "");
	xr_put_text(&line, command);
	xr_put_text(&line, " ");
	xr_put_text(&line, options ? options : "");
	xr_put(&line, "", 1);
	if (!line.cut && answer) {
		xr_init();
		result = 0;
		if (xr_command((const char *)line.p, NULL, 0, answer, XR_MAX_ANSWER))
			result = fail_as_answered(what, answer);
	}
	xr_text_free(&line);
	if (answer)
		xr_unmap(answer, XR_MAX_ANSWER);
	xr_unsealed = was;
	return result;
}

/* How often the program has started and not stopped the recording of xray record, and whether it records
 * itself. */
static uint32_t joined, own;

static int start(const char *options)
{
	xr_init();
	if (xr_root.session && xr_root.mode != XR_OFF && !__atomic_load_n(&own, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&joined, 1, __ATOMIC_RELAXED);
		return 0;
	}
	int result = run("start", "start: ", options);
	if (!result)
		__atomic_store_n(&own, 1, __ATOMIC_RELAXED);
	return result;
}

static int stop(void)
{
	uint32_t n = __atomic_load_n(&joined, __ATOMIC_RELAXED);
	while (n)
		if (__atomic_compare_exchange_n(&joined, &n, n - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return 0;
	int result = run("stop", "stop: ", NULL);
	if (!result)
		__atomic_store_n(&own, 0, __ATOMIC_RELAXED);
	return result;
}

static int rescan(void) { return run("rescan", "rescan: ", NULL); }

static uint64_t ticks(uint64_t ns)
{
	xr_init();
	xr_calibrated();
	return xr_ticks(ns);
}

/* Writes a snapshot. The caller holds XR_LOCK_CONTROL. */
static int write_snapshot(const char *path, uint64_t since)
{
	xr_later_forget(path);
	int64_t err = xr_write_snapshot(path, since, NULL);
	return err ? fail("snapshot: ", xr_errno_text(err)) : 0;
}

static int snapshot(const char *path, uint64_t since)
{
	if (!path)
		return fail("a snapshot needs a file name", "");
	xr_init();
	uint32_t was = may_call();
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	int result = write_snapshot(path, since);
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	xr_unsealed = was;
	return result;
}

/* Writes a snapshot if a request took longer than all others. */
static int write_longest(const char *path, uint64_t *longest, uint64_t begin, uint64_t took)
{
	int result = 0;
	xr_lock(XR_LOCK_CONTROL);
	/* Another thread may have finished a longer request in the meantime. */
	if (xr_root.mode != XR_OFF && took > __atomic_load_n(longest, __ATOMIC_RELAXED)) {
		result = write_snapshot(path, begin);
		if (!result) {
			__atomic_store_n(longest, took, __ATOMIC_RELAXED);
			xr_later_works();
			result = 1;
		}
	}
	xr_unlock(XR_LOCK_CONTROL);
	return result;
}

static int keep(const char *path, uint64_t *longest, uint64_t begin, uint64_t took)
{
	if (!path)
		return fail("a snapshot needs a file name", "");
	uint32_t was = may_call();
	uint64_t signals = xr_block_signals();
	int result = xr_root.mode == XR_OFF ? 0 : xr_later_keep(path, longest, begin, took);
	if (result < 0)
		result = write_longest(path, longest, begin, took);
	else if (result && !xr_later_is_awaited())
		xr_later_flush();
	xr_restore_signals(signals);
	xr_unsealed = was;
	return result;
}

static void event(const void *data, size_t size)
{
	if (xr_root.mode != XR_OFF)
		xr_custom_event(data, size);
}

/* Records metadata as an event of the thread: head, which may be empty, then text. */
static void put_note(uint16_t kind, const void *head, uint64_t n, const char *text)
{
	struct {
		char magic[4];
		uint16_t schema, kind;
		uint8_t room[1016];
	} body;
	if (xr_root.mode == XR_OFF)
		return;
	xr_copy_few(body.magic, "XRYM", sizeof body.magic);
	body.schema = 1;
	body.kind = kind;
	xr_copy_few(body.room, head, n);
	if (text) {
		uint64_t size = xr_strnlen(text, sizeof body.room - n);
		xr_copy(body.room + n, text, size);
		n += size;
	}
	xr_note_event(&body, offsetof(__typeof(body), room) + n);
}

static void mark(const char *text) { put_note(XR_META_MARK, NULL, 0, text); }

/* The request that the thread works on, or 0. */
static __thread uint64_t working_on __attribute__((tls_model("initial-exec")));

static void request(uint64_t id, const char *text)
{
	working_on = id;
	put_note(XR_META_REQUEST, &id, sizeof id, text);
}

static void part(uint64_t id, uint32_t what)
{
	const struct {
		uint64_t id;
		uint32_t what;
	} body = {id, what};
	put_note(XR_META_PART, &body, sizeof id + sizeof what, NULL);
}

enum { RESUMED = 1, READY = 2 };

static uint64_t resume(uint64_t id)
{
	uint64_t before = working_on;
	if (id) {
		working_on = id;
		part(id, RESUMED);
	} else if (before) {
		request(0, NULL);
	}
	return before;
}

static void ready(uint64_t id)
{
	if (id)
		part(id, READY);
}

static void name(const char *text)
{
	if (text && !xr_sys6(SYS_prctl, PR_SET_NAME, (intptr_t)text, 0, 0, 0, 0))
		xr_thread_named(xr_thread_id(), text);
}

void xr_thread_named(uint32_t tid, const char *text)
{
	char room[16] = "";
	uint64_t n = xr_strnlen(text, sizeof room - 1);
	int found = 0;
	xr_copy(room, text, n);
	uint64_t threads = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < threads; i++) {
		struct xr_thread *t = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE)[i];
		if (t->tid != tid || t->state != XR_THREAD_LIVE)
			continue;
		xr_copy(t->name, room, sizeof room);
		xr_share_thread(t);
		xr_arena_named(t);
		found = 1;
	}
	/* A thread that has not recorded yet reads its name when it starts to. */
	if (found && xr_tls && xr_keeps_records())
		put_note(XR_META_NAME, &tid, sizeof tid, room);
}

__attribute__((visibility("default"))) const struct xray_recorder xray_recorder_api = {
	.size = sizeof(struct xray_recorder),
	.start = start,
	.stop = stop,
	.snapshot = snapshot,
	.keep = keep,
	.rescan = rescan,
	.command = command,
	.error = error,
	.ticks = ticks,
	.event = event,
	.mark = mark,
	.request = request,
	.name = name,
	.resume = resume,
	.ready = ready,
};
