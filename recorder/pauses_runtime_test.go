//go:build linux && amd64

package recorder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/observe"
)

// Functions of testdata/pauses.c.
const (
	pausesHold reader.FuncID = iota + 1
	pausesInner
	pausesStep
)

// changes are ways to lose the exit of an open call: by the first command, or between the two.
var changes = map[string]struct {
	commands [2]string
	filter   string // of the first command
}{
	"off":     {[2]string{"mode off", "mode on"}, ""},
	"count":   {[2]string{"mode count", "mode record"}, ""},
	"profile": {[2]string{"mode profile", "mode record"}, ""},
	"depth":   {[2]string{"mode depth depth=1", "mode record"}, ""},
	"stop":    {[2]string{"stop", "start"}, ""},
	"filter":  {[2]string{"filter", "filter"}, "default off\n"},
}

// change runs a command, with a filter if there is one.
func change(t *testing.T, pid int, command, filter string) {
	t.Helper()
	if filter == "" {
		mustAsk(t, pid, command)
		return
	}
	path := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(path, []byte(filter), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustAsk(t, pid, command, f)
}

// next lets the program make one round, unless it is the first, and waits until it is in hold again.
func (r *running) next(t *testing.T, first bool) (pid int) {
	t.Helper()
	if !first {
		if _, err := r.stdin.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	pid, _ = strconv.Atoi(r.line(t))
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "S") {
			return pid
		}
		time.Sleep(time.Millisecond)
	}
}

// ends counts the ends of the calls of functions, and calls of step and inner that have a wrong caller.
type ends struct {
	of    map[reader.FuncID]*[calls.Ends]int
	wrong *int
}

func (ends) Merge(ends) {}

func (e ends) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		if e.of[c.Func] == nil {
			e.of[c.Func] = new([calls.Ends]int)
		}
		e.of[c.Func][c.End]++
		if c.Func == pausesStep && c.Caller != 0 || c.Func == pausesInner && c.Caller != pausesStep {
			*e.wrong++
		}
	}
	return nil
}

// A call that is open when the recording pauses, or changes so that its exit may be missing, is cut there.
// No later call is inside it. The trace says when nothing was recorded.
func TestPauses(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "pauses.c", "-O2", "-fxray-instruction-threshold=1")
	const rounds = 3
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observe.Options{Session: uint64(time.Now().UnixNano()), Key: observe.NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
			_, settle := startObserver(t, o)
			options := "control=1,observer=" + o.Address() + ",session=" + strconv.FormatUint(o.Session, 10)
			r := variant{program, &l}.run(t, options, program)
			pid := r.next(t, true)
			reach(t, pid)
			for range rounds {
				r.next(t, false)
				change(t, pid, c.commands[0], c.filter)
				r.next(t, false)
				change(t, pid, c.commands[1], "")
				r.next(t, false)
			}
			r.end(t)
			observed, err := settle()
			if err != nil || len(observed.Traces) != 1 || observed.Traces[0].Problem != "" {
				t.Fatalf("%v; %+v", err, observed)
			}
			trace, err := reader.Open(reader.Options{}, observed.Traces[0].Path)
			if err != nil {
				t.Fatal(err)
			}
			defer trace.Close()
			all := ends{make(map[reader.FuncID]*[calls.Ends]int), new(int)}
			_, stats, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() ends { return all })
			if err != nil {
				t.Fatal(err)
			}
			steps, holds := all.of[pausesStep], all.of[pausesHold]
			// The first step, and two in each round. With a limit of depth, the third is recorded, too.
			want := 1 + 2*rounds
			if name == "depth" {
				want += rounds
			}
			if steps == nil || steps[calls.Exited] != want || holds[calls.Truncated] < rounds || holds[calls.Exited] != rounds+1 && name != "depth" {
				t.Errorf("the ends of step are %v, want %d; those of hold are %v", steps, want, holds)
			}
			if *all.wrong > 0 || stats.Inferred+stats.Unmatched > 0 || stats.Before < rounds {
				t.Errorf("%d calls have the wrong caller; got %+v", *all.wrong, stats)
			}
			if n := len(trace.Recording(0).Windows); n < rounds+1 {
				t.Errorf("got %d windows, want at least %d", n, rounds+1)
			}
		})
	}
}

// A profile counts a call that is open at a pause as open, up to the last event before the pause.
func TestPausedProfile(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "pauses.c", "-O2", "-fxray-instruction-threshold=1")
	r := variant{program, &l}.run(t, "mode=profile,control=1", program)
	pid := r.next(t, true)
	reach(t, pid)
	const rounds = 3
	for range rounds {
		mustAsk(t, pid, "mode off")
		r.next(t, false)
		mustAsk(t, pid, "mode on")
		r.next(t, false)
	}
	r.end(t)
	trace, err := reader.Open(reader.Options{}, filepath.Join(r.dir, strconv.Itoa(pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	paths := trace.Recording(0).Profiles[0].Paths
	if len(paths) != 3 {
		t.Fatalf("got %d paths: %+v", len(paths), paths)
	}
	for _, p := range paths {
		switch p.Func {
		case pausesHold:
			if p.Parent >= 0 || p.Open != rounds || p.Count != 1 {
				t.Errorf("hold: %+v", p)
			}
		case pausesStep:
			if p.Parent >= 0 || p.Open != 0 || p.Count != rounds+1 {
				t.Errorf("step: %+v", p)
			}
		}
	}
}
