/* LLVM's API for logs: xray/xray_log_interface.h of compiler-rt.
 *
 * A mode is a set of functions, which the program or the recorder provides. The recorder has
 * compiler-rt's three modes: xray-fdr records to the rings, xray-basic to a file, and
 * xray-profiling makes a profile. They write xray's own traces. If there is already a recording
 * when the program begins its log, that recording continues. The log is then its part from that
 * time on, as far as the rings hold it. */
#define _GNU_SOURCE
#include <errno.h>

#include "descriptors.h"
#include "hooks.h"
#include "layout.h"
#include "lifecycle.h"
#include "llvm_api.h"
#include "llvm_flags.h"
#include "options.h"
#include "output.h"
#include "patch.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"
#include "writer.h"

/* enum XRayLogInitStatus, XRayLogFlushStatus, XRayLogRegisterStatus */
enum { UNINITIALIZED, INITIALIZING, INITIALIZED, FINALIZING, FINALIZED };
enum { NOT_FLUSHING, FLUSHING, FLUSHED };
enum { REGISTERED, DUPLICATE, NOT_FOUND, INCOMPLETE };

struct XRayBuffer {
	const void *data;
	size_t size;
};

struct XRayLogImpl {
	int (*init)(size_t buffer_size, size_t buffers, void *arguments, size_t size);
	int (*finalize)(void);
	xr_function *handle;
	int (*flush)(void);
};

/* The recorder's logs. */

static struct {
	enum xr_llvm_mode kind;
	int status;
	int own;          /* the recording belongs to this log; otherwise the log is a part of another one */
	int streamed;     /* the recording is streamed to a file of its own */
	int named;        /* xr_options.template belongs to the log */
	uint64_t since;   /* TSC */
	int no_file;
	const uint8_t *data; /* the trace, after the log is finalized */
	uint64_t size;
} session;

enum { FILE_HEADER = 32, EXTENTS = 16 };

#define MAX_THRESHOLD 1000000000000ull /* µs */

static struct XRayBuffer no_buffer(struct XRayBuffer b)
{
	(void)b;
	return (struct XRayBuffer){0};
}

static struct XRayBuffer (*iterator)(struct XRayBuffer) = no_buffer;

/* Returns the next buffer of a finalized log: first the header of the file, then its blocks, each of
 * which begins with its size. */
static struct XRayBuffer next_buffer(struct XRayBuffer b)
{
	uint64_t at = b.data ? (uint64_t)((const uint8_t *)b.data + b.size - session.data) : 0;
	struct XRayBuffer next = {session.data + at, FILE_HEADER};
	if (!session.data || at >= session.size)
		return (struct XRayBuffer){0};
	if (at) {
		uint64_t extent = 0;
		if (session.size - at >= EXTENTS)
			__builtin_memcpy(&extent, session.data + at + 1, sizeof extent);
		next.size = EXTENTS + extent;
	}
	if (next.size > session.size - at)
		next.size = session.size - at;
	return next;
}

/* Puts the template of the next file's name. A process may write several. */
static void put_name(struct xr_text *t)
{
	static uint32_t number;
	for (const char *p = xr_llvm_flags.base; *p; p++) {
		xr_put(t, p, 1);
		if (*p == '%')
			xr_put(t, p, 1);
	}
	xr_put_text(t, "%e.%p");
	if (number++) {
		xr_put_text(t, ".");
		xr_put_number(t, number);
	}
}

/* Prints the path of the log in compiler-rt's words, because scripts look for them. */
static void say_file(int fd)
{
	char link[48], room[1024];
	struct xr_text t = xr_text_in(link, sizeof link - 1);
	if (!xr_llvm_flags.verbosity)
		return;
	xr_put_text(&t, "/proc/thread-self/fd/");
	xr_put_number(&t, fd);
	link[t.n] = 0;
	t = xr_text_in(room, sizeof room - 2);
	xr_put_text(&t, "==");
	xr_put_number(&t, xr_root.pid);
	xr_put_text(&t, "==XRay: Log file in '");
	int64_t n = xr_sys3(SYS_readlink, (intptr_t)link, (intptr_t)room + t.n, sizeof room - 2 - t.n);
	t.n += n > 0 ? n : 0;
	room[t.n++] = '\'';
	room[t.n++] = '\n';
	xr_write_stderr(room, t.n);
}

