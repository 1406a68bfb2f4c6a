/* Windows: the times in which calls are recorded, if that is not all the time.
 *
 * With a schedule, for example one second of every minute, the control thread switches the sleds on when
 * a window begins and off when it ends. Threads do not know about windows. A window lasts from the moment
 * when all sleds are on until the first is switched off, and readers ignore records outside it.
 *
 * Without a schedule, each pause divides the recording into windows: exits that fall into the pause are
 * not recorded, so no call is known to go on behind it. Every other change after which exits may be
 * missing counts as a pause, too: of the mode, of the filter, and a stop before another start. */
#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "later.h"
#include "layout.h"
#include "patch.h"
#include "profile.h"
#include "state.h"
#include "syscall.h"
#include "text.h"
#include "window.h"
#include "writer.h"

enum { LEAST = 1000000 }; /* minimum duration of a window, and of the time between two, in ns */

/* The schedule. Missed windows are skipped. */
static uint64_t start_ns; /* CLOCK_MONOTONIC when a window begins */
static struct { uint64_t length_ns, every_ns; } plan; /* of the next recording */
static uint32_t open;
static uint32_t unsure;   /* a fork interrupted the switching of sleds */
static uint64_t paused_at; /* TSC of the latest xr_windows_pause; 0: no window was open */
static uint64_t cpu_ns;   /* of the process when the open window began */
static uint64_t first;    /* number of this recording's first window */
/* Without a schedule, the first window of a process is listed only when there is another one. Before
 * that, from is not 0. Then listed says that this is past: there were records before. */
static struct xr_window unlisted;
static uint32_t earlier;
static uint64_t total;    /* ticks in its windows that have ended */

int xr_windows_on(void) { return xr_windows.active; }

void xr_windows_plan(uint64_t length_ns, uint64_t every_ns)
{
	plan.length_ns = length_ns;
	plan.every_ns = every_ns;
}

const char *xr_windows_check(enum xr_mode mode, uint64_t threshold_ns, int planned)
{
	uint64_t length_ns = planned ? plan.length_ns : xr_root.window_ns, every_ns = planned ? plan.every_ns : xr_root.every_ns;
	if (!length_ns && !every_ns)
		return NULL;
	if (length_ns < LEAST || every_ns < length_ns + LEAST || every_ns >> 60)
		return "a window must last at least 1 ms and end at least 1 ms before the next one";
	if (mode != XR_RECORD && mode != XR_PRUNE && mode != XR_COUNT)
		return "windows require mode record, prune or count, without a depth limit";
	if (threshold_ns >= every_ns - length_ns)
		return "the threshold must be shorter than the time between windows";
	return NULL;
}

/* The table. Its last row is the open window, if there is one. */

static struct xr_window *row(uint64_t i) { return &xr_root.windows[i % XR_WINDOWS]; }

int xr_window_at(uint64_t tsc, struct xr_window *w)
{
	uint64_t n = xr_root.windows ? __atomic_load_n(&xr_root.nwindows, __ATOMIC_ACQUIRE) : 0;
	*w = unlisted;
	if (w->from)
		return w->from <= tsc && (!w->to || w->to >= tsc);
	for (uint64_t i = n; i-- && n - i <= XR_WINDOWS;) {
		*w = *row(i);
		if (w->from <= tsc)
			return !w->to || w->to >= tsc;
	}
	return !n;
}

static int make_table(void)
{
	if (!xr_root.windows)
		xr_root.windows = xr_arena_windows();
	if (!xr_root.windows)
		xr_root.windows = xr_map(XR_WINDOWS * sizeof *xr_root.windows);
	return xr_root.windows != NULL;
}

static void list(struct xr_window w)
{
	struct xr_window *to = row(xr_root.nwindows);
	to->to = w.to;
	to->cpu_ns = w.cpu_ns;
	__atomic_store_n(&to->from, w.from, __ATOMIC_RELEASE);
	__atomic_store_n(&xr_root.nwindows, xr_root.nwindows + 1, __ATOMIC_RELEASE);
	xr_arena_windows_are(xr_root.nwindows);
}

/* Behind a seccomp filter, nobody asks for the CPU time. */
static uint64_t cpu_now(void) { return xr_sealed ? cpu_ns : xr_cpu_ns(); }

static void begin(uint64_t from)
{
	if (!make_table())
		return;
	if (unlisted.from)
		list(unlisted);
	unlisted.from = 0;
	cpu_ns = cpu_now();
	open = earlier = 1;
	list((struct xr_window){.from = from});
}

static struct xr_window *latest(void) { return unlisted.from ? &unlisted : row(xr_root.nwindows - 1); }

static void end(uint64_t to)
{
	struct xr_window *w = latest();
	w->cpu_ns = cpu_now() - cpu_ns;
	open = 0;
	total += to - w->from;
	__atomic_store_n(&w->to, to, __ATOMIC_RELEASE);
}

/* Begins the first window of a process without a schedule. */
static void begin_unlisted(uint64_t from)
{
	unlisted = (struct xr_window){.from = from};
	cpu_ns = cpu_now();
	open = earlier = 1;
}

void xr_windows_share(void)
{
	struct xr_window *own = xr_root.windows, *shared = own ? xr_arena_windows() : NULL;
	uint64_t n = xr_root.nwindows < XR_WINDOWS ? xr_root.nwindows : XR_WINDOWS;
	if (xr_windows.active)
		start_ns = xr_arena_schedule(start_ns);
	if (!shared || shared == own)
		return;
	xr_copy(shared, own, n * sizeof *own);
	xr_root.windows = shared;
	xr_arena_windows_are(xr_root.nwindows);
}

