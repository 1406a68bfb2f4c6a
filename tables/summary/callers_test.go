package summary

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// foldedCalls are shards of the folded calls of 300 functions by 300 callers, one for each pair and
// for each copy.
func foldedCalls(t *testing.T, shards, copies int) *Analysis {
	t.Helper()
	const n = 300
	list := make([]*Analysis, shards)
	for i := range list {
		list[i] = NewAnalysis(Options{Clock: reader.Clock{Frequency: nanosPerSecond}, MaxPaths: 1})
	}
	tree := calls.NewPaths()
	folded := tree.Child(0, reader.Folded)
	for i := range n * n * copies {
		c := calls.Call{Path: folded, Func: reader.FuncID(1 + i/n%n), Caller: reader.FuncID(1 + i%n), Duration: uint64(i), Self: uint64(i)}
		if err := list[i%shards].Calls(&calls.Batch{Paths: tree, Calls: []calls.Call{c}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range list[1:] {
		list[0].Merge(other)
	}
	return list[0]
}

func groupOf(a *Analysis, host string) *Group {
	return a.Group(Key{Host: host, Labels: NoLabels, Unit: Nanoseconds}, func(fn reader.FuncID) Function {
		return Function{Name: fmt.Sprint("f", fn)}
	})
}

// If folded calls have more pairs of caller and function than the limit, they count by function
// alone, with exact sums, however they are divided among shards and files.
func TestFoldedCallsWithoutCallers(t *testing.T) {
	const rows = 300 + 3 // foldsName, the caller, and the folded path
	var first []byte
	for _, shards := range []int{1, 2, 7} {
		g := groupOf(foldedCalls(t, shards, 1), "")
		if !g.Callerless || g.Len() != rows {
			t.Fatalf("%d shards: got %d rows, callerless %v; want %d", shards, g.Len(), g.Callerless, rows)
		}
		var total Sums
		for i := range g.sums {
			total.add(&g.sums[i])
		}
		if want := uint64(300 * 300); total.Calls != want || total.Folded != want || total.Self != want*(want-1)/2 {
			t.Errorf("%d shards: wrong sums %+v", shards, total)
		}
		var b bytes.Buffer
		w := NewWriter(&b)
		if err := w.Group(g); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		}
		if !bytes.Equal(b.Bytes(), first) {
			t.Errorf("%d shards give another file", shards)
		}
	}
}

// The same holds for merging files that have their callers, in any order.
func TestMergeDropsCallers(t *testing.T) {
	tree := calls.NewPaths()
	folded := tree.Child(0, reader.Folded)
	var sources []Source
	for part := range 3 {
		a := NewAnalysis(Options{Clock: reader.Clock{Frequency: nanosPerSecond}})
		for i := range 100 * 300 {
			c := calls.Call{Path: folded, Func: reader.FuncID(1 + i%300), Caller: reader.FuncID(1 + 100*part + i/300), Duration: 7, Self: 7}
			if err := a.Calls(&calls.Batch{Paths: tree, Calls: []calls.Call{c}}); err != nil {
				t.Fatal(err)
			}
		}
		sources = append(sources, Memory{groupOf(a, "")})
	}
	merged := encodeFolded(t, 1000, sources...)
	f := byCaller(t, merged)
	if len(f) != 300 {
		t.Errorf("got %d pairs of caller and function, want the 300 functions", len(f))
	}
	if whole := byCaller(t, encodeFolded(t, 1<<20, sources...)); len(whole) != 300*300 {
		t.Errorf("got %d pairs with room for all, want %d", len(whole), 300*300)
	}
	if !bytes.Equal(encodeFolded(t, 1000, sources[2], sources[0], sources[1]), merged) {
		t.Error("another order gives another file")
	}
	if !bytes.Equal(encodeFolded(t, 1000, opened(t, merged)), merged) {
		t.Error("reading the file changes it")
	}
}
