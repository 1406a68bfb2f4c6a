// Threads take blocks from a list under a lock for which they spin. A few have to fill the list first, and keep the lock
// meanwhile.
#include "server.h"

static bool taken;
UNTRACED [[gnu::always_inline]] inline void spinLock() {
  while (__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE)) asm volatile("pause");
}
UNTRACED [[gnu::always_inline]] inline void spinUnlock() { __atomic_clear(&taken, __ATOMIC_RELEASE); }

TRACED void refill(uint64_t id) { late(id); }
TRACED void allocate(uint64_t id) {
  spin(100); // otherwise the loop begins at the function's entry, and the recorder leaves it out
  spinLock();
  if (planted(id, 150)) refill(id);
  spinUnlock();
}
void handleRequest(uint64_t id) {
  parse(id);
  allocate(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600, 1000);
  puts("new-path|wait function=refill|allocate");
  puts("new-path function=refill");
  puts("wait function=allocate spins=yes holder=refill because=refill");
}
