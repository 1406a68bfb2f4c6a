// One kind of request walks a hundred times more of a tree than the others. Expected: more
// calls of walk, all with kind 7; the recursion is one path.
#include "server.h"

TRACED void visit(int depth) { spin(200 + depth); }
TRACED void walk(int depth, int width) {
  visit(depth);
  if (depth > 0)
    for (int i = 0; i < width; i++) walk(depth - 1, width);
  asm volatile("");
}
TRACED_ARG void dispatch(uint64_t kind) {
  walk(kind == 7 ? 8 : 2, 2);
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  dispatch(noise(id) % 90 == 0 ? 7 : noise(id) % 5);
  reply(id);
}
int main() { serve(3, 1500); }
