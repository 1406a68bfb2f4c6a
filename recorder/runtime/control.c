/* Commands, and the thread that takes them from outside.
 *
 * A request is one packet, and so is its answer; then the connection is closed. The
 * thread sleeps in poll and never waits for a client: those that connect and say
 * nothing are closed after two seconds, or when others need their places. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "arena.h"
#include "descriptors.h"
#include "internal.h"
#include "libcalls.h"
#include "offcpu.h"
#include "output.h"
#include "syscall.h"
#include "trace.h"

#define MAX_REQUEST (64 << 10)
#define MAX_FILTER (64 << 20)
#define CLIENT_TIMEOUT 2000000000ull /* ns a client has */
#define LINGER 2000000000ull /* ns that the thread of a process stays that nothing records */
#define FORK_DELAY 10000000 /* ns before a forked child listens */
#define DEFAULT_THRESHOLD 5000 /* ns */

/* One command with its words and descriptors. The answer is an object whose first
 * field is "ok"; more are added to out. */
struct request {
	char *words[16]; /* after the command: key=value, or one bare word */
	int nwords;
	const int *fds;
	int nfds;
	struct xr_text *out;
	int hold;   /* start: end the recording with the connection */
};

const char *xr_errno_text(int64_t err)
{
	switch (-err) {
	case ENOTSUP: return "not a regular file";
	case EBADF: return "not open for writing";
	case EBUSY: return "a stream is being written already";
	case ENOSPC: return "no space on the device";
	case EDQUOT: return "disk quota exceeded";
	case EFBIG: return "the file would be too large";
	case ENOMEM: return "out of memory";
	case EACCES: case EPERM: return "permission denied";
	case ENOENT: return "no such file or directory";
	case ENOTDIR: return "not a directory";
	case EEXIST: return "the file exists";
	case ECONNREFUSED: return "nobody listens there, in this network namespace at least";
	case EAGAIN: return "no answer";
	case EPROTO: return "it is of another version";
	case ELOOP: return "a symbolic link is not followed";
	}
	return "input/output error";
}

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

/* The value of key in the request; null if it is not there. */
static const char *value_of(const struct request *r, const char *key)
{
	uint64_t n = xr_strlen(key);
	for (int i = 0; i < r->nwords; i++) {
		if (xr_strncmp(r->words[i], key, n) == 0 && r->words[i][n] == '=')
			return r->words[i] + n + 1;
	}
	return NULL;
}

/* The first word without a =. */
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

/* Whether all words are in allowed, a list that ends with null; "" stands for one bare word. */
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

/* A reason with the word that it is about. XR_LOCK_CONTROL is held. */
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

/* Reads the number of key if it is there. */
static const char *number_of(const struct request *r, const char *key, uint64_t *v)
{
	const char *s = value_of(r, key);
	return !s || xr_parse_number(s, v) ? NULL : with_word(key, "is not a number");
}

/* What start and mode have in common: how to record. */
struct settings {
	enum xr_mode mode;
	uint64_t threshold_ns, depth;
};

/* The threshold that mode prune had last in this recording. */
static uint64_t latest_threshold;

static struct settings current_settings(void)
{
	return (struct settings){xr_root.mode, xr_threshold_ns, xr_root.depth};
}

/* Reads settings. What is not given is as if nothing had been recorded before, but that
 * prune keeps the threshold of the recording that is going on. */
