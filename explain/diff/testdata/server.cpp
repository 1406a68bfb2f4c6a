// A program of which two builds are compared. With SLOW, tokenize takes 500 times
// as long, which no busy machine hides, lookup is called three times instead of
// once, audit is new, and log is gone.
#include <cstdint>

static volatile uint64_t sink;

static inline void spin(unsigned n) {
  for (unsigned i = 0; i < n; i++) sink = sink * 6364136223846793005u + 1;
}

#define TRACED __attribute__((noinline, xray_always_instrument))

TRACED void tokenize() {
#ifdef SLOW
  spin(1000000);
#else
  spin(2000);
#endif
}
TRACED void lookup() { spin(200); }
TRACED void audit() { spin(200); }
TRACED void log() { spin(200); }
TRACED void parse() {
  tokenize();
  spin(100);
}
TRACED void handleRequest() {
  parse();
  lookup();
#ifdef SLOW
  lookup();
  lookup();
  audit();
#else
  log();
#endif
  spin(100);
}

int main() {
  for (int i = 0; i < 40; i++) handleRequest();
}
