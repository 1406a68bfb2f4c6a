// Typed events. The runtime leaves the 16 bytes of each one's header out of the
// block's extents, and writes only as many bytes: the block ends in the middle.
//
// The trampoline of the runtime misaligns the stack unless it was misaligned
// before, as clang 14 leaves it in functions that call nothing: from the
// compilers after it (19 and 22 were tried) this program crashes.

#include "recorder.h"

#define TRACED __attribute__((xray_always_instrument, noinline))

static volatile int sink;

TRACED void rotateKeys() {
  static const char payload[] = "key 17 rotated";
  __xray_typedevent(static_cast<unsigned short>(7), payload, sizeof payload - 1);
  sink = sink + 1;
}

TRACED void audit() { sink = sink + 1; }

__attribute__((xray_never_instrument)) int main() {
  if (!startRecording("func_duration_threshold_us=0")) return 1;
  audit();
  for (int i = 0; i < 4; i++) {
    rotateKeys();
    audit();
  }
  return !stopRecording();
}