static const char *parse_settings(const struct request *r, const char *mode, struct settings *m)
{
	*m = (struct settings){.mode = XR_RECORD};
	if (mode && !xr_parse_mode(mode, &m->mode))
		return "mode is one of record, prune, count, profile, depth and off";
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
		return "depth has to be between 1 and 256, or 0 for none";
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

/* Commands: each returns null, or why it was not done. XR_LOCK_CONTROL is held. */

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

/* Whether another process writes the trace, and all of it or the rings at the end. */
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
	xr_put_field(t, "ring_bytes", ring);
	xr_put_key(t, "threads");
	xr_put_text(t, "{");
	xr_put_field(t, "live", live);
	xr_put_field(t, "dead", dead);
	xr_put_text(t, "}");
	put_objects_sums(t);
	xr_put_field(t, "dropped", dropped);
	xr_put_offcpu(t);
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

/* The file to stream to, if any: the one in the request, or a new one. */
static const char *open_stream(const struct request *r, uint64_t stream, int64_t *fd)
{
	const char *output = value_of(r, "output");
	if (!stream && !output)
		return NULL;
	if (xr_sealed)
		return "a seccomp filter may forbid the program's threads to write a file: start without one";
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

/* How many recordings clients have started: tells one from the next. */
static uint64_t recordings;

static const char *start(struct request *r)
{
	struct settings m;
	uint64_t limit = 0, stream = 0, hold = 0;
	const char *why = parse_settings(r, value_of(r, "mode"), &m);
	if (!why)
		why = number_of(r, "hold", &hold);
	if (!why)
		why = number_of(r, "limit", &limit);
	if (!why)
		why = number_of(r, "stream", &stream);
	if (why)
		return why;
	if (m.mode == XR_OFF)
		return "start needs a mode that records";
	int64_t fd = -1;
	why = open_stream(r, stream, &fd);
	if (why)
		return why;
	note_change("start", &m);
	why = xr_start(m.mode, m.threshold_ns, m.depth, fd, limit);
	if (why) {
		if (fd >= 0)
			xr_close(fd);
		return why;
	}
	latest_threshold = 0;
	keep_threshold();
	recordings++;
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
	keep_threshold(); /* that of the environment, say */
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
		return "mode needs the name of one";
	if (xr_equal(name, "on")) {
		if (!xr_is_paused())
			return "it is not paused";
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
		return "it is paused: set the mode instead, as in mode prune threshold=N";
	if (m.mode == XR_RECORD && m.threshold_ns)
		m.mode = XR_PRUNE;
	else if (m.mode == XR_PRUNE && !m.threshold_ns)
		m.mode = XR_RECORD;
	return switch_to(r, &m);
}

/* Reads all of a regular file. Returns its size or -errno. */
static int64_t read_file(int fd, char **text, uint64_t *mapped)
{
	struct stat st;
	if (xr_sys2(SYS_fstat, fd, (intptr_t)&st) < 0 || !S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (st.st_size > MAX_FILTER)
		return -EFBIG;
	*mapped = st.st_size + 1;
	*text = xr_map(*mapped);
	if (!*text)
		return -ENOMEM;
	int64_t n = 0;
	while (n < st.st_size) {
		int64_t k = xr_sys4(SYS_pread64, fd, (intptr_t)*text + n, st.st_size - n, n);
		if (k < 0 && k != -EINTR) {
			xr_unmap(*text, *mapped);
			return k;
		}
		if (!k)
			break;
		if (k > 0)
			n += k;
	}
	return n;
}

static const char *filter(struct request *r)
{
	char *text = NULL;
	uint64_t mapped = 0;
	int64_t n = 0;
	if (r->nfds) {
		n = read_file(r->fds[0], &text, &mapped);
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
		xr_put_text(&t, "the filter is wrong in line ");
		xr_put_number(&t, wrong);
		why[t.n] = 0;
		return why;
	}
	note_change(r->nfds ? "filter" : "filter all", NULL);
	if (xr_root.mode != XR_OFF && !xr_is_paused())
		xr_patch(1);
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

/* Writes data to the request's file, and its size into the answer. */
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
		why = "too many objects for an answer: give a file";
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
			if (c[id]) /* pages that were never written stay without memory */
				c[id] = 0;
		}
	}
	return why;
}

static const struct command {
	const char *name;
	const char *(*run)(struct request *);
	const char *words[9];
} commands[] = {
	{"status", status, {0}},
	{"start", start, {"mode", "threshold", "depth", "limit", "stream", "output", "hold"}},
	{"stop", stop, {0}},
	{"mode", mode, {"", "threshold", "depth"}},
	{"threshold", threshold, {""}},
	{"filter", filter, {0}},
	{"snapshot", snapshot, {"since", "last_ns"}},
	{"rescan", rescan, {0}},
	{"objects", objects, {0}},
	{"counters", counters, {"reset"}},
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
		return "no such command: there are status, start, stop, mode, threshold, filter, snapshot, rescan, objects and counters";
	for (int i = 1; i < r->nwords; i++)
		r->words[i - 1] = r->words[i];
	r->nwords--;
	/* A handler that records may need the lock, too. */
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	const char *unknown = unknown_word(r, c->words);
	why = unknown ? with_word(unknown, "is a word that this command does not know") : c->run(r);
	xr_arena_publish();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	return why;
}

/* xr_command; *hold becomes 1 if the command asks for that. */
static int command(const char *line, const int *fds, int nfds, char *out, size_t size, int *hold)
{
	struct xr_text t = xr_text_in(out, size - 1);
	struct request r = {.fds = fds, .nfds = nfds, .out = &t};
	uint64_t n = xr_strnlen(line, MAX_REQUEST + 1);
	char *copy = xr_map(n + 1);
	const char *why = xr_errno_text(-ENOMEM);

	xr_put_text(&t, "{\"ok\":true");
	if (n > MAX_REQUEST) {
		why = "the request is too long";
	} else if (copy) {
		xr_copy(copy, line, n);
		why = run(&r, copy);
	}
	if (copy)
		xr_unmap(copy, n + 1);
	if (!why && t.cut)
		why = "the answer is too long";
	if (why) {
		t.n = 0;
		t.cut = 0;
		xr_put_text(&t, "{\"ok\":false");
		xr_put_field_text(&t, "error", why);
	}
	xr_put_text(&t, "}");
	out[t.n] = 0;
	*hold = !why && r.hold;
	return why ? -1 : 0;
}

int xr_command(const char *line, const int *fds, int nfds, char *out, size_t size)
{
	int hold;
	uint32_t was = xr_unsealed;
	xr_unsealed = 1;
	int result = command(line, fds, nfds, out, size, &hold);
	xr_unsealed = was;
	return result;
}

/* The server. */

struct client {
	struct xr_held at; /* fd -1: place is free */
	uint64_t deadline; /* ns of the monotonic clock */
	uint64_t holds;    /* the recording that ends with the connection; 0 for none */
};

static struct server {
	struct xr_held listening;
	struct client clients[16];
	char *request, *answer;
	const char *where;   /* address to listen at, or null */
	uint32_t delayed;    /* the thread is that of a child, which may end or exec at once */
	uint32_t users[2];   /* real and effective, of the beginning */
	uint32_t state;      /* of the thread: a futex */
	uint32_t leave;      /* the thread must end */
	uint32_t visiting;   /* the thread must end when it is no longer needed */
	uint32_t alone;      /* the process that forks has no other thread */
	int32_t error;       /* why it failed */
	uint32_t tid;
	pthread_t thread;
} server = {.listening = {.fd = -1}};

/* States of the thread. */
enum { NONE, STARTING, SERVING, FAILED };

enum { CLIENTS = sizeof server.clients / sizeof *server.clients };

static uint64_t now_ns(void)
{
	struct { int64_t s, ns; } t = {0, 0};
	xr_sys2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (intptr_t)&t);
	return t.s * 1000000000ull + t.ns;
}

/* Closes a connection so that the answer arrives: with something unread left, the client
 * would get an error instead. */
static void close_connection(int fd)
{
	char any;
	xr_sys2(SYS_shutdown, fd, SHUT_RD);
	while (xr_sys6(SYS_recvfrom, fd, (intptr_t)&any, 1, MSG_DONTWAIT, 0, 0) > 0)
		;
	xr_close(fd);
}

/* Ends the recording of a client that is gone. */
static void let_go(struct client *c)
{
	uint64_t holds = c->holds;
	c->holds = 0;
	xr_lock(XR_LOCK_CONTROL);
	if (holds && holds == recordings && xr_root.mode != XR_OFF) {
		note_change("stop: who recorded is gone", NULL);
		xr_stop();
	}
	xr_unlock(XR_LOCK_CONTROL);
}

static void hang_up(struct client *c)
{
	int fd = xr_held_fd(&c->at);
	c->at.fd = -1;
	if (c->holds)
		let_go(c);
	if (fd >= 0)
		close_connection(fd);
}

/* Whether the process is in a user namespace where all ids are known: elsewhere, those that
 * have none look alike. */
static int knows_users(void)
{
	static const char all[] = "         0          0 4294967295";
	char map[sizeof all];
	int fd = xr_open("/proc/thread-self/uid_map", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	int64_t n = xr_read(fd, map, sizeof map - 1);
	xr_close(fd);
	return n == sizeof all - 1 && !xr_memcmp(map, all, n);
}

/* Root may control the process, and its user, also the one that it had in the beginning. */
static int may_control(int fd)
{
	enum { NO_USER = 65534 };
	struct ucred peer = {.uid = -1};
	socklen_t size = sizeof peer;
	uint32_t real, effective, saved;
	if (xr_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (intptr_t)&peer, (intptr_t)&size, 0) < 0 ||
	    xr_sys3(SYS_getresuid, (intptr_t)&real, (intptr_t)&effective, (intptr_t)&saved) < 0)
		return 0;
	if (peer.uid == NO_USER && !knows_users())
		return 0;
	return peer.uid == 0 || peer.uid == real || peer.uid == effective || peer.uid == server.users[0] ||
	       peer.uid == server.users[1];
}

/* A free place, or that of the client that has waited longest. */
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

/* Takes in one client. Returns 0 when none could be. */
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
	c->deadline = now_ns() + CLIENT_TIMEOUT;
	c->holds = 0;
	return 1;
}

