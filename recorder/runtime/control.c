/* Commands, and the thread that accepts them from outside.
 *
 * A request is one packet, and so is its answer. Then the thread closes the connection, except after
 * the command budget, which is repeated many times a second. The thread sleeps in poll and never
 * waits for a client. It drops clients that send nothing for two seconds, or earlier if others need
 * their places. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "control.h"
#include "counters.h"
#include "descriptors.h"
#include "imports.h"
#include "interpose.h"
#include "later.h"
#include "layout.h"
#include "lifecycle.h"
#include "loader.h"
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
#include "threads.h"
#include "warnings.h"
#include "window.h"
#include "writer.h"

#define MAX_REQUEST (64 << 10)
#define MAX_FDS 8 /* of a request */
#define CLIENT_TIMEOUT 2000000000ull /* ns until a client that sends nothing is dropped */
#define LINGER 2000000000ull /* ns that the thread stays after the last recording in a process it was loaded into */
#define FORK_DELAY 10000000 /* ns before a forked child listens */
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
	int hold;   /* start: end the recording with the connection */
	int stay;   /* the connection stays open for more requests */
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
	r->hold = hold;
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

/* Switches sleds by the limits of a budget. With look, it also counts calls of functions that are off.
 * With offcpu=0, off-CPU time is no longer recorded. */
static const char *budget(struct request *r)
{
	uint64_t look_ns = 0, offcpu = 1;
	struct xr_look seen;
	const char *why = number_of(r, "look", &look_ns);
	if (!why)
		why = number_of(r, "offcpu", &offcpu);
	if (why)
		return why;
	if (!xr_limited)
		return "it records without a budget";
	if (xr_root.mode == XR_OFF || xr_is_paused())
		return "it is not recording";
	if (look_ns > 100000000)
		return "a look lasts at most 100 ms";
	if (decider && decider != r->from)
		return "another xray watch or xray record already controls its budget: stop that one first";
	decider = r->from;
	if (!offcpu && xr_offcpu_on())
		xr_offcpu_give_up("it would cost too much of the budget");
	xr_budget_apply(look_ns, &seen);
	r->stay = 1;
	r->silent = !seen.whole && offcpu;
	xr_put_field(r->out, "look_ticks", seen.tsc);
	xr_put_field(r->out, "look_cpu_ns", seen.cpu_ns);
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
	{"budget", budget, {"look", "offcpu"}},
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

/* Implements xr_command. Sets *hold and *stay to 1 if the command asks for that. */
static int command(const void *from, const char *line, const int *fds, int nfds, char *out, size_t size, int *hold, int *stay)
{
	char room[256]; /* for short requests, because unmapping memory interrupts other processors */
	struct xr_text t = xr_text_in(out, size - 1);
	struct request r = {.fds = fds, .nfds = nfds, .out = &t, .from = from};
	uint64_t n = xr_strnlen(line, MAX_REQUEST + 1);
	char *copy = n < sizeof room ? room : xr_map(n + 1);
	const char *why = xr_errno_text(-ENOMEM);

	xr_put_text(&t, "{\"ok\":true");
	if (n > MAX_REQUEST) {
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
	*hold = !why && r.hold;
	*stay = !why && r.stay;
	return why ? -1 : 0;
}

int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size)
{
	int hold, stay;
	uint32_t was = xr_unsealed;
	xr_unsealed = 1;
	int result = command(NULL, line, fds, nfds, out, size, &hold, &stay);
	xr_unsealed = was;
	return result;
}

/* The server. */

struct client {
	struct xr_held at; /* fd -1: free */
	uint64_t deadline; /* ns of the monotonic clock */
	uint64_t holds;    /* the recording that ends with the connection; 0: none */
};

/* Users and groups of a thread: real, effective and saved. */
enum { MOST_GROUPS = 65536 }; /* the kernel's limit */
struct credentials {
	uint32_t uids[3], gids[3], groups[MOST_GROUPS];
	int64_t ngroups;
};

static struct server {
	struct xr_held listening;
	struct client clients[16];
	char *request, *answer;
	const char *where;   /* 1, or the path to listen at, or null */
	struct sockaddr_un address; /* where it listens */
	socklen_t size;             /* of the address */
	uint32_t delayed;    /* the thread runs in a child, which may end or exec at once */
	uint32_t users[2];   /* real and effective, from the start */
	uint32_t state;      /* of the thread; a futex */
	uint32_t leave;      /* set to make the thread end */
	uint32_t visiting;   /* the thread ends when it is no longer needed */
	uint32_t heritable;  /* a forked child may start the thread too */
	int32_t error;       /* the reason for a failure */
	uint32_t pid;        /* of the process that has the thread */
	uint32_t raw;        /* libc does not know the thread */
	uint32_t ordinary;   /* libc has to know it */
	uint32_t errand;     /* makes the thread adopt credentials; a futex */
	struct credentials credentials;
	struct xr_pthread thread;
} server = {.listening = {.fd = -1}};

enum { POSTED = 1, TAKEN };

/* States of the thread. */
enum { NONE, STARTING, SERVING, FAILED };

enum { CLIENTS = sizeof server.clients / sizeof *server.clients };

/* Closes a connection so that the answer arrives. If unread data were left, the client would
 * get an error instead. */
static void close_connection(int fd)
{
	char any;
	xr_sys2(SYS_shutdown, fd, SHUT_RD);
	while (xr_sys6(SYS_recvfrom, fd, (intptr_t)&any, 1, MSG_DONTWAIT, 0, 0) > 0)
		;
	xr_close(fd);
}

/* Returns whether the recording that would end with the connection still runs. */
static int holds_recording(const struct client *c)
{
	return c->holds && c->holds == recordings && xr_root.mode != XR_OFF;
}

/* Ends the recording of a client that has disconnected. */
static void let_go(struct client *c)
{
	xr_lock(XR_LOCK_CONTROL);
	if (holds_recording(c)) {
		note_change("stop: the recording process has ended", NULL);
		xr_stop();
	}
	c->holds = 0;
	xr_unlock(XR_LOCK_CONTROL);
}

static void hang_up(struct client *c)
{
	int fd = xr_held_fd(&c->at);
	c->at.fd = -1;
	if (c->holds)
		let_go(c);
	if (decider == c)
		decider = NULL;
	if (fd >= 0)
		close_connection(fd);
}

/* Returns whether the client may control the process: root, the process's user, or the user
 * that it had at the start. */
static int may_control(int fd)
{
	struct ucred peer = {.uid = -1};
	socklen_t size = sizeof peer;
	uint32_t real, effective, saved;
	if (xr_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (intptr_t)&peer, (intptr_t)&size, 0) < 0 ||
	    xr_sys3(SYS_getresuid, (intptr_t)&real, (intptr_t)&effective, (intptr_t)&saved) < 0)
		return 0;
	if (xr_is_unknown_user(peer.uid))
		return 0;
	return peer.uid == 0 || peer.uid == real || peer.uid == effective || peer.uid == server.users[0] ||
	       peer.uid == server.users[1];
}

