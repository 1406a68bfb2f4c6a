// A parent and a child that share one basic log: the child inherits the file and
// what the parent's thread holds in its buffer at the fork.

#include <sys/wait.h>
#include <unistd.h>

#define TRACED __attribute__((xray_always_instrument, noinline))

static volatile int sink;

TRACED void prepare() { sink = sink + 1; }
TRACED void childWork() { sink = sink + 2; }
TRACED void parentWork() { sink = sink + 3; }

TRACED int serve() {
  for (int i = 0; i < 3; i++) prepare();
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 4; i++) childWork();
    return 0;
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  for (int i = 0; i < 5; i++) parentWork();
  return status;
}

__attribute__((xray_never_instrument)) int main(int argc, char **) {
  if (argc > 1) _exit(0); // nothing is flushed: only the header is in the file
  return serve();
}
