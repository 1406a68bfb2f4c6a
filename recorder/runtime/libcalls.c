/* Names of descriptors. Before the first recorded libc call that uses a descriptor, the thread
 * writes into the trace what the descriptor refers to. A table has a bit for each named
 * descriptor. The libc functions clear the bit when a descriptor is closed or created.
 *
 * No libc, because the trampolines call this code. */
#include <fcntl.h>
#include <sys/socket.h>

#include "events.h"
#include "layout.h"
#include "libcalls.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"

/* The longest path that is recorded. */
enum { MAX_PATH = 960 };

/* The table; null while no bit is set. */
static uint64_t *table;

/* The body of the event, except the text at its end. */
struct descriptor {
	char magic[4];
	uint16_t schema, kind;
	int32_t fd;
	uint16_t whose, size; /* which address or end of a pipe: XR_NO_ADDRESS and so on; size of the address that follows */
};
enum { XR_NO_ADDRESS, XR_PEER_ADDRESS, XR_OWN_ADDRESS, XR_READ_END, XR_WRITE_END };

/* Gets the address of a socket's peer, or the socket's own. Returns whether there is one. */
static int get_address(struct descriptor *d, int whose, struct sockaddr_storage *address)
{
	uint32_t size = sizeof *address;
	int64_t call = whose == XR_PEER_ADDRESS ? SYS_getpeername : SYS_getsockname;
	if (xr_sys3(call, d->fd, (intptr_t)address, (intptr_t)&size) || size > sizeof *address)
		return 0;
	d->whose = whose;
	d->size = size;
	return 1;
}

static int is_internet(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET || address->ss_family == AF_INET6;
}

/* Gets the path, or the kernel's substitute for one, such as "socket:[7]". Returns its length. */
static int64_t get_path(char *path, int64_t fd)
{
	char link[40];
	struct xr_text t = xr_text_in(link, sizeof link - 1);
	xr_put_text(&t, "/proc/thread-self/fd/");
	xr_put_number(&t, fd);
	link[t.n] = 0;
	return xr_sys3(SYS_readlink, (intptr_t)link, (intptr_t)path, MAX_PATH);
}

/* Notes which end of a pipe a descriptor is, if it is one. */
static void get_end(struct descriptor *d, const char *path, int64_t n)
{
	if (n <= 5 || xr_memcmp(path, "pipe:", 5))
		return;
	int64_t flags = xr_sys3(SYS_fcntl, d->fd, F_GETFL, 0);
	if (flags >= 0 && (flags & O_ACCMODE) != O_RDWR)
		d->whose = (flags & O_ACCMODE) == O_RDONLY ? XR_READ_END : XR_WRITE_END;
}

void xr_name_descriptor(int64_t fd, uint64_t *named)
{
	struct {
		struct descriptor head;
		struct sockaddr_storage address;
		char path[MAX_PATH];
	} e;
	if (!xr_is_sealed()) {
		e.head = (struct descriptor){{'X', 'R', 'Y', 'M'}, 1, XR_META_DESCRIPTOR, fd, XR_NO_ADDRESS, 0};
		int connected = get_address(&e.head, XR_PEER_ADDRESS, &e.address);
		int64_t n = 6;
		xr_copy(e.path, "socket", n);
		/* For connections, of which servers have many, the address says enough. */
		if (!connected || !is_internet(&e.address))
			n = get_path(e.path, fd);
		if (n <= 0)
			return; /* not open */
		if (!connected && n > 7 && !xr_memcmp(e.path, "socket:", 7))
			get_address(&e.head, XR_OWN_ADDRESS, &e.address);
		get_end(&e.head, e.path, n);
		char *behind = (char *)&e.address + e.head.size;
		xr_copy(behind, e.path, n); /* copies forwards, so the two may overlap */
		if (n < MAX_PATH)
			xr_note_event(&e, behind + n - (char *)&e);
	}
	/* If another thread uses the descriptor before this, it also records the name. */
	__atomic_store_n(&table, named, __ATOMIC_RELEASE);
	__atomic_fetch_or(&named[fd / 64], 1ull << fd % 64, __ATOMIC_RELEASE);
}

__thread uint32_t xr_muted __attribute__((tls_model("initial-exec")));

struct xr_thread *xr_mute(void)
{
	struct xr_thread *t = xr_tls;
	xr_muted = 1;
	xr_tls = NULL;
	return t;
}

void xr_unmute(struct xr_thread *t)
{
	xr_tls = t;
	xr_muted = 0;
}

void xr_forget_names(void)
{
	uint64_t *named = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
	for (uint64_t i = 0; named && i < XR_NAMED / 64; i++)
		if (__atomic_load_n(&named[i], __ATOMIC_RELAXED))
			__atomic_store_n(&named[i], 0, __ATOMIC_RELAXED);
}