/* Returns a free place, or that of the client that has waited longest. */
static struct client *free_client(void)
{
	struct client *oldest = &server.clients[0];
	for (struct client *c = server.clients; c < server.clients + CLIENTS; c++) {
		if (c->at.fd < 0)
			return c;
		if (c->deadline < oldest->deadline)
			oldest = c;
	}
	hang_up(oldest);
	return oldest;
}

/* Accepts one client. Returns 0 if there was none. */
static int accept_client(void)
{
	int listening = xr_held_fd(&server.listening);
	int fd = listening < 0 ? -EBADF : xr_sys4(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	if (!may_control(fd)) {
		static const char no[] = "{\"ok\":false,\"error\":\"only the user of the process and root may control it\"}";
		xr_sys6(SYS_sendto, fd, (intptr_t)no, sizeof no - 1, MSG_NOSIGNAL, 0, 0);
		close_connection(fd);
		return 1;
	}
	struct client *c = free_client();
	xr_hold(&c->at, fd);
	c->deadline = xr_clock_ns(CLOCK_MONOTONIC) + CLIENT_TIMEOUT;
	c->holds = 0;
	return 1;
}

/* Receives a packet with its descriptors. Returns its size or -errno. */
static int64_t receive(int fd, int *flags, int *fds, int *nfds)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct iovec part = {server.request, MAX_REQUEST};
	struct msghdr m = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof control,
	};
	int64_t n = xr_sys3(SYS_recvmsg, fd, (intptr_t)&m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*flags = m.msg_flags;
	*nfds = 0;
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		xr_copy(fds, CMSG_DATA(c), *nfds * sizeof(int));
	}
	return n;
}

