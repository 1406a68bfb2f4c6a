// Some requests have to ask a replica very often until it answers.
#include "server.h"

TRACED void ask(uint64_t id) {
  spin(1000 + noise(id) % 500);
  rest(3000);
}
TRACED void askReplica(uint64_t id) {
  for (int i = 0, tries = planted(id, 10) ? 12 + noise(id) % 8 : 1; i < tries; i++) ask(id + i);
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  askReplica(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 200);
  puts("more-calls function=ask");
}