static int open_file(char *name, uint64_t size)
{
	struct xr_text t = xr_text_in(name, size - 1);
	put_name(&t);
	name[t.n] = 0;
	int fd = t.cut ? -ENAMETOOLONG : xr_open_output(name);
	if (fd < 0)
		xr_warn("cannot write the log", xr_errno_text(fd));
	else
		say_file(fd);
	return fd;
}

/* Begins a recording. Returns null or the reason why it cannot begin. */
static const char *begin_own(const struct xr_llvm_settings *s)
{
	enum xr_mode mode = session.kind == XR_LLVM_PROFILING ? XR_PROFILE : s->threshold_us ? XR_PRUNE : XR_RECORD;
	uint64_t chunks = 0, bytes;
	char name[1024];
	int fd = -1;
	if (!__builtin_mul_overflow(s->buffer_size, s->buffers, &bytes))
		chunks = bytes / XR_CHUNK_SIZE;
	if (session.kind == XR_LLVM_FDR && chunks > xr_root.nchunks && chunks <= XR_RING_BUDGET / XR_CHUNK_SIZE)
		xr_root.nchunks = chunks;
	if (session.kind == XR_LLVM_BASIC && (fd = open_file(name, sizeof name)) < 0)
		return "cannot write its file";
	xr_log_records = 1;
	uint64_t threshold_ns = s->threshold_us < MAX_THRESHOLD ? s->threshold_us * 1000 : MAX_THRESHOLD * 1000;
	const char *why = xr_start(mode, threshold_ns, 0, fd, 0);
	if (why)
		xr_set_mode(XR_OFF);
	if (why && fd >= 0)
		xr_close(fd);
	session.streamed = fd >= 0;
	/* Forked children write files of their own. */
	if (!why && session.streamed && !xr_options.template[0]) {
		xr_copy(xr_options.template, name, xr_strlen(name) + 1);
		session.named = 1;
	}
	return why;
}

static int init(enum xr_llvm_mode kind, const char *config, uint64_t size)
{
	struct xr_api_call c = xr_api_begin();
	const char *why = NULL;
	int result = session.status;
	if (session.status == UNINITIALIZED && (config || kind != XR_LLVM_FDR)) {
		struct xr_llvm_settings s = xr_read_llvm_settings(kind, config, size);
		session.kind = kind;
		session.no_file = s.no_file != 0;
		session.streamed = session.named = 0;
		session.since = xr_rdtsc();
		for (int i = 0; i < XR_EVENTS; i++)
			xr_handle(i, xr_recorded);
		session.own = xr_root.mode == XR_OFF;
		why = session.own ? begin_own(&s) : NULL;
		result = session.status = why ? UNINITIALIZED : INITIALIZED;
		if (!why)
			__atomic_store_n(&iterator, kind == XR_LLVM_BASIC ? no_buffer : next_buffer, __ATOMIC_RELEASE);
	} else if (session.status != UNINITIALIZED && session.kind != kind) {
		result = UNINITIALIZED;
		why = "another log has not been flushed";
	}
	if (why)
		xr_warn("cannot begin a log", why);
	xr_api_end(c);
	return result;
}

/* Keeps a trace of the records in the rings since the log began. */
static void keep_trace(void)
{
	enum { CLOEXEC = 1 };
	int fd = xr_sys2(SYS_memfd_create, (intptr_t)"xray-log", CLOEXEC);
	int64_t err = fd < 0 ? fd : xr_snapshot(fd, session.since, NULL), size = 0;
	if (err >= 0)
		size = xr_sys3(SYS_lseek, fd, 0, 2 /* SEEK_END */);
	int64_t at = size > 0 ? xr_sys6(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, fd, 0) : err;
	if (fd >= 0)
		xr_close(fd);
	if (at < 0 && at > -4096) {
		xr_warn("a log is lost", xr_errno_text(at));
		return;
	}
	session.data = size > 0 ? (const uint8_t *)at : NULL;
	session.size = size > 0 ? size : 0;
}

/* The recorder's modes as the program sees them. */

static int finalize(enum xr_llvm_mode kind)
{
	struct xr_api_call c = xr_api_begin();
	int result = session.kind == kind ? session.status : UNINITIALIZED;
	if (result == INITIALIZED) {
		if (!session.streamed)
			keep_trace();
		if (session.own && xr_log_records)
			xr_stop();
		if (session.named)
			xr_options.template[0] = 0;
		result = session.status = FINALIZED;
	}
	xr_api_end(c);
	return result;
}

