/* Start, stop, fork and end: what the other files do at each, and in which order. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "control.h"
#include "descriptors.h"
#include "dumps.h"
#include "imports.h"
#include "landings.h"
#include "later.h"
#include "layout.h"
#include "libcalls.h"
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
#include "shared.h"
#include "state.h"
#include "sums.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"
#include "window.h"
#include "writer.h"

/* Whether the first record opens the output. */
static uint32_t pending;

/* Output. */

static void begin_stream(void)
{
	int fd = xr_open_output(xr_options.template);
	int err = fd < 0 ? fd : xr_stream_begin(fd);
	if (!err || fd < 0)
		xr_root.stream_limit = xr_options.limit;
	else
		xr_close(fd);
	if (err)
		xr_warn("cannot write the output", xr_errno_text(err));
}

/* Lets the observer that the environment names write the trace. Returns 0 if there is none.
 * Then the process writes its trace itself. */
static int join_observer(void)
{
	if (!xr_options.observer)
		return 0;
	int err = xr_arena_join(xr_options.observer);
	if (err && xr_options.limited)
		xr_warn("cannot reach xray record, so this process has no budget and is not recorded", xr_errno_text(err));
	else if (err)
		xr_warn("cannot reach xray record, so this process writes its own trace", xr_errno_text(err));
	else
		xr_arena_publish();
	return !err;
}

void xr_open_pending(void)
{
	if (xr_sealed || !__atomic_exchange_n(&pending, 0, __ATOMIC_ACQ_REL))
		return;
	xr_lock(XR_LOCK_CONTROL);
	if (!xr_root.stream && xr_root.mode != XR_OFF && !join_observer() && xr_options.stream && xr_options.template[0] && !xr_options.limited)
		begin_stream();
	xr_windows_share();
	if (xr_limited || (xr_options.limited && !xr_observed()))
		xr_set_mode(xr_limited ? xr_root.mode : XR_OFF);
	xr_unlock(XR_LOCK_CONTROL);
}

/* Whether the process writes the rest of the trace that its observer began. */
static uint32_t alone;

static void write_rest(void)
{
	xr_change("xray record's writing process has ended");
	int fd = xr_open_output(xr_options.template);
	int err = fd < 0 ? fd : xr_stream_rest(fd);
	xr_root.stream_limit = xr_options.limit;
	if (err && fd >= 0)
		xr_close(fd);
	if (err)
		xr_warn("cannot write the rest of the trace: xray record's writing process has ended", xr_errno_text(err));
}

void xr_continue_alone(void)
{
	if (alone || xr_sealed || !xr_arena_streams() || !xr_arena_lost())
		return;
	if (xr_root.mode != XR_OFF && !xr_root.stream && xr_options.template[0])
		write_rest();
	__atomic_store_n(&alone, 1, __ATOMIC_RELEASE); /* only now may threads reuse their chunks */
}

void xr_lost_observer(void)
{
	if (__atomic_load_n(&alone, __ATOMIC_ACQUIRE) || xr_sealed)
		return;
	xr_lock(XR_LOCK_CONTROL);
	xr_continue_alone();
	xr_unlock(XR_LOCK_CONTROL);
}

/* Recording. */

static const char *check_mode(enum xr_mode *mode, uint32_t depth)
{
	if (depth && (*mode == XR_RECORD || *mode == XR_PRUNE))
		*mode = XR_DEPTH;
	if (*mode == XR_DEPTH && (!depth || depth > XR_MAX_DEPTH))
		return "depth must be between 1 and 256";
	return NULL;
}

static const char *set_recording(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth)
{
	const char *why = check_mode(&mode, depth);
	if (why)
		return why;
	/* Status and traces show these values; other modes do not use them. */
	if (mode != XR_PRUNE && mode != XR_DEPTH)
		threshold_ns = 0;
	if (threshold_ns)
		xr_calibrated();
	xr_threshold_ns = threshold_ns;
	xr_root.threshold = threshold_ns ? xr_ticks(threshold_ns) : 0;
	xr_root.depth = mode == XR_DEPTH ? depth : 0;
	return xr_set_mode(mode) ? "this mode is not available" : NULL;
}

/* Whether sleds should be on. */
static int wants_sleds(void) { return !xr_paused && !xr_between_windows(); }

