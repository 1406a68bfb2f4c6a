package layered

import "math"

const (
	// These weights keep links between bends straighter than links at nodes.
	bendPull, endPull = 6.0, 1.0
	// placeSweeps is the number of passes that improve the positions within ranks. Large
	// drawings get fewer passes, so that about placeWork items are visited.
	placeSweeps = 60
	placeWork   = 2_000_000
)

// place sets the x positions of items, close to their neighbours, and returns the width of
// the drawing.
func (l *layout) place() float64 {
	p := placer{layout: l}
	for i, rank := range l.ranks {
		x := 0.0
		for _, n := range rank {
			x += l.items[n].left
			l.items[n].x = x
			x += l.items[n].right + nodeGap
		}
		p.shift(i, -x/2)
	}
	rounds := min(placeSweeps, max(4, placeWork/(1+len(l.items))))
	for round := range rounds {
		// First align with the rank above and the rank below in turn, then with both.
		up, down := round%2 == 0, round%2 == 1
		for i := range l.ranks {
			if down {
				i = len(l.ranks) - 1 - i
			}
			p.pull(i, up || round >= rounds/3, down || round >= rounds/3)
		}
	}
	left, right := math.Inf(1), math.Inf(-1)
	for i := range l.items {
		x := &l.items[i]
		left, right = min(left, x.x-x.left), max(right, x.x+x.right)
	}
	if len(l.items) == 0 {
		return 0
	}
	for i := range l.ranks {
		p.shift(i, -left)
	}
	return right - left
}

func (l *layout) shift(rank int, by float64) {
	for _, n := range l.ranks[rank] {
		l.items[n].x += by
	}
}

// placer has the working memory of place.
type placer struct {
	*layout
	desired, weight, room []float64
	blocks                []block
}

// block is a run of neighbours at the smallest allowed distance.
type block struct {
	end    int     // index after the last item
	at     float64 // preferred position of the first item
	weight float64
}

// pull positions the items of a rank in their order and without overlap. It minimizes the
// sum of squared distances from the positions that their neighbours above, below, or on
// both sides suggest. This is isotonic regression: neighbours that would overlap are merged
// into a block.
func (p *placer) pull(rank int, up, down bool) {
	items := p.ranks[rank]
	p.desired, p.weight, p.room = p.desired[:0], p.weight[:0], p.room[:0]
	taken := 0.0
	for i, n := range items {
		x := &p.items[n]
		if i > 0 {
			taken += p.items[items[i-1]].right + nodeGap + x.left
		}
		sum, weight := 0.0, 0.0
		if up {
			sum, weight = p.addDesired(n, x.up, sum, weight)
		}
		if down {
			sum, weight = p.addDesired(n, x.down, sum, weight)
		}
		if weight == 0 {
			sum, weight = x.x*0.01, 0.01 // a weak preference for the current position
		}
		p.desired = append(p.desired, sum/weight-taken)
		p.weight = append(p.weight, weight)
		p.room = append(p.room, taken)
	}
	p.blocks = p.blocks[:0]
	for i := range items {
		b := block{i + 1, p.desired[i], p.weight[i]}
		for len(p.blocks) > 0 && p.blocks[len(p.blocks)-1].at > b.at {
			last := p.blocks[len(p.blocks)-1]
			p.blocks = p.blocks[:len(p.blocks)-1]
			b.at = (last.at*last.weight + b.at*b.weight) / (last.weight + b.weight)
			b.weight += last.weight
		}
		p.blocks = append(p.blocks, b)
	}
	i := 0
	for _, b := range p.blocks {
		for ; i < b.end; i++ {
			p.items[items[i]].x = b.at + p.room[i]
		}
	}
}

// addDesired adds up the positions that the neighbours of an item suggest, with their weights.
func (p *placer) addDesired(n int32, neighbours []int32, sum, weight float64) (float64, float64) {
	for _, other := range neighbours {
		pull := endPull
		if int(n) >= len(p.g.Nodes) && int(other) >= len(p.g.Nodes) {
			pull = bendPull
		}
		sum += pull * p.items[other].x
		weight += pull
	}
	return sum, weight
}

// placeRanks sets the y positions of ranks, and returns the height of the drawing.
func (l *layout) placeRanks() float64 {
	l.heights = make([]float64, len(l.ranks))
	l.tops = make([]float64, len(l.ranks))
	bottom := 0.0
	for i, rank := range l.ranks {
		l.tops[i] = bottom
		offset := 0.0
		for _, n := range rank {
			x := &l.items[n]
			l.heights[i] = max(l.heights[i], x.height)
			for _, other := range x.up {
				offset = max(offset, math.Abs(l.items[other].x-x.x))
			}
		}
		if i > 0 {
			l.tops[i] += min(max(leastBelow, gapPerOffset*offset), mostBelow)
		}
		bottom = l.tops[i] + l.heights[i]
	}
	return bottom
}
