/* The API that C and C++ programs use to control xray's recorder.
 *
 * A program needs no library for it. The functions find the recorder if it is there, preloaded
 * by "xray record" or linked in. Otherwise they return at once and do nothing. So a program can
 * keep the calls in all of its builds. Functions that return int return 0 on success, and
 * XRAY_NO_RECORDER if there is no recorder; for other failures, xray_last_error gives the
 * reason.
 *
 * Times are ticks of the time stamp counter, as xray_now returns them. Several threads may call
 * all functions at once. Signal handlers may call only xray_now, xray_event, xray_mark and the
 * functions of requests.
 *
 * The recorder exists on Linux on amd64. Elsewhere, the functions find none. */
#ifndef XRAY_RECORDER_H
#define XRAY_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These functions are never instrumented; they are part of their caller. */
#define XRAY_INLINE static inline __attribute__((unused, always_inline, no_instrument_function))

/* Attributes for functions, placed before their declarations. They expand to nothing for
 * compilers that do not know them.
 *   XRAY_ALWAYS_INSTRUMENT   instrument the function however short it is, and never prune
 *                            its calls (clang)
 *   XRAY_NEVER_INSTRUMENT    do not instrument it (clang, and GCC with -pg or
 *                            -finstrument-functions)
 *   XRAY_LOG_ARGS(N)         instrument it, and record its first integer or pointer, which in
 *                            C++ methods is "this"; no clang records more, whatever N is
 *                            (clang) */
#if defined(__has_attribute)
#if __has_attribute(xray_always_instrument)
#define XRAY_ALWAYS_INSTRUMENT __attribute__((xray_always_instrument))
#define XRAY_NEVER_INSTRUMENT __attribute__((xray_never_instrument, no_instrument_function))
#define XRAY_LOG_ARGS(n) __attribute__((xray_always_instrument, xray_log_args(n)))
#endif
#endif
#ifndef XRAY_ALWAYS_INSTRUMENT
#define XRAY_ALWAYS_INSTRUMENT
#define XRAY_LOG_ARGS(n)
#ifdef __GNUC__
#define XRAY_NEVER_INSTRUMENT __attribute__((no_instrument_function))
#else
#define XRAY_NEVER_INSTRUMENT
#endif
#endif

#define XRAY_NO_RECORDER (-1)
#define XRAY_FAILED (-2)

/* The recorder's interface. Call the functions below instead. New functions are only ever added
 * at the end. */
struct xray_recorder {
	uint64_t size; /* of this struct, in the recorder */
	int (*start)(const char *options);
	int (*stop)(void);
	int (*snapshot)(const char *path, uint64_t since);
	int (*keep)(const char *path, uint64_t *longest, uint64_t begin, uint64_t took);
	int (*rescan)(void);
	int (*command)(const char *command, char *answer, size_t size);
	const char *(*error)(void);
	uint64_t (*ticks)(uint64_t ns);
	void (*event)(const void *data, size_t size);
	void (*mark)(const char *text);
	void (*request)(uint64_t id, const char *text);
	void (*name)(const char *name);
	uint64_t (*resume)(uint64_t id);
	void (*ready)(uint64_t id);
};

/* Returns the process's recorder, or null if there is none or it is older than this header. The
 * assembly reads the address from the global offset table. In programs that are not
 * position-independent, linkers resolve any other reference to a missing weak symbol to null
 * for good. */
XRAY_INLINE const struct xray_recorder *xray_recorder(void)
{
	const struct xray_recorder *r = 0;
#if defined(__linux__) && defined(__x86_64__)
	__asm__(".weak xray_recorder_api\n\t"
		"movq xray_recorder_api@GOTPCREL(%%rip), %0" : "=r"(r));
	if (r && r->size < sizeof *r)
		r = 0;
#endif
	return r;
}

/* Returns 1 if the process has a recorder, even if it is not recording. */
XRAY_INLINE int xray_present(void)
{
	return xray_recorder() != 0;
}

/* Starts recording. options is null or words key=value, separated by blanks:
 *   mode=record|prune|count|profile|depth   what to record; every call by default
 *   threshold=NS     prune: drop shorter calls unless they contain a longer one
 *   depth=N          depth: record only the N outermost calls of a thread
 *   output=FILE      stream to a new file; %p in its name becomes the process ID, and %e
 *                    the program's name. Write a blank or % in a value as %20 or %25,
 *                    so %p is written %25p.
 *   limit=BYTES      maximum size of the file
 * Without output, each thread's latest calls stay in memory, for xray_snapshot. Fails if
 * something is already being recorded; change it with xray_command("mode ..."). If xray record
 * records the program, xray_start joins: it succeeds, and the options have no effect. The next
 * xray_stop then leaves, and the recording continues. */
XRAY_INLINE int xray_start(const char *options)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->start(options) : XRAY_NO_RECORDER;
}

/* Stops recording and completes the file. Calls in memory stay available for snapshots. */
XRAY_INLINE int xray_stop(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->stop() : XRAY_NO_RECORDER;
}

/* Writes the calls in memory since this time (0: all) to a file, and those of all threads that are
 * open then. An existing file is replaced, and never seen half written. Other threads keep running. */
