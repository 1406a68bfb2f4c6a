/* Keeps the recorder's descriptors out of the program's way.
 *
 * The control thread has its own descriptor table. So the program cannot close the recorder's
 * descriptors, sees no unknown descriptors, and finds all numbers free. If the kernel does not
 * support that, and for files that the program's threads write to, the recorder uses high
 * numbers and checks a descriptor before each use. If the descriptor is no longer the same file
 * or socket, it belongs to the program, and the recorder leaves it alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "descriptors.h"
#include "syscall.h"

/* Higher numbers would enlarge the kernel's table, which each fork copies. */
enum { HIGHEST = 4096, ROOM = 32 };

__thread uint32_t xr_own_table __attribute__((tls_model("initial-exec")));

uint32_t xr_sealed;
__thread uint32_t xr_unsealed __attribute__((tls_model("initial-exec")));

int xr_identify(int fd, uint64_t id[2])
{
	struct stat st;
	int64_t err = fd < 0 ? -EBADF : xr_sys2(SYS_fstat, fd, (intptr_t)&st);
	id[0] = err ? 0 : st.st_dev;
	id[1] = err ? 0 : st.st_ino;
	return err;
}

/* Moves a descriptor to a number that programs do not use. */
static int move_high(int fd)
{
	struct rlimit limit = {0, 0};
	xr_sys2(SYS_getrlimit, RLIMIT_NOFILE, (intptr_t)&limit);
	uint64_t end = limit.rlim_cur < HIGHEST ? limit.rlim_cur : HIGHEST;
	if (xr_own_table || end < 2 * ROOM)
		end = 3 + ROOM; /* but never the number of a standard stream */
	if ((uint64_t)fd >= end - ROOM)
		return fd;
	int64_t high = xr_sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, end - ROOM);
	if (high < 0)
		return fd;
	xr_close(fd);
	return high;
}

int xr_hold(struct xr_held *h, int fd)
{
	h->fd = move_high(fd);
	xr_sys3(SYS_fcntl, h->fd, F_SETFD, FD_CLOEXEC);
	return xr_identify(h->fd, h->id);
}

int xr_held_fd(const struct xr_held *h)
{
	uint64_t id[2];
	if (h->fd < 0 || xr_identify(h->fd, id) || id[0] != h->id[0] || id[1] != h->id[1])
		return -1;
	return h->fd;
}

void xr_release(struct xr_held *h)
{
	int fd = xr_held_fd(h);
	h->fd = -1;
	if (fd >= 0)
		xr_close(fd);
}

int xr_fetch(uint32_t tid, int fd)
{
	enum { THREAD = O_EXCL };
	int64_t pid = xr_sys0(SYS_getpid);
	int64_t of = tid ? xr_sys2(SYS_pidfd_open, tid, THREAD) : xr_sys2(SYS_pidfd_open, pid, 0);
	if (of < 0)
		return of;
	int64_t got = xr_sys3(SYS_pidfd_getfd, of, fd, 0);
	xr_close(of);
	return got;
}

int xr_leave_table(void)
{
	enum { UNSHARE = 1 << 1 };
	int64_t probe = xr_sys2(SYS_pidfd_open, xr_sys0(SYS_gettid), O_EXCL);
	if (probe < 0)
		return 0;
	xr_close(probe);
	xr_own_table = !xr_sys3(SYS_close_range, 0, ~0u, UNSHARE);
	return xr_own_table;
}

/* What standard error was when the recorder started. */
static struct xr_held stderr_then = {.fd = -1};

void xr_remember_stderr(void)
{
	stderr_then.fd = xr_identify(2, stderr_then.id) ? -1 : 2;
}

void xr_write_stderr(const char *text, uint64_t n)
{
	struct xr_held h = stderr_then;
	if (xr_own_table && h.fd >= 0)
		h.fd = xr_fetch(0, 2);
	int fd = xr_held_fd(&h);
	if (fd >= 0)
		xr_write(fd, text, n);
	if (xr_own_table && h.fd >= 0)
		xr_close(h.fd);
}

/* Users. */

/* Returns whether all user IDs are known in the process's user namespace. */
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

int xr_is_unknown_user(uint32_t uid)
{
	enum { NO_USER = 65534 };
	return uid == NO_USER && !knows_users();
}