const char *xr_start(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth, int fd, uint64_t limit)
{
	if (xr_root.mode != XR_OFF)
		return xr_paused ? "it is already recording, and paused; stop it first" : "it is already recording; stop it first";
	if (!xr_root.nchunks)
		return "no memory for the recorder";
	uint64_t cpu = xr_cpu_ns(), now = xr_rdtsc();
	const char *why = xr_windows_check(depth ? XR_DEPTH : mode, threshold_ns, 1);
	if (!why)
		why = set_recording(mode, threshold_ns, depth);
	if (why)
		return why;
	xr_cpu_before = cpu;
	xr_cpu_from = now;
	xr_spent = (struct xr_spent){0};
	xr_rescan();
	xr_forget_names();
	xr_sums_begin();
	xr_probe_cost();
	xr_root.stream_limit = limit;
	xr_windows_begin();
	int err = fd < 0 ? 0 : xr_stream_begin(fd);
	if (err) {
		xr_windows_end();
		xr_set_mode(XR_OFF);
		return xr_errno_text(err);
	}
	if (xr_windows_on()) {
		xr_windows_step();
	} else {
		xr_patch(1);
		xr_windows_resume(1);
	}
	xr_imports_redirect(1);
	xr_spent.setup_ns = xr_cpu_ns() - cpu;
	xr_arena_publish();
	return NULL;
}

/* Whether exits that one mode records are recorded in another mode, too. */
static int records_the_same(enum xr_mode a, enum xr_mode b)
{
	return a == b || ((a == XR_RECORD || a == XR_PRUNE) && (b == XR_RECORD || b == XR_PRUNE));
}

void xr_resume(void)
{
	xr_paused = 0;
	xr_patch(wants_sleds());
	xr_windows_resume(wants_sleds());
	xr_arena_publish();
}

const char *xr_switch(enum xr_mode mode, uint64_t threshold_ns, uint32_t depth)
{
	if (xr_root.mode == XR_OFF)
		return "not recording";
	enum xr_mode before = xr_root.mode;
	const char *why = NULL;
	if (xr_windows_on() && mode != XR_OFF)
		why = xr_windows_check(depth ? XR_DEPTH : mode, threshold_ns, 0);
	if (why)
		return why;
	if (mode == XR_OFF) {
		xr_paused = 1;
		xr_windows_close();
		xr_arena_publish();
		return NULL;
	}
	xr_windows_pause();
	why = set_recording(mode, threshold_ns, depth);
	if (!why && (xr_paused || !records_the_same(before, xr_root.mode)))
		xr_resume();
	else if (!why)
		xr_arena_publish();
	return why;
}

void xr_refilter(void)
{
	if (xr_root.mode == XR_OFF || !wants_sleds())
		return;
	xr_windows_pause();
	xr_patch(1);
	xr_windows_resume(1);
}

void xr_stop(void)
{
	uint64_t cpu = xr_cpu_ns();
	pending = xr_paused = 0;
	xr_windows_end();
	xr_imports_redirect(0);
	xr_spent.setup_ns += xr_cpu_ns() - cpu;
	xr_stream_end();
	xr_arena_publish();
	xr_arena_flush();
	xr_set_mode(XR_OFF);
	xr_budget_stop();
}

/* Processes. */

void xr_forked(void)
{
	if (!xr_is_forked())
		return;
	/* If the process has its own budget, its child has no controller, so it does not record to a
	 * stream. It does record to rings, because xray watch finds it. */
	int follow = xr_options.follow && !(xr_budget_is_own() && xr_root.stream);
	xr_locks_forked();
	xr_later_forked();
	alone = 0;
	xr_writer_forked();
	xr_control_forked();
	xr_offcpu_forked();
	xr_ring_forked();
	xr_budget_forked();
	xr_patch_forked();
	xr_windows_forked();
	xr_forget_names();
	xr_cpu_before = 0;
	xr_cpu_from = xr_cpu_from ? xr_rdtsc() : 0;
	xr_spent = (struct xr_spent){0};
	if (!follow) {
		xr_set_mode(XR_OFF);
		xr_budget_stop();
	} else if (xr_options.template[0] && xr_options.stream && xr_root.mode != XR_OFF && !xr_observed()) {
		pending = 1;
	}
}

static uint32_t had_threads;

static void before_fork(void)
{
	xr_budget_before_fork();
	had_threads = !xr_control_fork();
	xr_lock(XR_LOCK_LOADER);
	xr_offcpu_fork();
}