XRAY_INLINE int xray_snapshot(const char *path, uint64_t since)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->snapshot(path, since) : XRAY_NO_RECORDER;
}

/* Returns why the calling thread's latest call failed. The text is valid until its next call. */
XRAY_INLINE const char *xray_last_error(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->error() : "there is no recorder in this process";
}

/* Returns the time in ticks, or 0 on other platforms. */
XRAY_INLINE uint64_t xray_now(void)
{
#if defined(__linux__) && defined(__x86_64__)
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#else
	return 0;
#endif
}

/* Converts nanoseconds to ticks. */
XRAY_INLINE uint64_t xray_ticks(uint64_t ns)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->ticks(ns) : 0;
}

/* Records bytes as an event of the calling thread at this point. Longer data than 4096 bytes is
 * truncated. Does nothing while nothing is recorded; this also holds below. */
XRAY_INLINE void xray_event(const void *data, size_t size)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->event(data, size);
}

/* Records a note, which xray shows at this point of the trace. Notes and the text of requests
 * have at most 1,000 bytes. */
XRAY_INLINE void xray_mark(const char *text)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->mark(text);
}

/* Sets the calling thread's name, in traces and elsewhere: at most 15 bytes. */
XRAY_INLINE void xray_name_thread(const char *name)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->name(name);
}

/* Requests: what the calling thread works on, identified by a nonzero number and a text (or
 * null), until it begins another request or ends this one. begin returns the time, which end
 * needs.
 *
 * To keep a trace of the slowest request so far:
 *
 *     static struct xray_slowest slowest = {"slowest.xray", 0};
 *
 *     uint64_t begin = xray_request_begin(id, "GET /");
 *     handle(request);
 *     xray_request_end(begin, &slowest);
 *
 * If a request took longer than all before it, end keeps a snapshot since its beginning and returns
 * 1. Another thread writes it, within 0.1 s, and it replaces the file. xray_stop, xray_snapshot and
 * the end of the program write it at once. Otherwise end returns 0 or an error. If the file cannot be
 * written, a warning says so, and the next end that is slower writes at once and returns the error. To
 * keep only requests that took at least some time, initialize longest with xray_ticks(...). slowest
 * may be null. */
struct xray_slowest {
	const char *path;
	uint64_t longest; /* ticks */
};

XRAY_INLINE uint64_t xray_request_begin(uint64_t id, const char *text)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->request(id, text);
	return xray_now();
}

XRAY_INLINE int xray_request_end(uint64_t begin, struct xray_slowest *slowest)
{
	const struct xray_recorder *r = xray_recorder();
	uint64_t took = xray_now() - begin;
	if (!r)
		return XRAY_NO_RECORDER;
	r->request(0, 0);
	if (!slowest || took <= __atomic_load_n(&slowest->longest, __ATOMIC_RELAXED))
		return 0;
	return r->keep(slowest->path, &slowest->longest, begin, took);
}

/* Requests that several threads work on, one after the other, or one thread with pauses:
 * coroutines, tasks of a pool, callbacks of an event loop.
 *
 * resume says that the calling thread works on the request from here on, and returns the number
 * of the request that it worked on before, or 0. Pass that to suspend, which says that the thread
 * is back at it. ready says that the suspended request can go on. Call it where the request is
 * given to its executor: where a task is put into a queue, a result arrives, a timer ends. xray then
 * tells the wait for the event from the wait for the executor. Without it, the wait for the
 * executor is known as an upper bound only.
 *
 * A request begins with xray_request_begin, which must come once then, or else with its first part.
 * Begin each request if numbers are used again, as addresses are. */
XRAY_INLINE uint64_t xray_request_resume(uint64_t id)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->resume(id) : 0;
}

XRAY_INLINE void xray_request_suspend(uint64_t before)
{
	xray_request_resume(before);
}

XRAY_INLINE void xray_request_ready(uint64_t id)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->ready(id);
}

/* Looks for shared objects that were loaded or unloaded. While recording, the recorder does
 * this ten times a second if it has a thread. Call it after dlopen to miss nothing. */
XRAY_INLINE int xray_rescan(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->rescan() : XRAY_NO_RECORDER;
}

/* Runs a command as "xray ctl" sends it, for example "status", and writes the answer, JSON, to
 * answer, which has the given size. 128 KiB is always enough. */
XRAY_INLINE int xray_command(const char *command, char *answer, size_t size)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->command(command, answer, size) : XRAY_NO_RECORDER;
}

#ifdef __cplusplus
}

namespace xray {
/* A part of a request: the thread works on it while the object lives. Put it around the call that
 * runs a task or resumes a coroutine. An object inside a coroutine would live on while the thread
 * does something else. */
class request {
	uint64_t before;

public:
	__attribute__((always_inline, no_instrument_function)) explicit request(uint64_t id) : before(xray_request_resume(id)) {}
	/* The first part: the request begins. */
	__attribute__((always_inline, no_instrument_function)) request(uint64_t id, const char *text) : before(xray_request_resume(0)) { xray_request_begin(id, text); }
	__attribute__((always_inline, no_instrument_function)) ~request() { xray_request_suspend(before); }
	request(const request &) = delete;
	request &operator=(const request &) = delete;
};
} // namespace xray
#endif
#endif
