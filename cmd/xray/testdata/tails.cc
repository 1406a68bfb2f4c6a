// Requests that end in tail calls of all kinds, each 1,200 times. With the argument fdr, the program
// records itself in FDR mode.
#include <cstring>
#include <sched.h>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define NOINLINE __attribute__((noinline))
#define UNRECORDED __attribute__((noinline, xray_never_instrument))

extern "C" {
volatile int sum;

NOINLINE int finish(int i) { return sum += i; }
UNRECORDED int unlock(int i) { return sum -= i; }
NOINLINE int work(int i) { return sum ^= i; }
int (*volatile chosen)(int) = finish;

NOINLINE int to_recorded(int i) {
  work(i);
  return finish(i);
}
NOINLINE int to_two(int i) { // through another tail call
  work(i);
  return to_recorded(i);
}
NOINLINE int to_unrecorded(int i) {
  work(i);
  return unlock(i);
}
NOINLINE int to_libc(int i) {
  work(i);
  return sched_yield();
}
NOINLINE int indirect(int i) {
  work(i);
  return chosen(i);
}
NOINLINE int even(int i);
NOINLINE int odd(int i) { // a loop of tail calls
  sum++;
  return i == 0 ? sum : even(i - 1);
}
NOINLINE int even(int i) {
  sum--;
  return i == 0 ? sum : odd(i - 1);
}
NOINLINE int either(int i) { // one of its targets is recorded
  work(i);
  return i % 2 ? finish(i) : unlock(i);
}

NOINLINE void serve() {
  for (int i = 0; i < 1200; i++) {
    to_recorded(i);
    to_two(i);
    to_unrecorded(i);
    to_libc(i);
    indirect(i);
    even(3);
    either(i);
  }
  sum = 0; // no tail call
}

} // extern "C"

int main(int argc, char **argv) {
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