static void after_fork(void)
{
	xr_offcpu_fork_done();
	xr_unlock(XR_LOCK_LOADER);
}

static void after_fork_in_child(void)
{
	xr_locks_forked();
	xr_loader_forked(had_threads);
	xr_forked();
	if (xr_options.follow)
		xr_control_again();
}

static void share_rings(void)
{
	char program[256];
	struct xr_text t = xr_text_in(program, sizeof program - 1);
	xr_put_base_name(&t);
	program[t.n] = 0;
	if (xr_options.shm[0] != '/' || xr_share_begin(xr_options.shm, program))
		xr_warn("the rings stay in memory: shm= must be a short absolute path", xr_options.shm);
}

/* Rings get their size before there is any. */
static void size_rings(void)
{
	enum { LEAST = 16 };
	uint64_t n = xr_options.ring / XR_CHUNK_SIZE, limit = xr_options.memory / XR_CHUNK_SIZE;
	if (xr_options.memory && xr_options.shm) {
		xr_warn("memory= has no effect with shm=: all rings of the file are as large as ring= says", NULL);
	} else if (xr_options.memory) {
		if (limit < LEAST)
			xr_warn("memory= is less than 1048576, the minimum, which is used", NULL);
		xr_memory.limit = limit < LEAST ? LEAST : limit;
		if (n > xr_memory.limit)
			n = xr_memory.limit;
	}
	xr_root.nchunks = n < 2 ? 2 : n;
}