static int write_file(void)
{
	char name[1024];
	int fd = open_file(name, sizeof name);
	if (fd < 0)
		return 0;
	uint64_t done = 0;
	int64_t n = 1;
	while (done < session.size && (n = xr_write(fd, session.data + done, session.size - done)) > 0)
		done += n;
	if (n == -EFBIG)
		xr_forget_file_size_signal();
	if (done < session.size)
		xr_warn("cannot write the log", xr_errno_text(n));
	xr_close(fd);
	return done == session.size;
}

static int flush(enum xr_llvm_mode kind)
{
	struct xr_api_call c = xr_api_begin();
	int result = NOT_FLUSHING;
	if (session.kind == kind && session.status == FINALIZED) {
		if (session.streamed || session.no_file || (session.data && write_file()))
			result = FLUSHED;
		if (session.data)
			xr_unmap((void *)session.data, session.size);
		session.data = NULL;
		session.size = 0;
		session.status = UNINITIALIZED;
		__atomic_store_n(&iterator, no_buffer, __ATOMIC_RELEASE);
	}
	xr_api_end(c);
	return result;
}

static int init_fdr(size_t b, size_t n, void *config, size_t size) { return (void)b, (void)n, init(XR_LLVM_FDR, config, size); }
static int init_basic(size_t b, size_t n, void *config, size_t size) { return (void)b, (void)n, init(XR_LLVM_BASIC, config, size); }
static int init_profiling(size_t b, size_t n, void *config, size_t size) { return (void)b, (void)n, init(XR_LLVM_PROFILING, config, size); }
static int finalize_fdr(void) { return finalize(XR_LLVM_FDR); }
static int finalize_profiling(void) { return finalize(XR_LLVM_PROFILING); }
static int flush_fdr(void) { return flush(XR_LLVM_FDR); }
static int flush_profiling(void) { return flush(XR_LLVM_PROFILING); }

/* In compiler-rt, a basic log needs no flush before it begins again. */
static int finalize_basic(void)
{
	if (finalize(XR_LLVM_BASIC) == FINALIZED)
		flush(XR_LLVM_BASIC);
	return FINALIZED;
}
static int flush_basic(void) { return FLUSHED; }

/* Modes. */

/* A mode, followed by its name. */
struct mode {
	struct mode *next;
	struct XRayLogImpl functions;
	const char *name;
};

static struct mode own_modes[XR_LLVM_MODES] = {
	{&own_modes[1], {init_fdr, finalize_fdr, xr_recorded, flush_fdr}, "xray-fdr"},
	{&own_modes[2], {init_basic, finalize_basic, xr_recorded, flush_basic}, "xray-basic"},
	{NULL, {init_profiling, finalize_profiling, xr_recorded, flush_profiling}, "xray-profiling"},
};
static struct mode *modes = own_modes;

/* The selected mode, if it has a name, and the functions to call. */
static const struct mode *current;
static struct XRayLogImpl selected;

static struct XRayLogImpl selection(void)
{
	struct xr_api_call c = xr_api_begin();
	struct XRayLogImpl functions = selected;
	xr_api_end(c);
	return functions;
}

static void choose(struct XRayLogImpl functions, const struct mode *mode)
{
	selected = functions;
	current = mode;
	xr_handle(XR_CALLS_OF_FUNCTIONS, functions.handle);
}

static void unchoose(void)
{
	choose((struct XRayLogImpl){0}, NULL);
	for (int i = 0; i < XR_EVENTS; i++)
		xr_handle(i, NULL);
}

static int is_complete(const struct XRayLogImpl *f) { return f->init && f->finalize && f->handle && f->flush; }

static struct mode *find_mode(const char *name)
{
	struct mode *m = modes;
	while (m && !xr_equal(m->name, name))
		m = m->next;
	return m;
}

XR_LLVM_API void __xray_set_log_impl(struct XRayLogImpl functions)
{
	struct xr_api_call c = xr_api_begin();
	if (is_complete(&functions))
		choose(functions, NULL);
	else
		unchoose();
	xr_api_end(c);
}

XR_LLVM_API void __xray_remove_log_impl(void) { __xray_set_log_impl((struct XRayLogImpl){0}); }