/* Takes a packet with the descriptors that come with it. Returns its size or -errno. */
static int64_t receive(int fd, int *flags, int *fds, int *nfds)
{
	enum { MAX_FDS = 4 };
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

/* Answers a client that has something to say, and hangs up. */
static void serve(struct client *c)
{
	static const char too_long[] = "{\"ok\":false,\"error\":\"the request is too long\"}";
	int fds[4], nfds, flags, hold = 0, fd = xr_held_fd(&c->at);
	int64_t n = fd < 0 ? -EBADF : receive(fd, &flags, fds, &nfds);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n < 0 || c->holds) { /* the client may not send anything more */
		hang_up(c);
		return;
	}
	const char *answer = server.answer;
	if (n > 0 && flags & MSG_TRUNC) {
		answer = too_long;
	} else if (n > 0) {
		server.request[n] = 0;
		command(server.request, fds, nfds, server.answer, XR_MAX_ANSWER, &hold);
	}
	for (int i = 0; i < nfds; i++)
		xr_close(fds[i]);
	/* The packet is the connection's first, so there is room for it. */
	fd = xr_held_fd(&c->at);
	if (n > 0 && fd >= 0)
		xr_sys6(SYS_sendto, fd, (intptr_t)answer, xr_strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
	if (hold && fd >= 0) {
		c->holds = recordings;
		c->deadline = UINT64_MAX;
	} else {
		hang_up(c);
	}
}

/* Dumps at a signal. Its handler only leaves word for the thread. */
static struct {
	int signal; /* 0: none */
	uint32_t asked;
} dumps;

static void ask_for_dump(int signal)
{
	(void)signal;
	__atomic_store_n(&dumps.asked, 1, __ATOMIC_RELAXED);
}

/* The number of a signal: USR2, SIGUSR2, 12 or RTMIN+3. */
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
		return "dump= names no signal";
	if (now.sa_handler != SIG_DFL)
		return "the signal of dump= is handled or ignored by the program";
	if (sigaction(signal, &ours, NULL))
		return "dump= names a signal that cannot be handled";
	dumps.signal = signal;
	return NULL;
}

