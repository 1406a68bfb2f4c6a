/* Locks: records the address that is waited for. The result says whether an attempt succeeded. */
#include "calls.h"

	ADDRESS(pthread_mutex_lock)
	ADDRESS_RESULT(pthread_mutex_trylock)
	ADDRESS_RESULT(pthread_mutex_timedlock)
	ADDRESS(pthread_mutex_unlock)

	ADDRESS(pthread_rwlock_rdlock)
	ADDRESS_RESULT(pthread_rwlock_tryrdlock)
	ADDRESS_RESULT(pthread_rwlock_timedrdlock)
	ADDRESS(pthread_rwlock_wrlock)
	ADDRESS_RESULT(pthread_rwlock_trywrlock)
	ADDRESS_RESULT(pthread_rwlock_timedwrlock)
	ADDRESS(pthread_rwlock_unlock)

	ADDRESS(pthread_spin_lock)
	ADDRESS_RESULT(pthread_spin_trylock)
	ADDRESS(pthread_spin_unlock)

	/* Waits record the mutex and the condition. */
	CONDITION(pthread_cond_wait)
	CONDITION_RESULT(pthread_cond_timedwait)
	ADDRESS(pthread_cond_signal)
	ADDRESS(pthread_cond_broadcast)

	ADDRESS_RESULT(sem_wait)
	ADDRESS_RESULT(sem_trywait)
	ADDRESS_RESULT(sem_timedwait)
	ADDRESS(sem_post)

	ADDRESS(pthread_barrier_wait)
	ADDRESS(pthread_join)

	ADDRESS(mtx_lock)
	ADDRESS_RESULT(mtx_trylock)
	ADDRESS_RESULT(mtx_timedlock)
	ADDRESS(mtx_unlock)
	CONDITION(cnd_wait)
	CONDITION_RESULT(cnd_timedwait)
	ADDRESS(cnd_signal)
	ADDRESS(cnd_broadcast)
	ADDRESS(thrd_join)

#ifdef __GLIBC__
	ADDRESS_RESULT(pthread_tryjoin_np)
	ADDRESS_RESULT(pthread_timedjoin_np)
#if __GLIBC_PREREQ(2, 30)
	ADDRESS_RESULT(pthread_mutex_clocklock)
	ADDRESS_RESULT(pthread_rwlock_clockrdlock)
	ADDRESS_RESULT(pthread_rwlock_clockwrlock)
	CONDITION_RESULT(pthread_cond_clockwait)
	ADDRESS_RESULT(sem_clockwait)
#endif
#if __GLIBC_PREREQ(2, 31)
	ADDRESS_RESULT(pthread_clockjoin_np)
#endif
#endif

	END_OF_CALLS
