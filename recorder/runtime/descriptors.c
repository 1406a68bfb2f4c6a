/* Descriptors of the recorder's in a process whose descriptors are the program's.
 *
 * The control thread has a table of its own, so that the program cannot close what is
 * in it, finds no number taken, and no descriptor it does not know. Where the kernel
 * cannot do that, and for what the program's threads write to, a descriptor lies high,
 * and is looked at each time before it is used: whatever is not the file or socket that
 * it was is the program's, and left alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "descriptors.h"
#include "syscall.h"
#include "text.h"

/* Higher numbers would make the kernel's table, which each fork copies, a large one. */
enum { HIGHEST = 4096, ROOM = 32 };

__thread uint32_t xr_own_table __attribute__((tls_model("initial-exec")));

uint32_t xr_sealed;
__thread uint32_t xr_unsealed __attribute__((tls_model("initial-exec")));

static int identify(int fd, uint64_t id[2])
{
	struct stat st;
	int64_t err = fd < 0 ? -EBADF : xr_sys2(SYS_fstat, fd, (intptr_t)&st);
	id[0] = err ? 0 : st.st_dev;
	id[1] = err ? 0 : st.st_ino;
	return err;
}

/* Moves a descriptor to where programs have none. */
static int raise(int fd)
{
	struct rlimit limit = {0, 0};
	xr_sys2(SYS_getrlimit, RLIMIT_NOFILE, (intptr_t)&limit);
	uint64_t end = limit.rlim_cur < HIGHEST ? limit.rlim_cur : HIGHEST;
	if (xr_own_table || end < 2 * ROOM)
		end = 3 + ROOM; /* but never the place of a standard stream */
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
	h->fd = raise(fd);
	xr_sys3(SYS_fcntl, h->fd, F_SETFD, FD_CLOEXEC);
	return identify(h->fd, h->id);
}

int xr_held_fd(const struct xr_held *h)
{
	uint64_t id[2];
	if (h->fd < 0 || identify(h->fd, id) || id[0] != h->id[0] || id[1] != h->id[1])
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

/* Takes a descriptor out of the table of another thread of the process: 0 is that of the
 * first. Other threads but that can be named since Linux 6.9. */
static int fetch(uint32_t tid, int fd)
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

/* Standard error as it was when the recorder began. */
static struct xr_held stderr_then = {.fd = -1};

void xr_remember_stderr(void)
{
	stderr_then.fd = identify(2, stderr_then.id) ? -1 : 2;
}

void xr_say(const char *text, uint64_t n)
{
	struct xr_held h = stderr_then;
	if (xr_own_table && h.fd >= 0)
		h.fd = fetch(0, 2);
	int fd = xr_held_fd(&h);
	if (fd >= 0)
		xr_write(fd, text, n);
	if (xr_own_table && h.fd >= 0)
		xr_close(h.fd);
}

/* The output: one file, which may be open in the program's table and in the control
 * thread's. One thread cannot close what is in the other's table, so an entry may be that of an
 * earlier output. */
static struct {
	uint64_t id[2];       /* 0 when there is none */
	struct xr_held in[2]; /* by xr_own_table */
	uint32_t tid;         /* of the control thread */
	char path[512];
} output = {.in = {{.fd = -1}, {.fd = -1}}};

static int is_output(const uint64_t id[2]) { return id[1] && id[0] == output.id[0] && id[1] == output.id[1]; }

/* Takes fd for the output if it is that. */
static int take(int fd)
{
	uint64_t id[2];
	if (fd < 0)
		return -1;
	if (identify(fd, id) || !is_output(id)) {
		xr_close(fd);
		return -1;
	}
	struct xr_held *h = &output.in[xr_own_table];
	xr_hold(h, fd);
	if (xr_own_table)
		output.tid = xr_sys0(SYS_gettid);
	return h->fd;
}

void xr_output_hold(int fd)
{
	char link[48];
	struct xr_text t = xr_text_in(link, sizeof link - 1);
	xr_release(&output.in[xr_own_table]);
	identify(fd, output.id);
	fd = take(fd);
	xr_put_text(&t, "/proc/thread-self/fd/");
	xr_put_number(&t, fd);
	link[t.n] = 0;
	int64_t n = xr_sys3(SYS_readlink, (intptr_t)link, (intptr_t)output.path, sizeof output.path);
	output.path[n < 0 || n >= (int64_t)sizeof output.path ? 0 : n] = 0;
}

int xr_output_fd(void)
{
	struct xr_held *h = &output.in[xr_own_table], *other = &output.in[!xr_own_table];
	int fd = xr_held_fd(h);
	if (fd >= 0 && is_output(h->id))
		return fd;
	xr_release(h);
	if (!output.id[1])
		return -1;
	if (other->fd >= 0 && is_output(other->id))
		fd = take(fetch(xr_own_table ? 0 : output.tid, other->fd));
	if (fd < 0 && output.path[0])
		fd = take(xr_open(output.path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0));
	if (fd < 0)
		xr_warn("the program closed the recorder's output, and it cannot be opened again: records are lost", output.path);
	return fd;
}

void xr_output_release(void)
{
	output.id[0] = output.id[1] = 0;
	xr_release(&output.in[xr_own_table]);
}

void xr_output_forked(void)
{
	/* The table is a copy of that of the program's threads. */
	xr_own_table = 0;
	output.in[1].fd = -1;
	xr_output_release();
}
