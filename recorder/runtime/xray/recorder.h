/* What a program can say to the recorder of xray, from C or C++.
 *
 * Nothing has to be linked for it: the functions find the recorder when it is there,
 * preloaded by "xray record" or linked in, and do nothing and return at once when it is
 * not. So a program can keep them in all of its builds. Where they return int, 0 is
 * success, and XRAY_NO_RECORDER says that there is none; xray_last_error says why
 * something else did not work.
 *
 * Times are ticks of the time stamp counter, as xray_now returns them. All functions
 * may be called by several threads at once, but none by signal handlers, except
 * xray_now, xray_event, xray_mark and those of requests.
 *
 * Linux on amd64; elsewhere there never is a recorder. */
#ifndef XRAY_RECORDER_H
#define XRAY_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These are never instrumented: they belong to whoever calls them. */
#define XRAY_INLINE static inline __attribute__((unused, always_inline))

/* Attributes for functions, in front of their declarations. Compilers that do not know
 * them see nothing.
 *   XRAY_ALWAYS_INSTRUMENT   instrument the function however short it is, and never prune
 *                            its calls (clang)
 *   XRAY_NEVER_INSTRUMENT    do not instrument it (clang, and GCC with -pg or
 *                            -finstrument-functions)
 *   XRAY_LOG_ARGS(N)         instrument it, and record its first N arguments (clang) */
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

/* What the recorder offers; call the functions below instead. Functions are only ever
 * added at the end. */
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
};

/* The recorder of the process, or null; one that is older than this header is none.
 * The compiler may not make this reference: in programs that are not
 * position-independent, linkers take a weak symbol of C that they do not find for one that
 * never will be there, unless it is only looked up in the global offset table. */
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

/* 1 if there is a recorder in the process. It need not be recording. */
XRAY_INLINE int xray_present(void)
{
	return xray_recorder() != 0;
}

/* Starts recording. options are words key=value with blanks between them, or null:
 *   mode=record|prune|count|profile|depth   what to record; every call by default
 *   threshold=NS     prune: shorter calls are left out, unless something longer is inside
 *   depth=N          depth: only the N outermost calls of a thread
 *   output=FILE      stream to a new file; %p in its name becomes the process id, and %e
 *                    the program's name. A blank or % in a value is written %20 or %25,
 *                    so %p is written %25p.
 *   limit=BYTES      size that the file may have
 * Without output, each thread's latest calls stay in memory, for xray_snapshot. It
 * fails while something is recorded already: xray_command("mode ...") changes what. */
XRAY_INLINE int xray_start(const char *options)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->start(options) : XRAY_NO_RECORDER;
}

/* Stops recording and completes the file. What is in memory stays for snapshots. */
XRAY_INLINE int xray_stop(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->stop() : XRAY_NO_RECORDER;
}

/* Writes what is in memory of the time since then (0: all) to a file, which is
 * replaced when it exists, and never seen half written. The other threads go on. */
XRAY_INLINE int xray_snapshot(const char *path, uint64_t since)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->snapshot(path, since) : XRAY_NO_RECORDER;
}

/* Why the latest call of the calling thread failed: text that stays until its next. */
XRAY_INLINE const char *xray_last_error(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->error() : "there is no recorder in this process";
}

/* The time, in ticks; 0 where there never is a recorder. */
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

/* How many ticks so many nanoseconds have. */
XRAY_INLINE uint64_t xray_ticks(uint64_t ns)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->ticks(ns) : 0;
}

/* Records bytes as an event at this place of the calling thread; at most 4096, the rest
 * is cut off. Nothing while nothing is recorded, here and below. */
XRAY_INLINE void xray_event(const void *data, size_t size)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->event(data, size);
}

/* Records a note, which xray shows at this place of the trace; at most 1,000 bytes, here
 * and with requests. */
XRAY_INLINE void xray_mark(const char *text)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->mark(text);
}

/* Says what the calling thread is called, in traces and elsewhere: 15 bytes. */
XRAY_INLINE void xray_name_thread(const char *name)
{
	const struct xray_recorder *r = xray_recorder();
	if (r)
		r->name(name);
}

/* Requests: what the calling thread works on from here on, by a number that is not 0
 * and text (or null), until it begins another or ends this one. begin returns the
 * time, for end.
 *
 * To keep a trace of the slowest request so far:
 *
 *     static struct xray_slowest slowest = {"slowest.xray", 0};
 *
 *     uint64_t begin = xray_request_begin(id, "GET /");
 *     handle(request);
 *     xray_request_end(begin, &slowest);
 *
 * After a request that took longer than all before it, the snapshot since its begin
 * replaces the file; end then returns 1, else 0 or a failure. Start longest at
 * xray_ticks(...) to keep only requests that took at least that. slowest may be null. */
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

/* Looks for shared objects that were loaded or unloaded. While recording the recorder
 * does it ten times a second if it has a thread; call it after dlopen to miss nothing. */
XRAY_INLINE int xray_rescan(void)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->rescan() : XRAY_NO_RECORDER;
}

/* Runs a command as "xray ctl" sends it, "status" for instance, and puts the answer,
 * JSON, to answer, which has the given size. 128 KiB are always enough. */
XRAY_INLINE int xray_command(const char *command, char *answer, size_t size)
{
	const struct xray_recorder *r = xray_recorder();
	return r ? r->command(command, answer, size) : XRAY_NO_RECORDER;
}

#ifdef __cplusplus
}
#endif
#endif
