/* The thread that serves the control socket, and does what has to be done from time to time: windows,
 * dumps, objects that are loaded, and metadata. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/stat.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "control.h"
#include "descriptors.h"
#include "dumps.h"
#include "imports.h"
#include "interpose.h"
#include "later.h"
#include "layout.h"
#include "lifecycle.h"
#include "loader.h"
#include "locks.h"
#include "objects.h"
#include "patch.h"
#include "ring.h"
#include "server.h"
#include "state.h"
#include "syscall.h"
#include "threads.h"
#include "window.h"
#include "writer.h"

#define LINGER 2000000000ull /* ns that the thread stays after the last recording in a process it was loaded into */
#define FORK_DELAY 10000000 /* ns before a forked child listens */

/* Users and groups of a thread: real, effective and saved. */
enum { MOST_GROUPS = 65536 }; /* the kernel's limit */
struct credentials {
	uint32_t uids[3], gids[3], groups[MOST_GROUPS];
	int64_t ngroups;
};

static struct {
	const char *where;   /* 1, or the path to listen at, or null */
	uint32_t delayed;    /* the thread runs in a child, which may end or exec at once */
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
} control;

enum { POSTED = 1, TAKEN };

/* States of the thread. */
enum { NONE, STARTING, SERVING, FAILED };

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

/* Returns how long the thread may wait for clients, in ns: until the next window, and at most 100 ms while
 * recording, because objects may be loaded or unloaded. */
static uint64_t patience(void)
{
	uint64_t ns = xr_root.mode != XR_OFF || xr_dumps_on() ? 100000000 : 1000000000, window = step_windows();
	return window < ns ? window : ns;
}

