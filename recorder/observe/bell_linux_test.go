package observe

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/xray-tools/xray/recorder/ring"
)

// Each time that a thread rings, it ends a sleep.
func TestBellRings(t *testing.T) {
	var word uint32
	b := newBell(&word)
	defer b.end()
	for i := range 100 {
		how := uint32(ring.ArenaNaps)
		if i%3 == 0 {
			how = ring.ArenaSleepsLong
		}
		go func() {
			for !atomic.CompareAndSwapUint32(&word, how, 0) { // as the runtime rings
				time.Sleep(time.Microsecond)
			}
			ring.Futex(&word, ring.FutexWake, 1, nil)
		}()
		if !b.sleep(time.Hour, how, func() bool { return false }) {
			t.Fatal("sleep does not say that it was woken")
		}
		if atomic.LoadUint32(&word) != 0 {
			t.Fatal("threads are still to ring")
		}
	}
}

// Other goroutines can end the current sleep, or the next one.
func TestBellWakes(t *testing.T) {
	var word uint32
	b := newBell(&word)
	defer b.end()
	for range 100 {
		b.wake()
		b.wake()
		b.sleep(time.Hour, ring.ArenaNaps, func() bool { return false })
	}
}

// sleep returns at once if there is work, and a sleep ends by itself.
func TestBellSleeps(t *testing.T) {
	var word uint32
	b := newBell(&word)
	defer b.end()
	asked := uint32(0)
	b.sleep(time.Hour, ring.ArenaNaps, func() bool {
		asked = atomic.LoadUint32(&word)
		return true
	})
	if asked != 1 {
		t.Error("threads were not to ring when work was asked for")
	}
	b.sleep(time.Millisecond, ring.ArenaNaps, func() bool { return false })
}

// A program may write anything to the word.
func TestBellOfADamagedWord(t *testing.T) {
	word := uint32(7)
	b := newBell(&word)
	defer b.end()
	for range 10 {
		b.sleep(time.Millisecond, ring.ArenaNaps, func() bool {
			atomic.StoreUint32(&word, 7)
			return false
		})
	}
}
