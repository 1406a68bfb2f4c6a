// A thread stops the others now and then to compact; they stand at a gate whose name says
// nothing, and log no address.
#include "server.h"

pthread_mutex_t region = PTHREAD_MUTEX_INITIALIZER;

TRACED void enterRegion() { pthread_mutex_lock(&region); asm volatile(""); }
TRACED void leaveRegion() { pthread_mutex_unlock(&region); asm volatile(""); }
TRACED void compact() { rest(30000); }
TRACED void collect() {
  enterRegion();
  compact();
  leaveRegion();
  asm volatile("");
}
UNTRACED void *collector(void *) {
  while (running()) {
    rest(150000);
    collect();
  }
  return nullptr;
}
void handleRequest(uint64_t id) {
  parse(id);
  enterRegion();
  spin(500);
  leaveRegion();
  reply(id);
}
UNTRACED int main() {
  serve(3, 1500, 1000, collector);
  puts("wait function=enterRegion holder=compact|collect evidence=coincidence");
}
