// A server whose requests are slow at times for a known reason. Built with -DREGRESSED, every
// 25th request computes a checksum that is two thousand times as long. With an argument, every 25th
// request waits in readDisk, as on a machine with a bad disk.
#include <cstdint>
#include <cstdlib>
#include <unistd.h>

#define TRACED [[gnu::noinline, clang::xray_always_instrument]]

static volatile uint64_t sink;

static void work(int n) {
  for (int i = 0; i < n; i++) sink = sink * 31 + i;
}

extern "C" {
TRACED void parse() { work(2000); asm volatile(""); }
TRACED void checksum(int request) {
#ifdef REGRESSED
  work(request % 25 == 7 ? 4000000 : 2000);
#else
  work(2000);
#endif
  asm volatile("");
}
TRACED void readDisk(bool slow) {
  work(1000);
  if (slow) usleep(10000);
  asm volatile("");
}
TRACED void reply() { work(1500); asm volatile(""); }
TRACED void handleRequest(int request, bool badDisk) {
  parse();
  checksum(request);
  readDisk(badDisk && request % 25 == 11);
  reply();
  asm volatile("");
}
}

int main(int argc, char **argv) {
  int requests = argc > 1 ? atoi(argv[1]) : 1000;
  for (int i = 0; i < requests; i++) handleRequest(i, argc > 2);
}
