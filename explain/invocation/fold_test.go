package invocation

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// A function that is already on the path takes the call. The reference searches the whole path.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := calls.NewPaths()
		f := NewFolder(func(fn reader.FuncID) bool { return fn <= 2 })
		list := []calls.PathID{0}
		functions := rapid.IntRange(3, 60).Draw(t, "functions")
		for range rapid.IntRange(0, 300).Draw(t, "paths") {
			// Mostly continue from the latest path, so that paths get long.
			at := len(list) - 1 - min(rapid.IntRange(0, 9).Draw(t, "back")/6*rapid.IntRange(0, 40).Draw(t, "by"), len(list)-1)
			list = append(list, paths.Child(list[at], reader.FuncID(rapid.IntRange(1, functions).Draw(t, "function"))))
			f.Fold(paths)
		}
		for _, id := range list {
			var want []reader.FuncID
			for _, fn := range paths.Frames(nil, id) {
				at := 0
				for at < len(want) && want[at] != fn {
					at++
				}
				if want = want[:at]; at > 0 || fn <= 2 {
					want = append(want, fn)
				}
			}
			got := f.Tree.Frames(nil, f.Of(id))
			if len(got) != len(want) {
				t.Fatalf("%v: got folded path %v, want %v", paths.Frames(nil, id), got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%v: got folded path %v, want %v", paths.Frames(nil, id), got, want)
				}
			}
		}
	})
}

// For a recursion through very many functions, time grows with the depth, not with its square.
func TestFoldDeep(t *testing.T) {
	const depth = 500_000
	paths := calls.NewPaths()
	f := NewFolder(func(fn reader.FuncID) bool { return fn == 1 })
	id := calls.PathID(0)
	for fn := range reader.FuncID(depth) {
		id = paths.Child(id, fn+1)
	}
	f.Fold(paths)
	if got := len(f.Tree.Frames(nil, f.Of(id))); got != depth {
		t.Errorf("got a path of %d functions", got)
	}
	again := paths.Child(id, depth/2)
	f.Fold(paths)
	if got := len(f.Tree.Frames(nil, f.Of(again))); got != depth/2 {
		t.Errorf("got %d functions in the path of a function that was on it", got)
	}
}
