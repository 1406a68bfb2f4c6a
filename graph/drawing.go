package graph

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// drawing is a picture of a graph, independent of the output format. Its texts are not
// escaped.
type drawing struct {
	name    string // of the graph in DOT
	caption []string
	nodes   []drawnNode
	edges   []drawnEdge
	kept    string // describes the edges that limit keeps
	left    int    // edges that onScreen left out
}

type drawnNode struct {
	id      string // in DOT
	point   bool   // for the root, the caller of calls that have none
	dashed  bool
	lines   []string
	tooltip []string
	fill    *rgb // nil for white
}

type drawnEdge struct {
	from, to int // positions in drawing.nodes
	dashed   bool
	lines    []string
	tooltip  [2]string // names of caller and callee; empty for none
	weight   float64
	width    float64 // of the line
	color    *rgb    // nil for grey
}

// rootTooltip is the tooltip of the root, which is not a function.
const rootTooltip = "no caller in the trace"

// draw makes the picture of the report.
func (r *Report) draw(names symbolize.Names, v *View) *drawing {
	d := &drawing{name: "xray", caption: r.caption(v), kept: "with the most time"}
	var mostFunction, mostEdge, mostSum float64
	for i := range r.Functions {
		mostFunction = max(mostFunction, r.amount(&r.Functions[i].Stats, v.FunctionColor))
	}
	rooted := false
	for i := range r.Edges {
		e := &r.Edges[i]
		mostEdge = max(mostEdge, r.amount(&e.Stats, v.EdgeColor))
		mostSum = max(mostSum, float64(e.Sum))
		rooted = rooted || e.Caller == Root || e.Callee == Root
	}
	position := make(map[reader.FuncID]int, len(r.Functions)+1)
	if rooted {
		position[Root] = len(d.nodes)
		d.nodes = append(d.nodes, drawnNode{id: node(Root), point: true, tooltip: []string{rootTooltip}})
	}
	for i := range r.Functions {
		f := &r.Functions[i]
		if f.ID == Root {
			continue // function 0 is the root; a call of it is damage
		}
		name := symbolize.Label(names, f.ID)
		n := drawnNode{
			id:      node(f.ID),
			lines:   append([]string{cut(name, v.nameLimit())}, r.lines(&f.Stats, v.FunctionLabels, true)...),
			tooltip: []string{name},
		}
		if location := symbolize.Location(names, f.ID); location != "" {
			n.tooltip = append(n.tooltip, location)
		}
		if v.FunctionColor != None {
			fill := amountColor(r.amount(&f.Stats, v.FunctionColor), mostFunction)
			n.fill = &fill
		}
		position[f.ID] = len(d.nodes)
		d.nodes = append(d.nodes, n)
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		drawn := drawnEdge{
			from: position[e.Caller], to: position[e.Callee],
			dashed: e.Count == 0, // only open calls
			lines:  r.lines(&e.Stats, v.EdgeLabels, false),
			weight: float64(e.Sum), width: penWidth(float64(e.Sum), mostSum),
		}
		if v.EdgeColor != None {
			ink := edgeInk(r.amount(&e.Stats, v.EdgeColor), mostEdge)
			drawn.color = &ink
		}
		if e.Caller != Root {
			drawn.tooltip = [2]string{symbolize.Label(names, e.Caller), symbolize.Label(names, e.Callee)}
		}
		d.edges = append(d.edges, drawn)
	}
	return d
}

// draw makes the picture of the comparison.
func (d *Diff) draw(v *View) *drawing {
	to := &drawing{name: "xraydiff", caption: d.caption(v), kept: "whose time changed most"}
	most, rooted := 0.0, false
	for i := range d.Edges {
		rooted = rooted || d.Edges[i].Caller == 0
		most = max(most, d.difference(d.Edges[i].A, d.Edges[i].B, Sum))
	}
	first := 1 // the function of the first node
	if rooted {
		first = 0
		to.nodes = append(to.nodes, drawnNode{id: "F0", point: true, tooltip: []string{rootTooltip}})
	}
	for i := 1; i < len(d.Functions); i++ {
		f := &d.Functions[i]
		n := drawnNode{
			id:      fmt.Sprintf("F%d", i),
			dashed:  f.A == nil || f.B == nil,
			lines:   append([]string{cut(f.Name, v.nameLimit())}, d.lines(f.A, f.B, v.FunctionLabels)...),
			tooltip: []string{f.Name},
		}
		if v.FunctionColor != None {
			fill := d.cost(f.A, f.B, v.FunctionColor)
			n.fill = &fill
		}
		to.nodes = append(to.nodes, n)
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		difference := d.difference(e.A, e.B, Sum)
		drawn := drawnEdge{
			from: e.Caller - first, to: e.Callee - first,
			dashed: e.A == nil || e.B == nil,
			lines:  d.lines(e.A, e.B, v.EdgeLabels),
			weight: difference, width: penWidth(difference, most),
		}
		if v.EdgeColor != None {
			ink := d.cost(e.A, e.B, v.EdgeColor)
			drawn.color = &ink
		}
		if e.Caller != 0 {
			drawn.tooltip = [2]string{d.Functions[e.Caller].Name, d.Functions[e.Callee].Name}
		}
		to.edges = append(to.edges, drawn)
	}
	return to
}

