//go:build linux && amd64

package observe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
)

// awaitEnd waits until the processes of an observer have ended.
func awaitEnd(ob *Observer) {
	for !ob.Idle() {
		time.Sleep(10 * time.Millisecond)
	}
}

// buildTestProgram builds a program of the recorder's testdata.
func buildTestProgram(t *testing.T, name string) string {
	t.Helper()
	return elftest.Build(t, "clang-22", name, "-I../runtime", "-fxray-instrument", "-fno-xray-link-deps",
		"../testdata/"+name+".c", "-O2", "-fxray-instruction-threshold=1", "-pthread")
}

// observedEnvironment is the environment of a program that an observer records.
func observedEnvironment(t *testing.T, o *Options, options string) []string {
	t.Helper()
	l, err := build.Runtime(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), recorder.EnvVar+"=observer="+o.Address()+",session="+strconv.FormatUint(o.Session, 10)+","+options, "LD_PRELOAD="+l.Preload())
}

// The rings of ended threads are reused while others run: memory is for the threads that are alive at once,
// and no call is lost.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	program := buildTestProgram(t, "ended")
	const threads, calls = 4000, 5
	o := Options{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
	ob := runObserver(t, o)
	cmd := exec.Command(program, strconv.Itoa(threads), "20", strconv.Itoa(calls))
	cmd.Env = observedEnvironment(t, &o, "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	slots, waited := uint32(0), false
	count := func() {
		for _, a := range ob.arenas {
			slots = max(slots, a.Slots())
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
	awaitEnd(ob)
	observed := ob.Settle()
	if len(observed.Traces) != 1 || observed.Traces[0].Problem != "" {
		t.Fatalf("%+v", observed)
	}
	// 512 rings that are not free yet have 32 MB. A few more are needed if the observer gets no CPU for long.
	if slots == 0 || slots > 1000 {
		t.Errorf("%d threads, 20 at once, have taken %d rings", threads, slots)
	}
	trace, err := reader.Open(reader.Options{}, observed.Traces[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	entries := 0
	err = trace.Each(1, func(_ int, b *reader.Block) error {
		for i := range b.Events {
			if e := &b.Events[i]; e.Kind.IsEnter() && e.Func == 1 {
				entries++
			}
		}
		return nil
	})
	if n := len(trace.Recording(0).Threads); err != nil || entries != threads*calls || n != threads {
		t.Errorf("got %d calls and %d threads, error %v", entries, n, err)
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

// All programs of an observer have windows at the same times.
func TestWindowsOfExecutedPrograms(t *testing.T) {
	t.Parallel()
	program := buildTestProgram(t, "windows")
	o := Options{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
	ob := runObserver(t, o)
	var plans []uint64
	for range 2 {
		cmd := exec.Command(program)
		cmd.Env = observedEnvironment(t, &o, "control=1,window=1000000,every=3600000000000")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := client.Dial(strconv.Itoa(cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for err = errors.New("not asked"); err != nil; time.Sleep(time.Millisecond) {
			_, err = p.Do(t.Context(), nil, "status")
		}
		ob.mu.Lock()
		for _, a := range ob.arenas {
			plans = append(plans, a.Plan())
		}
		ob.mu.Unlock()
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
		awaitEnd(ob)
	}
	if len(plans) != 2 || plans[0] == 0 || plans[0] != plans[1] {
		t.Errorf("windows begin at %v", plans)
	}
}
