package locks_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// Folding call paths does not change the waits and holds of locks, and the report does not depend
// on how the trace is shared among goroutines.
func TestPathBudget(t *testing.T) {
	var trace bytes.Buffer
	if _, err := tracegen.Generate(&trace, tracegen.Options{Records: 100_000, Random: true, Threads: 5, Functions: 200}); err != nil {
		t.Fatal(err)
	}
	roles := func(fn reader.FuncID) locks.Function {
		class := fmt.Sprint(fn % 100 / 10)
		if fn%10 == 2 && fn%20 > 10 {
			return locks.Function{} // holds of every other class end with the function that locked
		}
		switch fn % 10 {
		case 1:
			return locks.Function{Role: locks.Lock, Class: class}
		case 2:
			return locks.Function{Role: locks.Unlock, Class: class}
		case 3:
			return locks.Function{Role: locks.TryLock, Class: class}
		case 4:
			return locks.Function{Constructor: true}
		case 5:
			return locks.Function{Role: locks.Condition}
		}
		return locks.Function{}
	}
	type numbers struct {
		Func             reader.FuncID
		Waits, Holds     locks.Times
		Tries, Contended uint64
		Queued           struct{ Count, Ticks uint64 }
	}
	var all []numbers
	var first string
	for _, run := range []locks.Options{{}, {MaxPaths: 300, Shards: 1}, {MaxPaths: 300, Shards: 3}, {MaxPaths: 1 << 20}} {
		run.Function, run.Clock = roles, reader.Clock{Frequency: 1e9}
		found, stats, err := locks.Analyze(open(t, trace.Bytes()), run)
		if err != nil {
			t.Fatal(err)
		}
		if folds := run.MaxPaths == 300; folds != (stats.Folded > 0) {
			t.Errorf("%d paths: %d folded calls", run.MaxPaths, stats.Folded)
		}
		var got []numbers
		for _, l := range found.Locks {
			got = append(got, numbers{l.Func, l.Waits, l.Holds, l.Tries, l.Contended, l.Queued})
		}
		if all == nil {
			all = got
		}
		if len(got) < 10 || !cmp.Equal(all, got) {
			t.Errorf("%d paths (-unlimited +limited):\n%s", run.MaxPaths, cmp.Diff(all, got))
		}
		if run.MaxPaths != 300 {
			continue
		}
		var text bytes.Buffer
		doc := &report.Doc{Clock: found.Clock, Body: found.Body(nil, locks.View{Top: 100, Paths: 5})}
		if err := doc.Write(&text, report.Style{}); err != nil {
			t.Fatal(err)
		}
		switch {
		case first == "":
			first = text.String()
		case text.String() != first:
			t.Errorf("another sharing among goroutines (-first +other):\n%s", cmp.Diff(first, text.String()))
		}
		if !bytes.Contains(text.Bytes(), []byte("(folded)")) {
			t.Errorf("no path is folded:\n%.2000s", text.String())
		}
	}
}

// Waited gets all waits after the last Begin, also if the pass runs again to fold call paths.
func TestWaitedAgain(t *testing.T) {
	t.Parallel()
	var trace bytes.Buffer
	if _, err := tracegen.Generate(&trace, tracegen.Options{Records: 100_000, Random: true, Threads: 5, Functions: 200}); err != nil {
		t.Fatal(err)
	}
	waits := func(paths int) (n int) {
		_, _, err := locks.Analyze(open(t, trace.Bytes()), locks.Options{
			MaxPaths: paths, Clock: reader.Clock{Frequency: 1e9},
			Function: func(fn reader.FuncID) locks.Function {
				return locks.Function{Role: [...]locks.Role{locks.Lock, locks.Unlock, locks.None}[fn%3], Class: "mutex"}
			},
			Waited: func(*locks.Wait) { n++ },
			Begin:  func() { n = 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if few, all := waits(300), waits(0); few != all || all == 0 {
		t.Errorf("got %d waits with a limit of paths, %d without", few, all)
	}
}

// In a trace of one thread, the waits that matter do not depend on what else the thread does.
func TestAlone(t *testing.T) {
	t.Parallel()
	var trace bytes.Buffer
	if _, err := tracegen.Generate(&trace, tracegen.Options{Records: 20_000, Random: true, Threads: 1, Functions: 100}); err != nil {
		t.Fatal(err)
	}
	matters := func(tsc uint64) bool { return tsc>>12%4 == 1 }
	waits := func(alone bool) (list []locks.Wait) {
		_, _, err := locks.Analyze(open(t, trace.Bytes()), locks.Options{
			Clock: reader.Clock{Frequency: 1e9},
			Function: func(fn reader.FuncID) locks.Function {
				role := [...]locks.Role{locks.Lock, locks.Unlock, locks.TryLock, locks.Condition, locks.None}[fn%5]
				return locks.Function{Role: role, Class: [...]string{"mutex", "semaphore"}[fn%2]}
			},
			Alone: alone, Matters: matters,
			Waited: func(w *locks.Wait) {
				if matters(w.Start) {
					list = append(list, *w)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := waits(false)
	if diff := cmp.Diff(all, waits(true)); diff != "" || len(all) < 20 {
		t.Errorf("got %d waits (-all +alone):\n%s", len(all), diff)
	}
}
