/* Commands: words with values, and files. They come from the control socket and from the program itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "commands.h"
#include "control.h"
#include "counters.h"
#include "imports.h"
#include "layout.h"
#include "lifecycle.h"
#include "locks.h"
#include "metadata.h"
#include "objects.h"
#include "offcpu.h"
#include "options.h"
#include "output.h"
#include "patch.h"
#include "ring.h"
#include "state.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"
#include "window.h"
#include "writer.h"

#define DEFAULT_THRESHOLD 5000 /* ns */

/* One command with its words and descriptors. The answer in out is an object whose first field
 * is "ok". */
struct request {
	char *words[16]; /* after the command: key=value, or one bare word */
	int nwords;
	const int *fds;
	int nfds;
	struct xr_text *out;
	const void *from; /* the connection, or null */
	struct xr_after *after;
	int silent; /* the metadata has not changed */
};

/* Words. */

/* Splits line in place at blanks and commas. Returns an error, or null. */
static const char *split(struct request *r, char *line)
{
	r->nwords = 0;
	for (;;) {
		while (*line == ' ' || *line == ',' || *line == '\n')
			line++;
		if (!*line)
			return NULL;
		if (r->nwords == sizeof r->words / sizeof *r->words)
			return "too many words";
		char *word = r->words[r->nwords++] = line;
		while (*line && *line != ' ' && *line != ',' && *line != '\n')
			line++;
		int last = !*line;
		*line = 0;
		if (xr_decode(word))
			return "% without two hexadecimal digits";
		if (last)
			return NULL;
		line++;
	}
}

/* Returns the value of key in the request, or null if it is not there. */
static const char *value_of(const struct request *r, const char *key)
{
	uint64_t n = xr_strlen(key);
	for (int i = 0; i < r->nwords; i++) {
		if (xr_strncmp(r->words[i], key, n) == 0 && r->words[i][n] == '=')
			return r->words[i] + n + 1;
	}
	return NULL;
}

/* Returns the first word without a =. */
static const char *bare_word(const struct request *r)
{
	for (int i = 0; i < r->nwords; i++) {
		const char *p = r->words[i];
		while (*p && *p != '=')
			p++;
		if (!*p)
			return r->words[i];
	}
	return NULL;
}

/* Checks that all words are in allowed, a list that ends with null; "" stands for one bare
 * word. Returns the first word that is not, or null. */
static const char *unknown_word(const struct request *r, const char *const *allowed)
{
	for (int i = 0; i < r->nwords; i++) {
		const char *const *a;
		for (a = allowed; *a; a++) {
			uint64_t n = xr_strlen(*a);
			if (n ? xr_strncmp(r->words[i], *a, n) == 0 && r->words[i][n] == '='
			      : r->words[i] == bare_word(r))
				break;
		}
		if (!*a)
			return r->words[i];
	}
	return NULL;
}

/* Returns a reason with the word that it is about. The caller holds XR_LOCK_CONTROL. */
static const char *with_word(const char *word, const char *what)
{
	static char why[160];
	struct xr_text t = xr_text_in(why, sizeof why - 1);
	xr_put(&t, word, xr_strnlen(word, 80));
	xr_put_text(&t, " ");
	xr_put_text(&t, what);
	why[t.n] = 0;
	return why;
}

/* Reads the number of key if the request has it. */
static const char *number_of(const struct request *r, const char *key, uint64_t *v)
{
	const char *s = value_of(r, key);
	return !s || xr_parse_number(s, v) ? NULL : with_word(key, "is not a number");
}

/* The settings that start and mode share: how to record. */
struct settings {
	enum xr_mode mode;
	uint64_t threshold_ns, depth;
};

/* The latest threshold of mode prune in this recording. */
static uint64_t latest_threshold;

static struct settings current_settings(void)
{
	return (struct settings){xr_root.mode, xr_threshold_ns, xr_root.depth};
}

/* Reads settings. Missing ones get their defaults, except that prune keeps the threshold of the
 * current recording. */
