package why_test

import (
	"regexp"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
)

// Names tell what functions do to other threads. Names that merely contain "block" or "clock" are
// not locks.
func TestRoles(t *testing.T) {
	want := map[string]why.Role{
		"app::Mutex::lock()": why.Locks, "pthread_mutex_lock": why.Locks, "mutex_lock(int)": why.Locks, "spinlock": why.Locks,
		"std::shared_mutex::lock_shared()": why.Locks, "pthread_rwlock_rdlock": why.Locks, "Region::enter(long)": why.Locks,
		"Semaphore::acquire()": why.Locks, "takeLock(Table&)": why.Locks, "SpinLock::Acquire()": why.Locks,
		"app::Mutex::unlock()": why.Unlocks, "pthread_rwlock_unlock": why.Unlocks, "Semaphore::release()": why.Unlocks,
		"Region::leave()": why.Unlocks, "releaseUnlock": why.Unlocks, "mutex::unlock_shared()": why.Unlocks,
		"std::condition_variable::wait(std::unique_lock<std::mutex>&)": why.WaitsUnlocked,
		"pthread_cond_timedwait": why.WaitsUnlocked, "pthread_cond_clockwait": why.WaitsUnlocked,
		"pthread_mutex_clocklock": why.Locks, "pthread_rwlock_timedwrlock": why.Locks, "sem_clockwait": why.Waits, "cnd_timedwait": why.WaitsUnlocked,
		"pthread_mutex_trylock": why.Runs, "cv_wait": why.WaitsUnlocked,
		"Pool::wait() const": why.Waits, "sem_wait": why.Waits, "epoll_wait": why.Waits, "poll": why.Waits,
		"future::await_result": why.Waits, "Event::WaitFor(int)": why.Waits, "futex": why.Waits,
		"readBlock(long)": why.Runs, "read_block": why.Runs, "clock": why.Runs, "wall_clock()": why.Runs, "Block": why.Runs,
		"sem_post": why.Posts, "pthread_cond_broadcast": why.Posts, "std::condition_variable::notify_one()": why.Posts,
		"blog::post(Article&)": why.Runs, "assign": why.Runs, "awake": why.Runs,
		"release_notes()": why.Runs, "waiter()": why.Runs, "handleRequest(int)": why.Runs, "center": why.Runs,
	}
	names, ids := testnames.Names{}, map[string]reader.FuncID{}
	for name := range want {
		ids[name] = reader.FuncID(len(ids) + 1)
		names[ids[name]] = name
	}
	roles := why.RolesByName(names, nil, nil)
	for name, role := range want {
		if got := roles(ids[name]); got != role {
			t.Errorf("%s: got role %d, want %d", name, got, role)
		}
	}
	// If the user says which functions release, those that match the other flag take locks.
	names = testnames.Names{1: "takeTurn(int)", 2: "endTurn()"}
	roles = why.RolesByName(names, regexp.MustCompile("^takeTurn$"), regexp.MustCompile("^endTurn$"))
	if roles(1) != why.Locks || roles(2) != why.Unlocks {
		t.Errorf("got roles %d and %d, want %d and %d", roles(1), roles(2), why.Locks, why.Unlocks)
	}
}
