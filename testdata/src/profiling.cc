// Calls that LLVM's profiling mode sums up by path: of two threads, with a recursion, tail calls,
// and a path that begins twice. The argument is the file for what the program counted.

#include <stdio.h>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#include <thread>

#define TRACED __attribute__((xray_always_instrument, noinline))

static volatile int leaves, recursions, tails, mids, tops, workers;

TRACED void leaf() { leaves = leaves + 1; }

TRACED void recurse(int n) {
  recursions = recursions + 1;
  if (n > 1) recurse(n - 1);
  asm volatile("");  // no tail call
}

TRACED void tail() {
  tails = tails + 1;
  leaf();  // a jump
}

TRACED void mid(int n) {
  mids = mids + 1;
  for (int i = 0; i < n; i++) leaf();
  recurse(3);
  asm volatile("");
}

TRACED void top() {
  tops = tops + 1;
  for (int i = 0; i < 10; i++) mid(i);
  leaf();
  asm volatile("");
}

TRACED void worker() {
  workers = workers + 1;
  for (int i = 0; i < 100; i++) tail();
}

__attribute__((xray_never_instrument)) int main(int, char **argv) {
  if (__xray_log_select_mode("xray-profiling") != XRAY_REGISTRATION_OK) return 1;
  if (__xray_log_init_mode("xray-profiling", "") != XRAY_LOG_INITIALIZED) return 2;
  if (__xray_patch() != SUCCESS) return 3;
  top();
  top();
  std::thread(worker).join();
  if (__xray_log_finalize() != XRAY_LOG_FINALIZED || __xray_log_flushLog() != XRAY_LOG_FLUSHED) return 4;
  FILE *out = fopen(argv[1], "w");
  if (!out) return 5;
  fprintf(out, "calls leaf %d\ncalls mid %d\ncalls recurse %d\ncalls tail %d\ncalls top %d\ncalls worker %d\n",
          leaves, mids, recursions, tails, tops, workers);
  return fclose(out);
}
