package quantile

import (
	"cmp"
	"math/big"
	"math/bits"
)

// Sum is a sum of 64-bit values. It is an unsigned 128-bit integer, so the values of a
// trace cannot overflow it.
type Sum struct{ Hi, Lo uint64 }

// NewSum returns the sum of one value.
func NewSum(v uint64) Sum { return Sum{Lo: v} }

// Add adds a value.
func (s *Sum) Add(v uint64) {
	// A carry is so rare that a branch is faster than an unconditional addition.
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

// Minus returns s - o. o must not be larger than s.
func (s Sum) Minus(o Sum) Sum {
	lo, borrow := bits.Sub64(s.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(s.Hi, o.Hi, borrow)
	return Sum{hi, lo}
}

// Compare returns -1, 0 or +1 if s is less than, equal to or greater than o.
func (s Sum) Compare(o Sum) int {
	return cmp.Or(cmp.Compare(s.Hi, o.Hi), cmp.Compare(s.Lo, o.Lo))
}

// Float64 returns the sum as a float64, correct except perhaps for the last bit.
func (s Sum) Float64() float64 { return float64(s.Hi)*(1<<64) + float64(s.Lo) }

// Big returns the sum as a big integer.
func (s Sum) Big() *big.Int {
	b := new(big.Int).SetUint64(s.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(s.Lo))
}
