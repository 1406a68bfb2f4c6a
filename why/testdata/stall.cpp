// A thread stops the others now and then to compact; they stand at a gate whose name says
// nothing, and log no address. Expected: enterRegion waits, and compact is what for.
#include "server.h"
#include <atomic>

std::mutex region;
std::atomic<bool> done;

TRACED void enterRegion() { region.lock(); asm volatile(""); }
TRACED void leaveRegion() { region.unlock(); asm volatile(""); }
TRACED void compact() { for (int i = 0; i < 40; i++) spin(100000); }
TRACED void collect() {
  enterRegion();
  compact();
  leaveRegion();
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  enterRegion();
  spin(500);
  leaveRegion();
  reply(id);
}
int main() {
  std::thread collector([]() UNTRACED {
    while (!done) {
      rest(8000);
      collect();
    }
  });
  serve(3, 3000);
  done = true;
  collector.join();
}
