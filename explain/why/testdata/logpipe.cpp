// Threads log to a pipe under a lock. Its reader pauses now and then, so that the pipe is full.
#include "server.h"

static int ends[2];
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
TRACED void logLine(uint64_t id) {
  char text[512] = {char(id)};
  pthread_mutex_lock(&m);
  if (write(ends[1], text, sizeof text) < 0) abort();
  pthread_mutex_unlock(&m);
}
void handleRequest(uint64_t id) {
  parse(id);
  logLine(id);
  reply(id);
}
UNTRACED void *reader(void *) {
  static char text[65536];
  long got = 0;
  for (long n; (n = read(ends[0], text, sizeof text)) > 0;)
    if ((got += n) > 250000) {
      got = 0;
      rest(60000 + noise(n) % 20000);
    }
  return nullptr;
}
UNTRACED int main() {
  pthread_t thread;
  if (pipe(ends)) return 1;
  pthread_create(&thread, nullptr, reader, nullptr);
  serve(4, 1500, 300);
  close(ends[1]);
  pthread_join(thread, nullptr);
  puts("slower function=logLine behind=yes");
}
