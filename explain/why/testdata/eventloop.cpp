// A thread runs an event loop. A few requests rebuild an index inside their callback, for which the others wait.
#include "eventloop.h"

TRACED void rebuildIndex(uint64_t id) { late(id); }
bool onReadable(int fd) { return answer(fd); }
void handleRequest(uint64_t id) {
  parse(id);
  if (planted(id, 100)) rebuildIndex(id);
  reply(id);
}
UNTRACED int main() {
  const int count = 12;
  pthread_t threads[count];
  int poll = epoll_create1(0);
  clients(poll, count, 200, threads);
  runLoop(poll, count);
  for (auto t : threads) pthread_join(t, nullptr);
  puts("new-path function=rebuildIndex");
  puts("event-loop function=runLoop busy=rebuildIndex|handleRequest requests=yes");
}
