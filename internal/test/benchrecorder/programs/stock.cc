/* Measures the work under compiler-rt's recorder, in one of its modes: stock RUNS MODE
 * [OPTIONS]. Prints lines of ns for each unit of work. Without the recorder, MODE
 * is none. TSC_KHZ in the environment is the frequency that the runtime is to find; on
 * virtual machines it finds none, and takes a slower clock. */
#include "measure.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef STOCK
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

PLAIN static int frequency_file(const char *khz)
{
	int fd = memfd_create("tsc_freq_khz", 0);
	if (write(fd, khz, strlen(khz)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return fd;
}

extern "C" PLAIN int open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	int mode = va_arg(args, int);
	va_end(args);
	const char *khz = getenv("TSC_KHZ");
	if (khz && !strcmp(path, "/sys/devices/system/cpu/cpu0/tsc_freq_khz"))
		return frequency_file(khz);
	return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

PLAIN static bool start(const char *mode, const char *options)
{
	return __xray_log_select_mode(mode) == XRAY_REGISTRATION_OK &&
	       __xray_log_init_mode(mode, options) == XRAY_LOG_INITIALIZED && __xray_patch() == SUCCESS;
}
#else
PLAIN static bool start(const char *, const char *) { return false; }
#endif

PLAIN int main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[2], "none") && !start(argv[2], argc > 3 ? argv[3] : ""))) {
		fprintf(stderr, "stock: %s does not start\n", argc < 3 ? "nothing" : argv[2]);
		return 1;
	}
	work();
	for (int run = 0; run < atoi(argv[1]); run++) {
		double begin = cpu_time();
		unsigned long units = work();
		printf("%f\n", (cpu_time() - begin) / static_cast<double>(units));
	}
	fflush(stdout);
	_exit(0); /* discard the recording */
}
