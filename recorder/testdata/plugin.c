/* An object that is opened while the program runs. COPY distinguishes its copies. */
__attribute__((noinline, xray_always_instrument)) static long helper(long x) { __asm__ volatile("" : "+r"(x)); return x * 2; }
__attribute__((xray_always_instrument)) long plug(long x) { return helper(x) + x; }
const int copy_number = COPY;
