// A request now and then puts an index in order while it has the lock that all take.
#include "server.h"

Mutex index_;

TRACED void reorganize() { rest(15000); }
TRACED void insert(uint64_t id) {
  index_.lock();
  spin(300);
  if (planted(id, 60)) reorganize();
  index_.unlock();
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  insert(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 500);
  printf("lock-wait function=Mutex::lock lock=%p holder=reorganize|insert evidence=address because=reorganize\n", (void *)&index_);
  puts("new-path function=reorganize");
}