/* Answers a client that has sent a request, and closes the connection unless it should stay open. */
static void serve(struct client *c)
{
	static const char too_long[] = "{\"ok\":false,\"error\":\"the request is too long\"}";
	int fds[MAX_FDS], nfds, flags, hold = 0, stay = 0, fd = xr_held_fd(&c->at);
	int64_t n = fd < 0 ? -EBADF : receive(fd, &flags, fds, &nfds);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n < 0 || c->holds) { /* the client must not send anything more */
		hang_up(c);
		return;
	}
	const char *answer = server.answer;
	if (n > 0 && flags & MSG_TRUNC) {
		answer = too_long;
	} else if (n > 0) {
		server.request[n] = 0;
		command(c, server.request, fds, nfds, server.answer, XR_MAX_ANSWER, &hold, &stay);
	}
	for (int i = 0; i < nfds; i++)
		xr_close(fds[i]);
	/* There is room for the packet: it is the connection's first, or the client has read the others. */
	fd = xr_held_fd(&c->at);
	int64_t sent = n > 0 && fd >= 0 ? xr_sys6(SYS_sendto, fd, (intptr_t)answer, xr_strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0) : -1;
	if ((hold && fd >= 0) || (stay && sent > 0)) {
		if (hold)
			c->holds = recordings;
		c->deadline = UINT64_MAX;
	} else {
		hang_up(c);
	}
}

/* Dumps on a signal. The handler only notifies the thread. */
static struct {
	int signal; /* 0: none */
	uint32_t asked;
} dumps;

static void ask_for_dump(int signal)
{
	(void)signal;
	__atomic_store_n(&dumps.asked, 1, __ATOMIC_RELAXED);
}

/* Returns the number of a signal given as USR2, SIGUSR2, 12 or RTMIN+3. */
static int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {
		{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH},
		{"URG", SIGURG}, {"IO", SIGIO}, {"PWR", SIGPWR}, {"CONT", SIGCONT},
	};
	uint64_t n;
	if (!xr_strncmp(name, "SIG", 3))
		name += 3;
	if (!xr_strncmp(name, "RTMIN+", 6))
		return xr_parse_number(name + 6, &n) && n <= (uint64_t)(SIGRTMAX - SIGRTMIN) ? (int)(SIGRTMIN + n) : 0;
	if (xr_equal(name, "RTMIN"))
		return SIGRTMIN;
	if (xr_parse_number(name, &n))
		return n < 65 ? n : 0;
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		if (xr_equal(name, signals[i].name))
			return signals[i].number;
	return 0;
}

const char *xr_dump_at(const char *name)
{
	struct sigaction now, ours = {.sa_handler = ask_for_dump, .sa_flags = SA_RESTART};
	int signal = signal_number(name);
	if (!signal || sigaction(signal, NULL, &now))
		return "dump= does not name a signal";
	if (now.sa_handler != SIG_DFL)
		return "the signal of dump= is handled or ignored by the program";
	if (sigaction(signal, &ours, NULL))
		return "dump= names a signal that cannot be handled";
	dumps.signal = signal;
	return NULL;
}

/* Dumps if the signal has arrived, and warns if the program has taken over the signal. */
static void look_at_dumps(void)
{
	struct sigaction now;
	if (!dumps.signal)
		return;
	if (__atomic_exchange_n(&dumps.asked, 0, __ATOMIC_RELAXED)) {
		xr_lock(XR_LOCK_CONTROL);
		xr_dump();
		xr_unlock(XR_LOCK_CONTROL);
	}
	if (!sigaction(dumps.signal, NULL, &now) && now.sa_handler != ask_for_dump) {
		dumps.signal = 0;
		xr_warn("the program handles the signal of dump= itself, so there will be no dumps", NULL);
	}
}

/* Updates the metadata in the trace, at growing intervals. So the metadata of a killed process is
 * recent, relative to its age. With a budget, the interval is at most a second, because the observer's
 * estimates depend on the CPU time in the metadata. */
