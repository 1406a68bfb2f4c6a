// Two functions that call each other 100 deep and log their argument. The basic
// mode of compiler-rt keeps 64 frames and drops the records of deeper calls, but
// still writes their arguments: orphans that follow no record of their function.

#define LOGGED __attribute__((xray_always_instrument, xray_log_args(1), noinline))

static volatile int sink;

LOGGED int odd(int n);

LOGGED int even(int n) {
  sink = n;
  int r = n > 0 ? odd(n - 1) : 1;
  sink = r; // keeps the call above from becoming a jump
  return r;
}

LOGGED int odd(int n) {
  sink = n;
  int r = n > 0 ? even(n - 1) : 0;
  sink = r;
  return r;
}

__attribute__((xray_never_instrument)) int main() { return even(100) - 1; }
