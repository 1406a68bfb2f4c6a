package observe

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/ring"
)

// bell wakes the goroutine of an arena when a thread of a process rings.
//
// The goroutine sleeps with a timer, and a second goroutine waits for the futex until a thread rings. A
// blocking system call makes Go's monitor thread poll every 20 µs for up to 10 ms, so short waits for
// the futex would wake the process thousands of times a second.
type bell struct {
	word      *uint32       // not 0 while threads should ring
	listen    chan struct{} // makes the second goroutine wait for the futex
	listening bool          // the second goroutine waits
	rung      chan struct{}
	woken     chan struct{}
	timer     *time.Timer
	ended     chan struct{} // closed when the second goroutine no longer uses the word
}

func newBell(word *uint32) *bell {
	b := &bell{
		word: word, listen: make(chan struct{}, 1), rung: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		timer: time.NewTimer(0), ended: make(chan struct{}),
	}
	go b.wait()
	return b
}

func (b *bell) wait() {
	defer close(b.ended)
	longest := unix.NsecToTimespec(int64(10 * time.Second)) // in case the program changes the word
	for range b.listen {
		_ = ring.Guarded(func() {
			for word := atomic.LoadUint32(b.word); word != 0; word = atomic.LoadUint32(b.word) {
				ring.Futex(b.word, ring.FutexWait, word, &longest)
			}
		})
		b.rung <- struct{}{}
	}
}

// sleep waits until a thread rings or wake is called, but at most d. how says when threads ring, and work
// whether there is something to do. sleep calls it after it has told the threads to ring. It reports whether
// it was woken.
func (b *bell) sleep(d time.Duration, how uint32, work func() bool) (woken bool) {
	atomic.StoreUint32(b.word, how)
	if !b.listening {
		b.listening = true
		b.listen <- struct{}{}
	}
	if !work() {
		b.timer.Reset(d)
		select {
		case <-b.rung:
			b.listening, woken = false, true
		case <-b.woken:
			woken = true
		case <-b.timer.C:
		}
	}
	atomic.StoreUint32(b.word, 0)
	return woken
}

// wake ends the current sleep, or the next one. Any goroutine may call it.
func (b *bell) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// end stops using the word. The goroutine that sleeps calls it.
func (b *bell) end() {
	close(b.listen)
	atomic.StoreUint32(b.word, 0)
	ring.Futex(b.word, ring.FutexWake, 1, nil)
	<-b.ended
	b.timer.Stop()
}
