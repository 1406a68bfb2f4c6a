// A key-value server: get, set and stats of memcached's text protocol, worker threads with
// an epoll set each, and a journal.
//
//     kv JOURNAL [WORKERS]
//
// It listens on a port of 127.0.0.1 that the system chooses, prints it, and ends when it
// is told to by SIGTERM.
#include "store.h"

#include <arpa/inet.h>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

struct Server {
  Store store;
  Journal journal;
};

// Request is a command of a client. Its texts are in the connection's buffer.
struct Request {
  enum Command { Get, Set, Stats, Quit, Bad } command = Bad;
  std::string_view key, value;
  bool quiet = false; // no answer is wanted
  size_t length = 0;  // with all that belongs to it
};

static std::string_view nextWord(std::string_view *line) {
  size_t from = line->find_first_not_of(' ');
  if (from == line->npos) return *line = {};
  size_t to = std::min(line->find(' ', from), line->size());
  std::string_view word = line->substr(from, to - from);
  line->remove_prefix(to);
  return word;
}

// parse takes the first request from what a client sent. There is none yet when it has
// not sent all of it.
static std::optional<Request> parse(std::string_view in) {
  size_t end = in.find("\r\n");
  if (end == in.npos) return {};
  std::string_view line = in.substr(0, end);
  Request r;
  r.length = end + 2;
  std::string_view command = nextWord(&line);
  r.key = nextWord(&line);
  if (command == "get") {
    r.command = Request::Get;
  } else if (command == "stats") {
    r.command = Request::Stats;
  } else if (command == "quit") {
    r.command = Request::Quit;
  } else if (command == "set") {
    nextWord(&line); // flags
    nextWord(&line); // when it expires
    std::string_view digits = nextWord(&line);
    size_t size = 0;
    auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || rest != digits.data() + digits.size() || size > 1 << 20) return r;
    if (in.size() - r.length < size + 2) return {};
    r.command = Request::Set;
    r.value = in.substr(r.length, size);
    r.quiet = nextWord(&line) == "noreply";
    r.length += size + 2;
  }
  return r;
}

// Connection is a client's. It belongs to a worker.
class Connection {
 public:
  Connection(Server *server, int socket) : server_(server), socket_(socket) {}
  ~Connection() { close(socket_); }
  bool ready();

 private:
  bool receive();
  bool handleRequest(const Request &r);
  void handleGet(const Request &r);
  void handleSet(const Request &r);
  void handleStats();
  bool respond();

  Server *server_;
  int socket_;
  std::string in_, out_;
};

// ready does what a client asked for. It is false when the client is gone.
bool Connection::ready() {
  if (!receive()) return false;
  size_t done = 0;
  bool open = true;
  while (open) {
    std::optional<Request> r = parse(std::string_view(in_).substr(done));
    if (!r) break;
    open = handleRequest(*r);
    done += r->length;
  }
  in_.erase(0, done);
  return open;
}

bool Connection::receive() {
  char buffer[16384];
  ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
  if (n > 0) in_.append(buffer, n);
  return n > 0 && in_.size() < 4 << 20;
}

bool Connection::handleRequest(const Request &r) {
  switch (r.command) {
    case Request::Get: handleGet(r); break;
    case Request::Set: handleSet(r); break;
    case Request::Stats: handleStats(); break;
    case Request::Quit: return false;
    case Request::Bad: out_ += "ERROR\r\n"; break;
  }
  return respond();
}

void Connection::handleGet(const Request &r) {
  std::string value;
  if (server_->store.get(r.key, &value)) {
    out_.append("VALUE ").append(r.key).append(" 0 ").append(std::to_string(value.size()));
    out_.append("\r\n").append(value).append("\r\n");
  }
  out_ += "END\r\n";
}

void Connection::handleSet(const Request &r) {
  server_->journal.append(r.key, r.value);
  server_->store.set(r.key, r.value);
  if (!r.quiet) out_ += "STORED\r\n";
}

void Connection::handleStats() {
  out_ += "STAT curr_items " + std::to_string(server_->store.size()) + "\r\nEND\r\n";
}

bool Connection::respond() {
  size_t sent = 0;
  while (sent < out_.size()) {
    ssize_t n = send(socket_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  out_.clear();
  return true;
}

// Worker serves the connections that it is given, on a thread of its own.
class Worker {
 public:
  explicit Worker(Server *server) : server_(server), thread_([this] { run(); }) {}
  ~Worker();
  void give(int socket);

 private:
  void run();

  Server *server_;
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int stop_ = eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
};

static void watch(int epoll, int file) {
  epoll_event event{EPOLLIN, {}};
  event.data.fd = file;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event)) perror("epoll");
}

void Worker::give(int socket) { watch(epoll_, socket); }

void Worker::run() {
  std::unordered_map<int, std::unique_ptr<Connection>> connections;
  watch(epoll_, stop_);
  for (epoll_event events[64];;) {
    int n = epoll_wait(epoll_, events, 64, -1);
    for (int i = 0; i < n; i++) {
      int file = events[i].data.fd;
      if (file == stop_) return;
      auto &c = connections[file];
      if (!c) c = std::make_unique<Connection>(server_, file);
      if (!c->ready()) connections.erase(file);
    }
  }
}

Worker::~Worker() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(stop_);
  close(epoll_);
}

// listenAnywhere gives a socket that clients can connect to, and its port.
static int listenAnywhere(int *port) {
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  auto *address = reinterpret_cast<sockaddr *>(&a);
  if (s < 0 || bind(s, address, size) || listen(s, 128) || getsockname(s, address, &size)) return -1;
  *port = ntohs(a.sin_port);
  return s;
}

// serve gives connections to the workers in turn until it is told to end.
static void serve(int listener, int signals, std::vector<std::unique_ptr<Worker>> &workers) {
  for (size_t next = 0;;) {
    pollfd ready[] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) continue;
    if (ready[1].revents) return;
    int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    workers[next++ % workers.size()]->give(socket);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: kv JOURNAL [WORKERS]\n");
    return 2;
  }
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  int signals = signalfd(-1, &end, SFD_CLOEXEC), port = 0, listener = listenAnywhere(&port);
  Server server;
  if (listener < 0 || !server.journal.open(argv[1], &server.store)) {
    perror("kv");
    return 1;
  }
  printf("port %d\njournal %p\n", port, (const void *)server.journal.mutex());
  fflush(stdout);
  {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0, n = argc > 2 ? atoi(argv[2]) : 4; i < n; i++) workers.push_back(std::make_unique<Worker>(&server));
    serve(listener, signals, workers);
  }
  server.journal.close();
}
