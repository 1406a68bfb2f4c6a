// One thread that records more than its buffers hold: the oldest are overwritten,
// so the trace begins in the middle of calls.

#include "recorder.h"

#define TRACED __attribute__((xray_always_instrument, noinline))

static volatile int sink;

TRACED void step() { sink = sink + 1; }

TRACED void lap() {
  for (int i = 0; i < 9; i++) step();
  sink = sink + 1;
}

TRACED void race() {
  for (int i = 0; i < 300; i++) lap();
  sink = sink + 1;
}

__attribute__((xray_never_instrument)) int main(int argc, char **) {
  if (!startRecording("func_duration_threshold_us=0:buffer_size=4096:buffer_max=4")) return 1;
  if (argc == 1) race();
  return !stopRecording(); // with an argument: nothing was recorded, only a header is written
}
