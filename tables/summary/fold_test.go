package summary

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// encodeFolded is encode with a limit.
func encodeFolded(t testing.TB, limit int, sources ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	err := Merge(sources, limit, func(g *Group) error {
		if n := g.ownPaths(); n > limit {
			panic(fmt.Sprintf("%d paths pass a limit of %d", n, limit))
		}
		return w.Group(g)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// byCaller are the sums by caller and function, with histograms, of a file.
func byCaller(t testing.TB, data []byte) map[string]string {
	t.Helper()
	sums, bins := map[string]Sums{}, map[string]map[uint32]Counts{}
	err := Merge([]Source{opened(t, data)}, 0, func(g *Group) error {
		below := g.belowFolds()
		for path := calls.PathID(1); int(path) < g.paths.Len(); path++ {
			parent := g.paths.Parent(path)
			if g.paths.Func(path) == reader.Folded || below[path] && (parent == 0 || g.paths.Parent(parent) == 0) {
				continue
			}
			key := fmt.Sprintf("%v %v > %v", g.Key, g.name(parent), g.name(path))
			s := sums[key]
			s.add(&g.sums[path])
			sums[key] = s
			for bin, n := range g.allBins(int(path)) {
				if bins[key] == nil {
					bins[key] = map[uint32]Counts{}
				}
				all := bins[key][bin]
				all.add(n)
				bins[key][bin] = all
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for key, s := range sums {
		if s.Calls+s.Open+s.Untimed > 0 {
			all[key] = fmt.Sprint(s, bins[key])
		}
	}
	return all
}

// runs makes groups of a program whose runs have many paths in common.
func runs(seed uint64, n, paths int) []Source {
	rng := rand.New(rand.NewPCG(seed, 0))
	var list []Source
	for range n {
		g := NewGroup(Key{Program: "a", Labels: NoLabels, Unit: Nanoseconds})
		for range paths {
			path := calls.PathID(0)
			for range 1 + rng.IntN(5) {
				name := fmt.Sprint("f", int(rng.ExpFloat64()*4))
				path = g.child(path, 0, g.function(Function{Name: name, Symbol: name}))
				addCall(g, path, 1+rng.Uint64N(1000), true)
			}
		}
		list = append(list, Memory{g})
	}
	return list
}

// With a limit, the result is the same to the byte in any order of the summaries. Sums by
// caller and function are those without a limit, however the summaries were merged.
func TestFolding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sources := runs(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(2, 6).Draw(rt, "runs"), rapid.IntRange(1, 60).Draw(rt, "paths"))
		limit := rapid.IntRange(1, 60).Draw(rt, "limit")
		want := byCaller(t, encode(t, sources...))
		folded := encodeFolded(t, limit, sources...)
		if diff := cmp.Diff(want, byCaller(t, folded)); diff != "" {
			rt.Fatalf("folding changes sums by caller (-all +folded):\n%s", diff)
		}
		if !bytes.Equal(encodeFolded(t, limit, opened(t, folded)), folded) {
			rt.Fatal("reading what was folded changes it")
		}
		if !bytes.Equal(encodeFolded(t, limit, rapid.Permutation(sources).Draw(rt, "order")...), folded) {
			rt.Fatal("another order gives another result")
		}
		some := encodeFolded(t, limit, sources[1:]...)
		if diff := cmp.Diff(want, byCaller(t, encodeFolded(t, limit, sources[0], opened(t, some)))); diff != "" {
			rt.Fatalf("merging in steps changes sums by caller (-all +steps):\n%s", diff)
		}
	})
}

// The heaviest paths are kept, with all of their calls.
func TestFoldingKeepsHeavy(t *testing.T) {
	var sources []Source
	for run := range 20 {
		g := NewGroup(Key{Program: "a", Labels: NoLabels, Unit: Nanoseconds})
		main := g.child(0, 0, g.function(Function{Name: "main"}))
		for k := range 100 {
			light := g.child(main, 0, g.function(Function{Name: fmt.Sprint("light", run*100+k)}))
			addCall(g, light, 10, false)
		}
		addCall(g, g.child(main, 0, g.function(Function{Name: "heavy"})), 3000, false)
		sources = append(sources, Memory{g})
	}
	got := map[string]uint64{}
	err := Merge(sources, 10, func(g *Group) error {
		for path, s := range g.sums {
			if !g.belowFolds()[path] {
				got[g.name(calls.PathID(path)).Name] += s.Calls + s.Folded
			}
		}
		if !g.Folded {
			t.Error("nothing says that paths were folded")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.Sorted(maps.Keys(got))
	if got["heavy"] != 20 || got[foldedName] < 1900 || len(kept) > 11 {
		t.Errorf("kept %v", got)
	}
}
