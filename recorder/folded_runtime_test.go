//go:build linux && amd64

package recorder_test

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// checkForest compares a profile of testdata/forest.c with what the program counted.
func checkForest(t *testing.T, program, output, path string) {
	t.Helper()
	want := counted(t, output)
	table, trace := openNamed(t, program, path)
	functions, edges := account.New(account.Options{}), graph.New(graph.Options{})
	var stats, again calls.Stats
	if err := calls.RunSums(trace, calls.Options{}, functions, &stats); err != nil {
		t.Fatal(err)
	}
	if err := calls.RunSums(trace, calls.Options{}, edges, &again); err != nil {
		t.Fatal(err)
	}

	got := map[string]int64{}
	for _, e := range edges.Report(reader.Clock{}).Edges {
		if e.Caller == reader.Folded {
			t.Errorf("%d calls of %s have no caller", e.Count, symbolize.Label(table, e.Callee))
		}
		got["edge;"+symbolize.Label(table, e.Caller)+";"+symbolize.Label(table, e.Callee)] += int64(e.Count)
	}
	var self uint64
	for _, row := range functions.Report(1e9).Rows {
		name := symbolize.Label(table, row.Func)
		got["calls;"+name] += int64(row.Count + row.Open)
		self += row.Self.Lo
		// The program measures its times just inside and just outside the functions.
		inner, timed := want["inner;"+name]
		slack := int64(100 * (row.Count + row.Open))
		if total := int64(row.Total.Lo); timed && (total < inner-slack || total > want["outer;"+name]+slack) {
			t.Errorf("outermost calls of %s: got %d ticks, want %d to %d as the program measured", name, total, inner, want["outer;"+name])
		}
	}
	for key, n := range want {
		kind, _, _ := strings.Cut(key, ";")
		if kind == "calls" && got[key] != n || kind == "edge" && stats.Truncated == 0 && got[key] != n {
			t.Errorf("%s: got %d, want %d", key, got[key], n)
		}
	}

	// Total self time must equal both the time of outermost calls and the time in the tree of
	// paths.
	r := trace.Recording(0)
	var outermost, inTree, folded, beyond uint64
	paths := 0
	for i := range r.Profiles {
		p := &r.Profiles[i]
		spent := make([]uint64, len(p.Paths))
		for j, path := range p.Paths {
			spent[j] = path.Total + path.OpenTotal
			if path.Parent < 0 {
				outermost += spent[j]
				continue
			}
			spent[path.Parent] -= spent[j]
		}
		// If a signal arrives while a call ends, after the clock was read, the handler's
		// calls end later than their caller. The caller's self time is then set to 0
		// instead of a negative value.
		for j := range p.Folds {
			if f := &p.Folds[j]; f.Inside > f.Total+f.OpenTotal {
				beyond += f.Inside - f.Total - f.OpenTotal
			}
		}
		for j, path := range p.Paths {
			inTree += spent[j]
			if less := -int64(spent[j]); less > 0 && path.Func != reader.Folded {
				beyond += uint64(less)
			}
			if path.Func == reader.Folded {
				folded += path.Count + path.Open
			} else {
				paths++
			}
		}
	}
	if self != outermost+beyond || inTree != outermost {
		t.Errorf("got %d ticks of self time, %d in the tree, %d in outermost calls; calls took %d longer than their callers", self, inTree, outermost, beyond)
	}
	const maxPaths = 1 << 17 // XR_MAX_PATHS
	if paths != maxPaths || folded < 500_000 || folded != stats.Folded {
		t.Errorf("got %d paths; folded calls: %d in the tree, %d by function", paths, folded, stats.Folded)
	}
	for _, l := range r.Losses {
		t.Errorf("unexpected loss: %d, %s", l.Count, l.Cause)
	}
}

// Calls without a path of their own still count for their function and caller, to the tick: in
// files that the program writes, under an observer, and in a process that is killed.
func TestProfileOfMorePathsThanFit(t *testing.T) {
	t.Parallel()
	const calls = "1000000"
	for name, f := range variants(t, "forest.c") {
		out, stderr, traces := recordProgram(t, f.library, "mode=profile", f.program, calls)
		if stderr != "" || len(traces) != 1 {
			t.Fatal(name, stderr, traces)
		}
		checkForest(t, f.program, out, traces[0])
		for _, end := range []string{"", "killed"} {
			out, path := f.runObserved(t, "mode=profile", calls, end)
			checkForest(t, f.program, out, path)
		}
	}
}

func TestFoldedPathsUnderSignals(t *testing.T) {
	t.Parallel()
	f := variants(t, "forest.c")["Linked"]
	out, path := f.runObserved(t, "mode=profile", "1000000", "signals")
	checkForest(t, f.program, out, path)
}