static const char *parse_settings(const struct request *r, const char *mode, struct settings *m)
{
	*m = (struct settings){.mode = XR_RECORD};
	if (mode && !xr_parse_mode(mode, &m->mode))
		return "mode must be record, prune, count, profile, depth or off";
	const char *why = number_of(r, "threshold", &m->threshold_ns);
	if (!why)
		why = number_of(r, "depth", &m->depth);
	if (why)
		return why;
	if (m->mode == XR_PRUNE && !m->threshold_ns)
		m->threshold_ns = xr_root.mode != XR_OFF && latest_threshold ? latest_threshold : DEFAULT_THRESHOLD;
	if (m->mode == XR_DEPTH && !m->depth)
		return "mode depth needs depth=N";
	if (m->depth > XR_MAX_DEPTH)
		return "depth must be between 1 and 256, or 0 for no limit";
	return NULL;
}

static void keep_threshold(void)
{
	if (xr_threshold_ns)
		latest_threshold = xr_threshold_ns;
}

static void note_change(const char *what, const struct settings *m)
{
	char room[56];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, what);
	if (m) {
		xr_put_text(&t, " ");
		xr_put_text(&t, xr_mode_name(m->mode));
		if (m->threshold_ns) {
			xr_put_text(&t, ", threshold ");
			xr_put_number(&t, m->threshold_ns);
			xr_put_text(&t, " ns");
		}
	}
	room[t.n] = 0;
	xr_change(room);
}

/* Commands. Each returns null, or the reason for its failure. The caller holds XR_LOCK_CONTROL. */

static uint64_t patched(void)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		sum += xr_root.objects[i].patched;
	return sum;
}

static void put_objects_sums(struct xr_text *t)
{
	uint64_t functions = 0, sleds = 0;
	for (uint64_t i = 0; i < xr_root.nobjects; i++) {
		const struct xr_object *o = &xr_root.objects[i];
		if (o->state == XR_OBJECT_GONE)
			continue;
		functions += o->nfunctions;
		sleds += o->nsleds;
	}
	xr_put_field(t, "functions", functions);
	xr_put_field(t, "sleds", sleds);
	xr_put_field(t, "patched", patched());
	xr_put_field(t, "objects", xr_root.nobjects);
	xr_put_key(t, "refused");
	xr_put_refusals(t);
}

static void put_status_mode(struct xr_text *t)
{
	if (!xr_is_paused()) {
		xr_put_mode(t);
		return;
	}
	xr_put_field_text(t, "mode", "off");
	xr_put_field_text(t, "paused", xr_mode_name(xr_root.mode));
	xr_put_field(t, "threshold_ns", xr_threshold_ns);
	xr_put_field(t, "depth", xr_root.depth);
}

/* Puts whether another process writes the trace, and whether it writes everything or the rings
 * at the end. */
static void put_observed(struct xr_text *t)
{
	xr_put_field_bool(t, "observed", xr_observed() && !xr_arena_lost());
	xr_put_field_bool(t, "observed_stream", xr_arena_streams() && !xr_arena_lost());
}

static const char *status(struct request *r)
{
	struct xr_text *t = r->out;
	uint64_t live = 0, dead = 0, dropped = xr_root.dropped, ring = 0;
	for (uint64_t i = 0; i < xr_root.nthreads; i++) {
		const struct xr_thread *th = xr_root.threads[i];
		live += th->state == XR_THREAD_LIVE;
		dead += th->state == XR_THREAD_DEAD;
		dropped += th->dropped;
		if (th->ring)
			ring += th->nchunks * XR_CHUNK_SIZE;
	}
	xr_put_field(t, "version", xr_root.version);
	xr_put_field(t, "pid", xr_sys0(SYS_getpid));
	xr_put_exe(t);
	put_status_mode(t);
	xr_put_window_status(t);
	xr_put_field_bool(t, "recording", xr_root.mode != XR_OFF && !xr_is_paused());
	xr_put_key(t, "stream");
	if (xr_root.stream) {
		xr_put_text(t, "{");
		xr_put_field(t, "bytes", xr_root.streamed);
		xr_put_field(t, "limit", xr_root.stream_limit);
		xr_put_text(t, "}");
	} else {
		xr_put_text(t, "null");
	}
	put_observed(t);
	xr_put_field_bool(t, "limited", xr_limited && xr_root.mode != XR_OFF);
	xr_put_field(t, "ring_bytes", ring);
	xr_put_memory(t);
	xr_put_key(t, "threads");
	xr_put_text(t, "{");
	xr_put_field(t, "live", live);
	xr_put_field(t, "dead", dead);
	xr_put_text(t, "}");
	put_objects_sums(t);
	xr_put_field(t, "dropped", dropped);
	xr_put_offcpu(t);
	xr_put_field(t, "libcalls_left", xr_imports_left());
	xr_put_field_bool(t, "sealed", xr_sealed);
	xr_put_key(t, "warnings");
	xr_put_text(t, "[");
	for (const char **warning = xr_warnings; *warning; warning++) {
		xr_put_comma(t);
		xr_put_string(t, *warning, xr_strlen(*warning));
	}
	xr_put_text(t, "]");
	xr_calibrated();
	xr_put_field(t, "frequency", xr_root.frequency);
	xr_put_field(t, "uptime_ns", xr_ns(xr_rdtsc() - xr_root.start.tsc));
	return NULL;
}

