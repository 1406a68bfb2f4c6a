/* Metadata about the recorded process: custom events whose payloads begin with "XRYM", in
 * blocks of process 0 and thread 0. No libc, because the last block may have to be written
 * anywhere. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/utsname.h>

#include "budget.h"
#include "clock.h"
#include "counters.h"
#include "gcc.h"
#include "later.h"
#include "layout.h"
#include "metadata.h"
#include "offcpu.h"
#include "profile.h"
#include "ring.h"
#include "sleds.h"
#include "state.h"
#include "sums.h"
#include "syscall.h"
#include "text.h"
#include "values.h"
#include "window.h"
#include "writer.h"

/* llvm-xray assumes that the first record it sees is the oldest, and visits threads in the order of
 * the hashes of their IDs. With process 0, these two IDs hash to the first bucket: one in LLVM 19
 * and 22, the other in older versions. */
enum { METADATA_THREAD = 0, MARKER_THREAD = 908620 };

/* A custom event is open from begin_event to end_event, which fills in its size. */
static uint64_t begin_event(struct xr_text *t, uint16_t kind)
{
	static const uint8_t custom_event[16] = {0x0b};
	const uint16_t schema = 1;
	uint64_t at = t->n;
	xr_put(t, custom_event, sizeof custom_event);
	xr_put(t, "XRYM", 4);
	xr_put(t, &schema, sizeof schema);
	xr_put(t, &kind, sizeof kind);
	return at;
}

static void end_event(struct xr_text *t, uint64_t at)
{
	if (t->cut)
		return;
	uint32_t size = t->n - at - 16;
	__builtin_memcpy(t->p + at + 1, &size, sizeof size);
}

/* The same for a block. The CPU stamp of the first record and the checksum are in its head. */
static uint64_t begin_block(struct xr_text *t)
{
	static const uint8_t head[XR_BLOCK_START];
	uint64_t at = t->n;
	xr_put(t, head, sizeof head);
	return at;
}

static void end_block(struct xr_text *t, uint64_t at, uint32_t tid, const struct xr_trace *trace)
{
	if (t->cut)
		return;
	struct xr_order order = {.major = trace->blocks, .minor = trace->blocks < 999999 ? trace->blocks : 999999};
	uint8_t *out = xr_block_head(t->p + at, t->n - at - 16, 0, tid, order);
	xr_cpu_record(out, 0, trace->since);
	xr_seal(t->p + at, t->p + t->n);
}

/* Puts the content of a small file, at most max bytes, between strings. Zeros end the strings. */
static void put_strings_of(struct xr_text *t, const char *path, uint64_t max)
{
	char *p = xr_map(max);
	if (!p)
		return;
	int fd = xr_open(path, O_RDONLY | O_CLOEXEC, 0);
	uint64_t n = 0;
	while (fd >= 0 && n < max) {
		int64_t k = xr_read(fd, p + n, max - n);
		if (k <= 0)
			break;
		n += k;
	}
	if (fd >= 0)
		xr_close(fd);
	for (uint64_t i = 0; i < n;) {
		uint64_t end = i;
		while (end < n && p[end])
			end++;
		xr_put_comma(t);
		xr_put_string(t, p + i, end - i);
		i = end + 1;
	}
	xr_unmap(p, max);
}

void xr_put_exe(struct xr_text *t)
{
	enum { MAX_PATH = 4096 }; /* more than a small stack has room for */
	char *path = xr_map(MAX_PATH);
	int64_t n = path ? xr_sys3(SYS_readlink, (intptr_t)"/proc/self/exe", (intptr_t)path, MAX_PATH) : 0;
	xr_put_key(t, "exe");
	xr_put_string(t, path, n > 0 ? n : 0);
	if (path)
		xr_unmap(path, MAX_PATH);
}

void xr_put_mode(struct xr_text *t)
{
	xr_put_field_text(t, "mode", xr_mode_name(xr_root.mode));
	xr_put_field(t, "threshold_ns", xr_threshold_ns);
	xr_put_field(t, "depth", xr_root.depth);
	xr_put_schedule(t);
}

