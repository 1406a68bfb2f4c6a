// Rendering is late at times. The requests make many calls besides, which are so short
// that a recorder can be told to leave them out.
#include "server.h"

TRACED void escape(uint64_t id) { spin(200 + noise(id) % 100); }
TRACED void render(uint64_t id) {
  for (int i = 0; i < 20; i++) escape(id + i);
  spin(40000);
  if (planted(id, 60)) late(id);
}
TRACED void load(uint64_t id) {
  for (int i = 0; i < 20; i++) escape(id - i);
  spin(150000);
}
void handleRequest(uint64_t id) {
  parse(id);
  load(id);
  render(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("slower function=render");
}
