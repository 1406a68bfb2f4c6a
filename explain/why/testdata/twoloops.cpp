// Two threads run an event loop each. In one of them, the callback of a timer merges segments, for which its requests
// wait.
#include "eventloop.h"
#include <sys/timerfd.h>

static int timer;
TRACED void mergeSegments(uint64_t n) { late(n); }
TRACED bool onTimer() {
  uint64_t n;
  if (read(timer, &n, sizeof n) == sizeof n) mergeSegments(n);
  return true;
}
bool onReadable(int fd) { return fd == timer ? onTimer() : answer(fd); }
void handleRequest(uint64_t id) {
  parse(id);
  reply(id);
}
static const int count = 6;
UNTRACED void *other(void *p) {
  runLoop(*static_cast<int *>(p), count);
  return nullptr;
}
UNTRACED int main() {
  pthread_t threads[2 * count], loop;
  int polls[2] = {epoll_create1(0), epoll_create1(0)};
  clients(polls[0], count, 400, threads);
  clients(polls[1], count, 400, threads + count);
  timer = timerfd_create(CLOCK_MONOTONIC, 0);
  itimerspec every{{0, 60000000}, {0, 60000000}};
  timerfd_settime(timer, 0, &every, nullptr);
  await(polls[0], timer);
  pthread_create(&loop, nullptr, other, &polls[1]);
  runLoop(polls[0], count);
  pthread_join(loop, nullptr);
  for (auto t : threads) pthread_join(t, nullptr);
  puts("event-loop function=runLoop busy=mergeSegments|onTimer requests=no");
}