void xr_put_memory(struct xr_text *t)
{
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE), least = UINT64_MAX, most = 0;
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	if (!xr_memory.limit)
		return;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t holds = threads[i]->taken ? threads[i]->holds : 0;
		if (holds > most)
			most = holds;
		if (holds && holds < least)
			least = holds;
	}
	xr_put_key(t, "memory");
	xr_put_text(t, "{");
	xr_put_field(t, "limit", xr_memory.limit * XR_CHUNK_SIZE);
	xr_put_field(t, "used", xr_memory.used * XR_CHUNK_SIZE);
	xr_put_field(t, "peak", xr_memory.peak * XR_CHUNK_SIZE);
	xr_put_field(t, "least", (most ? least : 0) * XR_CHUNK_SIZE);
	xr_put_field(t, "most", most * XR_CHUNK_SIZE);
	xr_put_field(t, "rings_given_up", xr_memory.given);
	xr_put_field(t, "bytes_given_up", xr_memory.given_chunks * XR_CHUNK_SIZE);
	xr_put_text(t, "}");
}

static void put_process(struct xr_text *t, int complete)
{
	struct utsname host;
	host.nodename[0] = 0;
	xr_sys1(SYS_uname, (intptr_t)&host);
	xr_put_text(t, "{");
	xr_put_field(t, "pid", xr_sys0(SYS_getpid));
	xr_put_field(t, "ppid", xr_sys0(SYS_getppid));
	xr_put_field(t, "uid", xr_sys0(SYS_getuid));
	xr_put_exe(t);
	xr_put_key(t, "argv");
	xr_put_text(t, "[");
	put_strings_of(t, "/proc/self/cmdline", 64 << 10);
	xr_put_text(t, "]");
	xr_put_key(t, "build_id");
	xr_put_text(t, "\"");
	if (xr_root.nobjects)
		xr_put_hex(t, xr_root.objects[0].build_id, xr_root.objects[0].build_id_size);
	xr_put_text(t, "\"");
	xr_put_field_text(t, "host", host.nodename);
	xr_put_field(t, "page_size", 4096);
	xr_put_mode(t);
	xr_put_field_text(t, "recorder", "1");
	xr_put_field(t, "session", xr_root.session);
	if (xr_cpu_from) {
		xr_put_field(t, "cpu_ns", xr_cpu_ns() - xr_cpu_before);
		xr_put_field(t, "cpu_from", xr_cpu_from);
		xr_put_field(t, "cpu_to", xr_rdtsc());
		xr_put_field(t, "probe", xr_probe_cost());
		xr_put_field(t, "setup_ns", xr_spent.setup_ns);
		xr_put_field(t, "chunks_ns", xr_spent.chunks_ns);
		xr_put_field(t, "landings_ns", xr_spent.landings_ns);
	}
	xr_put_offcpu(t);
	xr_put_field_bool(t, "complete", complete);
	xr_put_memory(t);
	xr_put_text(t, "}");
}

/* Puts the functions of an object that are left off, by number from 1: all of them are counted, and the
 * first ones listed. Folded ones are recorded under another name. */
static void put_left_off(struct xr_text *t, const struct xr_object *o)
{
	enum { LISTED = 200 };
	int any = 0;
	for (enum xr_unsafe why = XR_ONE_SIDED; why < XR_UNSAFE_KINDS; why++) {
		uint64_t n = xr_left_off(o, why), listed = 0;
		if (!n || why == XR_FOLDED)
			continue;
		if (!any++) {
			xr_put_key(t, "left_off");
			xr_put_text(t, "[");
		}
		xr_put_comma(t);
		xr_put_text(t, "{");
		xr_put_field_text(t, "why", xr_unsafe_texts[why]);
		xr_put_field(t, "count", n);
		if (why == XR_ONE_SIDED)
			xr_put_field_bool(t, "counted", 1);
		xr_put_key(t, "functions");
		xr_put_text(t, "[");
		for (uint64_t i = 0; i < o->nfunctions && listed < LISTED; i++) {
			if (xr_unsafe(o, i) != why)
				continue;
			xr_put_comma(t);
			xr_put_number(t, i + 1);
			listed++;
		}
		xr_put_text(t, "]}");
	}
	if (any)
		xr_put_text(t, "]");
}

