package locks

// libc has the functions of the C library that deal with locks, by name. The recorder logs
// their first argument, the address of the lock, and their results.
var libc = map[string]Function{
	"pthread_mutex_lock":      {Role: Lock, Class: "pthread_mutex"},
	"pthread_mutex_timedlock": {Role: Lock, Class: "pthread_mutex"},
	"pthread_mutex_clocklock": {Role: Lock, Class: "pthread_mutex"},
	"pthread_mutex_trylock":   {Role: TryLock, Class: "pthread_mutex"},
	"pthread_mutex_unlock":    {Role: Unlock, Class: "pthread_mutex"},

	"pthread_rwlock_rdlock":      {Role: Lock, Shared: true, Class: "pthread_rwlock"},
	"pthread_rwlock_timedrdlock": {Role: Lock, Shared: true, Class: "pthread_rwlock"},
	"pthread_rwlock_clockrdlock": {Role: Lock, Shared: true, Class: "pthread_rwlock"},
	"pthread_rwlock_tryrdlock":   {Role: TryLock, Shared: true, Class: "pthread_rwlock"},
	"pthread_rwlock_wrlock":      {Role: Lock, Class: "pthread_rwlock"},
	"pthread_rwlock_timedwrlock": {Role: Lock, Class: "pthread_rwlock"},
	"pthread_rwlock_clockwrlock": {Role: Lock, Class: "pthread_rwlock"},
	"pthread_rwlock_trywrlock":   {Role: TryLock, Class: "pthread_rwlock"},
	"pthread_rwlock_unlock":      {Role: Unlock, Class: "pthread_rwlock"},

	"pthread_spin_lock":    {Role: Lock, Class: "pthread_spin"},
	"pthread_spin_trylock": {Role: TryLock, Class: "pthread_spin"},
	"pthread_spin_unlock":  {Role: Unlock, Class: "pthread_spin"},

	"pthread_cond_wait":      {Role: Condition, OfLock: true, Class: "pthread_mutex"},
	"pthread_cond_timedwait": {Role: Condition, OfLock: true, Class: "pthread_mutex"},
	"pthread_cond_clockwait": {Role: Condition, OfLock: true, Class: "pthread_mutex"},

	"sem_wait":      {Role: Lock, Class: "sem", Unheld: true},
	"sem_timedwait": {Role: Lock, Class: "sem", Unheld: true},
	"sem_clockwait": {Role: Lock, Class: "sem", Unheld: true},

	"pthread_barrier_wait": {Role: Lock, Class: "barrier", Unheld: true},

	"mtx_lock":      {Role: Lock, Class: "mtx"},
	"mtx_timedlock": {Role: Lock, Class: "mtx"},
	"mtx_trylock":   {Role: TryLock, Class: "mtx"},
	"mtx_unlock":    {Role: Unlock, Class: "mtx"},
	"cnd_wait":      {Role: Condition, OfLock: true, Class: "mtx"},
	"cnd_timedwait": {Role: Condition, OfLock: true, Class: "mtx"},
}

// ofLibc describes a function of the C library by its name. It returns false for others.
func ofLibc(name string) (Function, bool) {
	f, ok := libc[name]
	f.Libc = ok
	return f, ok
}
