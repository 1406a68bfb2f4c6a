// An instrumented shared object (clang 20 and later): its functions have ids of
// their own, with the number of the object in the top 8 bits.

#define TRACED __attribute__((xray_always_instrument, noinline))

static volatile int sink;

namespace codec {

TRACED int encode(int n) {
  int r = 0;
  for (int i = 0; i < n; i++) r += sink ^ i;
  sink = r;
  return r;
}

TRACED int decode(int n) {
  int r = encode(n / 2);
  sink = r + 1;
  return r;
}

} // namespace codec
