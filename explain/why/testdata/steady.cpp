// Nothing is planted.
#include "server.h"

TRACED void price(uint64_t id) { spin(5000 + noise(id * 3) % 4000); }
TRACED void lookUp(uint64_t id) {
  for (unsigned i = 0, n = 2 + noise(id) % 4; i < n; i++) price(id + i);
  spin(8000);
}
void handleRequest(uint64_t id) {
  parse(id);
  lookUp(id);
  reply(id);
}
UNTRACED int main() { serve(3, 1500); }
