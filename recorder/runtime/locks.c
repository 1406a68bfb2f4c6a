/* Locks. A thread that waits sleeps, or spins behind a seccomp filter. */
#include <linux/futex.h>

#include "locks.h"
#include "syscall.h"

/* Whether to check the lock order. If so, a thread that takes a lock out of order ends the
 * process. A test compiles the recorder with this on. */
enum { CHECKED = 0 };

static uint32_t words[XR_LOCKS];

/* Locks held by the thread, as a bit set. */
static __thread uint32_t held __attribute__((tls_model("initial-exec")));

void xr_lock_one(enum xr_lock_id lock, uint32_t *word)
{
	if (CHECKED && held >> lock)
		__builtin_trap();
	uint32_t was = 0;
	if (!__atomic_compare_exchange_n(word, &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE)) {
			/* Behind a filter, the holder may be unable to wake other threads. */
			struct { int64_t s, ns; } patience = {0, 10000000};
			if (xr_sealed)
				__builtin_ia32_pause();
			else
				xr_sys4(SYS_futex, (intptr_t)word, FUTEX_WAIT_PRIVATE, 2, (intptr_t)&patience);
		}
	if (CHECKED)
		held |= 1u << lock;
}

void xr_unlock_one(enum xr_lock_id lock, uint32_t *word)
{
	if (CHECKED)
		held &= ~(1u << lock);
	if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2 && !xr_sealed)
		xr_sys3(SYS_futex, (intptr_t)word, FUTEX_WAKE_PRIVATE, 1);
}

void xr_lock(enum xr_lock_id lock) { xr_lock_one(lock, &words[lock]); }
int xr_trylock(enum xr_lock_id lock)
{
	uint32_t was = 0;
	if (CHECKED && held >> lock)
		__builtin_trap();
	int got = __atomic_compare_exchange_n(&words[lock], &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	if (CHECKED && got)
		held |= 1u << lock;
	return got;
}

void xr_unlock(enum xr_lock_id lock) { xr_unlock_one(lock, &words[lock]); }

void xr_locks_forked(void)
{
	held = 0;
	for (int i = 0; i < XR_LOCKS; i++)
		words[i] = 0;
}