// limit omits the edges of least weight if there are more than most, and then functions without an
// edge. It returns the number of omitted edges and adds a note to the caption.
func (d *drawing) limit(most int) int {
	left := len(d.edges) - most
	if left <= 0 && len(d.nodes) <= most+1 {
		return 0
	}
	order := make([]int, len(d.edges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(d.edges[j].weight, d.edges[i].weight) })
	order = order[:min(most, len(order))]
	slices.Sort(order)

	position := make([]int, len(d.nodes)) // of nodes that stay, plus 1
	for _, i := range order {
		position[d.edges[i].from], position[d.edges[i].to] = 1, 1
	}
	kept := d.nodes[:0:0]
	for i, stays := range position {
		if stays > 0 {
			kept = append(kept, d.nodes[i])
			position[i] = len(kept)
		}
	}
	edges := make([]drawnEdge, len(order))
	for to, i := range order {
		edges[to] = d.edges[i]
		edges[to].from, edges[to].to = position[edges[to].from]-1, position[edges[to].to]-1
	}
	if left > 0 {
		d.caption = append(d.caption, fmt.Sprintf("incomplete: shows only the %s of %s %s",
			label.Grouped(uint64(len(edges))), label.Count(uint64(len(d.edges)), "edge", "edges"), d.kept))
	} else {
		d.caption = append(d.caption, fmt.Sprintf("incomplete: omits %s without edges",
			label.Count(uint64(len(d.nodes)-len(kept)), "function", "functions")))
	}
	d.nodes, d.edges = kept, edges
	return max(left, 0)
}

const dotStyle = "\tnode [shape=box, style=\"rounded,filled\", fillcolor=\"#FFFFFF\", fontname=\"Helvetica\", fontsize=11];\n" +
	"\tedge [fontname=\"Helvetica\", fontsize=9, color=\"#606060\"];\n"

// writeDOT writes the drawing for Graphviz, which does the layout.
func (d *drawing) writeDOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph %s {\n", d.name)
	fmt.Fprintf(b, "\tgraph [label=\"%s\\l\", labelloc=t, labeljust=l, fontname=\"Helvetica\", fontsize=12];\n", labels(d.caption, `\l`))
	b.WriteString(dotStyle)
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.point {
			fmt.Fprintf(b, "\t%s [shape=point, label=\"\", tooltip=\"%s\"];\n", n.id, labels(n.tooltip, `\n`))
			continue
		}
		fmt.Fprintf(b, "\t%s [label=\"%s\", tooltip=\"%s\"", n.id, labels(n.lines, `\n`), labels(n.tooltip, `\n`))
		if n.dashed {
			b.WriteString(", style=\"rounded,filled,dashed\"")
		}
		if n.fill != nil {
			fmt.Fprintf(b, ", fillcolor=\"%s\", fontcolor=\"%s\"", n.fill, n.fill.ink())
		}
		b.WriteString("];\n")
	}
	for i := range d.edges {
		e := &d.edges[i]
		fmt.Fprintf(b, "\t%s -> %s [label=\"%s\", penwidth=%.2f", d.nodes[e.from].id, d.nodes[e.to].id, labels(e.lines, `\n`), e.width)
		if e.dashed {
			b.WriteString(", style=dashed")
		}
		if e.color != nil {
			fmt.Fprintf(b, ", color=\"%s\"", e.color)
		}
		if e.tooltip != [2]string{} {
			fmt.Fprintf(b, ", tooltip=\"%s\"", labels(e.tooltip[:], " -> "))
		}
		b.WriteString("];\n")
	}
	b.WriteString("}\n")
	return b.Flush()
}

// labels escapes lines for one label or tooltip.
func labels(lines []string, separator string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = quoted(line)
	}
	return strings.Join(escaped, separator)
}
