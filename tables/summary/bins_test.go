package summary

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Histograms of several paths count what is added to them in any order, whatever the counts.
func TestHistograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const paths = 3
		var h histograms
		h.grow(paths)
		want := [paths]map[uint32][2]uint64{{}, {}, {}}
		note := func(path int, bin uint32, first, second uint64) {
			n := want[path][bin]
			want[path][bin] = [2]uint64{addSaturating(n[0], first), addSaturating(n[1], second)}
		}
		count := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(1<<16-2, 1<<16+2), rapid.Uint64Range(0, maxValue))
		bin := rapid.OneOf(rapid.Uint32Range(100, 160), rapid.Uint32Range(0, maxBin))
		for range rapid.IntRange(0, 30).Draw(rt, "rows") {
			path := rapid.IntRange(0, paths-1).Draw(rt, "path")
			list := rapid.SliceOfN(bin, 0, 60).Draw(rt, "bins")
			if rapid.Bool().Draw(rt, "ordered") {
				slices.Sort(list)
			}
			bins, first, second := make([]int64, len(list)), make([]int64, len(list)), make([]int64, len(list))
			single := rapid.Bool().Draw(rt, "single")
			for i, b := range list {
				x, y := count.Draw(rt, "first"), count.Draw(rt, "second")
				bins[i], first[i], second[i] = int64(b), int64(x), int64(y)
				note(path, b, x, y)
				if single {
					h.add(path, b, x, y)
				}
			}
			if !single {
				if err := h.addBins(path, bins, first, second); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.IntRange(0, 9).Draw(rt, "compact") == 0 {
				h.compact()
			}
		}
		for path := range paths {
			maps.DeleteFunc(want[path], func(_ uint32, n [2]uint64) bool { return n == [2]uint64{} })
			if got := maps.Collect(h.all(path)); !maps.Equal(got, want[path]) {
				rt.Fatalf("path %d has %v, want %v", path, got, want[path])
			}
			last := -1
			for b := range h.all(path) {
				if int(b) <= last {
					rt.Fatalf("bin %d after %d", b, last)
				}
				last = int(b)
			}
		}
	})
}

// A group that has been arranged has the same rows.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGroup(rt)
		want := encode(t, Memory{g})
		g.arrange()
		if got := encode(t, Memory{g}); string(got) != string(want) {
			rt.Fatal("arranging a group changes it")
		}
	})
}
