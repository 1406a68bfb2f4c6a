// Three workers queue up for a lock that is given back when all of them are seen to
// be in the lock function. Another lock is only ever taken by one thread, and two
// are taken in both orders, though never so that it matters.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#define TRACED [[clang::xray_always_instrument]] __attribute__((noinline))
#define TRACED_ARG [[clang::xray_always_instrument, clang::xray_log_args(1)]] __attribute__((noinline))

std::atomic<int> entered;  // calls of lock functions
std::atomic<bool> merging;

struct Mutex {
  std::mutex m;
  TRACED_ARG void lock() {
    entered++;
    m.lock();
  }
  TRACED_ARG void unlock() {
    m.unlock();
    asm volatile("");  // no tail call
  }
};

struct Guard {
  Mutex &m;
  explicit Guard(Mutex &x) : m(x) { m.lock(); }
  ~Guard() { m.unlock(); }
};

Mutex journal, statistics, checking, savings;

TRACED void mergeRuns() {
  merging = true;
  while (entered < 4) std::this_thread::yield();
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TRACED void flushJournal() {
  Guard g(journal);
  mergeRuns();
}

TRACED void appendJournal() {
  Guard g(journal);
  asm volatile("");
}

TRACED void worker() {
  while (!merging) std::this_thread::yield();
  appendJournal();
  asm volatile("");
}

TRACED void countRequests(int n) {
  for (int i = 0; i < n; i++) {
    Guard g(statistics);
    asm volatile("");
  }
}

TRACED void transfer(Mutex &from, Mutex &to) {
  Guard a(from);
  Guard b(to);
  asm volatile("");
}

int main() {
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; i++) workers.emplace_back(worker);
  flushJournal();
  for (auto &w : workers) w.join();
  countRequests(50);
  transfer(checking, savings);
  std::thread(transfer, std::ref(savings), std::ref(checking)).join();
  printf("%p %p %p %p\n", (void *)&journal, (void *)&statistics, (void *)&checking, (void *)&savings);
}
