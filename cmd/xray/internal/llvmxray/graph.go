package llvmxray

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// columnChoices are the columns that labels or colors of graphs can show. what says which of the
// two.
func columnChoices(what string) []llvmargs.Choice {
	return append([]llvmargs.Choice{{Name: "none", Help: "Do not " + what}}, statistics...)
}

// columnOf returns the column that a choice names. ParseColumn knows all of them.
func columnOf(name string) graph.Column {
	c, _ := graph.ParseColumn(name)
	return c
}

func (t *tool) graph() (*llvmargs.Command, func([]string) error) {
	var (
		instrMap, output         = "", "-"
		edgeLabel, edgeColor     = "none", "none"
		vertexLabel, vertexColor = "none", "none"
		keepGoing, deduce        bool
	)
	c := &llvmargs.Command{Name: "graph", Short: "Generate function-call graph", Operands: "<xray log file>", Min: 1, Max: 1}
	c.Choice(&edgeColor, "color-edges", "Output graphs with edge colors determined by this field", columnChoices("color Edges"), "c")
	c.Choice(&vertexColor, "color-vertices", "Output graphs with vertex colors determined by this field", columnChoices("color vertices"), "b")
	c.Bool(&deduce, "deduce-sibling-calls", deduceHelp, "d")
	c.Choice(&edgeLabel, "edge-label", "Output graphs with edges labeled with this field", columnChoices("label Edges"), "e")
	c.String(&instrMap, "instr_map", mapValue, mapHelp, "m")
	c.Bool(&keepGoing, "keep-going", keepGoingHelp, "k")
	c.String(&output, "output", "Output file", outputHelp, "o")
	c.Choice(&vertexLabel, "vertex-label", "Output graphs with vertices labeled with this field", columnChoices("label Vertices"), "v")
	return c, func(args []string) error {
		// llvm-xray reads the log before the map, and does not say why it cannot be read.
		s, err := t.open(nil, args[0])
		if err != nil {
			return fmt.Errorf("Failed loading input file '%s'", args[0])
		}
		defer s.Close()
		names, closeMap, err := loadMap(instrMap, symbolize.Options{})
		if err != nil {
			return stages(err, "Cannot open instrumentation map '%s'", instrMap)
		}
		defer closeMap()
		s.Names = names
		sink, err := callGraph(s, deduce, keepGoing)
		if err != nil {
			return err
		}
		return t.writeText(output, func(w io.Writer) error {
			return sink.Report(s.Clock).WriteLLVM(w, names, graph.LLVMView{
				EdgeLabel: columnOf(edgeLabel), EdgeColor: columnOf(edgeColor),
				VertexLabel: columnOf(vertexLabel), VertexColor: columnOf(vertexColor),
			})
		})
	}
}

// callGraph builds the call graph of a trace.
func callGraph(s *session.Session, deduce, keepGoing bool) (*graph.Analysis, error) {
	return analyze(s, calls.Options{Policy: policy(deduce)}, reader.TimeOrder, keepGoing, func(u *calls.Unmatched) error {
		fmt.Fprint(s.Stderr, openStack(s.Names, u, ""))
		text := "No matching ENTRY record"
		if deduce {
			text = "No matching Entry record in stack"
		}
		if keepGoing {
			fmt.Fprint(s.Stderr, text)
		}
		return errors.New("Error encountered generating the call graph.\n" + text)
	}, func() *graph.Analysis { return graph.New(graph.Options{Quantiles: true, Exact: true}) })
}

// traceOptions are the options of graph-diff for one of its traces, or for both.
type traceOptions struct {
	instrMap          string
	keepGoing, deduce *bool // nil when not given
}

func (t *traceOptions) add(c *llvmargs.Command, suffix, alias, ofGraph, inTrace string) {
	c.Func("deduce-sibling-calls"+suffix, deduceHelp, func(v bool) { t.deduce = &v }, "d"+alias)
	c.String(&t.instrMap, "instr-map"+suffix, mapValue+" or yaml", mapHelp+ofGraph, "m"+alias)
	c.Func("keep-going"+suffix, keepGoingHelp+inTrace, func(v bool) { t.keepGoing = &v }, "k"+alias)
}

// or returns t with missing options taken from both.
func (t traceOptions) or(both *traceOptions) traceOptions {
	if t.instrMap == "" {
		t.instrMap = both.instrMap
	}
	no := false
	t.keepGoing = cmp.Or(t.keepGoing, both.keepGoing, &no)
	t.deduce = cmp.Or(t.deduce, both.deduce, &no)
	return t
}

func (t *tool) graphDiff() (*llvmargs.Command, func([]string) error) {
	var (
		output                   = "-"
		edgeLabel, edgeColor     = "none", "none"
		vertexLabel, vertexColor = "none", "none"
		nameLimit                = 40
		both                     traceOptions
		each                     [2]traceOptions
	)
	c := &llvmargs.Command{Name: "graph-diff", Short: "Generate diff of function-call graphs",
		Operands: "<xray log file 1> <xray log file 2>", Min: 2, Max: 2}
	both.add(c, "", "", " for graph", "")
	each[0].add(c, "-1", "1", " for graph 1", " in trace 1")
	each[1].add(c, "-2", "2", " for graph 2", " in trace 2")
	c.Choice(&edgeColor, "edge-color", "Output graphs with edges colored by this field", columnChoices("color Edges"), "c")
	c.Choice(&edgeLabel, "edge-label", "Output graphs with edges labeled with this field", columnChoices("label Edges"), "e")
	c.String(&output, "output", "Output file", outputHelp, "o")
	c.Choice(&vertexColor, "vertex-color", "Output graphs with vertices colored by this field", columnChoices("color Vertices"), "b")
	c.Choice(&vertexLabel, "vertex-label", "Output graphs with vertices labeled with this field", columnChoices("label Vertices"), "v")
	c.Int(&nameLimit, "vertex-label-trun", "int", "What length to truncate vertex labels to ", "t")
	return c, func(args []string) error {
		var sides [2]graph.Side
		for i, path := range args {
			one := each[i].or(&both)
			names, closeMap, err := loadMap(one.instrMap, symbolize.Options{})
			if err != nil {
				return stages(err, "Cannot open instrumentation map '%s'", one.instrMap)
			}
			defer closeMap()
			s, err := t.open(names, path)
			if err != nil {
				return fmt.Errorf("Failed Loading Input File '%s'", path)
			}
			defer s.Close()
			sink, err := callGraph(s, *one.deduce, *one.keepGoing)
			if err != nil {
				return err
			}
			sides[i] = graph.Side{Analysis: sink, Clock: s.Clock, Names: names}
		}
		return t.writeText(output, func(w io.Writer) error {
			return graph.Compare(sides[0], sides[1]).WriteLLVM(w, graph.LLVMDiffView{
				EdgeLabel: columnOf(edgeLabel), EdgeColor: columnOf(edgeColor),
				VertexLabel: columnOf(vertexLabel), VertexColor: columnOf(vertexColor),
				NameLimit: nameLimit,
			})
		})
	}
}