static void put_object(struct xr_text *t, const struct xr_object *o)
{
	static const char *const states[] = {
		[XR_OBJECT_NEW] = "ready", [XR_OBJECT_READY] = "ready",
		[XR_OBJECT_REFUSED] = "refused", [XR_OBJECT_GONE] = "gone",
	};
	xr_put_comma(t);
	xr_put_text(t, "{");
	xr_put_field(t, "first", o->first_id);
	xr_put_field(t, "count", o->nfunctions);
	xr_put_field_text(t, "path", o->path);
	xr_put_key(t, "build_id");
	xr_put_text(t, "\"");
	xr_put_hex(t, o->build_id, o->build_id_size);
	xr_put_text(t, "\"");
	xr_put_field_address(t, "bias", o->bias);
	xr_put_key(t, "text");
	xr_put_text(t, "[");
	xr_put_address(t, o->text_first);
	xr_put_text(t, ",");
	xr_put_address(t, o->text_end);
	xr_put_text(t, "]");
	xr_put_field(t, "loaded", o->loaded);
	xr_put_field(t, "unloaded", o->unloaded);
	xr_put_field_text(t, "state", states[o->state]);
	xr_put_field_text(t, "why", o->why);
	put_left_off(t, o);
	if (o->opened) {
		xr_put_field(t, "opened", o->opened);
		xr_put_field(t, "absent", o->absent);
		xr_put_field(t, "recorded", o->recorded);
		xr_put_field(t, "missed", o->missed);
	}
	xr_put_text(t, "}");
}

void xr_put_objects(struct xr_text *t)
{
	xr_put_text(t, "{\"objects\":[");
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		put_object(t, &xr_root.objects[i]);
	xr_put_text(t, "]}");
}

void xr_put_refusals(struct xr_text *t)
{
	xr_put_text(t, "[");
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		const struct xr_object *o = &xr_root.objects[i];
		if (o->state != XR_OBJECT_REFUSED)
			continue;
		xr_put_comma(t);
		xr_put_text(t, "{");
		xr_put_field_text(t, "path", o->path);
		xr_put_field_text(t, "why", o->why);
		xr_put_text(t, "}");
	}
	xr_put_text(t, "]");
}

/* Puts a running thread's current name, or else the name it had when its latest chunk was
 * handed over. */
static void put_thread_name(struct xr_text *t, const struct xr_thread *thread)
{
	char room[64], name[17];
	struct xr_text path = xr_text_in(room, sizeof room - 1);
	int64_t n = -1;
	if (thread->state == XR_THREAD_LIVE) {
		xr_put_text(&path, "/proc/self/task/");
		xr_put_number(&path, thread->tid);
		xr_put_text(&path, "/comm");
		room[path.n] = 0;
		int fd = xr_open(room, O_RDONLY | O_CLOEXEC, 0);
		if (fd >= 0) {
			n = xr_read(fd, name, sizeof name);
			xr_close(fd);
		}
	}
	xr_put_key(t, "name");
	if (n > 0)
		xr_put_string(t, name, name[n - 1] == '\n' ? n - 1 : n);
	else
		xr_put_string(t, thread->name, xr_strnlen(thread->name, sizeof thread->name));
}

/* A row is an object in a JSON array. */
void xr_put_thread(struct xr_text *t, const struct xr_thread *thread, uint64_t overwritten)
{
	if (t->n)
		xr_put_comma(t);
	xr_put_text(t, "{");
	xr_put_field(t, "pid", thread->pid);
	xr_put_field(t, "tid", thread->tid);
	put_thread_name(t, thread);
	xr_put_field(t, "first", thread->first);
	xr_put_field(t, "last", thread->last);
	xr_put_field(t, "dropped", thread->dropped);
	xr_put_field(t, "truncated", thread->truncated);
	if (overwritten)
		xr_put_field(t, "overwritten", overwritten);
	xr_put_text(t, "}");
}

