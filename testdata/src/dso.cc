// Calls functions of its own and of two instrumented shared objects, in either mode.

#include <cstring>

#include "recorder.h"

#define TRACED __attribute__((xray_always_instrument, noinline))

namespace codec {
int encode(int n);
int decode(int n);
}
namespace audio {
int mix(int n);
}

static volatile int sink;

TRACED int transfer(int n) {
  int r = codec::encode(n) + audio::mix(n);
  sink = r;
  return r + codec::decode(n);
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv) {
  bool fdr = argc > 1 && strcmp(argv[1], "fdr") == 0;
  if (fdr && !startRecording("func_duration_threshold_us=0")) return 1;
  for (int i = 0; i < 5; i++) transfer(100 * i);
  return fdr && !stopRecording();
}
