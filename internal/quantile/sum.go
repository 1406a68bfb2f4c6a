package quantile

import (
	"cmp"
	"math/big"
	"math/bits"
)

// Sum is a sum of 64-bit values: an unsigned integer of 128
// bits, so that no number of values that fits a file makes it overflow.
type Sum struct{ Hi, Lo uint64 }

// NewSum is the sum of one value.
func NewSum(v uint64) Sum { return Sum{Lo: v} }

// Add adds a value.
func (s *Sum) Add(v uint64) {
	// The carry is so rare that leaving Hi alone is faster than adding it.
	if s.Lo += v; s.Lo < v {
		s.Hi++
	}
}

// AddSum adds another sum.
func (s *Sum) AddSum(o Sum) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, o.Hi, carry)
}

// Minus is s less o, which must not be larger.
func (s Sum) Minus(o Sum) Sum {
	lo, borrow := bits.Sub64(s.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(s.Hi, o.Hi, borrow)
	return Sum{hi, lo}
}

// Compare orders sums by size: negative when s is smaller than o, 0 when equal.
func (s Sum) Compare(o Sum) int {
	return cmp.Or(cmp.Compare(s.Hi, o.Hi), cmp.Compare(s.Lo, o.Lo))
}

// Float64 is the nearest number of double precision, give or take its last bit.
func (s Sum) Float64() float64 { return float64(s.Hi)*(1<<64) + float64(s.Lo) }

// Big is the sum as a number without bounds.
func (s Sum) Big() *big.Int {
	b := new(big.Int).SetUint64(s.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(s.Lo))
}
