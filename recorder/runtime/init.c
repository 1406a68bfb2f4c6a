/* The beginning and the end: what the environment asks for, forked children, and what
 * is still to be written when the program exits. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "arena.h"
#include "descriptors.h"
#include "gcc.h"
#include "landings.h"
#include "objects.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"

/* stdlib.h has inline functions of floating-point numbers, which these files are
 * compiled without. */
char *secure_getenv(const char *name);
int setenv(const char *name, const char *value, int overwrite);

#define VARIABLE "XRAY_RECORDER"

/* Largest file of a filter. */
#define MAX_FILTER (64 << 20)

enum { MAX_PATH = 4096, MAX_OPTIONS = 16384 };

static struct {
	uint32_t ready;
	int asked;         /* the environment has options */
	enum xr_mode mode;
	uint64_t threshold_ns, depth, ring, limit, budget, pid, session;
	int stream, follow, dontdump, quiet, start;
	char *output, *control, *filter, *shm, *observer, *dump;
} options = {
	.mode = XR_RECORD,
	.stream = 1,
	.follow = 1,
	.start = 1,
	.ring = XR_NCHUNKS * XR_CHUNK_SIZE,
	.budget = XR_RING_BUDGET,
};

static char option_text[MAX_OPTIONS];
static char output_template[MAX_PATH];

int xr_keeps_records(void) { return root.mode == XR_RECORD || root.mode == XR_PRUNE || root.mode == XR_DEPTH; }

/* Whether the first record opens the output. */
static uint32_t pending;

const char *xr_warnings[XR_MAX_WARNINGS + 1];

void xr_warn(const char *what, const char *detail)
{
	int i = 0;
	for (; xr_warnings[i]; i++)
		if (xr_warnings[i] == what)
			return;
	if (i == XR_MAX_WARNINGS)
		return;
	xr_warnings[i] = what;
	if (options.quiet || xr_is_sealed())
		return;
	char room[1024];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, "xray recorder: ");
	xr_put_text(&t, what);
	if (detail) {
		xr_put_text(&t, ": ");
		xr_put_text(&t, detail);
	}
	room[t.n] = '\n';
	xr_say(room, t.n + 1);
}

/* Options. */

/* Returns null, or what is wrong with a value. */
static const char *read_switch(const char *s, int *to)
{
	uint64_t v;
	if (!xr_parse_number(s, &v) || v > 1)
		return "is neither 0 nor 1";
	*to = v;
	return NULL;
}

/* Where the values of options go; of mode it is looked at separately. */
static const struct {
	const char *key;
	char **text;
	uint64_t *number;
	int *on;
} known_options[] = {
	{"output", .text = &options.output}, {"filter", .text = &options.filter}, {"shm", .text = &options.shm},
	{"observer", .text = &options.observer}, {"control", .text = &options.control}, {"dump", .text = &options.dump},
	{"threshold", .number = &options.threshold_ns}, {"depth", .number = &options.depth}, {"ring", .number = &options.ring},
	{"limit", .number = &options.limit}, {"budget", .number = &options.budget}, {"pid", .number = &options.pid},
	{"session", .number = &options.session}, {"stream", .on = &options.stream}, {"follow", .on = &options.follow},
	{"dontdump", .on = &options.dontdump}, {"quiet", .on = &options.quiet}, {"start", .on = &options.start},
};
enum { KNOWN_OPTIONS = sizeof known_options / sizeof *known_options };

/* The place of a key there; KNOWN_OPTIONS for mode, and -1 for none. */
static int find_option(const char *key)
{
	for (int i = 0; i < KNOWN_OPTIONS; i++)
		if (xr_equal(key, known_options[i].key))
			return i;
	return xr_equal(key, "mode") ? KNOWN_OPTIONS : -1;
}

static const char *read_option(int i, char *value)
{
	if (i == KNOWN_OPTIONS)
		return xr_parse_mode(value, &options.mode) ? NULL : "is none of record, prune, count, profile, depth and off";
	if (known_options[i].text)
		*known_options[i].text = value;
	else if (known_options[i].number)
		return xr_parse_number(value, known_options[i].number) ? NULL : "is not a number";
	else
		return read_switch(value, known_options[i].on);
	return NULL;
}

