// All threads are stopped at equal distances, as by a garbage collector.
#include "server.h"

pthread_rwlock_t world = PTHREAD_RWLOCK_INITIALIZER;

TRACED void safepoint() {
  pthread_rwlock_rdlock(&world);
  pthread_rwlock_unlock(&world);
  asm volatile("");
}
TRACED void mark() { rest(30000); }
TRACED void stopTheWorld() {
  pthread_rwlock_wrlock(&world);
  mark();
  pthread_rwlock_unlock(&world);
  asm volatile("");
}
UNTRACED void *collector(void *) {
  timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  while (running()) {
    if ((next.tv_nsec += 180000000) >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
    stopTheWorld();
  }
  return nullptr;
}
void handleRequest(uint64_t id) {
  parse(id);
  safepoint();
  reply(id);
}
UNTRACED int main() {
  serve(4, 1500, 1000, collector);
  puts("wait function=safepoint holder=mark|stopTheWorld evidence=coincidence in-time");
}
