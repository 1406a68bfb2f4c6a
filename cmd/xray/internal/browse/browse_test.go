package browse

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// open opens a trace of nanoseconds.
func open(t *testing.T, text string) *session.Session {
	t.Helper()
	data, err := tracetext.Parse("xray fdr frequency=1000000000 free=5852594d46445231\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	quiet := cli.Text{Raw: io.Discard}
	s := session.New(&cli.Streams{Stdout: quiet, Stderr: quiet}, "test", trace, nil)
	t.Cleanup(func() { s.Close() })
	return s
}

func collect(t *testing.T, text string, w *Window) string {
	t.Helper()
	d, _, err := Collect(open(t, text), nil, w)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	_ = tui.Sort(d.Functions, "name", false)
	for _, f := range d.Functions {
		fmt.Fprintf(&b, "%s: %d calls, %d open, self %d, total %d, p50 %d, max %d\n", f.Name, f.Calls, f.Open, f.Self, f.Total, f.P50, f.Max)
	}
	for _, f := range d.Frames {
		fmt.Fprintf(&b, "path %d below %d: %d calls, self %d, total %d\n", f.Func, f.Parent, f.Calls, f.Self, f.Total)
	}
	fmt.Fprintf(&b, "missing %d, observed %d", d.Missing, d.Observed)
	return b.String()
}

// A main loop makes calls one after another, each with a nested call.
const looping = `thread 7 pid=7 tsc=1000
enter 1 +0
enter 2 +10
enter 3 +10
exit 3 +50
exit 2 +10
enter 2 +20
enter 3 +100
exit 3 +300
exit 2 +100
enter 2 +100
`

// Without a window, numbers are those of account and stack.
func TestWholeTrace(t *testing.T) {
	want := `#1: 0 calls, 1 open, self 130, total 700, p50 0, max 0
#2: 2 calls, 1 open, self 220, total 570, p50 500, max 500
#3: 2 calls, 0 open, self 350, total 350, p50 300, max 300
path 1 below -1: 0 calls, self 130, total 700
path 2 below 0: 2 calls, self 220, total 570
path 3 below 1: 2 calls, self 350, total 350
missing 0, observed 0`
	if diff := cmp.Diff(want, collect(t, looping, nil)); diff != "" {
		t.Error(diff)
	}
}

// In a window, calls count when they end, with their whole durations. Of their times, only the part
// in the window counts. Open calls of a live thread last until the end.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		window Window
		want   string
	}{
		{
			"amid calls", Window{From: 1300, To: 2000, Sleeping: map[int32]bool{7: true}},
			// The second call of 2 began at 1100 and ended at 1600; that of 3 began at 1200 and ended
			// at 1500. The third one began at 1700.
			`#1: 0 calls, 1 open, self 100, total 700, p50 0, max 0
#2: 1 calls, 1 open, self 400, total 600, p50 500, max 500
#3: 1 calls, 0 open, self 200, total 200, p50 300, max 300
path 1 below -1: 0 calls, self 100, total 700
path 2 below 0: 1 calls, self 400, total 600
path 3 below 1: 1 calls, self 200, total 200
missing 0, observed 700`,
		},
		{
			"nothing is recorded", Window{From: 1800, To: 1900, Sleeping: map[int32]bool{7: false}},
			`#1: 0 calls, 1 open, self 0, total 100, p50 0, max 0
#2: 0 calls, 1 open, self 100, total 100, p50 0, max 0
path 1 below -1: 0 calls, self 0, total 100
path 2 below 0: 0 calls, self 100, total 100
missing 0, observed 100`,
		},
		{
			// A thread that has ended has no open calls.
			"the thread has ended", Window{From: 1800, To: 1900},
			`missing 0, observed 100`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, collect(t, looping, &c.window)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Calls whose starts are unknown are counted, but only those that ended in the window.
func TestMissing(t *testing.T) {
	got := collect(t, "thread 7 pid=7 tsc=1000\nexit 3 +0\nexit 2 +500\nenter 2 +5\nexit 2 +5\nexit 1 +0\n", &Window{From: 1400, To: 1600})
	want := `#2: 1 calls, 0 open, self 5, total 5, p50 5, max 5
path 2 below -1: 1 calls, self 5, total 5
missing 2, observed 200`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The CPU time of functions and threads is that of account: without waits, also those for the recorder.
func TestCPUTime(t *testing.T) {
	const text = `thread 7 pid=7 tsc=1000
enter 1 +0
metadata switch "\xf4\x01\x00\x00\x00\x00\x00\x00\x32\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x00\x00\x00" +600
exit 1 +400
`
	head := "thread 0 tsc=1000\nmetadata 1 `{\"pid\":7,\"recorder\":\"1\",\"mode\":\"record\",\"offcpu\":\"rseq\",\"complete\":true}`\n"
	d, _, err := Collect(open(t, head+text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, head+text)
	found, _, err := session.Analyze(s, s.Scope, calls.Options{OffCPU: s.OffCPU()}, func() *account.Analysis { return account.New(account.Options{OffCPU: true}) })
	if err != nil {
		t.Fatal(err)
	}
	row := found.Report(1e9).Rows[0]
	// It was off CPU for 500 ns: 50 in the run queue and 300 for the recorder.
	want := [3]uint64{500, 150, 50}
	for what, got := range map[string][3]uint64{
		"account": {row.CPU().Lo, row.SelfOff.Blocked.Lo, row.SelfOff.Queued.Lo}, "function": {d.Functions[0].CPU, d.Functions[0].Blocked, d.Functions[0].Queued},
		"thread": {d.Threads[0].CPU, d.Threads[0].Blocked, d.Threads[0].Queued},
	} {
		if got != want {
			t.Errorf("%s: on CPU, blocked, queued: got %v, want %v", what, got, want)
		}
	}
}
