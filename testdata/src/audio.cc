// The second shared object of dso.cc.

static volatile int sink;

namespace audio {

__attribute__((xray_always_instrument, noinline)) int mix(int n) {
  sink = sink + n;
  return sink;
}

} // namespace audio