/* Opens the file to stream to, if any: the one in the request, or a new one. */
static const char *open_stream(const struct request *r, uint64_t stream, int64_t *fd)
{
	const char *output = value_of(r, "output");
	if (!stream && !output)
		return NULL;
	if (xr_sealed)
		return "a seccomp filter may forbid the program's threads to write a file: start without a file";
	if (xr_root.stream)
		return xr_errno_text(-EBUSY);
	if (output) {
		*fd = xr_open_output(output);
	} else if (!r->nfds) {
		return "stream=1 needs a file";
	} else {
		*fd = xr_file_refusal(r->fds[0]);
		if (!*fd)
			*fd = xr_sys3(SYS_fcntl, r->fds[0], F_DUPFD_CLOEXEC, 3);
	}
	return *fd < 0 ? xr_errno_text(*fd) : NULL;
}

/* Number of recordings that clients have started; distinguishes one from the next. */
static uint64_t recordings;

/* The connection of the controller of the budget (see budget.c), or null. */
static const void *decider;

static const char budget_modes[] = "a budget requires mode record or prune, without depth and windows";

static int has_budget_mode(const struct settings *m)
{
	return !m->depth && (m->mode == XR_RECORD || m->mode == XR_PRUNE);
}

static const char *start(struct request *r)
{
	struct settings m;
	uint64_t limit = 0, stream = 0, hold = 0, window = 0, every = 0, limited = 0;
	const char *why = parse_settings(r, value_of(r, "mode"), &m);
	if (!why)
		why = number_of(r, "hold", &hold);
	if (!why)
		why = number_of(r, "limit", &limit);
	if (!why)
		why = number_of(r, "stream", &stream);
	if (!why)
		why = number_of(r, "window", &window);
	if (!why)
		why = number_of(r, "every", &every);
	if (!why)
		why = number_of(r, "limited", &limited);
	if (why)
		return why;
	if (m.mode == XR_OFF)
		return "start needs a mode that records";
	if (every && !xr_control_runs())
		return "windows need the control thread: start the process with control=1";
	if (limited && (every || !has_budget_mode(&m)))
		return budget_modes;
	if (limited > 1000000)
		return "limited must be a share of the CPU time in millionths, at most 1000000";
	int64_t fd = -1;
	why = open_stream(r, stream, &fd);
	if (why)
		return why;
	if (limited && xr_root.mode == XR_OFF)
		why = xr_budget_start(limited);
	if (why && fd >= 0)
		xr_close(fd);
	if (why)
		return why;
	note_change(limited ? "start within a budget:" : "start", &m);
	xr_windows_plan(window, every);
	why = xr_start(m.mode, m.threshold_ns, m.depth, fd, limit);
	if (why) {
		if (xr_root.mode == XR_OFF)
			xr_budget_stop();
		if (fd >= 0)
			xr_close(fd);
		return why;
	}
	latest_threshold = 0;
	keep_threshold();
	recordings++;
	decider = NULL;
	r->after->holds = hold ? recordings : 0;
	put_observed(r->out);
	put_objects_sums(r->out);
	return NULL;
}