/* Says which option is wrong, and at which character of the variable, from 1. */
static void warn_of_option(const char *key, const char *value, const char *what, uint64_t at)
{
	char room[256];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, "character ");
	xr_put_number(&t, at + 1);
	xr_put_text(&t, ": ");
	xr_put(&t, key, xr_strnlen(key, 64));
	if (value) {
		xr_put_text(&t, "=");
		xr_put(&t, value, xr_strnlen(value, 64));
	}
	xr_put_text(&t, " ");
	xr_put_text(&t, what);
	room[t.n] = 0;
	xr_warn(VARIABLE " has an option that is not understood", room);
}

static void read_options(const char *text)
{
	uint64_t n = xr_strlen(text);
	if (n >= sizeof option_text) {
		xr_warn(VARIABLE " is too long, and ignored", NULL);
		return;
	}
	xr_copy(option_text, text, n + 1);
	options.asked = 1;
	for (char *p = option_text, *end; *p; p = end) {
		char *value = NULL;
		for (end = p; *end && *end != ','; end++)
			if (*end == '=' && !value) {
				*end = 0;
				value = end + 1;
			}
		if (*end)
			*end++ = 0;
		if (!*p && !value)
			continue;
		int option = find_option(p);
		const char *bad = NULL, *wrong = NULL;
		if (option < 0)
			warn_of_option(p, NULL, "is no option", p - option_text);
		else if (!value)
			warn_of_option(p, NULL, "has no value", p - option_text);
		else if ((bad = xr_decode(value)))
			warn_of_option(p, NULL, "has a % without two hexadecimal digits", bad - option_text);
		else if ((wrong = read_option(option, value)))
			warn_of_option(p, value, wrong, value - option_text);
	}
}

/* Without follow, other processes find the number of this one in the environment,
 * and leave themselves alone. */
static void keep_to_itself(const char *text)
{
	static char longer[MAX_OPTIONS + 32];
	struct xr_text t = xr_text_in(longer, sizeof longer - 1);
	xr_put_text(&t, text);
	xr_put_text(&t, ",pid=");
	xr_put_number(&t, root.pid);
	setenv(VARIABLE, longer, 1);
}

/* Where the program goes later does not change where the output is. */
static void make_template(void)
{
	struct xr_text t = xr_text_in(output_template, sizeof output_template - 1);
	if (options.output[0] != '/' && getcwd(output_template, sizeof output_template - 1)) {
		/* A percent sign of the path would be taken for the template's. */
		static char directory[MAX_PATH];
		uint64_t n = xr_strlen(output_template);
		xr_copy(directory, output_template, n);
		for (uint64_t i = 0; i < n; i++) {
			xr_put(&t, &directory[i], 1);
			if (directory[i] == '%')
				xr_put_text(&t, "%");
		}
		xr_put_text(&t, "/");
	}
	xr_put_text(&t, options.output);
	output_template[t.n] = 0;
	if (t.cut)
		xr_warn("the output's path is too long", NULL);
	if (t.cut)
		output_template[0] = 0;
}

/* Output. */

static void put_base_name(struct xr_text *t)
{
	char path[MAX_PATH];
	int64_t n = xr_sys3(SYS_readlink, (intptr_t)"/proc/self/exe", (intptr_t)path, sizeof path);
	int64_t first = n > 0 ? n : 0;
	while (first > 0 && path[first - 1] != '/')
		first--;
	xr_put(t, path + first, n > 0 ? n - first : 0);
}

static void share_rings(void)
{
	char program[256];
	struct xr_text t = xr_text_in(program, sizeof program - 1);
	put_base_name(&t);
	program[t.n] = 0;
	if (options.shm[0] != '/' || xr_share_begin(options.shm, program))
		xr_warn("the folder of rings has to be a short absolute path", options.shm);
}

