package layered

import (
	"cmp"
	"slices"
)

const (
	// portGap is the distance between the ends of edges at a node. It shrinks if the middle
	// part of the border is too short.
	portGap  = 14.0
	portPart = 0.8
)

// route writes the positions to the graph, and draws edges.
func (l *layout) route() {
	for i := range l.g.Nodes {
		x := &l.items[i]
		l.g.Nodes[i].X = x.x
		l.g.Nodes[i].Y = l.tops[x.rank] + l.heights[x.rank]/2
	}
	starts, ends := l.ports()
	for i := range l.edges {
		e, drawn := &l.edges[i], &l.g.Edges[i]
		if e.loop {
			l.loop(drawn)
			continue
		}
		from, to := &l.g.Nodes[e.from], &l.g.Nodes[e.to]
		upper, lower := l.items[e.from].rank, l.items[e.to].rank
		path := append(drawn.Path[:0], Point{starts[i], from.Y + from.Height/2})
		// Lead vertically past taller neighbours.
		path = curve(path, Point{starts[i], l.tops[upper] + l.heights[upper]})
		for _, n := range e.bends {
			bend := &l.items[n]
			top, bottom := l.tops[bend.rank], l.tops[bend.rank]+l.heights[bend.rank]
			path = curve(path, Point{bend.x, top})
			path = curve(path, Point{bend.x, bottom})
			if bend.height > 0 {
				drawn.LabelX = bend.x + labelRoom + drawn.LabelWidth/2
				drawn.LabelY = (top + bottom) / 2
			}
		}
		path = curve(path, Point{ends[i], l.tops[lower]})
		path = curve(path, Point{ends[i], to.Y - to.Height/2})
		if e.turned {
			slices.Reverse(path)
		}
		drawn.Path = path
	}
}

// curve extends a path to a lower point, vertical at both ends. If the path ends there
// already, it does not change.
func curve(path []Point, to Point) []Point {
	from := path[len(path)-1]
	if to.Y <= from.Y {
		return path
	}
	middle := (from.Y + to.Y) / 2
	return append(path, Point{from.X, middle}, Point{to.X, middle}, to)
}

// ports returns the x positions where edges leave their upper node and reach their lower
// node. They are side by side, in the order of the other ends.
func (l *layout) ports() (starts, ends []float64) {
	starts, ends = make([]float64, len(l.edges)), make([]float64, len(l.edges))
	leaving, coming := make([][]int, len(l.g.Nodes)), make([][]int, len(l.g.Nodes))
	for i := range l.edges {
		if e := &l.edges[i]; !e.loop {
			leaving[e.from] = append(leaving[e.from], i)
			coming[e.to] = append(coming[e.to], i)
		}
	}
	spread := func(n int, edges []int, next func(*edge) int32, to []float64) {
		slices.SortStableFunc(edges, func(a, b int) int {
			return cmp.Compare(l.items[next(&l.edges[a])].x, l.items[next(&l.edges[b])].x)
		})
		node := &l.g.Nodes[n]
		gap := min(portGap, portPart*node.Width/float64(len(edges)))
		for i, e := range edges {
			to[e] = node.X + gap*(float64(i)-float64(len(edges)-1)/2)
		}
	}
	for n := range l.g.Nodes {
		spread(n, leaving[n], func(e *edge) int32 { return e.bends[0] }, starts)
		spread(n, coming[n], func(e *edge) int32 { return e.bends[len(e.bends)-1] }, ends)
	}
	return starts, ends
}

// loop draws an edge from a node to itself, on the right of the node.
func (l *layout) loop(e *Edge) {
	n := &l.g.Nodes[e.From]
	border, rise := n.X+n.Width/2, n.Height/4
	e.LabelX, e.LabelY = border+loopReach+labelRoom+e.LabelWidth/2, n.Y
	// A Bézier curve reaches three quarters of the distance to its control points.
	control := border + loopReach*4/3
	e.Path = append(e.Path[:0], Point{border, n.Y - rise}, Point{control, n.Y - rise}, Point{control, n.Y + rise}, Point{border, n.Y + rise})
}
