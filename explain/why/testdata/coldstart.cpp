// The first requests of every thread have templates compiled; later ones find them.
#include "server.h"

TRACED void optimize(uint64_t id) { late(id); }
TRACED void compileTemplate(uint64_t id) {
  spin(2000);
  optimize(id);
}
TRACED void render(uint64_t id) {
  thread_local int compiled;
  spin(2000 + noise(id) % 1000);
  if (compiled++ < 9) compileTemplate(id);
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  render(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("new-path function=compileTemplate start");
}