/* Dumps on request, and warns if the program has taken over the signal. */
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
		xr_warn("the program handles the signal of dump= itself: there will be no dumps", NULL);
	}
}

/* Renews what a trace says of the process, less and less often: a process that is killed
 * leaves what was true not long before, in relation to its age. */
static void renew_metadata(void)
{
	static uint64_t from, next;
	uint64_t now = now_ns();
	if (from != xr_cpu_from)
		next = now;
	from = xr_cpu_from;
	if (now < next)
		return;
	uint64_t age = xr_ns(xr_rdtsc() - xr_cpu_from);
	next = now + (age < 1000000000 ? 250000000 : age / 4);
	xr_stream_metadata();
	xr_arena_publish();
}

/* What is done from time to time while something is recorded. */
static void look_after(void)
{
	xr_lock(XR_LOCK_CONTROL);
	if (xr_root.mode != XR_OFF) {
		if (xr_rescan() > 0)
			xr_stream_metadata();
		xr_reap();
		renew_metadata();
	}
	xr_unlock(XR_LOCK_CONTROL);
}

/* Puts the address where clients look for process pid. */
static socklen_t abstract_address(struct sockaddr_un *a)
{
	struct xr_text t = xr_text_in(a->sun_path + 1, sizeof a->sun_path - 1);
	a->sun_path[0] = 0;
	xr_put_text(&t, "xray-recorder-");
	xr_put_number(&t, xr_sys0(SYS_getpid));
	return offsetof(struct sockaddr_un, sun_path) + 1 + t.n;
}