static void expand(struct xr_text *t, const char *template)
{
	for (const char *p = template; *p; p++) {
		if (*p != '%' || !p[1]) {
			xr_put(t, p, 1);
			continue;
		}
		switch (*++p) {
		case 'p':
			xr_put_number(t, root.pid);
			break;
		case 'e':
			put_base_name(t);
			break;
		default: /* a percent sign doubled */
			xr_put(t, p, 1);
		}
	}
}

static int create(const char *path)
{
	return xr_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
}

int xr_open_output(const char *template)
{
	static char path[MAX_PATH]; /* the slow path's stack may be small */
	struct xr_text t = xr_text_in(path, sizeof path - 32);
	expand(&t, template);
	if (t.cut)
		return -ENAMETOOLONG;
	path[t.n] = 0;
	int fd = create(path);
	uint64_t n = t.n;
	for (int attempt = 0; fd == -EEXIST && attempt < 10; attempt++) {
		t = xr_text_in(path + n, sizeof path - 1 - n);
		xr_put_text(&t, ".");
		xr_put_number(&t, root.pid);
		if (attempt) {
			xr_put_text(&t, ".");
			xr_put_number(&t, attempt);
		}
		path[n + t.n] = 0;
		fd = create(path);
	}
	return fd;
}

static void begin_stream(void)
{
	int fd = xr_open_output(output_template);
	int err = fd < 0 ? fd : xr_stream_begin(fd);
	if (!err || fd < 0)
		root.stream_limit = options.limit;
	else
		xr_close(fd);
	if (err)
		xr_warn("the output cannot be written", xr_errno_text(err));
}

/* Leaves the writing to the observer that the environment names. Returns 0 if there is
 * none: then the process writes its trace itself. */
static int join_observer(void)
{
	if (!options.observer)
		return 0;
	int err = xr_arena_join(options.observer);
	if (err)
		xr_warn("xray record cannot be reached, so this process writes its own trace", xr_errno_text(err));
	else
		xr_arena_publish();
	return !err;
}

void xr_open_pending(void)
{
	if (xr_sealed || !__atomic_exchange_n(&pending, 0, __ATOMIC_ACQ_REL))
		return;
	xr_lock(&xr_control_lock);
	if (!root.stream && root.mode != XR_OFF && !join_observer() && options.stream && output_template[0])
		begin_stream();
	xr_unlock(&xr_control_lock);
}

/* Recording. */

static const char *check_mode(enum xr_mode *mode, uint32_t depth)
{
	if (depth && (*mode == XR_RECORD || *mode == XR_PRUNE))
		*mode = XR_DEPTH;
	if (*mode == XR_DEPTH && (!depth || depth > XR_MAX_DEPTH))
		return "depth has to be between 1 and 256";
	return NULL;
}

static const char *set_manner(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth)
{
	const char *why = check_mode(&mode, depth);
	if (why)
		return why;
	/* Status and traces say what holds: other modes have no use for these. */
	if (mode != XR_PRUNE && mode != XR_DEPTH)
		threshold_ns = 0;
	if (threshold_ns)
		xr_calibrated();
	xr_threshold_ns = threshold_ns;
	root.threshold = threshold_ns ? xr_ticks(threshold_ns) : 0;
	root.depth = mode == XR_DEPTH ? depth : 0;
	return xr_set_mode(mode) ? "this mode is not there" : NULL;
}

/* Sleds are off, and the mode is that of before and after. */
static uint32_t paused;

int xr_is_paused(void) { return paused; }

