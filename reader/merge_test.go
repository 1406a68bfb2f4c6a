package reader_test

import (
	"slices"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// Functions of several programs have IDs of their own, in records and in what the recorder says
// about them. Objects with one build ID are one.
func TestSeveralPrograms(t *testing.T) {
	program := func(path, build string, shared reader.FuncID) *reader.Recording {
		r := &reader.Recording{
			Process: reader.Process{PID: 7, Exe: path, BuildID: build},
			Objects: []reader.Object{
				{First: 1, Count: uint32(shared - 1), Path: path, BuildID: build},
				{First: shared, Count: 5, Path: "/lib/" + build + ".so", BuildID: "ff"},
			},
			Counters: []reader.Counter{{Func: 1, Calls: 3}, {Func: shared + 1, Calls: 4}},
			Pruned:   reader.Pruned{From: 1, To: 2, Functions: []reader.PrunedFunction{{Func: shared, Calls: 1, Ticks: 1}}},
		}
		r.Budget = reader.Budget{Share: 1, From: 1, To: 2, Functions: []reader.BudgetFunction{{Func: shared + 2, Counted: 5}}}
		r.Profiles = []reader.Profile{{Process: 7, Thread: 7, Paths: []reader.ProfilePath{{Func: 2, Parent: -1, Count: 1}, {Func: shared, Parent: 0, Count: 1}}}}
		return r
	}
	tr := several(t, program("/bin/a", "aa", 11), program("/bin/b", "bb", 21), program("/bin/other-a", "aa", 11))
	objects, _, err := tr.Objects()
	if err != nil || len(objects) != 3 {
		t.Fatalf("got objects %+v, error %v", objects, err)
	}
	for i, want := range [][3]reader.FuncID{{1, 11, 2}, {16, 11, 17}, {1, 11, 2}} {
		r := tr.Recording(i)
		got := [3]reader.FuncID{r.Counters[0].Func, r.Pruned.Functions[0].Func, r.Profiles[0].Paths[0].Func}
		if got != want || r.Counters[1].Func != want[1]+1 || r.Budget.Functions[0].Func != want[1]+2 || r.Profiles[0].Paths[1].Func != want[1] {
			t.Errorf("file %d: got %+v", i, r)
		}
		if !slices.ContainsFunc(objects, func(o reader.Object) bool { return o.First == want[0] && o.BuildID == r.Process.BuildID }) {
			t.Errorf("file %d: no object with ID %d in %+v", i, want[0], objects)
		}
	}
	tr.Separate()
	if _, _, err := tr.Objects(); err == nil || tr.Recording(1).Counters[0].Func != 1 {
		t.Errorf("apart: got error %v and %+v", err, tr.Recording(1).Counters)
	}
}