/* Makes way for a socket at path: one that nobody listens to any more goes. */
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

static int listen_at(const char *where)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t size;
	if (xr_equal(where, "1")) {
		size = abstract_address(&a);
	} else {
		uint64_t n = xr_strlen(where);
		if (n >= sizeof a.sun_path)
			return -ENAMETOOLONG;
		xr_copy(a.sun_path, where, n + 1);
		size = sizeof a;
		remove_stale(&a, size);
	}
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	int64_t err = xr_sys3(SYS_bind, fd, (intptr_t)&a, size);
	if (err >= 0)
		err = xr_sys2(SYS_listen, fd, 64);
	if (err < 0) {
		xr_close(fd);
		return err;
	}
	return fd;
}

/* Waits for clients, for at most 100 ms while recording: objects come and go. */
static void wait_and_serve(int listening)
{
	struct pollfd polled[CLIENTS + 1];
	for (int i = 0; i < CLIENTS; i++)
		polled[i] = (struct pollfd){.fd = xr_held_fd(&server.clients[i].at), .events = POLLIN};
	polled[CLIENTS] = (struct pollfd){.fd = listening ? xr_held_fd(&server.listening) : -1, .events = POLLIN};
	xr_sys3(SYS_poll, (intptr_t)polled, CLIENTS + 1, xr_root.mode != XR_OFF || dumps.signal ? 100 : 1000);

	uint64_t now = now_ns();
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &server.clients[i];
		if (c->at.fd < 0)
			continue;
		if (polled[i].fd < 0)
			hang_up(c); /* the program closed it */
		else if (polled[i].revents)
			serve(c);
		else if (now > c->deadline)
			hang_up(c);
	}
}

static int begin_listening(const char *where)
{
	int fd = listen_at(where);
	return fd < 0 ? fd : xr_hold(&server.listening, fd);
}

static int is_leaving(void) { return __atomic_load_n(&server.leave, __ATOMIC_ACQUIRE); }

/* Whether the first thread has ended while others run. The process ends with them. */
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

/* Whether nobody has needed the thread for some time. */
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

static void serve_all(void)
{
	uint64_t looked = 0;
	/* When a client could not be taken in, for want of descriptors perhaps, others
	 * have to be served first. */
	for (int listening = 1; !is_leaving();) {
		if (xr_held_fd(&server.listening) < 0)
			begin_listening("1"); /* the program closed it; a path may be another's by now */
		wait_and_serve(listening);
		listening = 1;
		for (int i = 0; i < CLIENTS && listening && !is_leaving(); i++) {
			struct pollfd more = {.fd = xr_held_fd(&server.listening), .events = POLLIN};
			if (xr_sys3(SYS_poll, (intptr_t)&more, 1, 0) <= 0)
				break;
			listening = accept_client();
		}
		uint64_t now = now_ns();
		if (now - looked > 100000000 && !is_leaving()) {
			if (first_is_gone() || (server.visiting && is_unneeded(now)))
				break;
			look_at_dumps();
			look_after();
			looked = now;
		}
	}
}

