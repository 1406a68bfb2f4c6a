// Nothing is slow but that the CPU quota of the program's cgroup stops it. The program has no cause of its own.
#include "server.h"

TRACED void lookUp(uint64_t id) { spin(200000 + noise(id) % 10000); }
void handleRequest(uint64_t id) {
  parse(id);
  lookUp(id);
  reply(id);
}
UNTRACED int main() { serve(4, 3000, 50); }