const char *xr_start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth, int fd, uint64_t limit)
{
	if (root.mode != XR_OFF)
		return paused ? "it is recording already, and paused" : "it is recording already";
	if (!root.nchunks)
		return "there was no memory for the recorder";
	uint64_t cpu = xr_cpu_ns(), now = xr_rdtsc();
	const char *why = set_manner(mode, threshold_ns, depth);
	if (why)
		return why;
	xr_cpu_before = cpu;
	xr_cpu_from = now;
	xr_spent = (struct xr_spent){0};
	xr_rescan();
	xr_sums_begin();
	xr_probe_cost();
	root.stream_limit = limit;
	int err = fd < 0 ? 0 : xr_stream_begin(fd);
	if (err) {
		xr_set_mode(XR_OFF);
		return xr_errno_text(err);
	}
	xr_patch(1);
	xr_spent.setup_ns = xr_cpu_ns() - cpu;
	xr_arena_publish();
	return NULL;
}

const char *xr_switch(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth)
{
	if (root.mode == XR_OFF)
		return "it is not recording";
	const char *why = mode == XR_OFF ? NULL : set_manner(mode, threshold_ns, depth);
	if (!why) {
		paused = mode == XR_OFF;
		xr_patch(!paused);
		xr_arena_publish();
	}
	return why;
}

void xr_resume(void)
{
	paused = 0;
	xr_patch(1);
	xr_arena_publish();
}

void xr_stop(void)
{
	uint64_t cpu = xr_cpu_ns();
	pending = paused = 0;
	xr_patch(0);
	xr_spent.setup_ns += xr_cpu_ns() - cpu;
	xr_stream_end();
	xr_arena_publish();
	xr_arena_flush();
	xr_set_mode(XR_OFF);
}

/* Processes. */

void xr_forked(void)
{
	if (!xr_is_forked())
		return;
	xr_control_lock = 0;
	xr_writer_forked();
	xr_gcc_forked();
	xr_control_forked();
	xr_ring_forked();
	xr_cpu_before = 0;
	xr_cpu_from = xr_cpu_from ? xr_rdtsc() : 0;
	xr_spent = (struct xr_spent){0};
	if (!options.follow)
		xr_set_mode(XR_OFF);
	else if (output_template[0] && options.stream && root.mode != XR_OFF && !xr_observed())
		pending = 1;
}

static void before_fork(void)
{
	xr_control_fork();
	xr_lock(&xr_loader_lock);
}

static void after_fork(void) { xr_unlock(&xr_loader_lock); }

static void after_fork_in_child(void)
{
	xr_loader_lock = 0;
	xr_forked();
	if (options.follow)
		xr_control_again();
}

