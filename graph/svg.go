package graph

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/xray-tools/xray/graph/layered"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// mostDrawn is the maximum number of edges in an SVG picture. Those with the most time are
// kept. More edges are unreadable, and their layout takes too long.
const mostDrawn = 1000

// Text uses monospaced fonts, so that boxes fit it with any font.
const (
	svgLetter     = 0.62 // width of a letter, relative to the font size
	svgNodeFont   = 11.0
	svgEdgeFont   = 9.0
	svgTitleFont  = 12.0
	svgLine       = 1.25 // height of a line, relative to the font size
	svgMargin     = 12.0
	svgPadding    = 7.0 // of boxes
	svgPoint      = 7.0 // diameter of the root
	svgArrow      = 8.0 // length of an arrow head
	svgArrowWidth = 6.0
)

const svgStyle = `text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; text-anchor: middle; }
.caption { font-size: 12px; text-anchor: start; }
.node rect { fill: #ffffff; stroke: #000000; }
.edge path { fill: none; stroke: #606060; }
.edge polygon { fill: #606060; }
.edge text { font-size: 9px; text-anchor: start; }
.dashed rect, .dashed path { stroke-dasharray: 5 3; }
.edge:hover path { stroke: #0050d0 !important; }
.edge:hover polygon { fill: #0050d0 !important; }
`

// WriteSVG writes the graph as a self-contained picture without scripts. It looks like the
// picture that Graphviz makes from [Report.WriteDOT]. If there are more than [mostDrawn] edges, it
// omits those with the least time, returns their number, and says so in the picture. With
// [View.Screen] it also omits what [Report.Trim] omits of a graph that is too large for a screen. It
// returns the error of w.
func (r *Report) WriteSVG(w io.Writer, names symbolize.Names, v View) (left int, err error) {
	d := r.draw(names, &v)
	if v.Screen {
		d = d.onScreen(len(r.Functions), func(top int) *drawing { return r.Trim(0, top).draw(names, &v) })
	}
	return d.writeSVG(w)
}

// WriteSVG writes the graph as a picture, as [Report.WriteSVG] does. If there are too many
// edges, it keeps those whose time changed most.
func (d *Diff) WriteSVG(w io.Writer, v View) (left int, err error) {
	all := d.draw(&v)
	if v.Screen {
		all = all.onScreen(len(d.Functions), func(top int) *drawing { return d.Trim(0, top).draw(&v) })
	}
	return all.writeSVG(w)
}

// onScreen returns the picture if a screen has room for it, or else the picture that trimmed draws of as
// many of the first functions as fit.
func (d *drawing) onScreen(functions int, trimmed func(top int) *drawing) *drawing {
	room := layered.Point{X: 1900, Y: 1400}
	if d.fits(room) {
		return d
	}
	// The path to the first function may be longer than a screen.
	_, height := trimmed(1).place().Layout()
	room.Y = max(room.Y, height)
	for top := min(functions, 48); ; top -= 1 + top/8 {
		if part := trimmed(top); top <= 1 || part.fits(room) {
			part.left = len(d.edges) - len(part.edges)
			part.caption = append(part.caption, fmt.Sprintf("shows the first %s and the paths to them, as many as fit on a screen; "+
				"--top N shows more, --top 0 all", label.Count(uint64(max(top, 1)), "function", "functions")))
			return part
		}
	}
}

// fits reports whether there is room for the picture, without its caption.
func (d *drawing) fits(room layered.Point) bool {
	const nodes, edges = 100, 400 // more never fit, and their layout takes time
	if len(d.nodes) > nodes || len(d.edges) > edges {
		return false
	}
	width, height := d.place().Layout()
	return width <= room.X && height <= room.Y
}

