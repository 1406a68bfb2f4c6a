// Calls of all shapes: recursion, empty functions, tail calls, and exceptions that leave several
// calls. Prints how many calls it made.
#include <cstdio>
#include <cstdlib>

static long calls;
static unsigned seed = 1;

static unsigned draw() __attribute__((xray_never_instrument)) {
  seed = seed * 1103515245 + 12345;
  return seed >> 16;
}

struct Failed {};

__attribute__((noinline)) void empty() {
  calls++;
  asm volatile("");
}

__attribute__((noinline)) void last() {
  calls++;
  asm volatile("");
}

__attribute__((noinline)) void ends_in_last() {
  calls++;
  asm volatile("");
  return last();
}

__attribute__((noinline)) void throws(int depth) {
  calls++;
  if (depth > 0)
    throws(depth - 1);
  else
    throw Failed();
  asm volatile("");
}

__attribute__((noinline)) void node(int depth) {
  calls++;
  for (unsigned i = draw() % 4; depth > 0 && i > 0; i--) {
    switch (draw() % 5) {
    case 0:
      empty();
      break;
    case 1:
      ends_in_last();
      break;
    default:
      node(depth - 1);
    }
  }
  if (draw() % 500 == 0)
    throws(draw() % 4);
  asm volatile("");
}

int main(int argc, char **argv) {
  long wanted = atol(argv[1]);
  for (calls = 1; calls < wanted;) {
    try {
      node(12);
    } catch (Failed) {
    }
  }
  printf("%ld\n", calls);
}
