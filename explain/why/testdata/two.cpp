// Pictures are scaled for some requests, and for some others an audit is late.
#include "server.h"

TRACED void readHeader(uint64_t id) { spin(200 + noise(id) % 100); }
TRACED void scaleLine() { rest(25000); }
TRACED void scale() {
  spin(1000);
  scaleLine();
}
TRACED void audit(uint64_t id) {
  spin(1000);
  if (planted(id * 3 + 1, 90)) rest(12000);
}
void handleRequest(uint64_t id) {
  parse(id);
  for (int i = 0; i < 8; i++) readHeader(id + i);
  if (planted(id, 50)) scale();
  audit(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("new-path function=scale");
  puts("slower function=audit");
}
