/* Replacements for libc in code that may interrupt any function of the program: raw system
 * calls, which return -errno, and some loops over bytes. They use no vector registers and
 * preserve errno. */
#ifndef XRAY_RECORDER_SYSCALL_H
#define XRAY_RECORDER_SYSCALL_H

#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static inline int64_t xr_sys6(int64_t nr, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f)
{
	register int64_t r10 __asm__("r10") = d;
	register int64_t r8 __asm__("r8") = e;
	register int64_t r9 __asm__("r9") = f;
	int64_t result;
	__asm__ volatile("syscall"
		: "=a"(result)
		: "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return result;
}

static inline int64_t xr_sys4(int64_t nr, int64_t a, int64_t b, int64_t c, int64_t d)
{
	register int64_t r10 __asm__("r10") = d;
	int64_t result;
	__asm__ volatile("syscall"
		: "=a"(result)
		: "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
		: "rcx", "r11", "memory");
	return result;
}

static inline int64_t xr_sys3(int64_t nr, int64_t a, int64_t b, int64_t c) { return xr_sys4(nr, a, b, c, 0); }
static inline int64_t xr_sys2(int64_t nr, int64_t a, int64_t b) { return xr_sys4(nr, a, b, 0, 0); }
static inline int64_t xr_sys1(int64_t nr, int64_t a) { return xr_sys4(nr, a, 0, 0, 0); }
static inline int64_t xr_sys0(int64_t nr) { return xr_sys4(nr, 0, 0, 0, 0); }

static inline int xr_open(const char *path, int flags, int mode)
{
	return xr_sys4(SYS_openat, -100 /* AT_FDCWD */, (intptr_t)path, flags, mode);
}

static inline int64_t xr_read(int fd, void *p, uint64_t n) { return xr_sys3(SYS_read, fd, (intptr_t)p, n); }
static inline int64_t xr_write(int fd, const void *p, uint64_t n) { return xr_sys3(SYS_write, fd, (intptr_t)p, n); }
static inline void xr_close(int fd) { xr_sys1(SYS_close, fd); }

/* descriptors.c: 1 once a thread of the program has installed a seccomp filter. A system call
 * that the program does not make itself might then kill the process. Threads with xr_unsealed
 * at 1 still make them: the control thread, which has no filter, and threads that run a request
 * of the program. */
extern uint32_t xr_sealed __attribute__((visibility("hidden")));
extern __thread uint32_t xr_unsealed __attribute__((visibility("hidden"), tls_model("initial-exec")));
static inline int xr_is_sealed(void) { return __atomic_load_n(&xr_sealed, __ATOMIC_RELAXED) && !xr_unsealed; }

/* Maps zeroed memory, which takes no space until it is used. Returns null on failure. */
static inline void *xr_map(uint64_t size)
{
	if (xr_is_sealed())
		return NULL;
	int64_t p = xr_sys6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static inline void xr_unmap(void *p, uint64_t size)
{
	if (!xr_is_sealed())
		xr_sys2(SYS_munmap, (intptr_t)p, size);
}

/* Blocks all signals. Returns which signals were blocked before. */
static inline uint64_t xr_block_signals(void)
{
	uint64_t all = ~0ull, old = 0;
	xr_sys4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (intptr_t)&all, (intptr_t)&old, sizeof all);
	return old;
}

static inline void xr_restore_signals(uint64_t old)
{
	xr_sys4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (intptr_t)&old, 0, sizeof old);
}

/* Returns the time of a clock, or 0 if the kernel does not have it. */
static inline uint64_t xr_clock_ns(clockid_t clock)
{
	struct timespec t = {0, 0};
	xr_sys2(SYS_clock_gettime, clock, (intptr_t)&t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Stores a value in a futex and wakes all waiters. */
static inline void xr_set_word(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	xr_sys3(SYS_futex, (intptr_t)word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* Waits until a futex has another value than from, and returns that. */
static inline uint32_t xr_await_change(uint32_t *word, uint32_t from)
{
	uint32_t value;
	while ((value = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == from)
		xr_sys4(SYS_futex, (intptr_t)word, FUTEX_WAIT_PRIVATE, from, 0);
	return value;
}

/* Sleeps. A signal may end the sleep early. */
static inline void xr_sleep_ns(uint64_t ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	xr_sys2(SYS_nanosleep, (intptr_t)&t, 0);
}

/* Nonzero if the thread may not read the TSC. clock.c then computes it from the kernel's clock. */
extern __thread uint32_t xr_tsc_forbidden __attribute__((tls_model("initial-exec"), visibility("hidden")));
__attribute__((visibility("hidden"))) uint64_t xr_computed_tsc(void);

static inline uint64_t xr_rdtsc(void)
{
	if (__builtin_expect(xr_tsc_forbidden, 0))
		return xr_computed_tsc();
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static inline void xr_copy(void *to, const void *from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* The same for few bytes, for which an instruction that copies strings takes longer. */
static inline void xr_copy_few(void *to, const void *from, uint64_t n)
{
	uint8_t *t = (uint8_t *)to;
	const uint8_t *f = (const uint8_t *)from;
	for (; n >= 8; n -= 8, t += 8, f += 8)
		__builtin_memcpy(t, f, 8);
	for (; n; n--)
		*t++ = *f++;
}

static inline void xr_zero(void *p, uint64_t n)
{
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(0) : "memory");
}

static inline uint64_t xr_strnlen(const char *s, uint64_t max)
{
	uint64_t n = 0;
	while (n < max && s[n])
		n++;
	return n;
}

static inline uint64_t xr_strlen(const char *s) { return xr_strnlen(s, UINT64_MAX); }

static inline int xr_strncmp(const char *a, const char *b, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return (unsigned char)a[i] < (unsigned char)b[i] ? -1 : 1;
		if (!a[i])
			return 0;
	}
	return 0;
}

static inline int xr_memcmp(const void *a, const void *b, uint64_t n)
{
	const uint8_t *p = a, *q = b;
	for (uint64_t i = 0; i < n; i++)
		if (p[i] != q[i])
			return p[i] < q[i] ? -1 : 1;
	return 0;
}

#endif