static const char *stop(struct request *r)
{
	uint64_t dropped = xr_root.dropped;
	note_change("stop", NULL);
	xr_stop();
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		dropped += xr_root.threads[i]->dropped;
	xr_put_field(r->out, "bytes", xr_root.streamed);
	xr_put_field(r->out, "dropped", dropped);
	return NULL;
}

static const char *switch_to(struct request *r, const struct settings *m)
{
	if (xr_limited && m->mode != XR_OFF && !has_budget_mode(m))
		return budget_modes;
	keep_threshold(); /* for example, from the environment */
	const char *why = xr_switch(m->mode, m->threshold_ns, m->depth);
	if (why)
		return why;
	keep_threshold();
	note_change("mode", m);
	put_status_mode(r->out);
	return NULL;
}

static const char *mode(struct request *r)
{
	struct settings m;
	const char *name = bare_word(r);
	if (!name)
		return "mode needs a name, for example: mode record";
	if (xr_equal(name, "on")) {
		if (!xr_is_paused())
			return "recording is not paused";
		m = current_settings();
		xr_resume();
		note_change("mode", &m);
		put_status_mode(r->out);
		return NULL;
	}
	const char *why = parse_settings(r, name, &m);
	return why ? why : switch_to(r, &m);
}

static const char *threshold(struct request *r)
{
	struct settings m = current_settings();
	if (!bare_word(r) || !xr_parse_number(bare_word(r), &m.threshold_ns))
		return "threshold needs a number of nanoseconds";
	if (xr_root.mode == XR_COUNT || xr_root.mode == XR_PROFILE)
		return with_word("mode", xr_root.mode == XR_COUNT ? "count has no threshold" : "profile has no threshold");
	if (xr_is_paused())
		return "recording is paused: set the mode instead, for example: mode prune threshold=N";
	if (m.mode == XR_RECORD && m.threshold_ns)
		m.mode = XR_PRUNE;
	else if (m.mode == XR_PRUNE && !m.threshold_ns)
		m.mode = XR_RECORD;
	return switch_to(r, &m);
}

static const char *filter(struct request *r)
{
	char *text = NULL;
	uint64_t mapped = 0;
	int64_t n = 0;
	if (r->nfds) {
		n = xr_read_file(r->fds[0], &text, &mapped);
		if (n < 0)
			return xr_errno_text(n);
	}
	int wrong = xr_set_filter(text, n);
	if (text)
		xr_unmap(text, mapped);
	if (wrong < 0)
		return xr_errno_text(-ENOMEM);
	if (wrong) {
		static char why[48];
		struct xr_text t = xr_text_in(why, sizeof why - 1);
		xr_put_text(&t, "the filter is invalid in line ");
		xr_put_number(&t, wrong);
		why[t.n] = 0;
		return why;
	}
	note_change(r->nfds ? "filter" : "filter all", NULL);
	xr_refilter();
	put_objects_sums(r->out);
	return NULL;
}

static const char *snapshot(struct request *r)
{
	uint64_t since = 0, last_ns = 0;
	const char *why = number_of(r, "since", &since);
	if (!why)
		why = number_of(r, "last_ns", &last_ns);
	if (why)
		return why;
	if (!r->nfds)
		return "snapshot needs a file";
	if (last_ns) {
		xr_calibrated();
		uint64_t now = xr_rdtsc(), ago = xr_ticks(last_ns);
		since = ago < now ? now - ago : 0;
	}
	struct xr_written w;
	int64_t n = xr_snapshot(r->fds[0], since, &w);
	if (n < 0)
		return xr_errno_text(n);
	xr_put_field(r->out, "records", w.records);
	xr_put_field(r->out, "bytes", w.bytes);
	xr_put_field(r->out, "torn", w.torn);
	return NULL;
}

static const char *rescan(struct request *r)
{
	int changed = xr_rescan();
	if (changed)
		xr_stream_metadata();
	xr_put_field(r->out, "changed", changed);
	put_objects_sums(r->out);
	return NULL;
}

/* Loads the functions that record calls of libc, for the next recording. Runs without the lock, because
 * the loader may be waiting for a thread that waits for the lock, to fork for example. */
