/* A shared object for llvm_api.cc, which calls its function, named by FUNCTION. */
static volatile int sink;
__attribute__((xray_always_instrument, noinline)) void FUNCTION(void) { sink++; }
