// Every request takes two locks of one kind, one after the other. A thread holds one of
// them for long now and then; the other one is innocent.
#include "server.h"

Mutex sessions, journal;

TRACED void findSession() {
  sessions.lock();
  spin(300);
  sessions.unlock();
  asm volatile("");
}
TRACED void append() {
  journal.lock();
  spin(300);
  journal.unlock();
  asm volatile("");
}
TRACED void rotate() { rest(30000); }
TRACED void flushJournal() {
  journal.lock();
  rotate();
  journal.unlock();
  asm volatile("");
}
UNTRACED void *flusher(void *) {
  while (running()) {
    rest(50000);
    findSession();
    flushJournal();
  }
  return nullptr;
}
void handleRequest(uint64_t id) {
  parse(id);
  findSession();
  append();
  reply(id);
}
UNTRACED int main() {
  serve(4, 1500, 500, flusher);
  printf("lock-wait function=Mutex::lock lock=%p holder=rotate|flushJournal evidence=address\n", (void *)&journal);
}
