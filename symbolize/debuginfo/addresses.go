package debuginfo

import "slices"

// addressIndex finds addresses in a sorted list without duplicates. Code is spread evenly, so the
// index divides the range of addresses into at least as many pieces as there are addresses. A
// search looks at one piece.
type addressIndex struct {
	sorted []uint64
	shift  uint    // a piece is 1<<shift addresses long
	before []int32 // by piece: how many addresses come before it
}

func indexAddresses(sorted []uint64) *addressIndex {
	x := &addressIndex{sorted: sorted}
	if len(sorted) == 0 {
		return x
	}
	first := sorted[0]
	reach := sorted[len(sorted)-1] - first
	for reach>>x.shift >= 2*uint64(len(sorted)) {
		x.shift++
	}
	x.before = make([]int32, reach>>x.shift+2)
	n := 0
	for piece := range x.before {
		for n < len(sorted) && (sorted[n]-first)>>x.shift < uint64(piece) {
			n++
		}
		x.before[piece] = int32(n)
	}
	return x
}

// search returns the index of an address in the list, or the index where it would be inserted.
func (x *addressIndex) search(address uint64) (int, bool) {
	if len(x.sorted) == 0 || address < x.sorted[0] {
		return 0, false
	}
	piece := (address - x.sorted[0]) >> x.shift
	if piece >= uint64(len(x.before)-1) {
		return len(x.sorted), false
	}
	from := int(x.before[piece])
	i, ok := slices.BinarySearch(x.sorted[from:x.before[piece+1]], address)
	return from + i, ok
}

// DataAt returns the symbol of a variable that contains an address, and the offset of the address in
// it. It returns "" if there is none.
func (b *Binary) DataAt(address uint64) (name string, offset uint64) {
	_ = Guard(func() error {
		result := make([]found, 1)
		for _, o := range b.symbols {
			if err := o.findSymbols([]uint64{address}, result); err != nil {
				return err
			}
		}
		if f := result[0]; f.name != "" && address < f.end {
			name, offset = f.name, address-f.start
		}
		return nil
	})
	return name, offset
}
