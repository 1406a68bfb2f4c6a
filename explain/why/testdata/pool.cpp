// Requests borrow a buffer from a pool, and wait for a condition when there is none. An
// archiver borrows all of them now and then.
#include "server.h"

struct Pool {
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
  int buffers = 8;
  TRACED void wait() { pthread_cond_wait(&returned, &m); asm volatile(""); }
  TRACED void take(int n) {
    pthread_mutex_lock(&m);
    while (buffers < n) wait();
    buffers -= n;
    pthread_mutex_unlock(&m);
  }
  TRACED void give(int n) {
    pthread_mutex_lock(&m);
    buffers += n;
    pthread_mutex_unlock(&m);
    pthread_cond_broadcast(&returned);
  }
} pool;

TRACED void compress() { rest(30000); }
TRACED void archive() {
  pool.take(8);
  compress();
  pool.give(8);
  asm volatile("");
}
UNTRACED void *archiver(void *) {
  while (running()) {
    rest(150000);
    archive();
  }
  return nullptr;
}
void handleRequest(uint64_t id) {
  parse(id);
  pool.take(1);
  spin(500);
  pool.give(1);
  reply(id);
}
UNTRACED int main() {
  serve(4, 1500, 1000, archiver);
  puts("wait function=Pool::wait|Pool::take holder=compress|archive evidence=coincidence");
}
