package locks

import (
	"testing"

	"github.com/xray-tools/xray/reader"
)

// While calls of lock functions may be missing, it is not known who holds a lock.
func TestHoles(t *testing.T) {
	const lockFunc, unlockFunc, tryFunc, otherLock = 1, 2, 3, 4
	functions := map[reader.FuncID]Function{
		lockFunc: {Role: Lock, Class: "mutex"}, unlockFunc: {Role: Unlock, Class: "mutex"}, tryFunc: {Role: TryLock, Class: "mutex"},
		otherLock: {Role: Lock, Class: "rwlock"},
	}
	called := NewFinder()
	for fn := range functions {
		called.funcs[fn] = true
	}
	s := newSweep(&Options{Limit: 10, Function: func(fn reader.FuncID) Function { return functions[fn] }}, called)
	s.threads = []*thread{{chosen: true}, {id: reader.Thread{Thread: 1}, chosen: true}, {id: reader.Thread{File: 1}, chosen: true}}
	in := classIn{0, "mutex"}
	s.holes = []hole{{100, in, true}, {200, in, false}}
	take := func(tsc uint64, thread int, fn reader.FuncID, addr uint64) {
		s.do(&op{time: tsc, kind: opWait, thread: thread, fn: fn, addr: addr, logged: true})
		s.do(&op{time: tsc + 1, kind: opAcquire, thread: thread, fn: fn, addr: addr, logged: true})
	}
	release := func(tsc uint64, thread int, addr uint64) {
		s.do(&op{time: tsc, kind: opRelease, thread: thread, fn: unlockFunc, addr: addr, logged: true})
	}
	take(10, 0, lockFunc, 0x10)
	take(20, 0, otherLock, 0x20)
	take(30, 2, lockFunc, 0x10) // of another process
	s.do(&op{time: 40, kind: opTry, thread: 0, fn: tryFunc, addr: 0x30, logged: true})
	release(150, 0, 0x10)
	take(160, 1, lockFunc, 0x10)
	s.do(&op{time: 170, kind: opTry, thread: 1, fn: tryFunc, addr: 0x30, logged: true})
	release(180, 1, 0x30)
	take(210, 0, lockFunc, 0x10)
	release(220, 0, 0x10)
	release(230, 2, 0x10)
	var holds [3]Times
	for i, l := range s.list {
		holds[i] = times(&l.holds)
	}
	if holds[0].Count != 1 || holds[0].Max != 9 {
		t.Errorf("got holds %+v of the lock, want one of 9 ticks", holds[0])
	}
	if holds[2].Count != 1 || holds[2].Max != 199 {
		t.Errorf("got holds %+v of the lock at the same address in another process, want one of 199 ticks", holds[2])
	}
	if n := len(s.threads[0].holds); n != 1 || s.threads[0].holds[0].addr != 0x20 {
		t.Errorf("got %d open holds, the first of %#x, want that of the lock of another class", n, s.threads[0].holds[0].addr)
	}
	if s.gaps != 1 || s.orphan != 0 || s.handed != 0 {
		t.Errorf("got %d holds without an end, %d unmatched unlocks, %d handed over", s.gaps, s.orphan, s.handed)
	}
}
