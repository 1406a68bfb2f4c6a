/* The control socket: where it is, who may use it, and how requests and answers travel.
 *
 * A request is one packet, and so is its answer. Then the server closes the connection, except after
 * the command budget, which is repeated many times a second. The server never waits for a client. It
 * drops clients that send nothing for two seconds, or earlier if others need their places. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "commands.h"
#include "descriptors.h"
#include "server.h"
#include "syscall.h"
#include "text.h"

#define MAX_FDS 8 /* of a request */
#define CLIENT_TIMEOUT 2000000000ull /* ns until a client that sends nothing is dropped */

struct client {
	struct xr_held at; /* fd -1: free */
	uint64_t deadline; /* ns of the monotonic clock */
	uint64_t holds;    /* the recording that ends with the connection; 0: none */
};

static struct {
	struct xr_held listening;
	struct client clients[XR_CLIENTS];
	char *request, *answer;
	struct sockaddr_un address; /* where it listens */
	socklen_t size;             /* of the address */
	uint32_t users[2];          /* real and effective, from the start */
} server = {.listening = {.fd = -1}};

/* Closes a connection so that the answer arrives. If unread data were left, the client would
 * get an error instead. */
static void close_connection(int fd)
{
	char any;
	xr_sys2(SYS_shutdown, fd, SHUT_RD);
	while (xr_sys6(SYS_recvfrom, fd, (intptr_t)&any, 1, MSG_DONTWAIT, 0, 0) > 0)
		;
	xr_close(fd);
}

static void hang_up(struct client *c)
{
	int fd = xr_held_fd(&c->at);
	c->at.fd = -1;
	xr_disconnected(c, c->holds);
	c->holds = 0;
	if (fd >= 0)
		close_connection(fd);
}

/* Returns whether the client may control the process: root, the process's user, or the user
 * that it had at the start. */
static int may_control(int fd)
{
	struct ucred peer = {.uid = -1};
	socklen_t size = sizeof peer;
	uint32_t real, effective, saved;
	if (xr_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (intptr_t)&peer, (intptr_t)&size, 0) < 0 ||
	    xr_sys3(SYS_getresuid, (intptr_t)&real, (intptr_t)&effective, (intptr_t)&saved) < 0)
		return 0;
	if (xr_is_unknown_user(peer.uid))
		return 0;
	return peer.uid == 0 || peer.uid == real || peer.uid == effective || peer.uid == server.users[0] ||
	       peer.uid == server.users[1];
}

/* Returns a free place, or that of the client that has waited longest. */
static struct client *free_client(void)
{
	struct client *oldest = &server.clients[0];
	for (struct client *c = server.clients; c < server.clients + XR_CLIENTS; c++) {
		if (c->at.fd < 0)
			return c;
		if (c->deadline < oldest->deadline)
			oldest = c;
	}
	hang_up(oldest);
	return oldest;
}

int xr_server_accept(void)
{
	struct pollfd more = {.fd = xr_held_fd(&server.listening), .events = POLLIN};
	if (xr_sys3(SYS_poll, (intptr_t)&more, 1, 0) <= 0)
		return -1;
	int listening = xr_held_fd(&server.listening);
	int fd = listening < 0 ? -EBADF : xr_sys4(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	if (!may_control(fd)) {
		static const char no[] = "{\"ok\":false,\"error\":\"only the user of the process and root may control it\"}";
		xr_sys6(SYS_sendto, fd, (intptr_t)no, sizeof no - 1, MSG_NOSIGNAL, 0, 0);
		close_connection(fd);
		return 1;
	}
	struct client *c = free_client();
	xr_hold(&c->at, fd);
	c->deadline = xr_clock_ns(CLOCK_MONOTONIC) + CLIENT_TIMEOUT;
	c->holds = 0;
	return 1;
}

/* Receives a packet with its descriptors. Returns its size or -errno. */
static int64_t receive(int fd, int *flags, int *fds, int *nfds)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct iovec part = {server.request, XR_MAX_REQUEST};
	struct msghdr m = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof control,
	};
	int64_t n = xr_sys3(SYS_recvmsg, fd, (intptr_t)&m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*flags = m.msg_flags;
	*nfds = 0;
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		xr_copy(fds, CMSG_DATA(c), *nfds * sizeof(int));
	}
	return n;
}

/* Answers a client that has sent a request, and closes the connection unless it should stay open. */
static void serve(struct client *c)
{
	static const char too_long[] = "{\"ok\":false,\"error\":\"the request is too long\"}";
	int fds[MAX_FDS], nfds, flags, fd = xr_held_fd(&c->at);
	struct xr_after after = {0};
	int64_t n = fd < 0 ? -EBADF : receive(fd, &flags, fds, &nfds);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n < 0 || c->holds) { /* the client must not send anything more */
		hang_up(c);
		return;
	}
	const char *answer = server.answer;
	if (n > 0 && flags & MSG_TRUNC) {
		answer = too_long;
	} else if (n > 0) {
		server.request[n] = 0;
		xr_command_from(c, server.request, fds, nfds, server.answer, XR_MAX_ANSWER, &after);
	}
	for (int i = 0; i < nfds; i++)
		xr_close(fds[i]);
	/* There is room for the packet: it is the connection's first, or the client has read the others. */
	fd = xr_held_fd(&c->at);
	int64_t sent = n > 0 && fd >= 0 ? xr_sys6(SYS_sendto, fd, (intptr_t)answer, xr_strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0) : -1;
	c->holds = after.holds;
	if ((after.holds && fd >= 0) || (after.stays && sent > 0)) {
		c->deadline = UINT64_MAX;
	} else {
		hang_up(c);
	}
}

