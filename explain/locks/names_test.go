package locks_test

import (
	"testing"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/testnames"
)

// Names tell what functions do to locks.
func TestLockFunctions(t *testing.T) {
	for name, want := range map[string]locks.Function{
		"app::Mutex::lock()":                   {Role: locks.Lock, Class: "app::Mutex"},
		"app::Mutex::unlock()":                 {Role: locks.Unlock, Class: "app::Mutex"},
		"std::unique_lock<std::mutex>::lock()": {Role: locks.Lock, Class: "std::unique_lock"},
		"std::shared_mutex::lock_shared()":     {Role: locks.Lock, Class: "std::shared_mutex", Shared: true},
		"std::mutex::try_lock()":               {Role: locks.TryLock, Class: "std::mutex"},
		"pthread_mutex_lock":                   {Role: locks.Lock, Class: "pthread_mutex", Libc: true},
		"pthread_mutex_trylock":                {Role: locks.TryLock, Class: "pthread_mutex", Libc: true},
		"pthread_rwlock_rdlock":                {Role: locks.Lock, Class: "pthread_rwlock", Shared: true, Libc: true},
		"thread_lock":                          {Role: locks.Lock, Class: "thread"},
		"entry_lock":                           {Role: locks.Lock, Class: "entry"},
		"pthread_cond_wait":                    {Role: locks.Condition, Class: "pthread_mutex", OfLock: true, Libc: true},
		"cond_wait":                            {Role: locks.Condition, Class: "cond"},
		"pthread_mutex_timedlock":              {Role: locks.Lock, Class: "pthread_mutex", Libc: true},
		"sem_wait":                             {Role: locks.Lock, Class: "sem", Unheld: true, Libc: true},
		"FileLock::~FileLock()":                {},
		"std::lock_guard<std::mutex>::lock_guard(std::mutex&)": {Class: "", Constructor: true},
		"block()":       {},
		"Clock::tick()": {},
	} {
		if got := locks.ByName(testnames.Names{1: name}, nil, nil, nil)(1); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
