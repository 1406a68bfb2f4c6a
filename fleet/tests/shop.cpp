// A server for test_fleet.py, which needs its functions and build IDs. The durations of its
// calls do not matter.
#include <cstdlib>

#define TRACED [[gnu::noinline, clang::xray_always_instrument]]

extern "C" {
TRACED void parse() { asm volatile(""); }
TRACED void checksum() {
#ifdef REGRESSED
  for (int i = 0; i < 1000; i++) asm volatile("");
#endif
  asm volatile("");
}
TRACED void readDisk() { asm volatile(""); }
TRACED void reply() { asm volatile(""); }
TRACED void handleRequest() {
  parse();
  checksum();
  readDisk();
  reply();
  asm volatile("");
}
}

TRACED int main(int argc, char **argv) {
  int requests = atoi(argv[1]);
  for (int i = 0; i < requests; i++) handleRequest();
}
