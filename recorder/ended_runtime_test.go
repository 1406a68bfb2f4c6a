//go:build linux && amd64

package recorder

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
)

// The rings of ended threads are reused while others run: memory is for the threads that are alive at once,
// and no call is lost.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "ended.c", "-O2", "-fxray-instruction-threshold=1")
	const threads, calls = 4000, 5
	o := ObserverOptions{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
	ob, settle := startObserver(t, o)
	cmd := exec.Command(program, strconv.Itoa(threads), "20", strconv.Itoa(calls))
	cmd.Env = append(os.Environ(), EnvVar+"=observer="+o.Address()+",session="+strconv.FormatUint(o.Session, 10), "LD_PRELOAD="+l.Preload())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	slots, waited := uint32(0), false
	count := func() {
		for _, a := range ob.arenas {
			slots = max(slots, a.slots())
		}
	}
	// While the test has its lock, the observer writes nothing. So threads must wait for it in the end.
	ob.mu.Lock()
	for len(ob.arenas) == 0 {
		ob.mu.Unlock()
		time.Sleep(time.Millisecond)
		ob.mu.Lock()
	}
	for ; !waited && slots < 2000; time.Sleep(time.Millisecond) {
		count()
		waited = sleeps(cmd.Process.Pid)
	}
	ob.mu.Unlock()
	if !waited {
		t.Errorf("%d rings were taken, and no thread has waited for one that is free", slots)
	}
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			running = false
		case <-time.After(time.Millisecond):
		}
		ob.mu.Lock()
		count()
		ob.mu.Unlock()
	}
	observed, err := settle()
	if err != nil || len(observed.Traces) != 1 || observed.Traces[0].Problem != "" {
		t.Fatalf("%v; %+v", err, observed)
	}
	// 512 rings that are not free yet have 32 MB. A few more are needed if the observer gets no CPU for long.
	if slots == 0 || slots > 1000 {
		t.Errorf("%d threads, 20 at once, have taken %d rings", threads, slots)
	}
	f := readTrace(t, observed.Traces[0].Path)
	if n := f.calls[1]; n != threads*calls || len(f.recording.Threads) != threads {
		t.Errorf("got %d calls and %d threads", n, len(f.recording.Threads))
	}
}

// sleeps reports whether a thread of a process is in nanosleep.
func sleeps(pid int) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	return slices.ContainsFunc(paths, func(path string) bool {
		text, _ := os.ReadFile(path)
		return bytes.HasPrefix(text, []byte("35 "))
	})
}

// Records that are lost with the rings of ended threads are counted.
func TestRingsOfEndedThreads(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "ended.c", "-O2", "-fxray-instruction-threshold=1")
	const threads, calls = 100, 10000
	_, stderr, traces := recordProgram(t, &l, "stream=0,budget=1000000,offcpu=0", program, strconv.Itoa(threads), "1", strconv.Itoa(calls))
	if len(traces) != 1 || stderr != "" {
		t.Fatalf("got %d traces; %s", len(traces), stderr)
	}
	trace, err := reader.Open(reader.Options{}, traces[0])
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	kept, lost := uint64(0), uint64(0)
	err = trace.Each(1, func(_ int, b *reader.Block) error {
		kept += uint64(len(b.Events))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range trace.Recording(0).Losses {
		if one.Cause != "ended-thread" {
			t.Errorf("unexpected loss: %+v", one)
		}
		lost += one.Count
	}
	if kept == 0 || lost == 0 || kept+lost != 2*threads*calls {
		t.Errorf("got %d records in the trace, and %d lost, of %d", kept, lost, 2*threads*calls)
	}
}
