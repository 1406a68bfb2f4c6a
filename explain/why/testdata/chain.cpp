// Functions that end by calling the next one, which the compiler makes jumps of. The last
// one is slow at times.
#include "server.h"

TRACED void perform(uint64_t id) {
  spin(1000);
  if (planted(id, 80)) late(id);
}
TRACED void authorize(uint64_t id) {
  spin(800);
  return perform(id);
}
TRACED void route(uint64_t id) {
  spin(500);
  return authorize(id);
}
void handleRequest(uint64_t id) {
  parse(id);
  return route(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("slower function=perform path=handleRequest>route>authorize>perform");
}
