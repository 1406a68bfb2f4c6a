// A small key-value server without a network, to be recorded: one producer, a
// pool of workers that parse requests, look keys up, compress and store values,
// and a flusher that in FDR mode still waits when the recording ends.
//
//   XRAY_OPTIONS="patch_premain=true xray_mode=xray-basic" kvserver basic REQUESTS COUNTS
//   kvserver fdr REQUESTS COUNTS
//   kvserver fdr-flusher-first REQUESTS COUNTS
//
// It counts its own calls. COUNTS gets lines of "calls NAME N", "unwound NAME N"
// (calls that an exception left) and "open NAME N" (calls that were still running
// when the recording ended), which tests hold against what the trace says.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "recorder.h"

#define NOINLINE __attribute__((noinline))
#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define LOG_ARG1 __attribute__((xray_always_instrument, xray_log_args(1)))

namespace {

// One counter per traced function of ours; they register themselves.
struct Counter;
Counter *counters;
struct Counter {
  const char *what, *name;
  std::atomic<long> n{0};
  Counter *next;
  UNTRACED Counter(const char *what, const char *name) : what(what), name(name), next(counters) {
    counters = this;
  }
};

bool writeCounts(const char *path) __attribute__((xray_never_instrument));
bool writeCounts(const char *path) {
  std::map<std::string, long> lines;
  for (Counter *c = counters; c; c = c->next)
    lines[std::string(c->what) + " " + c->name] += c->n;
  FILE *f = fopen(path, "w");
  if (!f) return false;
  for (auto &l : lines)
    if (l.second) fprintf(f, "%s %ld\n", l.first.c_str(), l.second);
  return fclose(f) == 0;
}

} // namespace

// COUNTED declares the counter of a function beside it, so that none has to be
// set up, under a lock, inside the function.
#define COUNTED(id, name) static Counter id##Calls("calls", name)
#define COUNT(id) id##Calls.n.fetch_add(1, std::memory_order_relaxed)