/* Removes a stale socket at path, on which nothing listens. */
static void remove_stale(const struct sockaddr_un *a, socklen_t size)
{
	struct stat st;
	if (xr_sys4(SYS_newfstatat, AT_FDCWD, (intptr_t)a->sun_path, (intptr_t)&st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISSOCK(st.st_mode))
		return;
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (xr_sys3(SYS_connect, fd, (intptr_t)a, size) == -ECONNREFUSED)
		xr_sys1(SYS_unlink, (intptr_t)a->sun_path);
	xr_close(fd);
}

static int64_t bind_path(int fd, const char *path)
{
	uint64_t n = xr_strlen(path);
	if (n >= sizeof server.address.sun_path)
		return -ENAMETOOLONG;
	xr_copy(server.address.sun_path, path, n + 1);
	server.size = sizeof server.address;
	remove_stale(&server.address, server.size);
	return xr_sys3(SYS_bind, fd, (intptr_t)&server.address, server.size);
}

/* Binds to an abstract address: the process ID, and a number unless it is 0. */
static int64_t bind_number(int fd, uint64_t number)
{
	struct xr_text t = xr_text_in(server.address.sun_path + 1, sizeof server.address.sun_path - 1);
	server.address.sun_path[0] = 0;
	xr_put_text(&t, "xray-recorder-");
	xr_put_number(&t, xr_sys0(SYS_getpid));
	if (number) {
		xr_put_text(&t, "-");
		xr_put_number(&t, number);
	}
	server.size = offsetof(struct sockaddr_un, sun_path) + 1 + t.n;
	return xr_sys3(SYS_bind, fd, (intptr_t)&server.address, server.size);
}

/* Binds to an address where clients look for this process. Processes of containers that share a network
 * may have the same ID, and any user may have taken the names that can be foreseen. */
static int64_t bind_abstract(int fd)
{
	struct stat namespace;
	uint64_t random = 0;
	int64_t err = bind_number(fd, 0);
	if (err == -EADDRINUSE && xr_sys4(SYS_newfstatat, AT_FDCWD, (intptr_t)"/proc/self/ns/pid", (intptr_t)&namespace, 0) >= 0)
		err = bind_number(fd, namespace.st_ino);
	if (err == -EADDRINUSE && xr_sys3(SYS_getrandom, (intptr_t)&random, sizeof random, GRND_NONBLOCK) == sizeof random)
		err = bind_number(fd, random);
	return err;
}

static int listen_at(const char *where)
{
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	server.address.sun_family = AF_UNIX;
	int64_t err = xr_equal(where, "1") ? bind_abstract(fd) : bind_path(fd, where);
	if (err >= 0)
		err = xr_sys2(SYS_listen, fd, 64);
	if (err < 0) {
		xr_close(fd);
		return err;
	}
	return fd;
}

void xr_server_wait(int listening, uint64_t ns)
{
	struct pollfd polled[XR_CLIENTS + 1];
	for (int i = 0; i < XR_CLIENTS; i++)
		polled[i] = (struct pollfd){.fd = xr_held_fd(&server.clients[i].at), .events = POLLIN};
	polled[XR_CLIENTS] = (struct pollfd){.fd = listening ? xr_held_fd(&server.listening) : -1, .events = POLLIN};
	struct { int64_t s, ns; } patience = {ns / 1000000000, ns % 1000000000};
	xr_sys6(SYS_ppoll, (intptr_t)polled, XR_CLIENTS + 1, (intptr_t)&patience, 0, 0, 0);

	uint64_t now = xr_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < XR_CLIENTS; i++) {
		struct client *c = &server.clients[i];
		if (c->at.fd < 0)
			continue;
		if (polled[i].fd < 0)
			hang_up(c); /* the program closed it */
		else if (polled[i].revents)
			serve(c);
		else if (now > c->deadline || (c->holds && !xr_is_recording(c->holds)))
			hang_up(c);
	}
}

int xr_server_listen(const char *where)
{
	int fd = listen_at(where);
	return fd < 0 ? fd : xr_hold(&server.listening, fd);
}

void xr_server_keep_listening(void)
{
	if (xr_held_fd(&server.listening) < 0)
		xr_server_listen("1"); /* a path may belong to another program meanwhile */
}

int xr_server_open(void)
{
	uint32_t saved;
	if (!server.request)
		server.request = xr_map(XR_MAX_REQUEST + 1);
	if (!server.answer)
		server.answer = xr_map(XR_MAX_ANSWER);
	if (!server.request || !server.answer)
		return -ENOMEM;
	xr_sys3(SYS_getresuid, (intptr_t)&server.users[0], (intptr_t)&server.users[1], (intptr_t)&saved);
	return 0;
}

void xr_server_reset(void)
{
	for (int i = 0; i < XR_CLIENTS; i++)
		server.clients[i].at.fd = -1;
	server.listening.fd = -1;
}

int xr_server_is_busy(void)
{
	int busy = 0;
	for (int i = 0; i < XR_CLIENTS; i++)
		busy |= server.clients[i].at.fd >= 0;
	return busy;
}

void xr_server_close(void)
{
	for (int i = 0; i < XR_CLIENTS; i++)
		hang_up(&server.clients[i]);
	xr_release(&server.listening);
}

void xr_server_forked(void)
{
	xr_release(&server.listening);
	for (int i = 0; i < XR_CLIENTS; i++) {
		xr_release(&server.clients[i].at);
		xr_disconnected(&server.clients[i], 0);
	}
}

void xr_server_wake(void)
{
	int fd = xr_sys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return; /* the thread looks within a second */
	xr_sys3(SYS_connect, fd, (intptr_t)&server.address, server.size);
	xr_close(fd);
}
