// Package layered draws directed graphs in layers: boxes in rows, and edges that lead down
// from row to row. It follows Gansner, Koutsofios, North and Vo, "A Technique for Drawing
// Directed Graphs" (1993), in four steps:
//
//  1. Reverse the edges that close a cycle, and assign a rank to every node.
//  2. Split edges into links from one rank to the next, with a bend in each rank that
//     an edge crosses. Order the nodes and bends of each rank to reduce crossings.
//  3. Place ranks below each other, and the items of a rank side by side.
//  4. Draw edges as curves.
//
// The paper solves integer programs for ranks and positions. This package improves them
// locally in sweeps instead, so the time is about linear in the number of nodes and bends.
// The same graph always gives the same drawing. Units are pixels; y grows downwards.
package layered

// Node is a box.
type Node struct {
	Width, Height float64
	X, Y          float64 // its centre; set by [Graph.Layout]
}

// Edge leads from one node to another, or to the same node.
type Edge struct {
	From, To                int     // positions in Graph.Nodes
	LabelWidth, LabelHeight float64 // 0 for no label
	// Path is set by [Graph.Layout]. It consists of the start point, and three points for
	// each cubic Bézier curve that follows. It ends at the border of the target node. The
	// end is vertical, or horizontal if the edge leads from a node to itself.
	Path []Point
	// LabelX and LabelY, set by [Graph.Layout], are the centre of the label.
	LabelX, LabelY float64
}

// Point is a position in the drawing.
type Point struct{ X, Y float64 }

// Graph is a graph to draw. A node has at most one edge to itself. Order matters: if
// nothing else decides, earlier nodes and edges are placed further up and to the left.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

const (
	nodeGap   = 18.0 // pixels between neighbours in a rank
	loopReach = 26.0 // distance that an edge from a node to itself reaches to the right
	labelRoom = 5.0  // pixels between an edge and its label

	// The distance between ranks in pixels. It grows with the horizontal length of the
	// links between them, by the factor gapPerOffset.
	leastBelow, mostBelow, gapPerOffset = 14.0, 60.0, 0.12
)

// Layout positions nodes and edges, and returns the size of the drawing. Its upper left
// corner is (0, 0).
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

// layout is the state of an unfinished drawing.
type layout struct {
	g *Graph
	// items are the nodes of the graph, followed by the bends of edges.
	items   []item
	ranks   [][]int32 // items by rank, from left to right
	tops    []float64 // y of the tops of ranks
	heights []float64 // heights of ranks
	edges   []edge    // same index as g.Edges
}

// item is a node, or a bend of an edge.
type item struct {
	rank        int
	pos         int     // position in its rank, from 0
	left, right float64 // extent on either side of x
	height      float64
	x           float64
	up, down    []int32 // linked items of the neighbouring ranks
}

// edge is an edge that leads down.
type edge struct {
	from, to int32
	turned   bool // it leads up in the graph
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