XR_LLVM_API int __xray_log_register_mode(const char *name, struct XRayLogImpl functions)
{
	uint64_t n = xr_strlen(name);
	if (!is_complete(&functions))
		return INCOMPLETE;
	struct xr_api_call c = xr_api_begin();
	int result = find_mode(name) ? DUPLICATE : REGISTERED;
	struct mode *m = result == REGISTERED ? xr_map(sizeof *m + n + 1) : NULL;
	if (m) {
		xr_copy(m + 1, name, n);
		*m = (struct mode){modes, functions, (const char *)(m + 1)};
		modes = m;
	} else if (result == REGISTERED) {
		result = INCOMPLETE;
	}
	xr_api_end(c);
	return result;
}

XR_LLVM_API int __xray_log_select_mode(const char *name)
{
	struct xr_api_call c = xr_api_begin();
	const struct mode *m = find_mode(name);
	if (m)
		choose(m->functions, m);
	xr_api_end(c);
	return m ? REGISTERED : NOT_FOUND;
}

XR_LLVM_API const char *__xray_log_get_current_mode(void)
{
	struct xr_api_call c = xr_api_begin();
	const char *name = current ? current->name : NULL;
	xr_api_end(c);
	return name;
}

XR_LLVM_API int __xray_log_init(size_t buffer_size, size_t buffers, void *arguments, size_t size)
{
	struct XRayLogImpl f = selection();
	return f.init ? f.init(buffer_size, buffers, arguments, size) : UNINITIALIZED;
}

XR_LLVM_API int __xray_log_init_mode_bin(const char *mode, const char *config, size_t size)
{
	const char *name = __xray_log_get_current_mode();
	return config && name && xr_equal(name, mode) ? __xray_log_init(0, 0, (void *)config, size) : UNINITIALIZED;
}

XR_LLVM_API int __xray_log_init_mode(const char *mode, const char *config)
{
	return __xray_log_init_mode_bin(mode, config, 0);
}

XR_LLVM_API int __xray_log_finalize(void)
{
	struct XRayLogImpl f = selection();
	return f.finalize ? f.finalize() : UNINITIALIZED;
}

XR_LLVM_API int __xray_log_flushLog(void)
{
	struct XRayLogImpl f = selection();
	return f.flush ? f.flush() : NOT_FLUSHING;
}

XR_LLVM_API void __xray_log_set_buffer_iterator(struct XRayBuffer (*next)(struct XRayBuffer))
{
	__atomic_store_n(&iterator, next, __ATOMIC_RELEASE);
}

XR_LLVM_API void __xray_log_remove_buffer_iterator(void) { __xray_log_set_buffer_iterator(no_buffer); }

XR_LLVM_API int __xray_log_process_buffers(void (*processor)(const char *, struct XRayBuffer))
{
	if (!selection().init)
		return NOT_FLUSHING;
	const char *mode = __xray_log_get_current_mode();
	struct XRayBuffer (*next)(struct XRayBuffer) = __atomic_load_n(&iterator, __ATOMIC_ACQUIRE);
	for (struct XRayBuffer b = next((struct XRayBuffer){0}); b.data; b = next(b))
		processor(mode, b);
	return FLUSHED;
}

/* Start and end of the program. */

extern const char __start_xray_instr_map[] __attribute__((weak, visibility("hidden")));

/* Runs after the recorder's own constructor. A preloaded recorder leaves the environment variables
 * to the runtime in the program. */
__attribute__((constructor(102))) static void begin(void)
{
	if (!__start_xray_instr_map)
		return;
	xr_read_llvm_flags();
	if (xr_llvm_flags.mode[0])
		__xray_log_select_mode(xr_llvm_flags.mode);
	if (xr_equal(xr_llvm_flags.mode, own_modes[XR_LLVM_BASIC].name))
		__xray_log_init_mode(xr_llvm_flags.mode, "");
	if (xr_llvm_flags.patch) {
		struct xr_api_call c = xr_api_begin();
		xr_patch_before_main();
		xr_api_end(c);
	}
}

/* A profile that the program has not finalized is written at its end, as by compiler-rt. A basic
 * log ends with the stream. */
__attribute__((destructor(102))) static void end(void)
{
	if (session.kind == XR_LLVM_PROFILING && session.status == INITIALIZED && !xr_sealed && finalize(XR_LLVM_PROFILING) == FINALIZED)
		flush(XR_LLVM_PROFILING);
}
