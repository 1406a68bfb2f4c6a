/* The time stamp counter: its frequency, and its relation to the kernel's clocks. The recorder
 * relies only on measurements. Files, CPUID leaves and perf's page that could give the
 * frequency are missing in virtual machines. */
#include <cpuid.h>
#include <fcntl.h>
#include <time.h>

#include "clock.h"
#include "layout.h"
#include "syscall.h"

uint64_t xr_muldiv(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t high, low, half = c / 2;
	__asm__("mulq %3\n\t"
		"addq %4, %%rax\n\t"
		"adcq $0, %%rdx\n\t"
		"divq %5"
		: "=&a"(low), "=&d"(high)
		: "0"(a), "r"(b), "r"(half), "r"(c)
		: "cc");
	return low;
}

/* libc reads most clocks without a system call. */
static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	if (xr_tsc_forbidden) /* libc reads the TSC, too */
		return xr_clock_ns(clock);
	if (clock_gettime(clock, &t))
		return 0;
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* A bracket is a clock reading between two TSC readings. Take several and use the narrowest, which
 * was not interrupted. */
void xr_anchor(struct xr_anchor *a)
{
	*a = (struct xr_anchor){.width = UINT64_MAX};
	for (int i = 0; i < 12; i++) {
		uint64_t before = xr_rdtsc();
		uint64_t raw = clock_ns(CLOCK_MONOTONIC_RAW);
		uint64_t after = xr_rdtsc();
		if (after - before >= a->width)
			continue;
		a->width = after - before;
		a->tsc = before + a->width / 2;
		a->raw = raw;
	}
	/* REALTIME only gives the date of the trace. Read RAW again, to subtract the time since the
	 * bracket. */
	uint64_t real = clock_ns(CLOCK_REALTIME);
	a->real = real - (clock_ns(CLOCK_MONOTONIC_RAW) - a->raw);
}

uint64_t xr_monotonic(const struct xr_anchor *a)
{
	uint64_t mono = clock_ns(CLOCK_MONOTONIC);
	return mono - (clock_ns(CLOCK_MONOTONIC_RAW) - a->raw);
}

void xr_calibrate(const struct xr_anchor *a)
{
	uint64_t ticks = a->tsc - xr_root.start.tsc, ns = a->raw - xr_root.start.raw;
	if (a->tsc <= xr_root.start.tsc || a->raw <= xr_root.start.raw)
		return;
	/* More than 18 GHz is a bad reading. */
	if (ticks / ns >= 18)
		return;
	xr_root.frequency = xr_muldiv(ticks, 1000000000, ns);
}

void xr_calibrated(void)
{
	if (xr_root.frequency)
		return;
	enum { enough = 2000000 }; /* ns; the error is less than a millionth */
	struct xr_anchor a;
	xr_anchor(&a);
	uint64_t passed = a.raw - xr_root.start.raw;
	if (passed < enough) {
		xr_sleep_ns(enough - passed);
		xr_anchor(&a);
	}
	xr_calibrate(&a);
}

uint64_t xr_ticks(uint64_t ns)
{
	const uint64_t f = xr_root.frequency;
	if (ns / 1000000000 >= UINT32_MAX)
		return UINT64_MAX;
	return xr_muldiv(ns, f, 1000000000);
}

uint64_t xr_ns(uint64_t ticks)
{
	const uint64_t f = xr_root.frequency;
	if (!f || ticks / f >= UINT32_MAX)
		return 0;
	return xr_muldiv(ticks, 1000000000, f);
}

/* Returns whether the kernel trusts the TSC enough to use it as its clock. */
static int kernel_uses_tsc(void)
{
	char name[16] = "";
	int fd = xr_open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	xr_read(fd, name, sizeof name - 1);
	xr_close(fd);
	return xr_strncmp(name, "tsc", 3) == 0 || xr_strncmp(name, "kvm-clock", 9) == 0;
}

/* Asked once, because in a virtual machine cpuid takes tens of microseconds. */
__thread uint32_t xr_tsc_forbidden __attribute__((tls_model("initial-exec")));

uint64_t xr_computed_tsc(void)
{
	if (xr_sealed || !xr_root.frequency)
		return xr_root.start.tsc;
	return xr_root.start.tsc + xr_ticks(xr_clock_ns(CLOCK_MONOTONIC_RAW) - xr_root.start.raw);
}

int xr_invariant_tsc(void)
{
	static enum { UNKNOWN, NO, YES } known;
	unsigned a, b, c, d;
	if (!known)
		known = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1 << 8 && kernel_uses_tsc() ? YES : NO;
	return known == YES;
}

/* Does what a probe does in a recording mode: saves registers, reads the clock, reserves and
 * writes 8 bytes. A call has two probes. */
static void probe_twice(uint64_t **cursor)
{
	for (int i = 0; i < 2; i++)
		__asm__ volatile(
			"leaq -128(%%rsp), %%rsp\n\t" /* the red zone */
			"pushq %%rax\n\tpushq %%rdx\n\tpushq %%rcx\n\t"
			"movq (%0), %%rcx\n\t"
			"rdtsc\n\t"
			"shlq $32, %%rax\n\t"
			"movq %%rax, %%rdx\n\t"
			"movq %%rcx, %%rax\n\t"
			"addq $8, %%rcx\n\t"
			"cmpxchgq %%rcx, (%0)\n\t"
			"movq %%rdx, (%%rax)\n\t"
			"popq %%rcx\n\tpopq %%rdx\n\tpopq %%rax\n\t"
			"leaq 128(%%rsp), %%rsp"
			: : "S"(cursor) : "cc", "memory");
}

uint64_t xr_probe_cost(void)
{
	enum { batches = 8, calls = 200 };
	static uint64_t cost, records[2 * calls];
	uint64_t least = UINT64_MAX;
	for (int i = 0; !cost && i < batches; i++) {
		uint64_t *cursor = records, before = xr_rdtsc();
		for (int k = 0; k < calls; k++)
			probe_twice(&cursor);
		uint64_t ticks = xr_rdtsc() - before;
		least = ticks < least ? ticks : least;
	}
	if (!cost)
		cost = least * 1000 / calls;
	return cost;
}

struct xr_spent xr_spent;

uint64_t xr_thread_cpu_ns(void)
{
	return xr_sealed ? 0 : xr_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void xr_spend(uint64_t *part, uint64_t times, uint64_t start)
{
	uint64_t now = xr_thread_cpu_ns();
	if (now > start)
		__atomic_fetch_add(part, times * (now - start), __ATOMIC_RELAXED);
}

uint64_t xr_cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
