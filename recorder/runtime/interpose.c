/* libc functions that the recorder must notice. They are only in the shared object, where the
 * program's calls reach them before libc's. Each does what libc's does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <link.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "arena.h"
#include "clock.h"
#include "control.h"
#include "interpose.h"
#include "later.h"
#include "layout.h"
#include "libcalls.h"
#include "locks.h"
#include "metadata.h"
#include "objects.h"
#include "patch.h"
#include "ring.h"
#include "syscall.h"
#include "warnings.h"
#include "window.h"
#include "writer.h"

#define EXPORT __attribute__((visibility("default")))

static long result(int64_t r)
{
	if (r < 0 && r >= -4095) {
		errno = -r;
		return -1;
	}
	return r;
}

/* Namespaces. */

/* The kernel denies some calls to multithreaded processes. If the recorder's thread is the
 * second and last thread, it ends for the call and starts again afterwards. */
static int64_t alone(long number, long a, long b)
{
	int64_t r = xr_sys2(number, a, b);
	if (r != -EINVAL)
		return r;
	xr_lock(XR_LOCK_PAUSE);
	if (xr_control_pause()) {
		r = xr_sys2(number, a, b);
		xr_control_resume();
	}
	xr_unlock(XR_LOCK_PAUSE);
	return r;
}

EXPORT int unshare(int flags) { return result(alone(SYS_unshare, flags, 0)); }
EXPORT int setns(int fd, int type) { return result(alone(SYS_setns, fd, type)); }

/* Address-space limits. */

/* The arena maps more addresses than a program with a limit can spare. */
static int64_t limit(pid_t pid, int resource, const void *limits, void *old)
{
	enum { ADDRESSES = 9 }; /* RLIMIT_AS, without the header, because libcs disagree about types */
	uint64_t most;
	if (resource == ADDRESSES && limits && xr_copy_from(&most, limits, sizeof most) == sizeof most && most != UINT64_MAX &&
	    (!pid || pid == (pid_t)xr_sys0(SYS_getpid)))
		xr_arena_trim(most ? most : 1);
	return xr_sys4(SYS_prlimit64, pid, resource, (intptr_t)limits, (intptr_t)old);
}

EXPORT int setrlimit(int resource, const void *limits) { return result(limit(0, resource, limits, NULL)); }
EXPORT int setrlimit64(int resource, const void *limits) { return result(limit(0, resource, limits, NULL)); }
EXPORT int prlimit(pid_t pid, int resource, const void *limits, void *old) { return result(limit(pid, resource, limits, old)); }
EXPORT int prlimit64(pid_t pid, int resource, const void *limits, void *old) { return result(limit(pid, resource, limits, old)); }

EXPORT int mlockall(int flags)
{
	xr_arena_trim(0);
	return result(xr_sys1(SYS_mlockall, flags));
}

/* Alternate signal stacks. The kernel's part of a signal frame may take nearly all of a small one, and
 * sleds of the handler need some bytes more. Then the kernel gets a larger stack, and the program sees its
 * own. */

enum { SMALL = 4096, LARGE = 16384, GUARD = 4096 };

/* At the upper end of a stack that replaces a small one. Stacks are never unmapped, because their thread may
 * end on them, and another thread takes them over. */
struct large {
	struct large *next;
	uint32_t pid, tid;
	stack_t given;
} __attribute__((aligned(64)));
static struct large *larges;
static __thread struct large *mine __attribute__((tls_model("initial-exec")));

static uint8_t *stack_of(struct large *l) { return (uint8_t *)(l + 1) - LARGE; }

