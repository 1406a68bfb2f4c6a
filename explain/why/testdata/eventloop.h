// Event loops that serve clients, which are threads of their own. A client sends the number of a request, and waits for
// the answer.
#include "server.h"
#include <sys/epoll.h>
#include <sys/socket.h>

TRACED bool onReadable(int fd);

UNTRACED inline void await(int poll, int fd) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = fd;
  epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
}

struct Client {
  int fd, number, requests;
  UNTRACED static void *run(void *p) {
    auto *c = static_cast<Client *>(p);
    for (int i = 0; i < c->requests; i++) {
      uint64_t id = uint64_t(i) * 100 + c->number;
      if (write(c->fd, &id, sizeof id) < 0 || read(c->fd, &id, sizeof id) <= 0) break;
      rest(300 + noise(id) % 1200);
    }
    close(c->fd);
    return nullptr;
  }
};

// clients starts clients whose sockets a loop polls.
UNTRACED inline void clients(int poll, int count, int requests, pthread_t *threads) {
  static int number;
  for (int i = 0; i < count; i++) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
    await(poll, ends[0]);
    pthread_create(&threads[i], nullptr, Client::run, new Client{ends[1], number++, requests});
  }
}

// answer handles the next request of a socket. It returns false at the end.
UNTRACED inline bool answer(int fd) {
  uint64_t id;
  if (read(fd, &id, sizeof id) <= 0) return false;
  handleRequest(id);
  if (write(fd, &id, sizeof id) < 0) abort();
  return true;
}

// runLoop calls onReadable until clients have gone.
TRACED inline void runLoop(int poll, int left) {
  epoll_event ready[64];
  while (left > 0)
    for (int i = 0, n = epoll_wait(poll, ready, 64, -1); i < n; i++)
      if (!onReadable(ready[i].data.fd)) {
        epoll_ctl(poll, EPOLL_CTL_DEL, ready[i].data.fd, nullptr);
        left--;
      }
}
