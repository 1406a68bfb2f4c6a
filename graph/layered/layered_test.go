package layered

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyGraph draws a random graph, with cycles, parallel edges and edges from nodes to
// themselves.
func anyGraph(t *rapid.T) *Graph {
	g := &Graph{}
	for range rapid.IntRange(0, 30).Draw(t, "nodes") {
		g.Nodes = append(g.Nodes, Node{
			Width:  float64(rapid.IntRange(5, 200).Draw(t, "width")),
			Height: float64(rapid.IntRange(5, 80).Draw(t, "height")),
		})
	}
	if len(g.Nodes) == 0 {
		return g
	}
	node := rapid.IntRange(0, len(g.Nodes)-1)
	looped := make([]bool, len(g.Nodes))
	for range rapid.IntRange(0, 60).Draw(t, "edges") {
		e := Edge{From: node.Draw(t, "from"), To: node.Draw(t, "to")}
		if e.From == e.To {
			if looped[e.From] {
				continue
			}
			looped[e.From] = true
		}
		if rapid.Bool().Draw(t, "label") {
			e.LabelWidth, e.LabelHeight = float64(rapid.IntRange(1, 90).Draw(t, "label width")), 20
		}
		g.Edges = append(g.Edges, e)
	}
	return g
}

func copyOf(g *Graph) *Graph {
	return &Graph{append([]Node(nil), g.Nodes...), append([]Edge(nil), g.Edges...)}
}

// rect is a box or a label.
type rect struct {
	what                     string
	left, top, right, bottom float64
}

func rects(g *Graph) []rect {
	var all []rect
	around := func(what string, x, y, w, h float64) {
		all = append(all, rect{what, x - w/2, y - h/2, x + w/2, y + h/2})
	}
	for i, n := range g.Nodes {
		around(fmt.Sprintf("node %d", i), n.X, n.Y, n.Width, n.Height)
	}
	for i, e := range g.Edges {
		if e.LabelWidth > 0 {
			around(fmt.Sprintf("label %d", i), e.LabelX, e.LabelY, e.LabelWidth, e.LabelHeight)
		}
	}
	return all
}

const rounding = 1e-6

// along calls fn for points along a path.
func along(path []Point, fn func(Point)) {
	for i := 0; i+3 < len(path); i += 3 {
		for step := range 21 {
			t := float64(step) / 20
			mix := func(a, b, c, d float64) float64 {
				u := 1 - t
				return u*u*u*a + 3*u*u*t*b + 3*u*t*t*c + t*t*t*d
			}
			a, b, c, d := path[i], path[i+1], path[i+2], path[i+3]
			fn(Point{mix(a.X, b.X, c.X, d.X), mix(a.Y, b.Y, c.Y, d.Y)})
		}
	}
}

// Boxes and labels do not overlap. No edge crosses a box or a label, not even its own. Each
// edge leads from border to border.
func TestNothingOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGraph(t)
		width, height := g.Layout()
		boxes := rects(g)
		for i, a := range boxes {
			if !(a.left >= -rounding && a.top >= -rounding && a.right <= width+rounding && a.bottom <= height+rounding) {
				t.Fatalf("%+v is outside %g x %g", a, width, height)
			}
			for _, b := range boxes[:i] {
				if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
					t.Fatalf("%+v and %+v overlap", a, b)
				}
			}
		}
		for i, e := range g.Edges {
			if len(e.Path) < 4 || len(e.Path)%3 != 1 {
				t.Fatalf("edge %d: got a path of %d points", i, len(e.Path))
			}
			for _, end := range []struct {
				node int
				at   Point
			}{{e.From, e.Path[0]}, {e.To, e.Path[len(e.Path)-1]}} {
				n := g.Nodes[end.node]
				aside, away := math.Abs(end.at.X-n.X)-n.Width/2, math.Abs(end.at.Y-n.Y)-n.Height/2
				if max(aside, away) > rounding || max(aside, away) < -rounding {
					t.Fatalf("edge %d meets node %d at %+v, which is not on its border: %+v", i, end.node, end.at, n)
				}
			}
			along(e.Path, func(p Point) {
				for _, b := range boxes {
					if p.X > b.left+rounding && p.X < b.right-rounding && p.Y > b.top+rounding && p.Y < b.bottom-rounding {
						t.Fatalf("edge %d, %d -> %d, crosses %+v at %+v", i, e.From, e.To, b, p)
					}
				}
			})
		}
	})
}

func TestSameGraphSameDrawing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGraph(t)
		again := copyOf(g)
		g.Layout()
		again.Layout()
		if diff := cmp.Diff(g, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The layout finds an order without crossings even if the first order has some.
func TestFewCrossings(t *testing.T) {
	for name, c := range map[string]struct {
		edges     [][2]int
		crossings int
	}{
		"a way around":            {[][2]int{{0, 1}, {1, 2}, {1, 3}, {1, 4}, {0, 3}, {3, 5}, {4, 5}}, 0},
		"ladder":                  {[][2]int{{0, 3}, {1, 4}, {2, 5}, {3, 8}, {4, 7}, {5, 6}, {0, 4}, {4, 6}}, 0},
		"neighbours exchanged":    {[][2]int{{1, 6}, {0, 5}, {0, 6}, {2, 5}}, 0},
		"all of three with three": {[][2]int{{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}, 9},
	} {
		g := &Graph{}
		for _, e := range c.edges {
			for len(g.Nodes) <= max(e[0], e[1]) {
				g.Nodes = append(g.Nodes, Node{Width: 50, Height: 20})
			}
			g.Edges = append(g.Edges, Edge{From: e[0], To: e[1]})
		}
		l := newLayout(g)
		l.rank()
		l.link()
		l.firstOrder()
		before := l.crossings()
		l.order()
		if n := l.crossings(); n != c.crossings {
			t.Errorf("%s: got %d crossings, want %d (%d at first)", name, n, c.crossings, before)
		}
	}
}

// Callers are above their callees, except for one edge of each cycle.
func TestRanks(t *testing.T) {
	g := &Graph{Nodes: make([]Node, 4), Edges: []Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 1}, {From: 0, To: 2}, {From: 3, To: 2}}}
	g.Layout()
	if !(g.Nodes[0].Y < g.Nodes[1].Y && g.Nodes[1].Y < g.Nodes[2].Y && g.Nodes[3].Y == g.Nodes[1].Y) {
		t.Errorf("got %+v", g.Nodes)
	}
	if back := g.Edges[2].Path; back[0].Y <= back[len(back)-1].Y {
		t.Errorf("the edge that closes the cycle leads down: %+v", back)
	}
}

// In deep graphs, edges that cross many ranks cause far more bends than there are edges.
func TestManyBends(t *testing.T) {
	g := &Graph{}
	for i := range 300 {
		g.Nodes = append(g.Nodes, Node{Width: 100, Height: 50})
		if i > 0 {
			g.Edges = append(g.Edges, Edge{From: i - 1, To: i}, Edge{From: i * i % 300, To: i * 7 % 299})
		}
	}
	l := newLayout(g)
	l.rank()
	l.link()
	if len(l.items) < 20_000 {
		t.Errorf("got only %d items", len(l.items))
	}
	g.Layout()
}