/* Returns the thread's large stack, or null if there is no memory. */
static struct large *take_large(void)
{
	if (mine || xr_sealed)
		return mine;
	uint32_t pid = xr_sys0(SYS_getpid), tid = xr_thread_id();
	for (struct large *l = __atomic_load_n(&larges, __ATOMIC_ACQUIRE); l; l = l->next) {
		uint32_t owner = l->tid;
		if (l->pid == pid && xr_sys3(SYS_tgkill, pid, owner, 0) == -ESRCH &&
		    __atomic_compare_exchange_n(&l->tid, &owner, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return mine = l;
	}
	uint8_t *p = xr_map(GUARD + LARGE);
	if (!p || xr_sys3(SYS_mprotect, (intptr_t)p, GUARD, PROT_NONE))
		return NULL;
	struct large *l = (struct large *)(p + GUARD + LARGE) - 1;
	l->pid = pid;
	l->tid = tid;
	l->next = __atomic_load_n(&larges, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&larges, &l->next, l, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return mine = l;
}

static int is_interested(void) { return xr_root.mode != XR_OFF || xr_control_is_raw(); }

EXPORT int sigaltstack(const stack_t *new, stack_t *old)
{
	stack_t given, large;
	int replaces = new && is_interested() && xr_copy_from(&given, new, sizeof given) == sizeof given &&
		!(given.ss_flags & SS_DISABLE) && given.ss_size >= 2048 /* the kernel's limit */ && given.ss_size < SMALL && take_large();
	if (replaces)
		large = (stack_t){.ss_sp = stack_of(mine), .ss_flags = given.ss_flags, .ss_size = LARGE - sizeof *mine};
	int64_t r = xr_sys2(SYS_sigaltstack, (intptr_t)(replaces ? &large : new), (intptr_t)old);
	if (!r && old && mine && old->ss_sp == stack_of(mine)) {
		old->ss_sp = mine->given.ss_sp;
		old->ss_size = mine->given.ss_size;
	}
	if (!r && replaces)
		mine->given = given;
	return result(r);
}

/* System-call filters. */

/* Without the control thread, nothing would close a window. */
static void end_windows(const char *why)
{
	if (!xr_windows_on())
		return;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	xr_windows_end();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	xr_warn("no more windows will open, so recording has stopped", why);
}

/* Installs a filter, after ending the control thread if necessary. Under a filter for all
 * threads, the control thread's next system call would kill the process. And if the program's
 * only thread is killed, or may only exit, the process must end, but a control thread would
 * keep it alive. */
static int64_t seal(int all_threads, long number, long a, long b, long c, long d, long e)
{
	xr_lock(XR_LOCK_PAUSE);
	int paused = (all_threads || xr_control_is_second()) && xr_control_pause();
	if (paused)
		end_windows("the program installs a seccomp filter");
	xr_later_flush();
	xr_arena_seal();
	uint32_t before = __atomic_exchange_n(&xr_sealed, 1, __ATOMIC_SEQ_CST);
	int64_t r = xr_sys6(number, a, b, c, d, e, 0);
	if (r) {
		__atomic_store_n(&xr_sealed, before, __ATOMIC_SEQ_CST);
		if (paused)
			xr_control_resume();
	}
	xr_unlock(XR_LOCK_PAUSE);
	return r;
}

/* The clock. A thread may forbid itself to read the TSC, and so does the kernel in strict mode. Then
 * recording of the thread stops before. Threads that it creates may not either. */
static __thread struct xr_thread *recorded __attribute__((tls_model("initial-exec")));

/* Says in the trace and on standard error what has changed. */
static void note(const char *change)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	xr_calibrated();
	xr_change(change);
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	xr_warn(change, NULL);
}

static void forbid_tsc(void)
{
	if (xr_tsc_forbidden)
		return;
	note("a thread may not read the clock any more, and is not recorded from then on");
	__atomic_store_n(&xr_some_forbid_tsc, 1, __ATOMIC_RELAXED);
	recorded = xr_mute();
	xr_tsc_forbidden = 1;
}

static __thread int is_shared __attribute__((tls_model("initial-exec")));

static void allow_tsc(void)
{
	if (!xr_tsc_forbidden)
		return;
	xr_tsc_forbidden = 0;
	if (!is_shared)
		xr_unmute(recorded);
}

static int64_t seal_strictly(long number, long a, long b, long c, long d, long e)
{
	int forbidden = xr_tsc_forbidden;
	forbid_tsc();
	int64_t r = seal(1, number, a, b, c, d, e);
	if (r && !forbidden)
		allow_tsc();
	return r;
}

static int64_t change_process(long option, long a, long b, long c, long d)
{
	if (option == PR_SET_SECCOMP)
		return a == SECCOMP_MODE_STRICT ? seal_strictly(SYS_prctl, option, a, b, c, d) : seal(0, SYS_prctl, option, a, b, c, d);
	if (option == PR_SET_TSC && a == PR_TSC_SIGSEGV)
		forbid_tsc();
	int64_t r = xr_sys6(SYS_prctl, option, a, b, c, d, 0);
	if (option == PR_SET_TSC && a == PR_TSC_ENABLE && !r)
		allow_tsc();
	if (option == PR_SET_NAME && !r)
		xr_thread_named(xr_thread_id(), (const char *)a);
	return r;
}

EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	return result(change_process(option, a, b, c, d));
}

long xr_noticed_syscall(long number, long a, long b, long c, long d, long e)
{
	switch (number) {
	case SYS_seccomp:
		if (a == SECCOMP_SET_MODE_STRICT)
			return result(seal_strictly(number, a, b, c, 0, 0));
		if (a == SECCOMP_SET_MODE_FILTER)
			return result(seal(b & SECCOMP_FILTER_FLAG_TSYNC, number, a, b, c, 0, 0));
		return result(xr_sys3(number, a, b, c));
	case SYS_prctl:
		return result(change_process(a, b, c, d, e));
#ifdef __GLIBC__
	case SYS_execve:
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	case SYS_execveat:
		return execveat(a, (const char *)b, (char *const *)c, (char *const *)d, e);
#endif
	default: /* unshare, setns */
		return result(alone(number, a, b));
	}
}

#ifdef __GLIBC__

/* Finds libc's function, which has one of several versions. */
static void *real(const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.12", "GLIBC_2.2.5"};
	void *p = NULL;
	for (unsigned i = 0; !p && i < sizeof versions / sizeof *versions; i++)
		p = dlvsym(RTLD_NEXT, name, versions[i]);
	return p;
}

/* Credentials. libc changes those of all threads that it knows. */

char xr_interposes = 1;

/* By the constructor, because the functions may be called where dlvsym may not. */
static void *real_setters[10];
enum { SETUID, SETEUID, SETREUID, SETRESUID, SETGID, SETEGID, SETREGID, SETRESGID, SETGROUPS, INITGROUPS };

__attribute__((constructor(101))) static void find_setters(void)
{
	static const char *const names[] = {
		"setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups", "initgroups",
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		real_setters[i] = real(names[i]);
}

static int changed(int r)
{
	int saved = errno;
	xr_control_follow_credentials();
	errno = saved;
	return r;
}

#define CHANGE(function, which, ...) \
	if (!real_setters[which]) \
		find_setters(); /* another constructor is first */ \
	return changed(((__typeof(&function))real_setters[which])(__VA_ARGS__))

EXPORT int setuid(uid_t u) { CHANGE(setuid, SETUID, u); }
EXPORT int seteuid(uid_t u) { CHANGE(seteuid, SETEUID, u); }
EXPORT int setreuid(uid_t r, uid_t e) { CHANGE(setreuid, SETREUID, r, e); }
EXPORT int setresuid(uid_t r, uid_t e, uid_t s) { CHANGE(setresuid, SETRESUID, r, e, s); }
EXPORT int setgid(gid_t g) { CHANGE(setgid, SETGID, g); }
EXPORT int setegid(gid_t g) { CHANGE(setegid, SETEGID, g); }
EXPORT int setregid(gid_t r, gid_t e) { CHANGE(setregid, SETREGID, r, e); }
EXPORT int setresgid(gid_t r, gid_t e, gid_t s) { CHANGE(setresgid, SETRESGID, r, e, s); }
EXPORT int setgroups(size_t n, const gid_t *list) { CHANGE(setgroups, SETGROUPS, n, list); }
EXPORT int initgroups(const char *user, gid_t group) { CHANGE(initgroups, INITGROUPS, user, group); }

/* Thread names. */

static int (*real_setname)(pthread_t, const char *);

/* The ID of a thread's clock contains the kernel's thread ID. */
static uint32_t kernel_id(pthread_t thread)
{
	clockid_t clock;
	return pthread_getcpuclockid(thread, &clock) ? 0 : ~(clock >> 3);
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	if (!real_setname)
		real_setname = real("pthread_setname_np");
	if (!real_setname)
		return ENOSYS;
	int err = real_setname(thread, name);
	if (!err)
		xr_thread_named(kernel_id(thread), name);
	return err;
}

/* A thread of the kernel that shares the thread-local storage of its creator would write to its ring, at the
 * same time. */
EXPORT int clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
	static int (*real_clone)(int (*)(void *), void *, int, void *, ...);
	va_list list;
	va_start(list, arg);
	void *parent_id = va_arg(list, void *), *tls = va_arg(list, void *), *child_id = va_arg(list, void *);
	va_end(list);
	if (!real_clone && !(real_clone = real("clone")))
		return result(-ENOSYS);
	if ((flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VM && !is_shared) {
		is_shared = 1;
		xr_mute();
		if (is_interested())
			note("a thread shares its thread-local storage with a process or thread that it creates by clone, and both are not recorded from then on");
	}
	return real_clone(run, stack, flags, arg, parent_id, tls, child_id);
}

static void end_windows_of_first(void)
{
	if (xr_control_pause())
		end_windows("the first thread has ended");
}

/* A process ends with its last thread. If the first thread ends earlier, only the program's
 * threads may remain. */
EXPORT __attribute__((noreturn)) void pthread_exit(void *value)
{
	static __attribute__((noreturn)) void (*real_exit)(void *);
	if (xr_thread_id() == (xr_sealed ? xr_root.pid : (uint32_t)xr_sys0(SYS_getpid)))
		end_windows_of_first();
	if (!real_exit)
		real_exit = real("pthread_exit");
	real_exit(value);
}

/* Shared objects. */

void *(*xr_real_dlopen)(const char *, int);
void *(*xr_real_dlsym)(void *, const char *);

static int is_watching(void) { return is_interested() && !__atomic_load_n(&xr_sealed, __ATOMIC_RELAXED); }

/* Starts recording objects that have been opened meanwhile. */
static void look_for_objects(void)
{
	int saved = errno;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	if (is_interested() && xr_rescan() > 0 && xr_root.mode != XR_OFF)
		xr_stream_metadata();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	if (xr_has_late_objects())
		xr_control_see_objects();
	if (xr_root.nobjects)
		xr_control_wanted();
	errno = saved;
}

struct caller {
	uint64_t address;
	int index, depends;
};

/* Finds out whether the search path depends on the caller: whether the calling object has a
 * RUNPATH, or any object except the program has an RPATH. */
static int look_at_paths(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct caller *c = arg;
	int here = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		here |= p->p_type == PT_LOAD && c->address - info->dlpi_addr - p->p_vaddr < p->p_memsz;
	}
	for (const ElfW(Dyn) *d = xr_dynamic_section(info); d && d->d_tag != DT_NULL; d++)
		c->depends |= (d->d_tag == DT_RUNPATH && here) || (d->d_tag == DT_RPATH && c->index);
	c->index++;
	return c->depends;
}

static int is_for_any(const char *file, uint64_t caller)
{
	int path = 0;
	for (const char *p = file; *p; p++) {
		if (*p == '$')
			return 0;
		path |= *p == '/';
	}
	struct caller c = {.address = caller};
	if (!path)
		dl_iterate_phdr(look_at_paths, &c);
	return path || !c.depends;
}

/* Returns whether dlopen gives the same result for any caller. If it does not, the call goes to
 * libc unchanged, and the control thread or the next dlsym finds what it opened. */
int xr_dlopen_for_any(const char *file, uint64_t caller)
{
	if (!is_watching() || !file)
		return 0;
	int any = is_for_any(file, caller);
	if (!any)
		xr_control_see_objects();
	return any;
}

void *xr_dlopen_watched(const char *file, int mode)
{
	xr_before_open();
	void *p = xr_real_dlopen(file, mode);
	if (p && is_watching())
		look_for_objects();
	return p;
}

void xr_before_dlsym(void)
{
	if (is_watching() && xr_objects_changed())
		look_for_objects();
}

/* The functions in interpose_amd64.S call this before their first use. */
void xr_find_real(void)
{
	xr_real_dlopen = real("dlopen");
	xr_real_dlsym = real("dlsym");
}

#endif
