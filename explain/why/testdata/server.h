// A small server whose threads handle requests, for programs with a known cause of
// slowness. What is planted loses milliseconds, and mostly sleeps meanwhile, so that a
// busy machine neither hides it nor makes the like; all other work is turns of a loop,
// some microseconds of it.
//
// Every program prints what the diagnosis is expected to say, a line for each cause
// beginning with its kind; the main one first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define TRACED [[gnu::noinline, clang::xray_always_instrument]]
#define TRACED_ARG [[gnu::noinline, clang::xray_always_instrument, clang::xray_log_args(1)]]
#define UNTRACED __attribute__((xray_never_instrument))

// The empty asm keeps callers from leaving through a tail call.
UNTRACED [[gnu::always_inline]] inline void spin(unsigned turns) {
  for (unsigned i = 0; i < turns; i++) asm volatile("" : "+r"(i));
  asm volatile("");
}
UNTRACED [[gnu::always_inline]] inline void rest(long us) {
  timespec t{us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, nullptr);
  asm volatile("");
}

UNTRACED inline uint32_t noise(uint64_t id) {
  id = (id ^ id >> 30) * 0xbf58476d1ce4e5b9;
  return uint32_t((id ^ id >> 27) * 0x94d049bb133111eb >> 33);
}
// planted says whether a request is one of the few that meet the cause. With PLANTED_NOTHING, none does.
UNTRACED inline bool planted(uint64_t id, unsigned oneIn) {
  static const bool nothing = getenv("PLANTED_NOTHING");
  return !nothing && noise(id * 7 + 3) % oneIn == 0;
}
// late loses 10 to 20 ms.
UNTRACED [[gnu::always_inline]] inline void late(uint64_t id) { rest(10000 + noise(id * 5) % 10000); }

UNTRACED inline long threadID() { return syscall(SYS_gettid); }

// Mutex logs its address.
struct Mutex {
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  TRACED_ARG void lock() { pthread_mutex_lock(&m); asm volatile(""); }
  TRACED_ARG void unlock() { pthread_mutex_unlock(&m); asm volatile(""); }
};

TRACED inline void nextToken() { spin(100); }
TRACED inline void parse(uint64_t id) {
  for (int i = 0; i < 4; i++) nextToken();
  spin(3000 + noise(id) % 1000);
}
TRACED inline void reply(uint64_t id) { spin(6000 + noise(~id) % 2000); }

TRACED_ARG void handleRequest(uint64_t id);

inline bool done; // tells threads in the background to end
UNTRACED inline bool running() { return !__atomic_load_n(&done, __ATOMIC_ACQUIRE); }

// recordFDR begins and ends a log in LLVM's FDR mode, which nothing else does.
UNTRACED inline void recordFDR(bool begin) {
  if (!getenv("PLANTED_FDR")) return;
  if (begin) {
    __xray_log_select_mode("xray-fdr");
    __xray_log_init_mode("xray-fdr", "func_duration_threshold_us=0:buffer_size=262144:buffer_max=400:grace_period_ms=50");
    __xray_patch();
    return;
  }
  __xray_unpatch();
  __xray_log_finalize();
  rest(100000); // until all threads have seen that it is over
  __xray_log_flushLog();
}

struct Worker {
  int number, threads, requests, pause;
  UNTRACED static void *run(void *p) {
    auto *w = static_cast<Worker *>(p);
    for (int i = 0; i < w->requests; i++) {
      handleRequest(uint64_t(i) * w->threads + w->number);
      rest(w->pause);
    }
    return nullptr;
  }
};

// serve has so many threads handle requests, each of an id of its own, with pauses of so
// many microseconds, and another one do what is given besides.
UNTRACED inline void serve(int threads, int requests, int pause = 50, void *(*background)(void *) = nullptr) {
  recordFDR(true);
  pthread_t all[16], other;
  Worker workers[16];
  if (background) pthread_create(&other, nullptr, background, nullptr);
  for (int t = 0; t < threads; t++) {
    workers[t] = {t, threads, requests, pause};
    pthread_create(&all[t], nullptr, Worker::run, &workers[t]);
  }
  for (int t = 0; t < threads; t++) pthread_join(all[t], nullptr);
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  if (background) pthread_join(other, nullptr);
  recordFDR(false);
}
