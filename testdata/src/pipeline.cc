// A pipeline: a listener accepts 300 requests, two workers handle them, a sender replies.
// All three are told the number of the request, which is logged. Every tenth request is a
// PUT, which takes longer; every hundredth one has the worker write its journal too, so
// that those behind it have to wait in the queue. At most six are under way.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "recorder.h"

#define TRACED __attribute__((xray_always_instrument, noinline))
#define TRACED_ID __attribute__((xray_always_instrument, xray_log_args(1), noinline))
#define UNTRACED __attribute__((xray_never_instrument))

static volatile unsigned sink;

UNTRACED static void work(unsigned n) {
  for (unsigned i = 0; i < n; i++) sink = sink * 31 + i;
}

struct Queue {
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<unsigned long> items;

  UNTRACED void push(unsigned long id) {
    std::lock_guard<std::mutex> lock(mutex);
    items.push_back(id);
    ready.notify_one();
  }

  UNTRACED unsigned long pop() {
    std::unique_lock<std::mutex> lock(mutex);
    ready.wait(lock, [this] { return !items.empty(); });
    unsigned long id = items.front();
    items.pop_front();
    return id;
  }
};

static Queue toHandle, toSend, slots;

TRACED void parse() { work(5000); }
TRACED void lookUp() { work(20000); }
TRACED void store() { work(60000); }
TRACED void flushJournal() { work(1000000); }

TRACED_ID void accept(unsigned long id) {
  parse();
  toHandle.push(id);
}

TRACED_ID void handle(unsigned long id) {
  bool put = id % 10 == 0;
  char text[32];
  int n = snprintf(text, sizeof text, "method=%s", put ? "PUT" : "GET");
  __xray_customevent(text, static_cast<size_t>(n));
  lookUp();
  if (put) store();
  if (id % 100 == 0) flushJournal();
  toSend.push(id);
}

TRACED_ID void reply(unsigned long id) { work(10000 + id % 2); }

UNTRACED static void listener(unsigned long requests) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others are there then
  for (unsigned long id = 1; id <= requests; id++) {
    slots.pop();
    accept(id);
    work(40000);
  }
  toHandle.push(0);
}

UNTRACED static void worker() {
  while (unsigned long id = toHandle.pop()) handle(id);
  toHandle.push(0);
}

UNTRACED static void sender(unsigned long requests) {
  for (; requests > 0; requests--) {
    reply(toSend.pop());
    slots.push(1);
  }
}

UNTRACED int main() {
  const unsigned long requests = 300;
  for (int i = 0; i < 6; i++) slots.push(1);
  if (!startRecording("func_duration_threshold_us=0")) return 1;
  std::thread threads[] = {std::thread(listener, requests), std::thread(worker), std::thread(worker), std::thread(sender, requests)};
  for (std::thread &t : threads) t.join();
  return !stopRecording();
}
