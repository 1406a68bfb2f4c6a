// One kind of request walks far more of a tree than the others; the recursion is one
// path.
#include "server.h"

TRACED void visit() { rest(3000); }
TRACED void walk(int depth, int width) {
  visit();
  if (depth > 0)
    for (int i = 0; i < width; i++) walk(depth - 1, width);
  asm volatile("");
}
TRACED_ARG void dispatch(uint64_t kind) {
  walk(kind == 7 ? 3 : 0, 2);
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  dispatch(planted(id, 10) ? 7 : noise(id) % 5);
  reply(id);
}
UNTRACED int main() {
  serve(3, 200);
  puts("more-calls function=walk argument=dispatch:7");
}
