/* The file that a process writes its trace to: its name and its descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "descriptors.h"
#include "layout.h"
#include "output.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

enum { MAX_PATH = 4096 };

/* Names. */

void xr_put_base_name(struct xr_text *t)
{
	char path[MAX_PATH];
	int64_t n = xr_sys3(SYS_readlink, (intptr_t)"/proc/self/exe", (intptr_t)path, sizeof path);
	int64_t first = n > 0 ? n : 0;
	while (first > 0 && path[first - 1] != '/')
		first--;
	xr_put(t, path + first, n > 0 ? n - first : 0);
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
			xr_put_number(t, xr_root.pid);
			break;
		case 'e':
			xr_put_base_name(t);
			break;
		default: /* a doubled percent sign */
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
	static char path[MAX_PATH]; /* static, because the slow path's stack may be small */
	struct xr_text t = xr_text_in(path, sizeof path - 32);
	expand(&t, template);
	if (t.cut)
		return -ENAMETOOLONG;
	path[t.n] = 0;
	int fd = create(path);
	uint64_t n = t.n;
	for (int attempt = 0; fd == -EEXIST && attempt < XR_MOST_NAMES; attempt++) {
		t = xr_text_in(path + n, sizeof path - 1 - n);
		xr_put_text(&t, ".");
		xr_put_number(&t, xr_root.pid);
		if (attempt) {
			xr_put_text(&t, ".");
			xr_put_number(&t, attempt);
		}
		path[n + t.n] = 0;
		fd = create(path);
	}
	return fd;
}

/* Descriptors. */

/* The output is one file. It may be open in the program's table and in the control thread's. A
 * thread cannot close a descriptor in the other table, so an entry may belong to an earlier
 * output. */
static struct {
	uint64_t id[2];       /* 0 if there is none */
	struct xr_held in[2]; /* by xr_own_table */
	uint32_t tid;         /* of the control thread */
	char path[512];
} output = {.in = {{.fd = -1}, {.fd = -1}}};

static int is_output(const uint64_t id[2]) { return id[1] && id[0] == output.id[0] && id[1] == output.id[1]; }

/* Uses fd for the output if it refers to that file. */
static int take(int fd)
{
	uint64_t id[2];
	if (fd < 0)
		return -1;
	if (xr_identify(fd, id) || !is_output(id)) {
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
	xr_identify(fd, output.id);
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
		fd = take(xr_fetch(xr_own_table ? 0 : output.tid, other->fd));
	if (fd < 0 && output.path[0])
		fd = take(xr_open(output.path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0));
	if (fd < 0)
		xr_warn("the program closed the recorder's output and it cannot be reopened: records are lost", output.path);
	return fd;
}

void xr_output_release(void)
{
	output.id[0] = output.id[1] = 0;
	xr_release(&output.in[xr_own_table]);
}

void xr_output_forked(void)
{
	/* The child's table is a copy of the program's. */
	xr_own_table = 0;
	output.in[1].fd = -1;
	xr_output_release();
}

void xr_forget_file_size_signal(void)
{
	uint64_t set = 1ull << (SIGXFSZ - 1);
	struct { int64_t s, ns; } now = {0, 0};
	xr_sys4(SYS_rt_sigtimedwait, (long)&set, 0, (long)&now, sizeof set);
}
