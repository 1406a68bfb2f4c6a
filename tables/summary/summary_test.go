package summary

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader/calls"
)

// encode writes groups to a file, each key once.
func encode(t testing.TB, sources ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := Merge(sources, 0, w.Group); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func opened(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)), "a.parquet")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// drawGroup makes a group of a few functions, some of which have the same name.
func drawGroup(t *rapid.T) *Group {
	few := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }
	offKnown := rapid.Bool().Draw(t, "off")
	g := NewGroup(Key{
		Program: []string{"a", "b"}[few("program", 2)], Host: []string{"", "h1", "h2"}[few("host", 3)],
		Labels: []string{NoLabels, `{"k":"v"}`}[few("labels", 2)], Unit: Nanoseconds,
	})
	functions := []Function{
		{Name: "main", Symbol: "main", File: "a.cc", Line: 3, Object: "a"},
		{Name: "f()", Symbol: "_Z1fv", File: "a.cc", Line: 7, Object: "a"},
		{Name: "f()", Symbol: "_ZL1fv", File: "b.cc", Line: 7, Object: "a"},
		{Name: "operator new[](unsigned long)"},
		{Name: foldedName},
	}
	for range rapid.IntRange(0, 12).Draw(t, "paths") {
		path, depth := calls.PathID(0), rapid.IntRange(1, 4).Draw(t, "depth")
		for range depth {
			f := functions[few("function", len(functions))]
			id := g.function(f)
			if f.Name == foldedName {
				id = -1 << 31
			}
			path = g.child(path, 0, id)
		}
		if g.name(path).Name == foldedName {
			g.sums[path].add(&Sums{Folded: 3, FoldedSelf: 10})
			continue
		}
		addCall(g, path, uint64(1)<<few("duration", 62)+uint64(few("more", 100)), offKnown)
	}
	if rapid.Bool().Draw(t, "folds") {
		addCall(g, g.foldsPath(Function{}, functions[1]), 7, offKnown)
		addCall(g, g.foldsPath(Function{Name: foldedName}, functions[2]), 9, offKnown)
	}
	return g
}

func addCall(g *Group, path calls.PathID, duration uint64, off bool) {
	s := Sums{commonSums: commonSums{Calls: 1, Time: duration, Self: duration / 3, Min: duration, Max: duration, OffKnown: off}, Untimed: 2}
	if off {
		s.Blocked, s.OnCPU = s.Self/2, s.Self-s.Self/2
	}
	g.sums[path].add(&s)
	g.bins.add(int(path), quantile.Bin(duration), 1, 0)
	g.bins.add(int(path), quantile.Bin(duration/3), 0, 1)
	if duration%2 == 1 {
		g.coarse.add(int(path), quantile.Bin(duration/3), 1, 0)
	}
}

// A tree of merges gives the same bytes as any other tree over the same summaries.
func TestMergeIsAssociativeAndCommutative(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var files [][]byte
		for range rapid.IntRange(1, 5).Draw(rt, "files") {
			files = append(files, encode(t, Memory{drawGroup(rt), drawGroup(rt)}))
		}
		all := make([]Source, len(files))
		for i, data := range files {
			all[i] = opened(t, data)
		}
		want := encode(t, all...)
		for left := files; ; {
			left = rapid.Permutation(left).Draw(rt, "order")
			if len(left) == 1 {
				if !bytes.Equal(left[0], want) {
					rt.Fatalf("%d files merged step by step differ from those merged at once", len(files))
				}
				return
			}
			n := rapid.IntRange(2, len(left)).Draw(rt, "together")
			var some []Source
			for _, data := range left[:n] {
				some = append(some, opened(t, data))
			}
			left = append(slices.Clone(left[n:]), encode(t, some...))
		}
	})
}

// Rows in an order that is unknown give the same groups as rows that are in order.
func TestUnorderedRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data := encode(t, Memory{drawGroup(rt), drawGroup(rt), drawGroup(rt)})
		f := opened(t, data)
		f.meta = nil
		groups, err := f.Groups()
		if err != nil {
			rt.Fatal(err)
		}
		again := encode(t, Memory(groups))
		// Functions with the same name below functions with the same name are one: the path
		// does not tell which is below which. Sums stay.
		want, got := totals(t, data), totals(t, again)
		if want != got {
			rt.Fatalf("sums %+v, want %+v", got, want)
		}
	})
}

func totals(t *testing.T, data []byte) string {
	t.Helper()
	var all Sums
	var bins Counts
	err := Merge([]Source{opened(t, data)}, 0, func(g *Group) error {
		for i := range g.sums {
			all.add(&g.sums[i])
			for _, n := range g.allBins(i) {
				bins.add(n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v %+v", all, bins)
}

// A file with many rows has several row groups, and groups that begin and end in any of
// them.
func TestManyRows(t *testing.T) {
	var groups Memory
	for i, n := range []int{10, 9000, 66000, 3, 5} {
		g := NewGroup(Key{Program: "a", Host: fmt.Sprint("h", i), Labels: NoLabels, Unit: Nanoseconds})
		root := g.child(0, 0, g.function(Function{Name: "main"}))
		for k := range n {
			addCall(g, g.child(root, 0, g.function(Function{Name: fmt.Sprint("f", k)})), uint64(k*i), false)
		}
		groups = append(groups, g)
	}
	data := encode(t, groups)
	if again := encode(t, opened(t, data)); !bytes.Equal(again, data) {
		t.Error("reading and writing changes the file")
	}
	f := opened(t, data)
	for _, i := range []int{4, 3, 0, 2, 1} { // in any order
		g := NewGroup(groups[i].Key)
		if err := f.AddTo(g, i); err != nil {
			t.Fatal(err)
		}
		g.settle()
		if !bytes.Equal(encode(t, Memory{g}), encode(t, Memory{groups[i]})) {
			t.Errorf("group %d differs", i)
		}
	}
}