void xr_init(void)
{
	if (__atomic_exchange_n(&options.ready, 1, __ATOMIC_ACQ_REL))
		return;
	root.pid = xr_sys0(SYS_getpid);
	xr_remember_stderr();
	const char *text = secure_getenv(VARIABLE);
	if (text)
		read_options(text);
	if (options.pid && options.pid != root.pid)
		options.asked = 0;
	else if (options.asked && !options.follow && !options.pid)
		keep_to_itself(text);
	if (options.asked)
		root.session = options.session;
	if (options.output && options.asked)
		make_template();
	if (options.shm && options.asked)
		share_rings();
	xr_anchor(&root.start);
	root.invariant = xr_invariant_tsc();
	xr_patch_init();
	root.ring_budget = options.budget;
	if (xr_ring_init(options.dontdump)) {
		xr_warn("no memory", NULL);
		return;
	}
	uint64_t n = options.ring / XR_CHUNK_SIZE;
	root.nchunks = n < 2 ? 2 : n;
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void load_filter(void)
{
	int fd = xr_open(options.filter, O_RDONLY | O_CLOEXEC, 0);
	char *text = fd < 0 ? NULL : xr_map(MAX_FILTER);
	int64_t n = 0, k = fd < 0 ? fd : -ENOMEM;
	while (text && (k = xr_read(fd, text + n, MAX_FILTER - n)) > 0)
		n += k;
	if (fd >= 0)
		xr_close(fd);
	if (k < 0)
		xr_warn("the filter cannot be read", xr_errno_text(k));
	else if (n == MAX_FILTER)
		xr_warn("the filter is too large", NULL);
	else if (xr_set_filter(text, n))
		xr_warn("the filter has a line that is not understood", options.filter);
	if (text)
		xr_unmap(text, MAX_FILTER);
}

/* Whether anything could be recorded as of now. */
static int has_sleds(void)
{
	for (uint64_t i = 0; i < root.nobjects; i++)
		if (root.objects[i].state == XR_OBJECT_READY)
			return 1;
	return 0;
}

static void start_as_asked(void)
{
	if (options.filter)
		load_filter();
	if (options.start && options.mode != XR_OFF) {
		/* A program without sleds leaves no output, unless it loads some. */
		xr_rescan();
		int stream = output_template[0] && options.stream, fd = -1;
		pending = (stream || options.observer) && !has_sleds();
		if (!pending && join_observer())
			stream = 0;
		if (stream && !pending) {
			fd = xr_open_output(output_template);
			if (fd < 0)
				xr_warn("the output cannot be written", xr_errno_text(fd));
		}
		const char *why = xr_start(options.mode, options.threshold_ns, options.depth, fd, options.limit);
		if (why)
			xr_warn("recording does not start", why);
		if (why && fd >= 0)
			xr_close(fd);
	}
}

/* gold drops the sled table of a program with --gc-sections if nothing refers to it. */
extern const char __start_xray_instr_map[] __attribute__((weak, visibility("hidden")));

__attribute__((constructor(101))) static void begin(void)
{
	__asm__ volatile("" : : "r"(__start_xray_instr_map));
	uint64_t cpu = xr_cpu_ns();
	xr_init();
	xr_landings_init(options.asked);
	if (!options.asked)
		return;
	xr_lock(&xr_control_lock);
	start_as_asked();
	xr_unlock(&xr_control_lock);
	if (options.dump && (!options.control || xr_equal(options.control, "0")))
		options.control = "1"; /* whose thread writes them */
	if (options.control && !xr_equal(options.control, "0")) {
		int err = xr_control_start(options.control);
		if (err)
			xr_warn("it cannot be controlled", xr_errno_text(err));
	}
	if (options.dump) {
		const char *why = xr_dump_at(options.dump);
		if (why)
			xr_warn(why, options.dump);
	}
	if (xr_cpu_from) {
		/* Of a program that is recorded from its start, all CPU time counts. */
		xr_cpu_before = 0;
		xr_spent.setup_ns = xr_cpu_ns() - cpu;
	}
}

/* Rings that are not streamed are written when the program ends. */
static void write_rings(void)
{
	int fd = xr_open_output(output_template);
	if (fd < 0) {
		xr_warn("the output cannot be written", xr_errno_text(fd));
		return;
	}
	struct xr_written w;
	int64_t n = xr_snapshot(fd, 0, &w);
	if (n < 0)
		xr_warn("the output cannot be written", xr_errno_text(n));
	xr_close(fd);
}

void xr_dump(void)
{
	static char name[MAX_PATH];
	static uint32_t number;
	struct xr_text t = xr_text_in(name, sizeof name - 1);
	xr_put_text(&t, output_template[0] ? output_template : "xray-%e.%p.xray");
	xr_put_text(&t, ".dump-");
	xr_put_number(&t, ++number);
	name[t.n] = 0;
	int fd = xr_open_output(name);
	int64_t n = fd;
	if (fd >= 0) {
		n = xr_snapshot(fd, 0, NULL);
		xr_close(fd);
	}
	if (n < 0)
		xr_warn("a dump cannot be written", xr_errno_text(n));
}

__attribute__((destructor(101))) static void end(void)
{
	if (xr_sealed)
		return; /* nothing of this could be done; an observer writes what is left */
	xr_forked();
	xr_lock(&xr_control_lock);
	if (xr_observed() && !xr_arena_lost()) {
		xr_rescan();
		xr_arena_publish(); /* other threads go on until the process is gone */
	} else if (root.mode != XR_OFF) {
		xr_patch(0);
		int rings = xr_observed() || (!root.stream && !options.stream);
		if (rings && output_template[0] && root.nthreads)
			write_rings();
		xr_stop();
	}
	xr_share_end();
	xr_unlock(&xr_control_lock);
}