/* Returns how many chunks of a thread's earlier records are not in the trace. A stream has all. */
static uint64_t overwritten(const struct xr_thread *t, const struct xr_trace *trace)
{
	if (trace->stream)
		return 0;
	if (xr_oldest_chunk(t) > 1)
		return xr_oldest_chunk(t) - 1;
	return t->taken && t->first < trace->since;
}

static void put_threads(struct xr_text *t, const struct xr_trace *trace)
{
	xr_put_text(t, "{\"threads\":[");
	xr_put(t, trace->gone.p, trace->gone.n);
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++) {
		if (threads[i]->state != XR_THREAD_FREE && (threads[i]->taken || threads[i]->profile))
			xr_put_thread(t, threads[i], overwritten(threads[i], trace));
	}
	xr_put_text(t, "]}");
}

/* Clock readings so far. The first is from the start. When the table is full, every other one
 * is dropped. */
static struct xr_anchor anchors[64];
static uint64_t monotonic[64]; /* CLOCK_MONOTONIC of each; 0 if it was not read */
static uint32_t nanchors;

static void keep_anchor(void)
{
	const uint32_t max = sizeof anchors / sizeof *anchors;
	if (!nanchors)
		anchors[nanchors++] = xr_root.start;
	if (nanchors == max) {
		for (uint32_t i = 1; i < max / 2; i++)
			anchors[i] = anchors[2 * i], monotonic[i] = monotonic[2 * i];
		nanchors = max / 2;
	}
	struct xr_anchor *a = &anchors[nanchors++];
	xr_anchor(a);
	monotonic[a - anchors] = xr_monotonic(a);
	xr_calibrate(a);
}

static void put_clock(struct xr_text *t)
{
	xr_put_text(t, "{");
	xr_put_field(t, "frequency", xr_root.frequency);
	xr_put_field_bool(t, "invariant", xr_invariant_tsc());
	xr_put_key(t, "anchors");
	xr_put_text(t, "[");
	for (uint32_t i = 0; i < nanchors; i++) {
		const struct xr_anchor *a = &anchors[i];
		xr_put_comma(t);
		xr_put_text(t, "{");
		xr_put_field(t, "tsc", a->tsc);
		xr_put_field(t, "raw", a->raw);
		xr_put_field(t, "real", a->real);
		if (monotonic[i])
			xr_put_field(t, "mono", monotonic[i]);
		xr_put_field(t, "width", a->width);
		xr_put_text(t, "}");
	}
	xr_put_text(t, "]}");
}

static void put_loss(struct xr_text *t, const char *cause, uint64_t count)
{
	if (!count)
		return;
	xr_put_comma(t);
	xr_put_text(t, "{");
	xr_put_field_text(t, "cause", cause);
	xr_put_field(t, "count", count);
	xr_put_text(t, "}");
}

static uint64_t truncated(void)
{
	uint64_t sum = 0;
	uint64_t n = __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE);
	struct xr_thread **threads = __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; i < n; i++)
		sum += threads[i]->truncated;
	return sum;
}

static void put_losses(struct xr_text *t, const struct xr_trace *trace)
{
	static const char *const causes[XR_LOSSES] = {
		[XR_LOST_WRITE] = "write-error", [XR_LOST_LIMIT] = "size-limit",
		[XR_LOST_UNWRITTEN] = "interrupted", [XR_LOST_DAMAGED] = "damaged-chunk",
		[XR_LOST_MEMORY] = "no-memory", [XR_LOST_OBSERVER] = "writer-ended",
	};
	xr_put_text(t, "{\"losses\":[");
	for (int i = 0; i < XR_LOSSES; i++)
		put_loss(t, causes[i], trace->lost[i]);
	put_loss(t, "thread-without-memory", xr_root.dropped);
	put_loss(t, "ended-thread", trace->kept ? trace->kept->ended : xr_ended_lost());
	put_loss(t, "torn-chunk", trace->torn);
	put_loss(t, "truncated-payload", truncated());
	put_loss(t, "unlisted-thread", trace->unlisted);
	put_loss(t, "no-path", xr_root.mode == XR_PROFILE ? xr_profile_lost() : 0);
	xr_put_text(t, "]");
	xr_put_key(t, "refusals");
	xr_put_refusals(t);
	xr_put_text(t, "}");
}

