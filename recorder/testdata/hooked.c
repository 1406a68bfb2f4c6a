/* A library instrumented by gcc, for a program instrumented by clang. */
__attribute__((noinline)) static int inner(int x) { return x + 1; }

int hooked(int x) { return inner(x) + inner(x + 1); }

int hooked_callback(int (*f)(int), int x) { return f(x) * 2; }
