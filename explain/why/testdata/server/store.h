// The data of the server: values in memory, and the journal of what was stored.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

// Mutex is a mutex that a trace tells from others.
class Mutex {
 public:
  [[gnu::noinline, clang::xray_always_instrument, clang::xray_log_args(1)]] void lock() {
    m_.lock();
    asm volatile(""); // or it would leave through a jump
  }
  [[gnu::noinline, clang::xray_always_instrument, clang::xray_log_args(1)]] void unlock() {
    m_.unlock();
    asm volatile("");
  }

 private:
  std::mutex m_;
};

// Store keeps values by key. All of it may be used by several threads at once.
class Store {
 public:
  bool get(std::string_view key, std::string *value);
  void set(std::string_view key, std::string_view value);
  size_t size();

 private:
  struct Shard {
    Mutex mutex;
    std::unordered_map<std::string, std::string> values;
  };
  Shard &shard(std::string_view key);
  Shard shards_[16];
};

// Journal is a file of all that was stored, in order. What is appended is written some
// milliseconds later, by a thread of its own.
class Journal {
 public:
  // open reads what the file has into a store, and begins to write. It returns false,
  // with errno, when the file cannot be opened.
  bool open(const std::string &path, Store *store);
  void append(std::string_view key, std::string_view value);
  // close writes what is left.
  void close();
  const Mutex *mutex() const { return &mutex_; }

 private:
  void replay(Store *store);
  void run();
  void flush();
  void write(std::string_view data);
  [[gnu::noinline]] void sync();

  Mutex mutex_;
  std::string pending_; // not written yet
  int file_ = -1;
  bool closing_ = false;
  std::thread writer_;
};
