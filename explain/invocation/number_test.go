package invocation

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Numbers are positions in time order, however the invocations are divided into shards.
func TestNumbering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) Key {
			return Key{rapid.Uint64Range(0, 50).Draw(t, "start"), rapid.IntRange(0, 3).Draw(t, "thread"), rapid.Uint32Range(0, 1).Draw(t, "depth")}
		}), func(k Key) Key { return k }).Draw(t, "all")
		wanted := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Key {
			return Key{rapid.Uint64Range(0, 50).Draw(t, "start"), rapid.IntRange(0, 3).Draw(t, "thread"), rapid.Uint32Range(0, 1).Draw(t, "depth")}
		})).Draw(t, "wanted")
		shards := []*Numbering{NewNumbering(wanted), NewNumbering(wanted), NewNumbering(wanted)}
		for _, k := range all {
			if is := shards[k.Index%len(shards)].See(k); is != slices.Contains(wanted, k) {
				t.Fatalf("%v: got wanted %v", k, is)
			}
		}
		shards[0].Merge(shards[1])
		shards[0].Merge(shards[2])
		slices.SortFunc(all, Key.Compare)
		for _, k := range wanted {
			want := slices.Index(all, k) + 1
			got, ok := shards[0].Number(k)
			if ok != (want > 0) || ok && got != uint64(want) {
				t.Fatalf("%v of %v: got number %d, %v", k, all, got, ok)
			}
		}
		if _, ok := shards[0].Number(Key{Start: 99}); ok {
			t.Fatal("got a number for an unknown key")
		}
	})
}
