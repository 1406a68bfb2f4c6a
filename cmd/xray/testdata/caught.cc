// A loop of requests. An exception leaves every Nth one, where N is the last argument and 0 means
// none. With "fdr" before it, the program records itself in FDR mode.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE void read_header(int i, int every) {
  if (every > 0 && i % every == 0)
    throw std::runtime_error("malformed");
  sink = sink + 1;
}

NOINLINE void reply() { sink = sink + 1; }

NOINLINE void serve(int i, int every) {
  read_header(i, every);
  reply();
}

int main(int argc, char **argv) {
  bool fdr = argc > 2 && !strcmp(argv[1], "fdr");
  int every = atoi(argv[argc - 1]);
  if (fdr) {
    if (__xray_log_select_mode("xray-fdr") != XRAY_REGISTRATION_OK)
      return 1;
    __xray_log_init_mode("xray-fdr", "func_duration_threshold_us=0:buffer_size=65536:buffer_max=100");
    __xray_patch();
  }
  for (int i = 0; i < 2000; i++) {
    try {
      serve(i, every);
    } catch (const std::runtime_error &) {
      sink = sink + 1;
    }
  }
  if (fdr) {
    __xray_log_finalize();
    __xray_log_flushLog();
  }
}
