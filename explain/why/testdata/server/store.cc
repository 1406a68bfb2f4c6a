#include "store.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

Store::Shard &Store::shard(std::string_view key) { return shards_[std::hash<std::string_view>{}(key) % 16]; }

bool Store::get(std::string_view key, std::string *value) {
  Shard &s = shard(key);
  std::lock_guard<Mutex> guard(s.mutex);
  auto found = s.values.find(std::string(key));
  if (found == s.values.end()) return false;
  *value = found->second;
  return true;
}

void Store::set(std::string_view key, std::string_view value) {
  Shard &s = shard(key);
  std::lock_guard<Mutex> guard(s.mutex);
  s.values[std::string(key)] = value;
}

size_t Store::size() {
  size_t n = 0;
  for (Shard &s : shards_) {
    std::lock_guard<Mutex> guard(s.mutex);
    n += s.values.size();
  }
  return n;
}

// A record of the journal is the lengths of key and value, 4 bytes each, and both.
static void encode(std::string *out, std::string_view key, std::string_view value) {
  uint32_t lengths[2] = {uint32_t(key.size()), uint32_t(value.size())};
  out->append(reinterpret_cast<char *>(lengths), sizeof lengths);
  out->append(key).append(value);
}

bool Journal::open(const std::string &path, Store *store) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) return false;
  replay(store);
  writer_ = std::thread([this] { run(); });
  return true;
}

void Journal::replay(Store *store) {
  std::string data;
  char buffer[65536];
  for (ssize_t n; (n = read(file_, buffer, sizeof buffer)) > 0;) data.append(buffer, n);
  size_t at = 0;
  for (uint32_t lengths[2]; data.size() - at >= sizeof lengths;) {
    memcpy(lengths, data.data() + at, sizeof lengths);
    size_t end = at + sizeof lengths + lengths[0] + lengths[1];
    if (end > data.size()) break;
    std::string_view record(data.data() + at + sizeof lengths, end - at - sizeof lengths);
    store->set(record.substr(0, lengths[0]), record.substr(lengths[0]));
    at = end;
  }
  // What a crash cut off is written over.
  if (ftruncate(file_, at) || lseek(file_, at, SEEK_SET) < 0) perror("journal");
}

void Journal::append(std::string_view key, std::string_view value) {
  std::lock_guard<Mutex> guard(mutex_);
  encode(&pending_, key, value);
}

void Journal::run() {
  for (bool last = false; !last;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
      std::lock_guard<Mutex> guard(mutex_);
      last = closing_;
    }
    flush();
  }
}

// flush keeps the lock until all is on the disk, which is the server's mistake: nobody
// notices, as long as the disk is quick.
void Journal::flush() {
  std::lock_guard<Mutex> guard(mutex_);
  if (pending_.empty()) return;
  write(pending_);
  sync();
  pending_.clear();
}

void Journal::write(std::string_view data) {
  while (!data.empty()) {
    ssize_t n = ::write(file_, data.data(), data.size());
    if (n < 0 && errno != EINTR) {
      perror("journal");
      exit(1);
    }
    if (n > 0) data.remove_prefix(n);
  }
}

void Journal::sync() {
  if (fdatasync(file_)) perror("journal");
}

void Journal::close() {
  {
    std::lock_guard<Mutex> guard(mutex_);
    closing_ = true;
  }
  writer_.join();
  ::close(file_);
}
