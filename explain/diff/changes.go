package diff

import (
	"cmp"
	"math"
	"slices"
)

// groupKey identifies a group.
type groupKey struct {
	kind Kind
	name string
}

// group collects the parts of the difference that are reported as one change.
type group struct {
	groupKey
	nodes []int
	size  float64 // time of the paths, on the larger side
	sum   float64
	most  float64 // largest of its parts
	at    int     // node of that part
}

// changes divides the whole difference into changes and parts.
func (b *builder) changes() {
	groups := make(map[groupKey]*group)
	fresh := b.fresh()
	for n := range b.c.nodes {
		p := Part{}
		switch {
		case fresh[n] == n && n > 0:
			p.New = b.means[B][n].subtree
			b.take(groups, New, n, p.New, b.means[B][n].subtree)
		case fresh[n] > 0:
			continue
		default:
			x, y := b.means[A][n], b.means[B][n]
			p.Slower = slower(x, y)
			b.take(groups, Slower, n, p.Slower, max(x.self, y.self))
			if n > 0 {
				parent := b.c.nodes[n].parent
				p.More = moreCalls(x, y, b.means[A][parent].calls, b.means[B][parent].calls)
				kind := MoreCalls
				if y.calls == 0 {
					kind = Gone
				}
				b.take(groups, kind, n, p.More, max(x.subtree, y.subtree))
			}
		}
		if p.Slower != 0 || p.More != 0 || p.New != 0 {
			p.Path = b.c.path(n)
			b.r.Parts = append(b.r.Parts, p)
		}
	}
	b.rank(groups)
}

// fresh returns, by node, the topmost node on its path that A does not have, or 0.
func (b *builder) fresh() []int {
	fresh := make([]int, len(b.c.nodes))
	for n := 1; n < len(fresh); n++ {
		fresh[n] = fresh[b.c.nodes[n].parent]
		if fresh[n] == 0 && b.means[A][n].calls == 0 {
			fresh[n] = n
		}
	}
	return fresh
}

// slower returns the part of a path's difference, with amounts x on A and y on B, that is
// due to its self time per call.
func slower(x, y amounts) float64 { return y.self - y.calls*ratio(x.self, x.calls) }

// moreCalls returns the part that is due to more calls by the caller.
func moreCalls(x, y amounts, callerX, callerY float64) float64 {
	return (y.calls - callerY*ratio(x.calls, callerX)) * ratio(x.subtree, x.calls)
}

// take adds a part to its group. Paths with very little time go to the rest.
func (b *builder) take(groups map[groupKey]*group, k Kind, n int, amount, size float64) {
	if size < b.opts.MinShare/10*b.scale {
		return
	}
	key := groupKey{k, b.c.function(n)}
	g := groups[key]
	if g == nil {
		g = &group{groupKey: key}
		groups[key] = g
	}
	if len(g.nodes) == 0 || math.Abs(amount) > g.most {
		g.most, g.at = math.Abs(amount), n
	}
	g.nodes = append(g.nodes, n)
	g.sum += amount
	g.size += size
}

// rank makes changes of the groups that are large enough.
func (b *builder) rank(groups map[groupKey]*group) {
	var list []*group
	for _, g := range groups {
		if g.size >= b.opts.MinShare*b.scale && math.Abs(g.sum) > 1e-9*b.scale {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(x, y *group) int {
		return cmp.Or(cmp.Compare(math.Abs(y.sum), math.Abs(x.sum)), cmp.Compare(x.kind, y.kind), cmp.Compare(x.name, y.name))
	})
	b.r.Rest = b.r.Whole.Difference()
	for _, g := range list {
		c := Change{Kind: g.kind, Function: g.name, Path: b.c.path(g.at), Paths: len(g.nodes), Amount: g.sum}
		if b.sampler != nil {
			c.Interval = b.sampler.judge(g.sum, b.scale, significance, b.fold(g))
		}
		b.r.Rest -= g.sum
		b.r.Changes = append(b.r.Changes, c)
	}
	holm(intervals(b.r.Changes, func(c *Change) *Interval { return &c.Interval }))
}

// fold returns the amount of a group in each resample.
func (b *builder) fold(g *group) []float64 {
	out := make([]float64, b.r.Folds)
	for _, n := range g.nodes {
		parent := max(0, b.c.nodes[n].parent)
		x, y := b.folded(A, n), b.folded(B, n)
		var callerX, callerY []float64
		if g.kind == MoreCalls || g.kind == Gone {
			callerX, callerY = b.foldedOne(A, parent, callsOf), b.foldedOne(B, parent, callsOf)
		}
		for f := range out {
			switch g.kind {
			case Slower:
				out[f] += slower(x[f], y[f])
			case New:
				out[f] += y[f].subtree
			default:
				out[f] += moreCalls(x[f], y[f], callerX[f], callerY[f])
			}
		}
	}
	return out
}

// folded returns the means of a node in each resample.
func (b *builder) folded(s Side, n int) []amounts {
	out := make([]amounts, b.r.Folds)
	for _, of := range []func(*amounts) *float64{callsOf, selfOf, subtreeOf} {
		for f, v := range b.foldedOne(s, n, of) {
			*of(&out[f]) = v
		}
	}
	return out
}

func (b *builder) foldedOne(s Side, n int, of func(*amounts) *float64) []float64 {
	return b.sampler.means(s, b.series(s, n, func(a *amounts) float64 { return *of(a) }))
}
