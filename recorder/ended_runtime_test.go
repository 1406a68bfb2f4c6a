//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/observe"
)

// A limit of memory holds for all threads together, and each record is in the trace or counted. All threads that
// are alive get a part, and rings of ended threads make room first.
func TestMemory(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "ended.c", "-O2", "-fxray-instruction-threshold=1")
	const (
		chunk = 64 << 10
		slack = 8 << 20 // of the recorder and the program without records
	)
	for _, c := range []struct {
		name                   string
		ring, limit            int64
		observed               bool
		threads, last, calls   int
		inexact                bool // rings overwrite records
		given, ended, unserved bool
	}{
		{"rings", 4 << 20, 20 << 20, false, 200, 100, 20000, true, true, true, false},
		{"observed rings", 4 << 20, 20 << 20, true, 200, 100, 20000, true, true, true, false},
		{"few rings", 4 << 20, 1 << 20, false, 100, 30, 1000, false, true, true, true},
		{"observed few rings", 1 << 30, 1 << 20, true, 100, 30, 1000, false, true, true, true},
		{"stream", 0, 1 << 20, false, 100, 30, 20000, false, false, false, true},
		{"observed stream", 0, 20 << 20, true, 100, 100, 20000, false, false, false, false},
		{"observed few streams", 0, 1 << 20, true, 20, 30, 20000, false, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := recorder.Options{Ring: c.ring, Memory: c.limit, NoOffCPU: true, Output: recorder.EscapeTemplate(t.TempDir()) + "/%p"}
			settle := func() (*observe.Result, error) { return &observe.Result{}, nil }
			if c.observed {
				ob := observe.Options{Session: uint64(time.Now().UnixNano()), Key: observe.NewKey(), Output: o.Output, Rings: c.ring > 0}
				_, settle = startObserver(t, ob)
				o.Observer, o.Session = ob.Address(), ob.Session
			}
			cmd := exec.Command(program, strconv.Itoa(c.threads), "1", strconv.Itoa(c.calls), strconv.Itoa(c.last))
			cmd.Env = append(os.Environ(), o.Environment(), "LD_PRELOAD="+l.Preload())
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := settle(); err != nil {
				t.Fatal(err)
			}
			memory, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
			if err != nil || memory<<10 > c.limit+slack {
				t.Errorf("the process had %d kB (%v)", memory, err)
			}
			traces, _ := filepath.Glob(filepath.Dir(o.Output) + "/*")
			if len(traces) != 1 {
				t.Fatalf("got traces %v", traces)
			}
			f := readTrace(t, traces[0])
			total, kept, lost := uint64(2*(c.threads+c.last)*c.calls), f.records, map[string]uint64{}
			sum := kept
			for _, one := range f.recording.Losses {
				lost[one.Cause] = one.Count
				sum += one.Count
			}
			if kept == 0 || sum > total || sum != total && !c.inexact {
				t.Errorf("got %d records, and lost %v, of %d", kept, lost, total)
			}
			ended, unserved := lost["ended-thread"] > 0, lost["thread-without-memory"] > 0
			slow := c.observed && c.ring == 0 && unserved // an observer without CPU does not free memory in time
			if ended != c.ended || unserved != c.unserved && !slow {
				t.Errorf("lost %v", lost)
			}
			m := f.recording.Process.Memory
			if m == nil || m.Limit != uint64(c.limit) || m.Peak > m.Limit || m.Least < chunk || m.Most > m.Peak || (m.RingsGivenUp > 0) != c.given || (m.BytesGivenUp > 0) != c.given {
				t.Fatalf("got %+v", m)
			}
			// 320 chunks for 100 threads.
			if c.inexact && (len(f.recording.Threads) != c.last || m.Peak < m.Limit-chunk || m.Least < 2*chunk || m.Most > 5*chunk) {
				t.Errorf("got %d threads, %+v", len(f.recording.Threads), m)
			}
		})
	}
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
