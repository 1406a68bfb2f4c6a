/* Functions of libc that the recorder has to notice. They are in the shared object alone,
 * where the program's calls find them before libc's. Each does what libc's does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "arena.h"
#include "internal.h"
#include "interpose.h"
#include "objects.h"
#include "ring.h"
#include "syscall.h"

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

/* What the kernel denies processes with several threads, it does for one whose second
 * thread is the recorder's, too: then that ends, and begins again. */
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

/* Limits on addresses. */

/* The arena has more addresses than a program that limits its own has to spare. */
static int64_t limit(pid_t pid, int resource, const void *limits, void *old)
{
	enum { ADDRESSES = 9 }; /* RLIMIT_AS, without the header: libcs disagree about types */
	if (resource == ADDRESSES && limits && (!pid || pid == (pid_t)xr_sys0(SYS_getpid)))
		xr_arena_trim();
	return xr_sys4(SYS_prlimit64, pid, resource, (intptr_t)limits, (intptr_t)old);
}

EXPORT int setrlimit(int resource, const void *limits) { return result(limit(0, resource, limits, NULL)); }
EXPORT int setrlimit64(int resource, const void *limits) { return result(limit(0, resource, limits, NULL)); }
EXPORT int prlimit(pid_t pid, int resource, const void *limits, void *old) { return result(limit(pid, resource, limits, old)); }
EXPORT int prlimit64(pid_t pid, int resource, const void *limits, void *old) { return result(limit(pid, resource, limits, old)); }

EXPORT int mlockall(int flags)
{
	xr_arena_trim();
	return result(xr_sys1(SYS_mlockall, flags));
}

/* Filters of system calls. */

/* Puts a filter in place. One for all threads would end the process with the control
 * thread's next system call; and one that ends a thread, or allows no more than that, is
 * to end a process of one thread. */
static int64_t seal(int all_threads, long number, long a, long b, long c, long d, long e)
{
	xr_lock(XR_LOCK_PAUSE);
	int paused = (all_threads || xr_control_is_second()) && xr_control_pause();
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

static int64_t change_process(long option, long a, long b, long c, long d)
{
	if (option == PR_SET_SECCOMP)
		return seal(a == SECCOMP_MODE_STRICT, SYS_prctl, option, a, b, c, d);
	int64_t r = xr_sys6(SYS_prctl, option, a, b, c, d, 0);
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
		if (a == SECCOMP_SET_MODE_FILTER || a == SECCOMP_SET_MODE_STRICT)
			return result(seal(a == SECCOMP_SET_MODE_STRICT || b & SECCOMP_FILTER_FLAG_TSYNC, number, a, b, c, 0, 0));
		return result(xr_sys3(number, a, b, c));
	case SYS_prctl:
		return result(change_process(a, b, c, d, e));
	default: /* unshare, setns */
		return result(alone(number, a, b));
	}
}

/* Names of threads. */

#ifdef __GLIBC__

static int (*real_setname)(pthread_t, const char *);

/* libc's function, which has one version or another. */
static void *real(const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.12", "GLIBC_2.2.5"};
	void *p = NULL;
	for (unsigned i = 0; !p && i < sizeof versions / sizeof *versions; i++)
		p = dlvsym(RTLD_NEXT, name, versions[i]);
	return p;
}

/* The kernel's id of a thread is part of the id of its clock. */
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

/* A process ends with its last thread. When the first ends before, those that are left are
 * the program's. */
EXPORT __attribute__((noreturn)) void pthread_exit(void *value)
{
	static __attribute__((noreturn)) void (*real_exit)(void *);
	if (xr_thread_id() == (xr_sealed ? xr_root.pid : (uint32_t)xr_sys0(SYS_getpid)))
		xr_control_pause();
	if (!real_exit)
		real_exit = real("pthread_exit");
	real_exit(value);
}

/* Shared objects. */

void *(*xr_real_dlopen)(const char *, int);
void *(*xr_real_dlsym)(void *, const char *);

static int is_watching(void) { return xr_root.mode != XR_OFF && !__atomic_load_n(&xr_sealed, __ATOMIC_RELAXED); }

/* Records objects that were opened in the meantime from now on. */
static void look_for_objects(void)
{
	int saved = errno;
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_CONTROL);
	if (xr_root.mode != XR_OFF && xr_rescan() > 0)
		xr_stream_metadata();
	xr_unlock(XR_LOCK_CONTROL);
	xr_restore_signals(signals);
	if (xr_root.nobjects)
		xr_control_wanted();
	errno = saved;
}

struct caller {
	uint64_t address;
	int index, depends;
};

/* Whether an object says where to search: the caller for what it opens, any other but the
 * program for what it opened and that opens. */
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

/* Whether it makes no difference to dlopen who calls it. If it does, the call goes to libc
 * as it is, and what it opened is found at the next dlsym. */
int xr_dlopen_for_any(const char *file, uint64_t caller)
{
	int path = 0;
	if (!is_watching() || !file)
		return 0;
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

/* Called by the functions of interpose_amd64.S before their first use. */
void xr_find_real(void)
{
	xr_real_dlopen = real("dlopen");
	xr_real_dlsym = real("dlsym");
}

#endif
