// A field that cannot be decoded throws through frames that are not told, and what went
// wrong is described at length.
#include "server.h"

struct Malformed {};

TRACED void decodeField(uint64_t id, bool bad) {
  spin(1000 + noise(id) % 500);
  if (bad) throw Malformed{};
}
TRACED void decode(uint64_t id, bool bad) {
  for (int i = 0; i < 4; i++) decodeField(id, bad && i == 3);
  asm volatile("");
}
TRACED void describe(uint64_t id) { late(id); }
void handleRequest(uint64_t id) {
  parse(id);
  try {
    decode(id, planted(id, 80));
  } catch (Malformed &) {
    describe(id);
  }
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("new-path function=describe");
}
