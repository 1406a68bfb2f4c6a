package stack

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// SVGView selects what a flame graph shows.
type SVGView struct {
	Metric Metric
	Title  string // "" for the name of the metric
	// Base is the report to compare with, or nil. The color of a frame is then the
	// difference. BaseNames are the names of Base.
	Base      *Report
	BaseNames symbolize.Names
	Notes     []string // paragraphs below the frames
}

// The picture is made for a window of svgWidth pixels. A script fits it to other widths.
// Each frame is in a row below its caller.
const (
	svgWidth = 1200
	// svgNoteColumns is the width of a note in characters.
	svgNoteColumns = 150
	svgTop         = 62 // where the first row starts
	svgRow         = 18
	svgLetter      = 7 // approximate pixels of a letter

	// Frames narrower than this many pixels are omitted.
	svgLeast = 0.1
	// svgMaxBoxes and svgMaxRows limit the size of the file. The narrowest and the deepest
	// frames beyond them are omitted.
	svgMaxBoxes = 10_000
	svgMaxRows  = 1_000
)

//go:embed flame.css
var flameCSS string

//go:embed flame.js
var flameJS string

// box is a frame in the picture.
type box struct {
	name, location string
	weight         uint64  // including all calls below
	x, width       float64 // shares of the whole width
	row            int
	group          bool // the frame of everything, or of a thread
	frame          Frame
	path           uint64 // key of the path, if changes are shown
}