/* Changes of the recording, for reports. */
static struct change {
	uint64_t tsc;
	char what[160];
} changes[128];
static uint32_t nchanges;

void xr_change(const char *what)
{
	const uint32_t max = sizeof changes / sizeof *changes;
	struct change *c = &changes[nchanges < max ? nchanges++ : max - 1];
	uint64_t n = xr_strnlen(what, sizeof c->what - 1);
	c->tsc = xr_rdtsc();
	xr_copy(c->what, what, n);
	c->what[n] = 0;
}

static void put_changes(struct xr_text *t)
{
	xr_put_text(t, "{\"changes\":[");
	for (uint32_t i = 0; i < nchanges; i++) {
		xr_put_comma(t);
		xr_put_text(t, "{");
		xr_put_field(t, "tsc", changes[i].tsc);
		xr_put_field_text(t, "what", changes[i].what);
		xr_put_text(t, "}");
	}
	xr_put_text(t, "]}");
}

static void collect(void *to, const void *p, uint64_t n) { xr_put(to, p, n); }

#define EVENT(kind, put) (event = begin_event(t, kind), put, end_event(t, event))

void xr_put_metadata(struct xr_text *t, struct xr_trace *trace, int complete)
{
	keep_anchor();
	uint64_t block = begin_block(t), event;

	EVENT(XR_META_PROCESS, put_process(t, complete));
	EVENT(XR_META_OBJECTS, xr_put_objects(t));
	EVENT(XR_META_THREADS, put_threads(t, trace));
	EVENT(XR_META_CLOCK, put_clock(t));
	EVENT(XR_META_LOSSES, put_losses(t, trace));
	if (nchanges)
		EVENT(XR_META_CHANGES, put_changes(t));
	if (trace->fd >= 0 && xr_windows_from(trace) < xr_root.nwindows)
		EVENT(XR_META_WINDOWS, xr_put_windows(t, trace)); /* an observer reads the table itself */
	if (xr_root.values_changes)
		EVENT(XR_META_VALUES, xr_put_values(t));
	if (xr_gcc_functions())
		EVENT(XR_META_ADDRESSES, xr_gcc_dump(collect, t));
	if (xr_budget_is_own() || (trace->fd >= 0 && xr_limited)) /* an observer writes this event itself */
		EVENT(XR_META_BUDGET, xr_budget_dump(trace->since, complete, collect, t));
	if (complete && xr_root.mode == XR_COUNT)
		EVENT(XR_META_COUNTERS, xr_counters_dump(collect, t));
	if (complete && xr_root.mode == XR_PROFILE)
		EVENT(XR_META_PROFILE, xr_profile_dump(collect, t));
	if (complete && xr_root.mode == XR_PROFILE && xr_offcpu_on())
		EVENT(XR_META_PROFILE_OFF, xr_profile_dump_off(collect, t));
	if (complete && xr_sums_any())
		EVENT(XR_META_PRUNED, xr_sums_dump(collect, t));
	end_block(t, block, METADATA_THREAD, trace);
	if (!trace->blocks) {
		/* Without a record, the marker thread would not count. */
		block = begin_block(t);
		EVENT(XR_META_PROCESS, put_process(t, complete));
		end_block(t, block, MARKER_THREAD, trace);
	}
	trace->blocks++;
}

void xr_put_window_block(struct xr_text *t, struct xr_trace *trace)
{
	uint64_t block = begin_block(t), event;
	EVENT(XR_META_WINDOWS, xr_put_windows(t, trace));
	end_block(t, block, METADATA_THREAD, trace);
	trace->blocks++;
}

void xr_put_tables(struct xr_text *t)
{
	struct xr_trace trace = {.fd = -1, .blocks = 1, .since = xr_root.min_tsc};
	xr_put_metadata(t, &trace, 0);
}
