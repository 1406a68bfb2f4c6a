// Starting and ending a recording in FDR mode, which needs calls of its API.

#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

__attribute__((xray_never_instrument)) static inline bool startRecording(const char *options) {
  return __xray_log_select_mode("xray-fdr") == XRAY_REGISTRATION_OK &&
         __xray_log_init_mode("xray-fdr", options) == XRAY_LOG_INITIALIZED &&
         __xray_patch() == SUCCESS;
}

__attribute__((xray_never_instrument)) static inline bool stopRecording() {
  return __xray_unpatch() == SUCCESS && __xray_log_finalize() == XRAY_LOG_FINALIZED &&
         __xray_log_flushLog() == XRAY_LOG_FLUSHED;
}
