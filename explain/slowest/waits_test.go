package slowest_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
)

// A wait is added to the row of the lock function below the function that takes the lock, with
// recursion folded as in the tree, and only if the wait was part of the invocation.
func TestAddWait(t *testing.T) {
	thread := reader.Thread{Thread: 3}
	tree := func() *slowest.Report {
		return &slowest.Report{Slowest: []slowest.Slow{{
			Thread: thread, Root: 1, Start: 100, Duration: 50, Rows: []slowest.Row{
				{Func: 1}, {Func: 2, Depth: 1}, {Func: 9, Depth: 2}, {Func: 5, Depth: 1}, {Func: 6, Depth: 2}, {Func: 9, Depth: 3},
				{Func: 9, Depth: 1},
			},
		}}}
	}
	for _, c := range []struct {
		name   string
		thread reader.Thread
		start  uint64
		path   []reader.FuncID
		row    int // -1 for none
	}{
		{"direct", thread, 100, []reader.FuncID{7, 1, 2}, 2},
		{"through another", thread, 150, []reader.FuncID{1, 5}, 5},
		{"folded", thread, 120, []reader.FuncID{1, 5, 6, 1, 2}, 2},
		{"folded to the middle", thread, 120, []reader.FuncID{1, 5, 6, 5, 6}, 5},
		{"by the root", thread, 120, []reader.FuncID{1}, 6},
		{"before", thread, 99, []reader.FuncID{1, 2}, -1},
		{"after", thread, 151, []reader.FuncID{1, 2}, -1},
		{"other thread", reader.Thread{Thread: 4}, 120, []reader.FuncID{1, 2}, -1},
		{"not below the root", thread, 120, []reader.FuncID{7, 2}, -1},
		{"unknown path", thread, 120, []reader.FuncID{1, 8}, -1},
	} {
		got, want := tree(), tree()
		got.AddWait(c.thread, c.start, 10, c.path, 9, []slowest.Holder{{Func: 20, Ticks: 4}})
		got.AddWait(c.thread, c.start, 10, c.path, 9, []slowest.Holder{{Func: 21, Ticks: 9}, {Func: 20, Ticks: 1}})
		if c.row >= 0 {
			row := &want.Slowest[0].Rows[c.row]
			row.Waited, row.Holders = 20, []slowest.Holder{{Func: 21, Ticks: 9}, {Func: 20, Ticks: 5}}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