void xr_windows_forked(void)
{
	uint32_t was_open = open && !(xr_windows.active && xr_windows.quiet);
	unsure = xr_windows.active && open == xr_windows.quiet;
	xr_windows.quiet = xr_windows.active && !was_open;
	earlier = xr_root.mode != XR_OFF;
	xr_root.windows = NULL;
	xr_root.nwindows = total = first = open = 0;
	unlisted.from = 0;
	if (was_open && !xr_windows.active)
		begin_unlisted(xr_root.min_tsc);
	else if (was_open && !xr_sealed)
		begin(xr_rdtsc());
}

/* Switching. */

void xr_windows_begin(void)
{
	xr_root.window_ns = plan.length_ns;
	xr_root.every_ns = plan.every_ns;
	plan.length_ns = plan.every_ns = 0;
	xr_windows.active = xr_root.every_ns != 0;
	open = unsure = 0;
	xr_windows.quiet = xr_windows.active;
	start_ns = xr_windows.active ? xr_arena_schedule(xr_clock_ns(CLOCK_MONOTONIC)) : 0;
	/* Rings and the observer's trace also have records from before there were windows. */
	if (xr_windows.active && unlisted.from && make_table()) {
		list(unlisted);
		unlisted.from = 0;
	}
	first = xr_root.nwindows + (unlisted.from != 0);
	total = 0;
}

void xr_windows_pause(void)
{
	xr_later_write(); /* so that its metadata is that of its records */
	paused_at = open ? xr_rdtsc() : 0;
}

void xr_windows_resume(int sleds)
{
	int was_open = paused_at && open;
	if (was_open)
		end(paused_at);
	paused_at = 0;
	xr_profiles_cut();
	if (xr_limited)
		xr_budget_give_up_all();
	if (sleds && (xr_windows.active ? was_open : xr_keeps_records())) {
		if (xr_windows.active || earlier)
			begin(xr_rdtsc());
		else
			begin_unlisted(xr_rdtsc());
	}
	if (!unlisted.from && (was_open || open))
		xr_stream_windows(was_open);
}

void xr_windows_close(void)
{
	xr_windows_pause();
	xr_windows.quiet = xr_windows.active;
	xr_patch(0);
	xr_windows_resume(0);
}

static void open_window(void)
{
	xr_windows.quiet = 0; /* record landings and events as soon as the first sled is on */
	xr_patch(1);
	begin(xr_rdtsc());
	if (open) {
		xr_stream_windows(0);
	} else {
		xr_windows.quiet = 1;
		xr_patch(0);
	}
}

uint64_t xr_windows_step(void)
{
	if (!xr_windows.active || xr_root.mode == XR_OFF || xr_is_paused())
		return UINT64_MAX;
	uint64_t since = xr_clock_ns(CLOCK_MONOTONIC) - start_ns, at = since % xr_root.every_ns;
	int inside = at < xr_root.window_ns;
	if (unsure && !inside)
		xr_patch(0);
	unsure = 0;
	if (inside && !open && xr_root.nwindows < XR_MAX_WINDOWS)
		open_window();
	else if (!inside && open)
		xr_windows_close();
	else if (open)
		latest()->cpu_ns = cpu_now() - cpu_ns; /* in case the process is killed */
	return (inside ? xr_root.window_ns : xr_root.every_ns) - at;
}

void xr_windows_end(void)
{
	xr_windows_close();
	xr_windows.active = 0;
}

/* Metadata and status of the windows. */

void xr_put_schedule(struct xr_text *t)
{
	if (!xr_root.every_ns)
		return;
	xr_put_field(t, "window_ns", xr_root.window_ns);
	xr_put_field(t, "every_ns", xr_root.every_ns);
}

void xr_put_window_status(struct xr_text *t)
{
	if (!xr_windows.active)
		return;
	uint64_t ticks = total + (open ? xr_rdtsc() - latest()->from : 0);
	xr_calibrated();
	xr_put_key(t, "windows");
	xr_put_text(t, "{");
	xr_put_field(t, "length_ns", xr_root.window_ns);
	xr_put_field(t, "every_ns", xr_root.every_ns);
	xr_put_field(t, "count", xr_root.nwindows - first);
	xr_put_field(t, "recorded_ns", xr_ns(ticks));
	xr_put_field_bool(t, "open", open);
	xr_put_text(t, "}");
}

uint64_t xr_windows_from(const struct xr_trace *trace)
{
	uint64_t n = xr_root.windows ? xr_root.nwindows : 0, i = trace->windows;
	if (n > XR_WINDOWS && i < n - XR_WINDOWS)
		i = n - XR_WINDOWS;
	while (i < n && row(i)->to && row(i)->to < trace->since)
		i++;
	/* Without a schedule, a single window is a trace without pauses. */
	return !xr_windows.active && i == first && n == first + 1 ? n : i;
}

void xr_put_windows(struct xr_text *t, struct xr_trace *trace)
{
	uint64_t n = xr_root.nwindows, from = xr_windows_from(trace), count = n - from;
	xr_put(t, &count, sizeof count);
	for (uint64_t i = from; i < n; i++)
		xr_put(t, row(i), sizeof *row(i));
	trace->windows = n - open;
}
