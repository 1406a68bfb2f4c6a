package graph

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// LLVMDiffView selects what llvm-xray graph-diff shows.
type LLVMDiffView struct {
	EdgeLabel, EdgeColor     Column
	VertexLabel, VertexColor Column
	// NameLimit is the maximum length of names in bytes. 0 means 40, llvm-xray's default. A
	// negative limit means no limit.
	NameLimit int
}

// WriteLLVM writes the graph as llvm-xray graph-diff does, with vertices numbered in the
// order of their names. It omits edges whose calls are all open at the end. It returns the
// error of w.
func (d *Diff) WriteLLVM(w io.Writer, v LLVMDiffView) error {
	if v.NameLimit == 0 {
		v.NameLimit = llvmNameLimit
	}
	b := bufio.NewWriter(w)
	b.WriteString("digraph xrayDiff {\n")
	if v.VertexLabel != None {
		b.WriteString("node [shape=record]\n")
	}
	title := func(i int) string {
		if i == 0 {
			return "F0"
		}
		return cut(d.Functions[i].Name, v.NameLimit)
	}
	for _, e := range d.Edges {
		// llvm-xray draws the functions of edges whose calls are all open, but not the edges.
		e.A, e.B = finished(e.A), finished(e.B)
		if e.A == nil && e.B == nil {
			continue
		}
		color := d.llvmColor(e.A, e.B, v.EdgeColor)
		width := 1.0
		if r, ok := d.change(e.A, e.B, v.EdgeColor); ok && !math.IsInf(r, 0) {
			width = max(1, r)
		}
		fmt.Fprintf(b, "F%d -> F%d [tooltip=\"%s -> %s\" label=\"%s\" color=\"%s\" labelfontcolor=\"%s\" penwidth=%.2f]\n",
			e.Caller, e.Callee, quoted(title(e.Caller)), quoted(title(e.Callee)),
			d.llvmLabel(e.A, e.B, v.EdgeLabel), color, color, width)
	}
	if len(d.Functions) > 1 {
		b.WriteString("F0 [label=\"F0\"]\n")
	}
	for i := 1; i < len(d.Functions); i++ {
		f := &d.Functions[i]
		text := record(title(i))
		if change := d.llvmLabel(f.A, f.B, v.VertexLabel); change != "" {
			text = "{" + text + "|" + change + "}"
		}
		fmt.Fprintf(b, "F%d [label=\"%s\" color=\"%s\"]\n", i, text, d.llvmColor(f.A, f.B, v.VertexColor))
	}
	b.WriteString("}\n")
	return b.Flush()
}

// finished returns s, or nil if no call has ended.
func finished(s *Stats) *Stats {
	if s == nil || s.Count == 0 {
		return nil
	}
	return s
}

func (d *Diff) llvmLabel(a, b *Stats, c Column) string {
	r, ok := d.change(a, b, c)
	switch {
	case !ok:
		return ""
	case math.IsInf(r, 1):
		return "INF"
	}
	return fmt.Sprintf("%.2f%%", 100*r)
}

func (d *Diff) llvmColor(a, b *Stats, c Column) string {
	switch {
	case b == nil:
		return "#FF0000"
	case a == nil:
		return "#00FF00"
	}
	r, ok := d.change(a, b, c)
	if !ok {
		return "black"
	}
	return changeColor(r).String()
}