static const char *calls(struct request *r)
{
	if (xr_control_is_raw())
		return "the process was started with the recorder, but without the functions that record calls of the C library";
	xr_lock(XR_LOCK_CONTROL);
	if (xr_root.mode == XR_OFF)
		xr_imports_redirect(0); /* a forked child inherits what its parent redirected */
	xr_unlock(XR_LOCK_CONTROL);
	return xr_imports_load(r->fds, r->nfds);
}

/* Writes data to the request's file, and its size to the answer. */
static const char *give_data(struct request *r, const struct xr_text *data)
{
	if (data->cut)
		return xr_errno_text(-ENOMEM);
	int err = xr_file_refusal(r->fds[0]);
	if (err)
		return xr_errno_text(err);
	for (uint64_t n = 0; n < data->n;) {
		int64_t k = xr_write(r->fds[0], data->p + n, data->n - n);
		if (k <= 0 && k != -EINTR)
			return xr_errno_text(k);
		if (k > 0)
			n += k;
	}
	xr_put_field(r->out, "bytes", data->n);
	return NULL;
}

static const char *objects(struct request *r)
{
	struct xr_text data = {0};
	const char *why = NULL;
	xr_put_objects(&data);
	if (r->nfds) {
		why = give_data(r, &data);
	} else if (data.cut || data.n + 64 > r->out->cap) {
		why = "too many objects for a response: pass a file";
	} else {
		xr_put_comma(r->out);
		xr_put(r->out, data.p + 1, data.n - 2); /* fields without the braces */
	}
	xr_text_free(&data);
	return why;
}

static void collect(void *to, const void *p, uint64_t n) { xr_put(to, p, n); }

static const char *counters(struct request *r)
{
	struct xr_text data = {0};
	uint64_t reset = 0, functions = 0, calls = 0;
	const char *why = number_of(r, "reset", &reset);
	if (why)
		return why;
	xr_counters_dump(collect, &data);
	if (data.n >= 8)
		__builtin_memcpy(&functions, data.p, 8);
	for (uint64_t at = 16; at + 8 <= data.n; at += 16) {
		uint64_t n;
		__builtin_memcpy(&n, data.p + at, 8);
		calls += n;
	}
	xr_put_field(r->out, "functions", functions);
	xr_put_field(r->out, "calls", calls);
	if (r->nfds)
		why = give_data(r, &data);
	xr_text_free(&data);
	for (uint64_t i = 0; !why && reset && i < xr_root.nthreads; i++) {
		uint64_t *c = __atomic_load_n(&xr_root.threads[i]->counters, __ATOMIC_ACQUIRE);
		for (uint64_t id = 0; c && id < xr_root.threads[i]->ncounters; id++) {
			if (c[id]) /* writing would allocate unused pages */
				c[id] = 0;
		}
	}
	return why;
}

/* Switches sleds by the limits of a budget. With sample, it also counts calls of functions that are off.
 * With offcpu=0, off-CPU time is no longer recorded. */
static const char *budget(struct request *r)
{
	uint64_t sample_ns = 0, offcpu = 1;
	struct xr_sample seen;
	const char *why = number_of(r, "sample", &sample_ns);
	if (!why)
		why = number_of(r, "offcpu", &offcpu);
	if (why)
		return why;
	if (!xr_limited)
		return "it records without a budget";
	if (xr_root.mode == XR_OFF || xr_is_paused())
		return "it is not recording";
	if (sample_ns > 100000000)
		return "a sample lasts at most 100 ms";
	if (decider && decider != r->from)
		return "another xray watch or xray record already controls its budget: stop that one first";
	decider = r->from;
	if (!offcpu && xr_offcpu_on())
		xr_offcpu_give_up("it would cost too much of the budget");
	xr_budget_apply(sample_ns, &seen);
	r->after->stays = 1;
	r->silent = !seen.whole && offcpu;
	xr_put_field(r->out, "sample_ticks", seen.tsc);
	xr_put_field(r->out, "sample_cpu_ns", seen.cpu_ns);
	xr_put_field(r->out, "patching_ns", seen.patching_ns);
	xr_put_field(r->out, "cut_tsc", seen.cut_tsc);
	xr_put_key(r->out, "cut");
	xr_put_text(r->out, "[");
	for (uint32_t i = 0; i < seen.ncut; i++) {
		xr_put_comma(r->out);
		xr_put_number(r->out, seen.cut[i]);
	}
	xr_put_text(r->out, "]");
	return NULL;
}

