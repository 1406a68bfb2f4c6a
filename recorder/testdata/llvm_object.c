/* A shared object for llvm_api.cc, which calls the function by the name in FUNCTION. */
static volatile int sink;
__attribute__((xray_always_instrument, noinline)) void FUNCTION(void) { sink++; }
