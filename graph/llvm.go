package graph

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/xray-tools/xray/symbolize"
)

// LLVMView selects what llvm-xray graph shows. The zero value is its default.
type LLVMView struct {
	EdgeLabel, EdgeColor     Column
	VertexLabel, VertexColor Column
}

// llvmNameLimit is the length to which llvm-xray cuts names.
const llvmNameLimit = 40

// WriteLLVM writes the graph as llvm-xray graph does, but ordered by ID. It omits calls that are
// open at the end, but shows their functions as nodes. It returns the error of w.
func (r *Report) WriteLLVM(w io.Writer, names symbolize.Names, v LLVMView) error {
	b := bufio.NewWriter(w)
	var mostEdge, mostVertex float64
	for i := range r.Edges {
		mostEdge = max(mostEdge, r.amount(&r.Edges[i].Stats, v.EdgeColor))
	}
	for i := range r.Functions {
		mostVertex = max(mostVertex, r.amount(&r.Functions[i].Stats, v.VertexColor))
	}

	b.WriteString("digraph xray {\n")
	if v.VertexLabel != None {
		b.WriteString("node [shape=record];\n")
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		if e.Count == 0 {
			continue // llvm-xray draws its functions, but not the edge
		}
		fmt.Fprintf(b, "%s -> %s [label=\"%s\"", node(e.Caller), node(e.Callee), r.llvmLabel(&e.Stats, v.EdgeLabel))
		if v.EdgeColor != None {
			fmt.Fprintf(b, " color=\"%s\"", amountColor(r.amount(&e.Stats, v.EdgeColor), mostEdge))
		}
		b.WriteString("];\n")
	}
	for i := range r.Functions {
		f := &r.Functions[i]
		name := record(cut(symbolize.Label(names, f.ID), llvmNameLimit))
		if v.VertexLabel != None {
			name = "{" + name + "|" + r.llvmLabel(&f.Stats, v.VertexLabel) + "}"
		}
		fmt.Fprintf(b, "%s [label=\"%s\"", node(f.ID), name)
		if v.VertexColor != None {
			fmt.Fprintf(b, " color=\"%s\"", amountColor(r.amount(&f.Stats, v.VertexColor), mostVertex))
		}
		b.WriteString("];\n")
	}
	b.WriteString("}\n")
	return b.Flush()
}

// llvmLabel is a count, or seconds in scientific notation, or ticks if the frequency is
// unknown.
func (r *Report) llvmLabel(s *Stats, c Column) string {
	switch c {
	case None:
		return ""
	case Count:
		return strconv.FormatUint(s.Count, 10)
	}
	return fmt.Sprintf("%e", r.amount(s, c))
}

// amount is a number of s as in llvm-xray: a count, or seconds.
func (r *Report) amount(s *Stats, c Column) float64 {
	return amount(s, c, r.Clock)
}