/* The process that awaits a recording continues. */
static const char *go(struct request *r)
{
	__atomic_store_n(&xr_options.await, 0, __ATOMIC_RELEASE);
	xr_put_text(r->out, "{}");
	return NULL;
}

static const struct command {
	const char *name;
	const char *(*run)(struct request *);
	const char *words[11]; /* null at the end */
} commands[] = {
	{"status", status, {0}},
	{"start", start, {"mode", "threshold", "depth", "limit", "stream", "output", "hold", "window", "every", "limited"}},
	{"stop", stop, {0}},
	{"mode", mode, {"", "threshold", "depth"}},
	{"threshold", threshold, {""}},
	{"filter", filter, {0}},
	{"snapshot", snapshot, {"since", "last_ns"}},
	{"rescan", rescan, {0}},
	{"calls", calls, {0}},
	{"objects", objects, {0}},
	{"counters", counters, {"reset"}},
	{"budget", budget, {"sample", "offcpu"}},
	{"go", go, {0}},
};

static const struct command *find_command(const char *name)
{
	for (uint64_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (xr_equal(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

static const char *run(struct request *r, char *line)
{
	const char *why = split(r, line);
	if (why)
		return why;
	const struct command *c = r->nwords ? find_command(r->words[0]) : NULL;
	if (!c)
		return "unknown command: use status, start, stop, mode, threshold, filter, snapshot, rescan, calls, objects, counters or budget";
	for (int i = 1; i < r->nwords; i++)
		r->words[i - 1] = r->words[i];
	r->nwords--;
	/* Signals are blocked because a handler that records may also need the lock. */
	uint64_t signals = xr_block_signals();
	const char *unknown = unknown_word(r, c->words);
	if (!unknown && c->run == calls)
		why = calls(r);
	xr_lock(XR_LOCK_CONTROL);
	if (unknown)
		why = with_word(unknown, "is not an option of this command");
	else if (!why)
		why = c->run == calls ? rescan(r) : c->run(r);
	if (!r->silent)
		xr_arena_publish();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	return why;
}

int xr_command_from(const void *from, const char *line, const int *fds, int nfds, char *out, size_t size, struct xr_after *after)
{
	char room[256]; /* for short requests, because unmapping memory interrupts other processors */
	struct xr_text t = xr_text_in(out, size - 1);
	struct request r = {.fds = fds, .nfds = nfds, .out = &t, .from = from, .after = after};
	uint64_t n = xr_strnlen(line, XR_MAX_REQUEST + 1);
	char *copy = n < sizeof room ? room : xr_map(n + 1);
	const char *why = xr_errno_text(-ENOMEM);

	xr_put_text(&t, "{\"ok\":true");
	if (n > XR_MAX_REQUEST) {
		why = "the request is too long";
	} else if (copy) {
		xr_copy(copy, line, n);
		copy[n] = 0;
		why = run(&r, copy);
	}
	if (copy && copy != room)
		xr_unmap(copy, n + 1);
	if (!why && t.cut)
		why = "the response is too long";
	if (why) {
		t.n = 0;
		t.cut = 0;
		xr_put_text(&t, "{\"ok\":false");
		xr_put_field_text(&t, "error", why);
	}
	xr_put_text(&t, "}");
	out[t.n] = 0;
	if (why)
		*after = (struct xr_after){0};
	return why ? -1 : 0;
}

int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size)
{
	struct xr_after after = {0};
	uint32_t was = xr_unsealed;
	xr_unsealed = 1;
	int result = xr_command_from(NULL, line, fds, nfds, out, size, &after);
	xr_unsealed = was;
	return result;
}

int xr_is_recording(uint64_t recording) { return recording && recording == recordings && xr_root.mode != XR_OFF; }

void xr_disconnected(const void *from, uint64_t holds)
{
	if (holds) {
		xr_lock(XR_LOCK_CONTROL);
		if (xr_is_recording(holds)) {
			note_change("stop: the recording process has ended", NULL);
			xr_stop();
		}
		xr_unlock(XR_LOCK_CONTROL);
	}
	if (decider == from)
		decider = NULL;
}
