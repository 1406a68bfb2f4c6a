// A sum over few rows is quick; for some requests it goes over all of a table, from cache
// line to cache line.
#include "server.h"

const size_t rows = 1 << 22; // 32 MB
uint64_t *table;

TRACED uint64_t sum(uint64_t id, size_t n) {
  uint64_t s = 0, row = id;
  for (size_t i = 0; i < n; i++) {
    s += table[row % rows];
    row = row * 6364136223846793005 + 1442695040888963407 + (s & 1); // depends on what was read
  }
  return s;
}
void handleRequest(uint64_t id) {
  parse(id);
  volatile uint64_t s = sum(id, planted(id, 40) ? 60000 : 5);
  (void)s;
  reply(id);
}
UNTRACED int main() {
  table = static_cast<uint64_t *>(calloc(rows, sizeof *table));
  for (size_t i = 0; i < rows; i += 512) table[i] = i; // every page
  serve(4, 500);
  puts("slower function=sum");
}
