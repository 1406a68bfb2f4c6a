// Another server answers late at times. It is not part of the trace.
#include "server.h"
#include <poll.h>
#include <sys/socket.h>

struct Connection {
  int here, there;
  UNTRACED void open() {
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    here = ends[0], there = ends[1];
  }
  TRACED void poll() {
    pollfd p{here, POLLIN, 0};
    ::poll(&p, 1, -1);
    asm volatile("");
  }
  TRACED void query(bool late) {
    char what = late, answer;
    write(here, &what, 1);
    poll();
    read(here, &answer, 1);
  }
} connections[4];

UNTRACED void *answer(void *p) {
  int end = static_cast<Connection *>(p)->there;
  uint64_t number = 0;
  for (char what; read(end, &what, 1) == 1; number++) {
    if (what) late(number);
    write(end, &what, 1);
  }
  return nullptr;
}
void handleRequest(uint64_t id) {
  parse(id);
  connections[id % 4].query(planted(id, 30));
  reply(id);
}
UNTRACED int main() {
  pthread_t backend[4];
  for (int i = 0; i < 4; i++) {
    connections[i].open();
    pthread_create(&backend[i], nullptr, answer, &connections[i]);
  }
  serve(4, 600);
  for (int i = 0; i < 4; i++) {
    close(connections[i].here);
    pthread_join(backend[i], nullptr);
  }
  puts("wait function=Connection::poll");
}