static int is_leaving(void) { return __atomic_load_n(&control.leave, __ATOMIC_ACQUIRE); }

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
	if (!needed || xr_root.mode != XR_OFF || xr_server_is_busy())
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
	if (!__atomic_compare_exchange_n(&control.errand, &posted, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	const struct credentials *r = &control.credentials;
	/* Users last, because they may be all that allows to change the others. */
	xr_sys2(SYS_setgroups, r->ngroups, (intptr_t)r->groups);
	xr_sys3(SYS_setresgid, r->gids[0], r->gids[1], r->gids[2]);
	xr_sys3(SYS_setresuid, r->uids[0], r->uids[1], r->uids[2]);
	xr_set_word(&control.errand, 0);
}

static void serve_all(void)
{
	uint64_t looked = 0;
	int accepted = 1;
	while (!is_leaving()) {
		run_errand();
		xr_server_keep_listening();
		xr_server_wait(accepted != 0, patience()); /* if no client can be accepted, serve others first */
		accepted = 1;
		for (int i = 0; i < XR_CLIENTS && accepted > 0 && !is_leaving(); i++)
			accepted = xr_server_accept();
		uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
		if (now - looked > 100000000 && !is_leaving()) {
			if (first_is_gone() || (control.visiting && is_unneeded(now)))
				break;
			xr_dumps_step();
			look_after();
			looked = now;
		}
	}
}

static void run_thread(void)
{
	for (uint64_t until = xr_clock_ns(CLOCK_MONOTONIC) + FORK_DELAY; control.delayed; run_errand()) {
		uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
		if (now >= until)
			break;
		struct { int64_t s, ns; } left = {0, until - now};
		xr_sys4(SYS_futex, (intptr_t)&control.errand, FUTEX_WAIT_PRIVATE, 0, (intptr_t)&left);
	}
	/* In a descriptor table of its own, the program does not see the thread's sockets and its
	 * children do not inherit them. A visiting thread may end before the program. It keeps the
	 * program's table, because from another table it could not close what the recorder opened
	 * in the program's. */
	if (!control.visiting)
		xr_leave_table();
	control.error = xr_server_listen(control.where);
	if (control.error) {
		xr_set_word(&control.state, FAILED);
		return;
	}
	xr_set_word(&control.state, SERVING);
	serve_all();
	xr_later_flush();
	if (!is_leaving() && xr_windows_on()) { /* without this thread, nothing would close the window */
		xr_lock(XR_LOCK_CONTROL);
		xr_windows_end();
		xr_unlock(XR_LOCK_CONTROL);
	}
	xr_server_close();
	xr_loader_dismiss(); /* last: a client that hangs up may end a recording, which needs the loader */
	if (control.visiting && !is_leaving()) {
		pthread_detach(control.thread.thread);
		control.where = NULL;
		xr_set_word(&control.state, NONE);
	}
}

/* Returns whether libc has to know the thread: unless functions of ours replace some of libc's, or if
 * the thread looks for objects. */
static int needs_pthread(void)
{
	return !&xr_interposes || control.visiting || control.ordinary || xr_has_late_objects() || xr_has_gcc_objects();
}

static int start_thread(void)
{
	xr_server_reset();
	control.leave = control.errand = 0;
	control.pid = xr_sys0(SYS_getpid);
	control.state = STARTING;
	control.raw = !needs_pthread();
	int err = control.raw ? xr_raw_thread_start(XR_RAW_CONTROL, run_thread) : 0;
	if (err || !control.raw) {
		control.raw = 0;
		err = xr_pthread_start(&control.thread, run_thread);
	}
	if (err)
		control.state = NONE;
	return err;
}

int xr_control_start(const char *where)
{
	if (control.state != NONE)
		return 0;
	int err = xr_server_open();
	if (err)
		return err;
	control.where = where;
	err = start_thread();
	if (err)
		return err;
	xr_await_change(&control.state, STARTING);
	return control.state == FAILED ? control.error : 0;
}

int xr_control_runs(void) { return control.state == SERVING; }
int xr_control_exists(void) { return control.state == SERVING || control.state == STARTING; }

int xr_control_attach(void)
{
	control.visiting = 1;
	return xr_control_start("1");
}

static void end_thread(void)
{
	xr_await_change(&control.state, STARTING);
	__atomic_store_n(&control.leave, 1, __ATOMIC_RELEASE);
	if (control.state == SERVING)
		xr_server_wake();
	if (control.raw) {
		xr_raw_thread_join(XR_RAW_CONTROL);
		xr_loader_end_help();
	} else {
		xr_pthread_join(&control.thread);
	}
	control.state = NONE;
}

int xr_control_pause(void)
{
	if (control.state == NONE)
		return 0;
	end_thread();
	return 1;
}

void xr_control_resume(void)
{
	control.where = "1";
	start_thread();
}

/* Returns the number of threads of the process, including the recorder's, or 0 if unknown. */
static uint64_t count_threads(void)
{
	struct stat st;
	/* Each thread is a directory, besides . and .. */
	return xr_sys2(SYS_stat, (intptr_t)"/proc/self/task", (intptr_t)&st) || st.st_nlink < 2 ? 0 : st.st_nlink - 2;
}

static uint64_t count_own_threads(void) { return control.state == NONE ? 0 : 1 + xr_loader_is_helped(); }

int xr_control_is_second(void) { return control.state != NONE && count_threads() == 1 + count_own_threads(); }

/* A child of several threads must not allocate memory for a thread: the program's allocator may
 * be locked. glibc gives a new thread the stack and the descriptor of one that is gone, like
 * the parent's control thread, if their sizes agree. */
int xr_control_fork(void)
{
	/* A seccomp filter may forbid the system calls. */
	int alone = !xr_sealed && count_threads() == 1 + count_own_threads();
	int inherits = control.state != NONE && (!control.raw || xr_loader_is_helped() || !needs_pthread());
	control.heritable = !xr_sealed && (alone || inherits);
	return alone;
}

/* Whether a forked child without the thread may start it. */
static int may_inherit(void) { return control.where && control.heritable && !xr_sealed && !xr_loader_is_lost(); }

void xr_control_forked(void)
{
	/* The child's table is a copy of a program thread's table. If the control thread had its
	 * own table, none of these descriptors are in it, and their numbers belong to the program. */
	if (control.where)
		xr_server_forked();
	control.state = NONE;
	xr_raw_thread_forked(XR_RAW_CONTROL);
}

int xr_control_is_raw(void) { return control.raw && control.state != NONE; }

/* Returns whether the caller may turn to the raw thread. A child of vfork shares this memory, but not
 * the thread. */
static int can_reach_raw(void)
{
	return xr_control_is_raw() && !xr_is_sealed() && control.pid == (uint32_t)xr_sys0(SYS_getpid);
}

void xr_control_see_objects(void)
{
	if (!can_reach_raw())
		return;
	xr_lock(XR_LOCK_PAUSE);
	control.ordinary = 1;
	if (control.state != NONE)
		xr_loader_help();
	xr_unlock(XR_LOCK_PAUSE);
}

static void await_errand(uint64_t until)
{
	uint32_t errand;
	while ((errand = __atomic_load_n(&control.errand, __ATOMIC_ACQUIRE)) && xr_clock_ns(CLOCK_MONOTONIC) < until) {
		struct { int64_t s, ns; } patience = {0, 1000000};
		xr_sys3(SYS_futex, (intptr_t)&control.errand, FUTEX_WAKE_PRIVATE, INT32_MAX);
		if (control.state == SERVING)
			xr_server_wake();
		else if (control.state != STARTING)
			return; /* the thread has ended */
		xr_sys4(SYS_futex, (intptr_t)&control.errand, FUTEX_WAIT_PRIVATE, errand, (intptr_t)&patience);
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
	if (!__atomic_compare_exchange_n(&control.errand, &posted, 0, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		await_errand(until);
	struct credentials *r = &control.credentials;
	int64_t n = xr_sys2(SYS_getgroups, MOST_GROUPS, (intptr_t)r->groups);
	r->ngroups = n < 0 ? 0 : n;
	xr_sys3(SYS_getresuid, (intptr_t)&r->uids[0], (intptr_t)&r->uids[1], (intptr_t)&r->uids[2]);
	xr_sys3(SYS_getresgid, (intptr_t)&r->gids[0], (intptr_t)&r->gids[1], (intptr_t)&r->gids[2]);
	__atomic_store_n(&control.errand, POSTED, __ATOMIC_RELEASE);
	await_errand(until);
	xr_unlock(XR_LOCK_PAUSE);
	xr_restore_signals(signals);
}

void xr_control_wanted(void)
{
	if (__atomic_load_n(&control.delayed, __ATOMIC_RELAXED) && control.state == NONE &&
	    __atomic_exchange_n(&control.delayed, 0, __ATOMIC_RELAXED) && may_inherit())
		xr_control_resume();
}

void xr_control_again(void)
{
	if (xr_windows_on() && !may_inherit())
		xr_set_mode(XR_OFF); /* without the thread, nothing would close its windows */
	control.delayed = 1;
	/* A process with nothing to record, such as a shell, does not need the thread. */
	if (may_inherit() && (xr_root.nobjects || xr_root.nhooked))
		xr_control_resume();
}
