package debuginfo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAddressIndex compares the index with a search of the whole list, at its addresses and next to
// them.
func TestAddressIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0x1000, 0x1100), rapid.Just(^uint64(0)))
		sorted := rapid.SliceOf(address).Draw(t, "addresses")
		slices.Sort(sorted)
		sorted = slices.Compact(sorted)
		x := indexAddresses(sorted)
		for _, a := range append(slices.Clone(sorted), address.Draw(t, "other")) {
			for _, a := range []uint64{a - 1, a, a + 1} {
				i, ok := x.search(a)
				if wantI, wantOK := slices.BinarySearch(sorted, a); i != wantI || ok != wantOK {
					t.Fatalf("search(%#x) = %d, %v, want %d, %v", a, i, ok, wantI, wantOK)
				}
			}
		}
	})
}