static void set_state(uint32_t state)
{
	__atomic_store_n(&server.state, state, __ATOMIC_RELEASE);
	xr_sys3(SYS_futex, (intptr_t)&server.state, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static void *run_thread(void *none)
{
	/* All signals are the program's but for two of libc, by which it has every thread
	 * change its user, and ends threads. A forked child has these blocked here. */
	uint64_t blocked = ~(1ull << (32 - 1) | 1ull << (33 - 1));
	xr_restore_signals(blocked);
	(void)none;
	/* Nobody else has a use for this, and the program's own clients must not get it. */
	xr_sys6(SYS_prctl, 15 /* PR_SET_NAME */, (intptr_t)"xray-ctl", 0, 0, 0, 0);
	server.tid = xr_sys0(SYS_gettid);
	xr_unsealed = 1;
	if (server.delayed) {
		struct { int64_t s, ns; } t = {0, FORK_DELAY};
		xr_sys2(SYS_nanosleep, (intptr_t)&t, 0);
	}
	/* A thread that ends while the program goes on leaves nothing behind in the program's
	 * table, if that is its own. */
	if (!server.visiting)
		xr_leave_table();
	server.error = begin_listening(server.where);
	if (server.error) {
		set_state(FAILED);
		return NULL;
	}
	set_state(SERVING);
	serve_all();
	for (int i = 0; i < CLIENTS; i++)
		hang_up(&server.clients[i]);
	xr_release(&server.listening);
	if (server.visiting && !is_leaving()) {
		pthread_detach(server.thread);
		server.where = NULL;
		set_state(NONE);
	}
	return NULL;
}

/* Starts the thread with all signals blocked: they are the program's. */
static int start_thread(void)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (int i = 0; i < CLIENTS; i++)
		server.clients[i].at.fd = -1;
	server.listening.fd = -1;
	server.leave = 0;
	server.state = STARTING;
	uint64_t signals = xr_block_signals();
	struct xr_thread *t = xr_mute();
	int err = pthread_create(&server.thread, &attr, run_thread, NULL);
	xr_unmute(t);
	xr_restore_signals(signals);
	pthread_attr_destroy(&attr);
	if (err)
		server.state = NONE;
	return -err;
}

static void await_state(uint32_t not)
{
	while (__atomic_load_n(&server.state, __ATOMIC_ACQUIRE) == not)
		xr_sys4(SYS_futex, (intptr_t)&server.state, FUTEX_WAIT_PRIVATE, not, 0);
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
	await_state(STARTING);
	return server.state == FAILED ? server.error : 0;
}

int xr_control_attach(void)
{
	server.visiting = 1;
	return xr_control_start("1");
}

/* Wakes the thread to check for work. */
static void wake(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t size = abstract_address(&a);
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return; /* it looks within a second */
	xr_sys3(SYS_connect, fd, (intptr_t)&a, size);
	xr_close(fd);
}

static void end_thread(void)
{
	await_state(STARTING);
	__atomic_store_n(&server.leave, 1, __ATOMIC_RELEASE);
	if (server.state == SERVING)
		wake();
	pthread_join(server.thread, NULL);
	/* It is still one of the process for as long as the kernel needs to clear it away. */
	while (xr_sys3(SYS_tgkill, xr_sys0(SYS_getpid), server.tid, 0) != -ESRCH)
		xr_sys0(SYS_sched_yield);
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

/* The threads of the process, the control thread among them; 0 if that is not known. */
static uint64_t count_threads(void)
{
	struct stat st;
	/* Each is a folder, besides . and .. */
	return xr_sys2(SYS_stat, (intptr_t)"/proc/self/task", (intptr_t)&st) || st.st_nlink < 2 ? 0 : st.st_nlink - 2;
}

int xr_control_is_second(void) { return server.state != NONE && count_threads() == 2; }

int xr_control_fork(void)
{
	server.alone = !xr_sealed && count_threads() == (server.state == NONE ? 1 : 2);
	return server.alone;
}

void xr_control_forked(void)
{
	/* The child's table is that of a thread of the program's: if the control thread has
	 * one of its own, none of these are in it, and what has their numbers is left alone. */
	xr_release(&server.listening);
	for (int i = 0; i < CLIENTS && server.where; i++)
		xr_release(&server.clients[i].at);
	server.state = NONE;
}

void xr_control_wanted(void)
{
	if (__atomic_load_n(&server.delayed, __ATOMIC_RELAXED) && server.state == NONE &&
	    __atomic_exchange_n(&server.delayed, 0, __ATOMIC_RELAXED) && server.where && server.alone && !xr_sealed)
		xr_control_resume();
}

void xr_control_again(void)
{
	server.delayed = 1;
	/* What has nothing to record, as shells do, has no use for it. */
	if (server.where && server.alone && !xr_sealed && (xr_root.nobjects || xr_root.nhooked))
		xr_control_resume();
}
