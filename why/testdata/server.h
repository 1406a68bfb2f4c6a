// A small server whose threads handle requests, for programs with a known cause of
// slowness. Work is turns of a loop, so that it can be interrupted like real work.
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#define TRACED [[gnu::noinline, clang::xray_always_instrument]]
#define TRACED_ARG [[gnu::noinline, clang::xray_always_instrument, clang::xray_log_args(1)]]
#define UNTRACED __attribute__((xray_never_instrument))

// The empty asm keeps callers from leaving through a tail call.
UNTRACED [[gnu::always_inline]] inline void spin(unsigned turns) {
  for (unsigned i = 0; i < turns; i++) asm volatile("" : "+r"(i));
  asm volatile("");
}
UNTRACED inline void rest(long us) {
  timespec t{0, us * 1000};
  nanosleep(&t, nullptr);
}

UNTRACED inline uint32_t noise(uint64_t id) {
  id = (id ^ id >> 30) * 0xbf58476d1ce4e5b9;
  return uint32_t((id ^ id >> 27) * 0x94d049bb133111eb >> 33);
}

TRACED inline void parse(uint64_t id) { spin(3000 + noise(id) % 1000); }
TRACED inline void reply(uint64_t id) { spin(6000 + noise(~id) % 2000); }

TRACED_ARG void handleRequest(uint64_t id);

// serve has so many threads handle requests, each of an id of its own.
UNTRACED inline void serve(int threads, int requests) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; t++)
    all.emplace_back([=]() UNTRACED {
      for (int i = 0; i < requests; i++) {
        handleRequest(uint64_t(i) * threads + t);
        rest(50);
      }
    });
  for (auto &t : all) t.join();
}
