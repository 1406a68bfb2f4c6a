// One thread's shard is on a bad disk.
#include "server.h"

long bad;

TRACED void readShard(uint64_t id) {
  spin(1000);
  if (id % 4 != 2) return;
  bad = threadID();
  if (planted(id, 15)) late(id);
}
void handleRequest(uint64_t id) {
  parse(id);
  readShard(id);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  printf("slower function=readShard thread=%ld\n", bad);
}