static void renew_metadata(void)
{
	static uint64_t from, next;
	uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
	if (from != xr_cpu_from)
		next = now;
	from = xr_cpu_from;
	if (now < next)
		return;
	uint64_t age = xr_ns(xr_rdtsc() - xr_cpu_from);
	next = now + (age < 1000000000 ? 250000000 : xr_limited && xr_observed() ? 1000000000 : age / 4);
	xr_stream_metadata();
	xr_arena_publish();
}

/* Periodic work while recording. */
static void look_after(void)
{
	xr_lock(XR_LOCK_CONTROL);
	xr_later_write();
	if (xr_root.mode != XR_OFF) {
		xr_continue_alone();
		if (xr_rescan() > 0)
			xr_stream_metadata();
		xr_imports_follow();
		xr_reap();
		renew_metadata();
	}
	xr_unlock(XR_LOCK_CONTROL);
}

/* Opens or closes a window if it is time to. Returns the ns until the next time. */
static uint64_t step_windows(void)
{
	if (!xr_windows_on())
		return UINT64_MAX;
	xr_lock(XR_LOCK_CONTROL);
	uint64_t left = xr_windows_step();
	xr_unlock(XR_LOCK_CONTROL);
	return left;
}

/* Removes a stale socket at path, on which nothing listens. */
static void remove_stale(const struct sockaddr_un *a, socklen_t size)
{
	struct stat st;
	if (xr_sys4(SYS_newfstatat, AT_FDCWD, (intptr_t)a->sun_path, (intptr_t)&st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISSOCK(st.st_mode))
		return;
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (xr_sys3(SYS_connect, fd, (intptr_t)a, size) == -ECONNREFUSED)
		xr_sys1(SYS_unlink, (intptr_t)a->sun_path);
	xr_close(fd);
}

static int64_t bind_path(int fd, const char *path)
{
	uint64_t n = xr_strlen(path);
	if (n >= sizeof server.address.sun_path)
		return -ENAMETOOLONG;
	xr_copy(server.address.sun_path, path, n + 1);
	server.size = sizeof server.address;
	remove_stale(&server.address, server.size);
	return xr_sys3(SYS_bind, fd, (intptr_t)&server.address, server.size);
}

/* Binds to an abstract address: the process ID, and a number unless it is 0. */
static int64_t bind_number(int fd, uint64_t number)
{
	struct xr_text t = xr_text_in(server.address.sun_path + 1, sizeof server.address.sun_path - 1);
	server.address.sun_path[0] = 0;
	xr_put_text(&t, "xray-recorder-");
	xr_put_number(&t, xr_sys0(SYS_getpid));
	if (number) {
		xr_put_text(&t, "-");
		xr_put_number(&t, number);
	}
	server.size = offsetof(struct sockaddr_un, sun_path) + 1 + t.n;
	return xr_sys3(SYS_bind, fd, (intptr_t)&server.address, server.size);
}

/* Binds to an address where clients look for this process. Processes of containers that share a network
 * may have the same ID, and any user may have taken the names that can be foreseen. */
static int64_t bind_abstract(int fd)
{
	struct stat namespace;
	uint64_t random = 0;
	int64_t err = bind_number(fd, 0);
	if (err == -EADDRINUSE && xr_sys4(SYS_newfstatat, AT_FDCWD, (intptr_t)"/proc/self/ns/pid", (intptr_t)&namespace, 0) >= 0)
		err = bind_number(fd, namespace.st_ino);
	if (err == -EADDRINUSE && xr_sys3(SYS_getrandom, (intptr_t)&random, sizeof random, GRND_NONBLOCK) == sizeof random)
		err = bind_number(fd, random);
	return err;
}

static int listen_at(const char *where)
{
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	server.address.sun_family = AF_UNIX;
	int64_t err = xr_equal(where, "1") ? bind_abstract(fd) : bind_path(fd, where);
	if (err >= 0)
		err = xr_sys2(SYS_listen, fd, 64);
	if (err < 0) {
		xr_close(fd);
		return err;
	}
	return fd;
}

/* Waits for clients, at most so many ns, and at most 100 ms while recording, because objects may be
 * loaded or unloaded. */
static void wait_and_serve(int listening, uint64_t most)
{
	struct pollfd polled[CLIENTS + 1];
	for (int i = 0; i < CLIENTS; i++)
		polled[i] = (struct pollfd){.fd = xr_held_fd(&server.clients[i].at), .events = POLLIN};
	polled[CLIENTS] = (struct pollfd){.fd = listening ? xr_held_fd(&server.listening) : -1, .events = POLLIN};
	uint64_t ns = xr_root.mode != XR_OFF || dumps.signal ? 100000000 : 1000000000;
	if (most < ns)
		ns = most;
	struct { int64_t s, ns; } patience = {ns / 1000000000, ns % 1000000000};
	xr_sys6(SYS_ppoll, (intptr_t)polled, CLIENTS + 1, (intptr_t)&patience, 0, 0, 0);

	uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &server.clients[i];
		if (c->at.fd < 0)
			continue;
		if (polled[i].fd < 0)
			hang_up(c); /* the program closed it */
		else if (polled[i].revents)
			serve(c);
		else if (now > c->deadline || (c->holds && !holds_recording(c)))
			hang_up(c);
	}
}