namespace kv {

enum class Op { Get, Put, Sum, Stats };

struct Request {
  uint64_t id = 0;
  Op op = Op::Get;
  uint64_t key = 0;
  std::string body;
};

struct BadRequest : std::runtime_error {
  UNTRACED explicit BadRequest(int depth) : std::runtime_error("bad request"), depth(depth) {}
  int depth; // of nested values that were open
};

static Counter sumUnwound("unwound", "kv::sumNested");
static Counter executeUnwound("unwound", "kv::execute");
static Counter rejectUnwound("unwound", "kv::reject");
static Counter waitOpen("open", "kv::Flusher::wait");
static Counter runOpen("open", "kv::Flusher::run");

COUNTED(reject, "kv::reject");
[[noreturn]] NOINLINE void reject(int depth) {
  COUNT(reject);
  throw BadRequest(depth);
}

COUNTED(sumNested, "kv::sumNested");
// Adds up the digits of nested lists such as "(1(23)4)"; recursion by nesting.
NOINLINE int sumNested(const char *&p, int depth) {
  COUNT(sumNested);
  int sum = 0;
  while (*p) {
    char c = *p++;
    if (c == '(') sum += sumNested(p, depth + 1);
    else if (c == ')') return sum;
    else if (c == '!') reject(depth);
    else sum += c - '0';
  }
  return sum;
}

COUNTED(hash, "kv::hash");
LOG_ARG1 NOINLINE uint64_t hash(uint64_t key) {
  COUNT(hash);
  for (int i = 0; i < 4; i++) key = (key ^ key >> 31) * 0x9e3779b97f4a7c15ull;
  return key;
}

COUNTED(checksum, "kv::checksum");
NOINLINE uint32_t checksum(std::string_view s) {
  COUNT(checksum);
  uint32_t sum = 1;
  for (unsigned char c : s) sum = sum * 31 + c;
  return sum;
}

COUNTED(compress, "kv::compress");
// Run-length encoding: a byte and how often it follows itself.
NOINLINE std::string compress(const std::string &in) {
  COUNT(compress);
  std::string out;
  for (size_t i = 0; i < in.size();) {
    size_t n = 1;
    while (i + n < in.size() && in[i + n] == in[i] && n < 255) n++;
    out.push_back(in[i]);
    out.push_back(static_cast<char>(n));
    i += n;
  }
  return out;
}

COUNTED(decompress, "kv::decompress");
NOINLINE std::string decompress(const std::string &in) {
  COUNT(decompress);
  std::string out;
  for (size_t i = 0; i + 1 < in.size(); i += 2)
    out.append(static_cast<unsigned char>(in[i + 1]), in[i]);
  return out;
}

class Store {
public:
  std::string get(uint64_t key);
  void put(uint64_t key, const std::string &value);
  size_t flush();

private:
  static constexpr size_t shards = 8;
  struct Shard {
    std::mutex mu;
    std::map<uint64_t, std::string> values;
  };
  Shard &shard(uint64_t key);
  Shard shards_[shards];
};

COUNTED(shard, "kv::Store::shard");
NOINLINE Store::Shard &Store::shard(uint64_t key) {
  COUNT(shard);
  return shards_[hash(key) % shards];
}

COUNTED(get, "kv::Store::get");
NOINLINE std::string Store::get(uint64_t key) {
  COUNT(get);
  Shard &s = shard(key);
  std::lock_guard<std::mutex> lock(s.mu);
  auto it = s.values.find(key);
  return it == s.values.end() ? std::string() : decompress(it->second);
}

COUNTED(put, "kv::Store::put");
NOINLINE void Store::put(uint64_t key, const std::string &value) {
  COUNT(put);
  std::string packed = compress(value);
  packed.push_back(static_cast<char>(checksum(value)));
  Shard &s = shard(key);
  std::lock_guard<std::mutex> lock(s.mu);
  s.values[key] = std::move(packed);
}

COUNTED(flush, "kv::Store::flush");
NOINLINE size_t Store::flush() {
  COUNT(flush);
  size_t bytes = 0;
  for (Shard &s : shards_) {
    std::lock_guard<std::mutex> lock(s.mu);
    for (auto &v : s.values) bytes += v.second.size() + (checksum(v.second) & 1);
  }
  return bytes;
}

COUNTED(describe, "kv::describe");
NOINLINE size_t describe(const Request &r) {
  COUNT(describe);
  char text[48];
  // The frame keeps the stack aligned for the recorder's event trampoline.
  int n = snprintf(text, sizeof text, "request %llu key %llu",
                   static_cast<unsigned long long>(r.id), static_cast<unsigned long long>(r.key));
  __xray_customevent(text, static_cast<size_t>(n));
  return static_cast<size_t>(n);
}

COUNTED(reply, "kv::reply");
NOINLINE size_t reply(const std::string &s) {
  COUNT(reply);
  return checksum(s) % 7 + s.size();
}

// stats and parts of execute end in a call that the optimiser turns into a jump:
// a tail exit.

COUNTED(stats, "kv::stats");
NOINLINE size_t stats(Store &, const Request &r) {
  COUNT(stats);
  return describe(r);
}

COUNTED(execute, "kv::execute");
NOINLINE size_t execute(Store &store, const Request &r) {
  COUNT(execute);
  switch (r.op) {
  case Op::Get:
    return reply(store.get(r.key));
  case Op::Put:
    store.put(r.key, r.body);
    return reply(r.body);
  case Op::Sum: {
    const char *p = r.body.c_str();
    return static_cast<size_t>(sumNested(p, 0));
  }
  case Op::Stats:
    break;
  }
  return stats(store, r);
}

COUNTED(parse, "kv::parse");
// "id op key body"
NOINLINE Request parse(const std::string &line) {
  COUNT(parse);
  Request r;
  char *end = nullptr;
  r.id = strtoull(line.c_str(), &end, 10);
  switch (end[1]) {
  case 'p': r.op = Op::Put; break;
  case 's': r.op = Op::Sum; break;
  case 't': r.op = Op::Stats; break;
  default: r.op = Op::Get;
  }
  r.key = strtoull(end + 2, &end, 10);
  if (*end) r.body = end + 1;
  return r;
}

COUNTED(handle, "kv::handle");
LOG_ARG1 NOINLINE size_t handle(uint64_t number, Store &store, const std::string &line) {
  COUNT(handle);
  try {
    return number % 3 + execute(store, parse(line));
  } catch (const BadRequest &e) {
    sumUnwound.n += e.depth + 1;
    executeUnwound.n++;
    rejectUnwound.n++;
    return 0;
  }
}

class Queue {
public:
  void push(std::string line);
  bool pop(std::string &line);
  void close();

private:
  static constexpr size_t capacity = 16;
  std::mutex mu_;
  std::condition_variable ready_, room_;
  std::deque<std::string> lines_;
  bool closed_ = false;
};

COUNTED(push, "kv::Queue::push");
NOINLINE void Queue::push(std::string line) {
  COUNT(push);
  std::unique_lock<std::mutex> lock(mu_);
  while (lines_.size() >= capacity) room_.wait(lock);
  lines_.push_back(std::move(line));
  ready_.notify_one();
}

COUNTED(pop, "kv::Queue::pop");
NOINLINE bool Queue::pop(std::string &line) {
  COUNT(pop);
  std::unique_lock<std::mutex> lock(mu_);
  while (lines_.empty() && !closed_) ready_.wait(lock);
  if (lines_.empty()) return false;
  line = std::move(lines_.front());
  lines_.pop_front();
  room_.notify_one();
  return true;
}

UNTRACED void Queue::close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  ready_.notify_all();
}

