// Package layered draws directed graphs in layers: boxes in rows, and edges that
// lead down from row to row. It follows Gansner, Koutsofios, North and Vo, "A
// Technique for Drawing Directed Graphs" (1993), in four steps:
//
//  1. Edges that close a cycle are turned around, and every node gets a rank.
//  2. Edges are cut into links from one rank to the next, with a bend where they
//     cross a rank; nodes and bends of a rank are ordered so that links cross less.
//  3. Ranks are placed below one another, and what is in a rank beside another.
//  4. Edges become curves.
//
// Where that paper solves integer programs for ranks and places, there are sweeps
// of local improvement here, so that the time is about linear in nodes and bends.
// The same graph gives the same drawing. Units are pixels; y grows downwards.
package layered

// Node is a box.
type Node struct {
	Width, Height float64
	X, Y          float64 // its centre; set by [Graph.Layout]
}

// Edge leads from one node to another, or to the same.
type Edge struct {
	From, To                int     // positions in Graph.Nodes
	LabelWidth, LabelHeight float64 // 0 for no label
	// Path, set by [Graph.Layout], is where the edge starts, and three points for
	// each cubic Bézier curve that follows. It ends at the border of the node that
	// the edge leads to, upright, or level for an edge from a node to itself.
	Path []Point
	// LabelX and LabelY, set by [Graph.Layout], are the centre of the label.
	LabelX, LabelY float64
}

// Point is a place in the drawing.
type Point struct{ X, Y float64 }

// Graph is what is to be drawn. No node has more than one edge to itself. Order matters: what comes first is put further up
// and to the left where nothing else decides.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

const (
	besides   = 18.0 // pixels between neighbours in a rank
	loopReach = 26.0 // how far an edge from a node to itself leads to the right
	labelRoom = 5.0  // pixels between an edge and its label

	// Ranks are this many pixels apart, and further where links lead far to the
	// side: by a part of how far.
	leastBelow, mostBelow, slant = 14.0, 60.0, 0.12
)

// Layout places nodes and edges, and tells the size of the drawing, whose upper
// left corner is (0, 0).
func (g *Graph) Layout() (width, height float64) {
	l := newLayout(g)
	l.rank()
	l.link()
	l.order()
	width = l.place()
	height = l.placeRanks()
	l.route()
	return width, height
}

// layout is a drawing in the making.
type layout struct {
	g *Graph
	// items are the nodes of the graph, and then bends of edges.
	items []item
	ranks [][]int32 // items by rank, from left to right
	tops  []float64 // of ranks
	tall  []float64 // heights of ranks
	edges []edge    // like g.Edges
}

// item is a node, or a bend of an edge.
type item struct {
	rank        int
	pos         int     // place in its rank, from 0
	left, right float64 // how far it reaches from x
	height      float64
	x           float64
	up, down    []int32 // items of neighbouring ranks that links lead to
}

// edge is an edge that leads down.
type edge struct {
	from, to int32
	turned   bool // leads up in the graph
	loop     bool
	bends    []int32
}

func newLayout(g *Graph) *layout {
	l := &layout{g: g, items: make([]item, len(g.Nodes)), edges: make([]edge, len(g.Edges))}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		l.items[i] = item{left: n.Width / 2, right: n.Width / 2, height: n.Height}
	}
	for i := range g.Edges {
		e := &g.Edges[i]
		l.edges[i] = edge{from: int32(e.From), to: int32(e.To), loop: e.From == e.To}
		if e.From == e.To {
			at := &l.items[e.From]
			at.right += loopReach + labelRoom + e.LabelWidth
			at.height = max(at.height, e.LabelHeight)
		}
	}
	return l
}
