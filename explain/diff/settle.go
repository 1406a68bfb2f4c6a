package diff

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
)

// settle finishes the input: it puts nodes and units into an order that depends only on
// their contents, weighs units, and adds up subtrees.
func (c *Comparison) settle(blocks bool) {
	order := c.sortNodes()
	for i := range c.sides {
		s := &c.sides[i]
		for _, r := range s.runs {
			r.quantiles = permute(r.quantiles, order)
		}
		for _, u := range s.units {
			u.nodes = permute(u.nodes, order)
			for n := len(u.nodes) - 1; n >= 0; n-- {
				a := &u.nodes[n]
				a.subtree += a.self
				if n > 0 {
					u.nodes[c.nodes[n].parent].subtree += a.subtree
				}
				if c.rooted || n == 0 {
					a.total = a.subtree
				}
			}
			c.settleRoot(u, s, blocks)
		}
		slices.SortStableFunc(s.units, compareUnits)
		s.key = s.hash()
	}
	if c.sides[A].key == c.sides[B].key {
		c.sides[B].key++ // resample equal sides independently
	}
}

// hash depends on all calls and self times of the units.
func (s *side) hash() uint64 {
	h := fnv.New64a()
	var b []byte
	for _, u := range s.units {
		b = b[:0]
		for _, a := range u.nodes {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a.calls))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a.self))
		}
		h.Write(b)
	}
	return h.Sum64()
}

// settleRoot finishes node 0 of a unit, and sets the unit's weight.
func (c *Comparison) settleRoot(u *unit, s *side, blocks bool) {
	root := &u.nodes[0]
	switch {
	case c.rooted:
		root.calls, u.weight = u.invocations, u.invocations
		if blocks {
			break
		}
		// Every run has the same weight, whatever its number of invocations.
		u.weight = 1
		for n := range u.nodes {
			a := &u.nodes[n]
			a.calls, a.self = a.calls/u.invocations, a.self/u.invocations
			a.subtree, a.total = a.subtree/u.invocations, a.total/u.invocations
		}
	case blocks:
		u.weight = float64(len(s.runs)) / float64(len(s.units))
		root.calls = u.weight
	default:
		u.weight, root.calls = 1, 1
	}
}

// sortNodes numbers nodes by name, callers first, and returns the old numbers by the new
// ones.
func (c *Comparison) sortNodes() []int {
	children := make([][]int, len(c.nodes))
	for n := 1; n < len(c.nodes); n++ {
		p := c.nodes[n].parent
		children[p] = append(children[p], n)
	}
	order := []int{0}
	var visit func(old, now int)
	sorted := []node{c.nodes[0]}
	visit = func(old, now int) {
		slices.SortFunc(children[old], func(a, b int) int { return cmp.Compare(c.nodes[a].name, c.nodes[b].name) })
		for _, child := range children[old] {
			order = append(order, child)
			sorted = append(sorted, node{now, c.nodes[child].name})
			visit(child, len(sorted)-1)
		}
	}
	visit(0, 0)
	c.nodes, c.index = sorted, nil
	return order
}

// permute returns the elements of s in the given order of indexes. Missing ones are zero.
func permute[T any](s []T, order []int) []T {
	out := make([]T, len(order))
	for i, old := range order {
		if old < len(s) {
			out[i] = s[old]
		}
	}
	return out
}

func compareUnits(a, b *unit) int {
	return slices.CompareFunc(a.nodes, b.nodes, func(x, y amounts) int {
		return cmp.Or(cmp.Compare(x.calls, y.calls), cmp.Compare(x.self, y.self))
	})
}