void xr_init(void)
{
	static uint32_t ready;
	if (__atomic_exchange_n(&ready, 1, __ATOMIC_ACQ_REL))
		return;
	xr_root.pid = xr_sys0(SYS_getpid);
	xr_remember_stderr();
	if (!xray_recorder_late)
		xr_read_options(NULL);
	if (xr_options.asked)
		xr_root.session = xr_options.session;
	if (xr_options.shm && xr_options.asked)
		share_rings();
	xr_anchor(&xr_root.start);
	xr_root.invariant = xr_invariant_tsc();
	xr_patch_init();
	xr_loader_init();
	xr_root.ring_budget = xr_options.budget;
	if (xr_ring_init(xr_options.dontdump)) {
		xr_warn("no memory", NULL);
		return;
	}
	size_rings();
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void load_filter(void)
{
	char *text = NULL;
	uint64_t mapped = 0;
	int fd = xr_open(xr_options.filter, O_RDONLY | O_CLOEXEC, 0);
	int64_t n = fd < 0 ? fd : xr_read_file(fd, &text, &mapped);
	if (fd >= 0)
		xr_close(fd);
	if (n < 0)
		xr_warn("cannot read the filter", xr_errno_text(n));
	else if (xr_set_filter(text, n))
		xr_warn("the filter has an invalid line", xr_options.filter);
	if (text)
		xr_unmap(text, mapped);
}

/* Returns whether anything can be recorded now. */
static int has_sleds(void)
{
	for (uint64_t i = 0; i < xr_root.nobjects; i++)
		if (xr_root.objects[i].state == XR_OBJECT_READY)
			return 1;
	return 0;
}

static void start_as_asked(void)
{
	if (xr_options.filter)
		load_filter();
	else if (xr_options.select && xr_options.observer)
		xr_ask_filter(xr_equal(xr_options.select, "except"));
	if (xr_options.start && xr_options.mode != XR_OFF) {
		if (!xr_options.every && !xr_options.limited)
			xr_starts = XR_STARTS_ALL;
		/* A program without sleds gets no output, unless it loads some. */
		xr_rescan();
		int stream = xr_options.template[0] && xr_options.stream, fd = -1;
		pending = (stream || xr_options.observer) && !has_sleds();
		if (!pending && join_observer())
			stream = 0;
		else if (!pending && xr_options.limited)
			return;
		if (stream && !pending) {
			fd = xr_open_output(xr_options.template);
			if (fd < 0)
				xr_warn("cannot write the output", xr_errno_text(fd));
		}
		xr_windows_plan(xr_options.window, xr_options.every);
		const char *why = xr_start(xr_options.mode, xr_options.threshold_ns, xr_options.depth, fd, xr_options.limit);
		if (why)
			xr_warn("cannot start recording", why);
		if (why && fd >= 0)
			xr_close(fd);
	}
}

/* Lets the parent start a recording before main. It says when. */
static void await_start(void)
{
	enum { STEP = 1000000 /* ns */, STEPS = 10000 };
	for (int i = 0; i < STEPS && __atomic_load_n(&xr_options.await, __ATOMIC_ACQUIRE) == (uint64_t)xr_sys0(SYS_getppid); i++)
		xr_sleep_ns(STEP);
}

/* gold drops the sled table of a program with --gc-sections if nothing refers to it. */
extern const char __start_xray_instr_map[] __attribute__((weak, visibility("hidden")));

__attribute__((constructor(101))) static void begin(void)
{
	__asm__ volatile("" : : "r"(__start_xray_instr_map));
	uint64_t cpu = xr_cpu_ns();
	xr_init();
	xr_landings_init(xr_options.asked);
	if (!xr_options.asked)
		return;
	xr_lock(XR_LOCK_CONTROL);
	xr_starts = XR_STARTS;
	start_as_asked();
	xr_starts = XR_STARTED;
	xr_unlock(XR_LOCK_CONTROL);
	if ((xr_options.dump || xr_windows_on()) && (!xr_options.control || xr_equal(xr_options.control, "0")))
		xr_options.control = "1"; /* the control thread writes dumps, and opens and closes windows */
	if (xr_options.control && !xr_equal(xr_options.control, "0")) {
		xr_lock(XR_LOCK_CONTROL);
		xr_rescan();
		xr_discovered_first();
		xr_unlock(XR_LOCK_CONTROL);
		int err = xr_control_start(xr_options.control);
		if (err)
			xr_warn("this process cannot be controlled", xr_errno_text(err));
		if (err && xr_windows_on()) {
			xr_lock(XR_LOCK_CONTROL);
			xr_windows_end();
			xr_unlock(XR_LOCK_CONTROL);
		}
	}
	if (xr_options.await && has_sleds() && xr_control_runs())
		await_start();
	if (xr_options.dump) {
		const char *why = xr_dump_at(xr_options.dump);
		if (why)
			xr_warn(why, xr_options.dump);
	}
	if (xr_cpu_from) {
		/* For a program that is recorded from its start, all CPU time counts. */
		xr_cpu_before = 0;
		xr_spent.setup_ns = xr_cpu_ns() - cpu;
	}
}

/* The process that loaded the recorder calls this each time that it wants to control this process.
 * *result becomes 1 or -errno. Until then it is 0. */
__attribute__((visibility("default"))) void xray_recorder_attach(const char *options, int32_t *result)
{
	static uint32_t known;
	if (!known) {
		known = 1;
		xr_read_options(options);
		size_rings();
		xr_landings_init(1);
	}
	int err = xr_control_attach();
	*result = err ? err : 1;
}

/* Writes rings that are not streamed, when the program ends. */
static void write_rings(void)
{
	int fd = xr_open_output(xr_options.template);
	if (fd < 0) {
		xr_warn("cannot write the output", xr_errno_text(fd));
		return;
	}
	struct xr_written w;
	int64_t n = xr_snapshot(fd, 0, &w);
	if (n < 0)
		xr_warn("cannot write the output", xr_errno_text(n));
	xr_close(fd);
}

void xr_dump(void)
{
	static char name[sizeof xr_options.template];
	static uint32_t number;
	struct xr_text t = xr_text_in(name, sizeof name - 1);
	xr_put_text(&t, xr_options.template[0] ? xr_options.template : "xray-%e.%p.xray");
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
		xr_warn("cannot write a dump", xr_errno_text(n));
}

__attribute__((destructor(101))) static void end(void)
{
	if (xr_sealed)
		return; /* none of this is possible; an observer writes the rest */
	xr_forked();
	xr_lock(XR_LOCK_CONTROL);
	xr_later_write();
	if (xr_options.observer)
		xr_arena_check(xr_options.observer);
	xr_continue_alone();
	if (xr_observed() && !xr_arena_lost()) {
		xr_rescan();
		xr_arena_publish(); /* other threads continue until the process has ended */
	} else if (xr_root.mode != XR_OFF) {
		xr_windows_end();
		int rings = xr_observed() ? !xr_arena_streams() : !xr_root.stream && !xr_options.stream;
		if (rings && xr_options.template[0] && xr_root.nthreads)
			write_rings();
		xr_stop();
	}
	xr_share_end();
	xr_unlock(XR_LOCK_CONTROL);
}