static int begin_listening(const char *where)
{
	int fd = listen_at(where);
	return fd < 0 ? fd : xr_hold(&server.listening, fd);
}

static int is_leaving(void) { return __atomic_load_n(&server.leave, __ATOMIC_ACQUIRE); }

/* Returns whether the first thread has ended while others run. The process ends with them. */
static int first_is_gone(void)
{
	char stat[512];
	int fd = xr_open("/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	int64_t n = fd < 0 ? 0 : xr_read(fd, stat, sizeof stat);
	if (fd >= 0)
		xr_close(fd);
	while (n > 0 && stat[n - 1] != ')')
		n--;
	return n > 0 && n + 2 < (int64_t)sizeof stat && stat[n + 1] == 'Z';
}

/* Returns whether the thread has been unneeded for some time. */
static int is_unneeded(uint64_t now)
{
	static uint64_t needed;
	int busy = !needed || xr_root.mode != XR_OFF;
	for (int i = 0; i < CLIENTS; i++)
		busy |= server.clients[i].at.fd >= 0;
	if (busy)
		needed = now;
	if (now - needed < LINGER)
		return 0;
	needed = 0;
	return 1;
}

/* Adopts the credentials of a thread of the program. libc does this for the threads it knows. */
static void run_errand(void)
{
	uint32_t posted = POSTED;
	if (!__atomic_compare_exchange_n(&server.errand, &posted, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	const struct credentials *r = &server.credentials;
	/* Users last, because they may be all that allows to change the others. */
	xr_sys2(SYS_setgroups, r->ngroups, (intptr_t)r->groups);
	xr_sys3(SYS_setresgid, r->gids[0], r->gids[1], r->gids[2]);
	xr_sys3(SYS_setresuid, r->uids[0], r->uids[1], r->uids[2]);
	xr_set_word(&server.errand, 0);
}

static void serve_all(void)
{
	uint64_t looked = 0;
	/* If a client could not be accepted, perhaps because there were no descriptors left, serve
	 * others first. */
	for (int listening = 1; !is_leaving();) {
		run_errand();
		if (xr_held_fd(&server.listening) < 0)
			begin_listening("1"); /* the program closed it; a path may belong to another program meanwhile */
		wait_and_serve(listening, step_windows());
		listening = 1;
		for (int i = 0; i < CLIENTS && listening && !is_leaving(); i++) {
			struct pollfd more = {.fd = xr_held_fd(&server.listening), .events = POLLIN};
			if (xr_sys3(SYS_poll, (intptr_t)&more, 1, 0) <= 0)
				break;
			listening = accept_client();
		}
		uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
		if (now - looked > 100000000 && !is_leaving()) {
			if (first_is_gone() || (server.visiting && is_unneeded(now)))
				break;
			look_at_dumps();
			look_after();
			looked = now;
		}
	}
}

static void run_thread(void)
{
	for (uint64_t until = xr_clock_ns(CLOCK_MONOTONIC) + FORK_DELAY; server.delayed; run_errand()) {
		uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
		if (now >= until)
			break;
		struct { int64_t s, ns; } left = {0, until - now};
		xr_sys4(SYS_futex, (intptr_t)&server.errand, FUTEX_WAIT_PRIVATE, 0, (intptr_t)&left);
	}
	/* In a descriptor table of its own, the program does not see the thread's sockets and its
	 * children do not inherit them. A visiting thread may end before the program. It keeps the
	 * program's table, because from another table it could not close what the recorder opened
	 * in the program's. */
	if (!server.visiting)
		xr_leave_table();
	server.error = begin_listening(server.where);
	if (server.error) {
		xr_set_word(&server.state, FAILED);
		return;
	}
	xr_set_word(&server.state, SERVING);
	serve_all();
	xr_later_flush();
	if (!is_leaving() && xr_windows_on()) { /* without this thread, nothing would close the window */
		xr_lock(XR_LOCK_CONTROL);
		xr_windows_end();
		xr_unlock(XR_LOCK_CONTROL);
	}
	for (int i = 0; i < CLIENTS; i++)
		hang_up(&server.clients[i]);
	xr_release(&server.listening);
	xr_loader_dismiss(); /* last: a client that hangs up may end a recording, which needs the loader */
	if (server.visiting && !is_leaving()) {
		pthread_detach(server.thread.thread);
		server.where = NULL;
		xr_set_word(&server.state, NONE);
	}
}

/* Returns whether libc has to know the thread: unless functions of ours replace some of libc's, or if
 * the thread looks for objects. */
static int needs_pthread(void)
{
	return !&xr_interposes || server.visiting || server.ordinary || xr_has_late_objects() || xr_has_gcc_objects();
}

static int start_thread(void)
{
	for (int i = 0; i < CLIENTS; i++)
		server.clients[i].at.fd = -1;
	server.listening.fd = -1;
	server.leave = server.errand = 0;
	server.pid = xr_sys0(SYS_getpid);
	server.state = STARTING;
	server.raw = !needs_pthread();
	int err = server.raw ? xr_raw_thread_start(XR_RAW_CONTROL, run_thread) : 0;
	if (err || !server.raw) {
		server.raw = 0;
		err = xr_pthread_start(&server.thread, run_thread);
	}
	if (err)
		server.state = NONE;
	return err;
}

int xr_control_start(const char *where)
{
	uint32_t saved;
	if (server.state != NONE)
		return 0;
	if (!server.request)
		server.request = xr_map(MAX_REQUEST + 1);
	if (!server.answer)
		server.answer = xr_map(XR_MAX_ANSWER);
	if (!server.request || !server.answer)
		return -ENOMEM;
	xr_sys3(SYS_getresuid, (intptr_t)&server.users[0], (intptr_t)&server.users[1], (intptr_t)&saved);
	server.where = where;
	int err = start_thread();
	if (err)
		return err;
	xr_await_change(&server.state, STARTING);
	return server.state == FAILED ? server.error : 0;
}

int xr_control_runs(void) { return server.state == SERVING; }
int xr_control_exists(void) { return server.state == SERVING || server.state == STARTING; }

int xr_control_attach(void)
{
	server.visiting = 1;
	return xr_control_start("1");
}

/* Wakes the thread to check for work. */
static void wake(void)
{
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return; /* the thread looks within a second */
	xr_sys3(SYS_connect, fd, (intptr_t)&server.address, server.size);
	xr_close(fd);
}

static void end_thread(void)
{
	xr_await_change(&server.state, STARTING);
	__atomic_store_n(&server.leave, 1, __ATOMIC_RELEASE);
	if (server.state == SERVING)
		wake();
	if (server.raw) {
		xr_raw_thread_join(XR_RAW_CONTROL);
		xr_loader_end_help();
	} else {
		xr_pthread_join(&server.thread);
	}
	server.state = NONE;
}

int xr_control_pause(void)
{
	if (server.state == NONE)
		return 0;
	end_thread();
	return 1;
}

void xr_control_resume(void)
{
	server.where = "1";
	start_thread();
}

/* Returns the number of threads of the process, including the recorder's, or 0 if unknown. */
static uint64_t count_threads(void)
{
	struct stat st;
	/* Each thread is a directory, besides . and .. */
	return xr_sys2(SYS_stat, (intptr_t)"/proc/self/task", (intptr_t)&st) || st.st_nlink < 2 ? 0 : st.st_nlink - 2;
}

static uint64_t count_own_threads(void) { return server.state == NONE ? 0 : 1 + xr_loader_is_helped(); }

int xr_control_is_second(void) { return server.state != NONE && count_threads() == 1 + count_own_threads(); }

/* A child of several threads must not allocate memory for a thread: the program's allocator may
 * be locked. glibc gives a new thread the stack and the descriptor of one that is gone, like
 * the parent's control thread, if their sizes agree. */
int xr_control_fork(void)
{
	/* A seccomp filter may forbid the system calls. */
	int alone = !xr_sealed && count_threads() == 1 + count_own_threads();
	int inherits = server.state != NONE && (!server.raw || xr_loader_is_helped() || !needs_pthread());
	server.heritable = !xr_sealed && (alone || inherits);
	return alone;
}

/* Whether a forked child without the thread may start it. */
static int may_inherit(void) { return server.where && server.heritable && !xr_sealed && !xr_loader_is_lost(); }

void xr_control_forked(void)
{
	/* The child's table is a copy of a program thread's table. If the control thread had its
	 * own table, none of these descriptors are in it, and their numbers belong to the program. */
	xr_release(&server.listening);
	for (int i = 0; i < CLIENTS && server.where; i++)
		xr_release(&server.clients[i].at);
	decider = NULL;
	server.state = NONE;
	xr_raw_thread_forked(XR_RAW_CONTROL);
}

int xr_control_is_raw(void) { return server.raw && server.state != NONE; }

/* Returns whether the caller may turn to the raw thread. A child of vfork shares this memory, but not
 * the thread. */
static int can_reach_raw(void)
{
	return xr_control_is_raw() && !xr_is_sealed() && server.pid == (uint32_t)xr_sys0(SYS_getpid);
}

void xr_control_see_objects(void)
{
	if (!can_reach_raw())
		return;
	xr_lock(XR_LOCK_PAUSE);
	server.ordinary = 1;
	if (server.state != NONE)
		xr_loader_help();
	xr_unlock(XR_LOCK_PAUSE);
}

static void await_errand(uint64_t until)
{
	uint32_t errand;
	while ((errand = __atomic_load_n(&server.errand, __ATOMIC_ACQUIRE)) && xr_clock_ns(CLOCK_MONOTONIC) < until) {
		struct { int64_t s, ns; } patience = {0, 1000000};
		xr_sys3(SYS_futex, (intptr_t)&server.errand, FUTEX_WAKE_PRIVATE, INT32_MAX);
		if (server.state == SERVING)
			wake();
		else if (server.state != STARTING)
			return; /* the thread has ended */
		xr_sys4(SYS_futex, (intptr_t)&server.errand, FUTEX_WAIT_PRIVATE, errand, (intptr_t)&patience);
	}
}

void xr_control_follow_credentials(void)
{
	if (!can_reach_raw())
		return;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_PAUSE);
	/* Nothing waits for long: the thread may itself wait for the loader, which the caller may have locked. */
	uint64_t until = xr_clock_ns(CLOCK_MONOTONIC) + 200000000;
	uint32_t posted = POSTED;
	if (!__atomic_compare_exchange_n(&server.errand, &posted, 0, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		await_errand(until);
	struct credentials *r = &server.credentials;
	int64_t n = xr_sys2(SYS_getgroups, MOST_GROUPS, (intptr_t)r->groups);
	r->ngroups = n < 0 ? 0 : n;
	xr_sys3(SYS_getresuid, (intptr_t)&r->uids[0], (intptr_t)&r->uids[1], (intptr_t)&r->uids[2]);
	xr_sys3(SYS_getresgid, (intptr_t)&r->gids[0], (intptr_t)&r->gids[1], (intptr_t)&r->gids[2]);
	__atomic_store_n(&server.errand, POSTED, __ATOMIC_RELEASE);
	await_errand(until);
	xr_unlock(XR_LOCK_PAUSE);
	xr_restore_signals(signals);
}

void xr_control_wanted(void)
{
	if (__atomic_load_n(&server.delayed, __ATOMIC_RELAXED) && server.state == NONE &&
	    __atomic_exchange_n(&server.delayed, 0, __ATOMIC_RELAXED) && may_inherit())
		xr_control_resume();
}

void xr_control_again(void)
{
	if (xr_windows_on() && !may_inherit())
		xr_set_mode(XR_OFF); /* without the thread, nothing would close its windows */
	server.delayed = 1;
	/* A process with nothing to record, such as a shell, does not need the thread. */
	if (may_inherit() && (xr_root.nobjects || xr_root.nhooked))
		xr_control_resume();
}
