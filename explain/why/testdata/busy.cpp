// Nothing is planted, but more threads compute than any machine of ours has processors.
#include "server.h"

TRACED void burn() { spin(300000); }
UNTRACED void *burner(void *) {
  while (running()) burn();
  return nullptr;
}
TRACED void checkToken(uint64_t id) { spin(4000 + noise(id * 5) % 3000); }
TRACED void render(uint64_t id) {
  for (unsigned i = 0, n = 1 + noise(id) % 3; i < n; i++) checkToken(id + i);
  spin(5000);
}
void handleRequest(uint64_t id) {
  parse(id);
  render(id);
  reply(id);
}
UNTRACED int main() {
  pthread_t burners[6];
  for (auto &b : burners) pthread_create(&b, nullptr, burner, nullptr);
  serve(4, 900);
  for (auto &b : burners) pthread_join(b, nullptr);
}
