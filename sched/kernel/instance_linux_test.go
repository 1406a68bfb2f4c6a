package kernel

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// open opens an instance, or skips the test if the system does not allow it.
func open(t *testing.T) *Instance {
	t.Helper()
	in, err := Open(false)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// Wake ends a Wait before or after it begins, and only one.
func TestWake(t *testing.T) {
	in := open(t)
	in.unwatch()
	in.Wake()
	if in.Wait(time.Hour) {
		t.Error("woken before Wait: a buffer is full")
	}
	go in.Wake()
	if in.Wait(time.Hour) {
		t.Error("woken in Wait: a buffer is full")
	}
	begin := time.Now()
	if in.Wait(time.Millisecond); time.Since(begin) < time.Millisecond {
		t.Error("a wake-up ended two waits")
	}
}

// The kernel ends Wait when a buffer fills, before events are lost.
func TestWaitForEvents(t *testing.T) {
	in := open(t)
	if !in.Watches() {
		t.Skip("the kernel has no buffer_percent")
	}
	end := make(chan struct{})
	done := pingPong(t, end)
	defer func() { close(end); <-done }()
	for tries := 0; ; tries++ {
		if tries == 2*maxEarly || !in.Watches() {
			t.Fatalf("Wait returns too early: %d pages make a buffer full", in.fullPages)
		}
		if !in.Wait(time.Hour) {
			t.Fatal("no buffer is full after an hour")
		}
		pages, lost, err := in.Read(func(*Event) {})
		if err != nil {
			t.Fatal(err)
		}
		if in.Woken(pages); in.early == 0 {
			t.Logf("%d pages, %d events lost", pages, lost)
			break
		}
	}
}

// pingPong makes two threads wake each other until end is closed.
func pingPong(t *testing.T, end chan struct{}) (done chan struct{}) {
	var pipes [2][2]int
	for i := range pipes {
		if err := unix.Pipe2(pipes[i][:], unix.O_CLOEXEC); err != nil {
			t.Fatal(os.NewSyscallError("pipe2", err))
		}
	}
	done = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		b := make([]byte, 1)
		for {
			if n, _ := unix.Read(pipes[0][0], b); n != 1 {
				unix.Close(pipes[1][1])
				return
			}
			_, _ = unix.Write(pipes[1][1], b)
		}
	}()
	go func() {
		defer close(done)
		runtime.LockOSThread()
		b := make([]byte, 1)
		for {
			select {
			case <-end:
				unix.Close(pipes[0][1])
				_, _ = unix.Read(pipes[1][0], b)
				unix.Close(pipes[0][0])
				unix.Close(pipes[1][0])
				return
			default:
			}
			_, _ = unix.Write(pipes[0][1], b)
			_, _ = unix.Read(pipes[1][0], b)
		}
	}()
	return done
}