COUNTED(work, "kv::work");
NOINLINE size_t work(Queue &queue, Store &store) {
  COUNT(work);
  size_t bytes = 0;
  std::string line;
  for (uint64_t n = 0; queue.pop(line); n++) bytes += handle(n, store, line);
  return bytes;
}

// Flusher writes the store out until it is told to stop.
class Flusher {
public:
  UNTRACED explicit Flusher(Store &store) : store_(store) {}
  void run();
  bool wait();
  // Returns once the flusher has done its rounds and waits.
  UNTRACED void pause() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this]() __attribute__((xray_never_instrument)) { return waiting_ > rounds; });
  }
  UNTRACED void stop() {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
    changed_.notify_all();
  }

private:
  Store &store_;
  std::mutex mu_;
  std::condition_variable changed_;
  static constexpr int rounds = 2;
  int waiting_ = 0;
  bool stopped_ = false;
};

COUNTED(wait, "kv::Flusher::wait");
// Returns at once for the first rounds, then only when the flusher is stopped.
NOINLINE bool Flusher::wait() {
  COUNT(wait);
  std::unique_lock<std::mutex> lock(mu_);
  if (++waiting_ > rounds) changed_.notify_all();
  while (!stopped_ && waiting_ > rounds) changed_.wait(lock);
  return !stopped_;
}

COUNTED(run, "kv::Flusher::run");
NOINLINE void Flusher::run() {
  COUNT(run);
  while (wait()) store_.flush();
}

COUNTED(line, "kv::requestLine");
NOINLINE std::string requestLine(int n) {
  COUNT(line);
  // Keys are skewed and values differ in length, as in life.
  unsigned key = static_cast<unsigned>(n) * 2654435761u % 97;
  key = key * key / 97;
  std::string head = std::to_string(n) + " ";
  if (n % 16 == 15) return head + "t" + std::to_string(key);
  if (n % 16 == 7) return head + "s" + std::to_string(key) + (n % 64 == 39 ? " (1(2!3))" : " (1(2(3)4)(5))");
  if (n % 4 == 0) return head + "p" + std::to_string(key) + " " + std::string(40 + key * key, 'a' + key % 26);
  return head + "g" + std::to_string(key);
}

COUNTED(serve, "kv::serve");
NOINLINE void serve(int requests, Queue &queue) {
  COUNT(serve);
  for (int n = 0; n < requests; n++) queue.push(requestLine(n));
}

} // namespace kv

namespace {

struct Server {
  kv::Store store;
  kv::Queue queue;
  kv::Flusher background{store};
  std::thread flusher;
  int requests = 0;
  bool flusherFirst = false;

  // Returns once the flusher has done its rounds and waits.
  UNTRACED void startFlusher() {
    flusher = std::thread(&kv::Flusher::run, &background);
    background.pause();
  }
};

// Runs on a thread of its own, so that the main thread records nothing: what a
// thread holds that outlives the recording may be lost (see main).
UNTRACED void *serveAll(void *arg) {
  Server &s = *static_cast<Server *>(arg);
  if (s.flusherFirst) s.startFlusher();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(kv::work, std::ref(s.queue), std::ref(s.store));
  threads.emplace_back(kv::serve, s.requests, std::ref(s.queue));
  threads.back().join();
  s.queue.close();
  threads.pop_back();
  for (std::thread &t : threads) t.join();
  if (!s.flusherFirst) s.startFlusher();
  return nullptr;
}

} // namespace

UNTRACED int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: kvserver basic|fdr|fdr-flusher-first REQUESTS COUNTS\n");
    return 2;
  }
  bool fdr = strcmp(argv[1], "basic") != 0;
  Server server;
  server.requests = atoi(argv[2]);
  // The runtime puts a buffer that a thread gives back into the first free slot
  // of its table, over the entry of a thread that may still use its own. With
  // the flusher first, its buffer is therefore lost and another written twice.
  server.flusherFirst = strcmp(argv[1], "fdr-flusher-first") == 0;
  if (fdr && !startRecording("func_duration_threshold_us=0")) {
    fprintf(stderr, "kvserver: cannot start the recorder\n");
    return 1;
  }
  pthread_t thread;
  if (pthread_create(&thread, nullptr, serveAll, &server) != 0) return 1;
  pthread_join(thread, nullptr);
  if (fdr) {
    if (!stopRecording()) {
      fprintf(stderr, "kvserver: the log was not flushed\n");
      return 1;
    }
    kv::waitOpen.n = kv::runOpen.n = 1;
  }
  server.background.stop();
  server.flusher.join();
  return writeCounts(argv[3]) ? 0 : 1;
}
