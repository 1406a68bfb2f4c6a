// Requests in a loop, some of which an exception or longjmp ends. With the argument fdr, the program
// records itself in FDR mode.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define NOINLINE __attribute__((noinline))
#define UNRECORDED __attribute__((noinline, xray_never_instrument))

extern "C" {
volatile int sum;
jmp_buf place;

// Functions that anything may call, as the kernel and libc do.
NOINLINE void handle(int) { sum += 3; }
NOINLINE int order(const void *a, const void *b) {
  sum += 1;
  return *(const char *)a - *(const char *)b;
}

NOINLINE void work(int i) { sum += i; }
NOINLINE void complain(int i) { sum -= i; }

NOINLINE void check(int i) {
  work(i);
  if (i % 10 == 1)
    throw std::runtime_error("first");
  if (i % 10 == 2)
    longjmp(place, 1);
  sum++;
}
UNRECORDED void between(int i) {
  check(i);
  sum++;
}
NOINLINE void parse(int i) {
  between(i);
  work(i);
  sum++;
}
NOINLINE void dive(int n, int i) { // calls itself, which leaves no call
  if (n > 0)
    dive(n - 1, i);
  else
    parse(i);
  sum++;
}
NOINLINE void request(int i) {
  char text[] = "ba";
  raise(SIGUSR1);
  qsort(text, 2, 1, order);
  dive(2, i);
  work(i);
  sum++;
}
NOINLINE void step(int i) {
  try {
    if (setjmp(place) == 0)
      request(i);
    else
      complain(i);
  } catch (const std::exception &) {
    complain(i);
  }
  sum++;
}
NOINLINE void serve() {
  for (int i = 0; i < 1000; i++)
    step(i);
  sum = 0; // no tail call
}

} // extern "C"

int main(int argc, char **argv) {
  signal(SIGUSR1, handle);
  bool fdr = argc > 1 && strcmp(argv[1], "fdr") == 0;
  if (fdr) {
    if (__xray_log_select_mode("xray-fdr") != XRAY_REGISTRATION_OK)
      return 1;
    __xray_log_init_mode("xray-fdr", "func_duration_threshold_us=0:buffer_size=65536:buffer_max=100");
    __xray_patch();
  }
  serve();
  if (fdr) {
    __xray_log_finalize();
    __xray_log_flushLog();
  }
  return 0;
}