func (d *drawing) writeSVG(w io.Writer) (left int, err error) {
	left = d.left + d.limit(mostDrawn)
	places := d.place()
	width, height := places.Layout()
	caption := textSize(d.caption, svgTitleFont)
	top := svgMargin + caption.Y + svgMargin
	width, height = max(width, caption.X)+2*svgMargin, top+height+svgMargin

	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">
<style>
%s</style>
<rect width="100%%" height="100%%" fill="#ffffff"/>
`, width, height, width, height, svgStyle)
	for i, line := range d.caption {
		fmt.Fprintf(b, "<text class=\"caption\" x=\"%.0f\" y=\"%.1f\">%s</text>\n",
			svgMargin, svgMargin+svgTitleFont*(0.8+svgLine*float64(i)), texttab.XML(line))
	}
	fmt.Fprintf(b, "<g transform=\"translate(%.0f %.1f)\">\n", svgMargin, top)
	for i := range d.edges {
		d.edges[i].writeSVG(b, &places.Edges[i])
	}
	for i := range d.nodes {
		d.nodes[i].writeSVG(b, &places.Nodes[i])
	}
	b.WriteString("</g>\n</svg>\n")
	return left, b.Flush()
}

// place returns the graph for the layout.
func (d *drawing) place() *layered.Graph {
	g := &layered.Graph{Nodes: make([]layered.Node, len(d.nodes)), Edges: make([]layered.Edge, len(d.edges))}
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.point {
			g.Nodes[i] = layered.Node{Width: svgPoint, Height: svgPoint}
			continue
		}
		size := textSize(n.lines, svgNodeFont)
		g.Nodes[i] = layered.Node{Width: size.X + 2*svgPadding, Height: size.Y + 2*svgPadding}
	}
	for i := range d.edges {
		e := &d.edges[i]
		size := textSize(e.lines, svgEdgeFont)
		g.Edges[i] = layered.Edge{From: e.from, To: e.to, LabelWidth: size.X, LabelHeight: size.Y}
	}
	return g
}

// textSize returns the size of lines of text.
func textSize(lines []string, font float64) layered.Point {
	widest := 0
	for _, line := range lines {
		widest = max(widest, texttab.Width(texttab.Printable(line)))
	}
	return layered.Point{X: svgLetter * font * float64(widest), Y: svgLine * font * float64(len(lines))}
}

// writeText writes lines around a point, with their middle at y.
func writeText(b *bufio.Writer, lines []string, font, x, y float64, attributes string) {
	y += font * (0.35 - svgLine*float64(len(lines)-1)/2)
	for i, line := range lines {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>", x, y+svgLine*font*float64(i), attributes, texttab.XML(line))
	}
}

func (n *drawnNode) writeSVG(b *bufio.Writer, at *layered.Node) {
	fmt.Fprintf(b, "<g class=\"node%s\"><title>%s</title>", dashedClass(n.dashed), titleText(n.tooltip, "\n"))
	if n.point {
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/></g>\n", at.X, at.Y, svgPoint/2)
		return
	}
	fill, ink := "", ""
	if n.fill != nil {
		fill, ink = fmt.Sprintf(" style=\"fill: %s\"", n.fill), fmt.Sprintf(" fill=\"%s\"", n.fill.ink())
	}
	fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\"%s/>",
		at.X-at.Width/2, at.Y-at.Height/2, at.Width, at.Height, fill)
	writeText(b, n.lines, svgNodeFont, at.X, at.Y, ink)
	b.WriteString("</g>\n")
}

func (e *drawnEdge) writeSVG(b *bufio.Writer, at *layered.Edge) {
	fmt.Fprintf(b, "<g class=\"edge%s\">", dashedClass(e.dashed))
	if e.tooltip != [2]string{} {
		fmt.Fprintf(b, "<title>%s</title>", titleText(e.tooltip[:], " -&gt; "))
	}
	line, head := "", ""
	if e.color != nil {
		line, head = fmt.Sprintf("; stroke: %s", e.color), fmt.Sprintf(" style=\"fill: %s\"", e.color)
	}
	// The line ends inside the arrow head. Otherwise, the tip would not be sharp.
	path := at.Path
	tip := path[len(path)-1]
	back := direction(tip, path[len(path)-2])
	size := svgArrow + e.width
	end := layered.Point{X: tip.X + back.X*size/2, Y: tip.Y + back.Y*size/2}
	fmt.Fprintf(b, "<path style=\"stroke-width: %.2f%s\" d=\"M%.1f %.1f", e.width, line, path[0].X, path[0].Y)
	for i := 1; i+2 < len(path); i += 3 {
		to := path[i+2]
		if i+3 == len(path) {
			to = end
		}
		fmt.Fprintf(b, "C%.1f %.1f %.1f %.1f %.1f %.1f", path[i].X, path[i].Y, path[i+1].X, path[i+1].Y, to.X, to.Y)
	}
	half := (svgArrowWidth + e.width) / 2
	fmt.Fprintf(b, "\"/><polygon%s points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>", head, tip.X, tip.Y,
		tip.X+back.X*size-back.Y*half, tip.Y+back.Y*size+back.X*half,
		tip.X+back.X*size+back.Y*half, tip.Y+back.Y*size-back.X*half)
	if len(e.lines) > 0 {
		writeText(b, e.lines, svgEdgeFont, at.LabelX-at.LabelWidth/2, at.LabelY, "")
	}
	b.WriteString("</g>\n")
}

// direction returns the horizontal or vertical unit vector from one point to another.
func direction(from, to layered.Point) layered.Point {
	if to.Y == from.Y {
		return layered.Point{X: math.Copysign(1, to.X-from.X)}
	}
	return layered.Point{Y: math.Copysign(1, to.Y-from.Y)}
}

func dashedClass(dashed bool) string {
	if dashed {
		return " dashed"
	}
	return ""
}

// titleText escapes parts of a tooltip, but not the separator.
func titleText(parts []string, separator string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = texttab.XML(part)
	}
	return strings.Join(escaped, separator)
}
