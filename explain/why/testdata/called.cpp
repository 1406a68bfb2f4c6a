// Requests are slow for a reason in what they are called with. The first argument chooses the reason, and the second
// one the numbers that are drawn.
#include "server.h"
#include <cstring>
#include <string>

enum Op { GET, PUT, SCAN, COMPRESS };
enum Reason { category, threshold, linear, quadratic, interaction, text, result, reuse, load, null };
static const char *const reasons[] = {"category", "threshold", "linear", "quadratic", "interaction", "text", "result", "reuse", "load", "null"};
static Reason reason;
static uint64_t seed;

struct Request {
  Op op;
  int connection; // one of eight, which are used again and again
  unsigned size;
  std::string key;
};

// What makes a request slow depends on its identifier if no argument does.
TRACED void encode(const Request &r, uint64_t id) {
  spin(2000 + noise(id) % 500);
  long n = r.size;
  switch (reason) {
  case category: case reuse: if (r.op == COMPRESS) late(id); break;
  case threshold: if (n > 4096) late(id); break;
  case linear: rest(n * 2); break;
  case quadratic: rest(n * n / 128); break;
  case interaction: if (r.op == COMPRESS && n > 4096) late(id); break;
  case text: if (r.key.size() > 24) late(id); break;
  case null: if (planted(id + 11, 40)) late(id); break;
  default: break;
  }
}
TRACED int find(const Request &r, uint64_t id) {
  spin(1000 + noise(id) % 500);
  if (!planted(id + 5, 40)) return int(noise(id + 6) % 100);
  late(id);
  return -1;
}

static bool rush; // many requests at once, and the disk is slow
TRACED void store(uint64_t id) {
  spin(1000);
  if (reason == load && __atomic_load_n(&rush, __ATOMIC_RELAXED)) late(id);
}

TRACED void handle(const Request &r, uint64_t id) {
  parse(id);
  encode(r, id);
  if (reason == result) find(r, id);
  store(id);
  reply(id);
}

void handleRequest(uint64_t number) {
  uint64_t id = number + seed * 1000003;
  Request r{Op(noise(id + 1) % 3), int(noise(id + 2) % 8), noise(id + 3) % 4000, std::string(1 + noise(id + 4) % 20, 'k')};
  bool rare = planted(id, 40), other = planted(id + 9, 40);
  switch (reason) {
  case category: case reuse: if (rare) r.op = COMPRESS; break;
  case threshold: if (rare) r.size = 4097 + noise(id + 7) % 4000; break;
  case linear: r.size = 400 + noise(id + 3) % 800; if (rare) r.size = 4000 + noise(id + 7) % 4000; break;
  case quadratic: r.size = 300 + noise(id + 3) % 300; if (rare) r.size = 1100 + noise(id + 7) % 500; break;
  case interaction: // one alone is often
    if (noise(id + 8) % 6 == 0) r.op = COMPRESS;
    if (noise(id + 9) % 6 == 0) r.size = 4097 + noise(id + 7) % 4000;
    break;
  case text: if (rare) r.key.append(25, 'k'); break;
  case load: // during a rush there are other requests than usual
    if (noise(id + 8) % 10 < (__atomic_load_n(&rush, __ATOMIC_RELAXED) ? 8 : 1)) r.op = COMPRESS, r.size += 4000;
    break;
  default: if (other) r.op = COMPRESS; break;
  }
  handle(r, id);
}

UNTRACED void *rushes(void *) {
  while (running()) {
    rest(60000);
    __atomic_store_n(&rush, true, __ATOMIC_RELAXED);
    rest(6000);
    __atomic_store_n(&rush, false, __ATOMIC_RELAXED);
  }
  return nullptr;
}

UNTRACED int main(int, char **argv) {
  for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (!strcmp(argv[1], reasons[i])) reason = Reason(i);
  seed = atoi(argv[2]);
  serve(4, reason == load ? 3000 : 800, 50, reason == load ? rushes : nullptr);
}