// WriteSVG writes a flame graph as a self-contained document. Callers are above callees,
// and widths are proportional to weights. It needs no scripts and no network. In a browser,
// readers can search and zoom with mouse or keyboard, and it follows their color scheme.
// Frames that are too narrow to be seen are omitted and counted. It returns the error of w.
//
// With a base, frames are red if their share is larger than in the base, and blue if it is
// smaller. Two paths are equal if their functions have the same names. Neither report may
// keep threads apart.
func (r *Report) WriteSVG(w io.Writer, names symbolize.Names, v SVGView) error {
	var changes *changes
	css, legend := flameCSS, ""
	if v.Base != nil {
		changes = r.changes(names, v)
		css += diffCSS
		legend = " Red: larger share than in the base. Blue: smaller share."
	}
	boxes, hidden, total := r.boxes(names, v.Metric, changes)
	rows := 0
	for i := range boxes {
		rows = max(rows, boxes[i].row+1)
	}
	title := v.Title
	if title == "" {
		title = metricTitles[v.Metric]
	}
	var notes []string
	if hidden > 0 {
		notes = append(notes, label.Count(uint64(hidden), "frame", "frames")+" too narrow or too deep to show.")
	}
	for _, note := range v.Notes {
		notes = append(notes, texttab.Wrap(note, "", "", svgNoteColumns)...)
	}
	below := svgTop + rows*svgRow
	height := below + max(1, len(notes))*svgRow + 8

	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="group" aria-labelledby="title">
<style>
%s</style>
<rect class="paper" width="100%%" height="100%%"/>
<text id="title" class="ink" x="8" y="24">%s</text>
<text id="about" class="soft" x="8" y="48">%s in total.%s Click or press Enter to zoom in, Esc to zoom out, arrows to move, / to search.</text>
<text id="matched" class="ink" x="100%%" dx="-282" y="24" text-anchor="end"></text>
`, svgWidth, height, css, texttab.XML(title), texttab.XML(v.Metric.format(r.Clock, total)), legend)
	for i := range boxes {
		r.writeBox(b, &boxes[i], v.Metric, total, changes)
	}
	for i, note := range notes {
		fmt.Fprintf(b, "<text class=\"soft\" x=\"8\" y=\"%d\">%s</text>\n", below+17+i*svgRow, texttab.XML(note))
	}
	b.WriteString("<script><![CDATA[\n" + flameJS + "]]></script>\n</svg>\n")
	return b.Flush()
}

func (r *Report) writeBox(b *bufio.Writer, x *box, m Metric, total uint64, changes *changes) {
	class := "group"
	switch {
	case x.group:
	case changes != nil:
		class = changes.class(x.path)
	default:
		class = fmt.Sprintf("c%d", colorClass(x.name))
	}
	fmt.Fprintf(b, `<svg class="f %s" data-d="%d" x="%.4f%%" y="%d" width="%.4f%%" height="%d"><title>%s`,
		class, x.row, 100*x.x, svgTop+x.row*svgRow, 100*x.width, svgRow-1, texttab.XML(x.name))
	fmt.Fprintf(b, "\n%s (%.2f%%)", m.format(r.Clock, x.weight), share(x.weight, total))
	if !x.group {
		f := &x.frame
		fmt.Fprintf(b, ", %s self", m.format(r.Clock, m.own(f)))
		if m != Count {
			fmt.Fprintf(b, ", %s", label.Count(f.Count+f.Open, "call", "calls"))
		}
		if f.Open > 0 {
			fmt.Fprintf(b, ", %s open at the end", label.Grouped(f.Open))
		}
		if x.location != "" {
			b.WriteString("\n" + texttab.XML(x.location))
		}
		if changes != nil {
			b.WriteString("\n" + texttab.XML(changes.text(x.path)))
		}
	}
	b.WriteString(`</title><rect width="100%" height="100%" rx="1"/>`)
	// A nested svg clips text that is too long.
	if pixels := x.width * svgWidth; pixels >= 3*svgLetter+3 {
		fmt.Fprintf(b, `<text x="4" y="13">%s</text>`, texttab.XML(x.name))
	}
	b.WriteString("</svg>\n")
}

// boxes lays out the frames, parents before children. It returns the number of omitted
// frames, and the total weight.
func (r *Report) boxes(names symbolize.Names, m Metric, changes *changes) (boxes []box, hidden int, total uint64) {
	for t := range r.Trees() {
		for i := range t.Frames {
			total = addSaturating(total, m.own(&t.Frames[i]))
		}
	}
	boxes = []box{{name: "all", weight: total, width: 1, group: true}}
	if total == 0 {
		return boxes, 0, 0
	}
	of := func(v uint64) float64 { return float64(v) / float64(total) }
	least := svgLeast / float64(svgWidth)

	var weights, paths []uint64
	// place holds the box of every frame of a tree; next holds, for every box, where its
	// next child starts.
	var place []int
	next := []float64{0}
	add := func(x box, parent int) int {
		x.x, x.row = next[parent], boxes[parent].row+1
		next[parent] += x.width
		next = append(next, x.x)
		boxes = append(boxes, x)
		return len(boxes) - 1
	}
	for t := range r.Trees() {
		weights = m.weights(weights, t)
		if paths = append(paths[:0], make([]uint64, len(t.Frames))...); changes != nil {
			paths = changes.now.keys(paths, t)
		}
		place = append(place[:0], make([]int, len(t.Frames))...)
		base := 0
		if t.Label != "" {
			var weight uint64
			for i := range t.Frames {
				if t.Frames[i].Parent < 0 {
					weight = addSaturating(weight, weights[i])
				}
			}
			if of(weight) < least {
				hidden += len(t.Frames)
				continue
			}
			base = add(box{name: "thread " + t.Label, weight: weight, width: of(weight), group: true}, 0)
		}
		for i := range t.Frames {
			f := &t.Frames[i]
			parent := base
			if f.Parent >= 0 {
				parent = place[f.Parent]
			}
			if parent < 0 || of(weights[i]) < least || boxes[parent].row+1 >= svgMaxRows {
				place[i] = -1
				hidden++
				continue
			}
			place[i] = add(box{weight: weights[i], width: of(weights[i]), frame: *f, path: paths[i]}, parent)
		}
	}
	if n := len(boxes) - svgMaxBoxes; n > 0 {
		boxes = widest(boxes, svgMaxBoxes)
		hidden += n
	}
	nameBoxes(boxes, names)
	return boxes, hidden, total
}

// widest keeps the n widest boxes in their order. No box is wider than its parent, which
// precedes it, so no box is kept without its parent.
func widest(boxes []box, n int) []box {
	order := make([]int, len(boxes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(boxes[j].weight, boxes[i].weight), cmp.Compare(i, j))
	})
	order = order[:n]
	slices.Sort(order)
	for to, from := range order {
		boxes[to] = boxes[from]
	}
	return boxes[:n]
}

// nameBoxes fills in the names and locations of the boxes that are shown.
func nameBoxes(boxes []box, names symbolize.Names) {
	l := newLabels(names, texttab.Printable)
	locations := make(map[reader.FuncID]string)
	for i := range boxes {
		x := &boxes[i]
		if x.group {
			continue
		}
		id := x.frame.Func
		x.name = l.of(id)
		if names == nil {
			continue
		}
		location, ok := locations[id]
		if !ok {
			location = texttab.Printable(symbolize.Location(names, id))
			locations[id] = location
		}
		x.location = location
	}
}

// colorClass returns the color of a name, the same in every picture.
func colorClass(name string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, name)
	return h.Sum32() % 10
}
