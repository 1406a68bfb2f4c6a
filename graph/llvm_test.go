package graph

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize"
)

const llvmXRay = "llvm-xray-22"

// llvm runs llvm-xray and returns its output. It returns false if llvm-xray crashes, as it does
// when a color would be that of 0 / 0.
func llvm(t *rapid.T, args ...string) (string, bool) {
	out, err := exec.Command(llvmXRay, args...).CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "segmentation fault") {
		return "", false
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", llvmXRay, strings.Join(args, " "), err, out)
	}
	return string(out), true
}

// llvmColumns are llvm-xray's columns.
var llvmColumns = map[Column]string{
	None: "none", Count: "count", Min: "min", P50: "med", P90: "90p", P99: "99p", Max: "max", Sum: "sum",
}

// atLeast returns a counter of comparisons. The test fails if there were fewer than n at its end,
// because llvm-xray crashes on some traces.
func atLeast(t *testing.T, n int) *int {
	compared := new(int)
	t.Cleanup(func() {
		if !testing.Short() && *compared < n {
			t.Errorf("compared only %d graphs", *compared)
		}
	})
	return compared
}

func drawColumn(t *rapid.T, label string) Column {
	return rapid.SampledFrom([]Column{None, Count, Min, P50, P90, P99, Max, Sum}).Draw(t, label)
}

// Compare lines, which llvm-xray writes in the order of a hash table.
func TestLLVMGraph(t *testing.T) {
	testenv.Need(t, llvmXRay)
	compared := atLeast(t, 50)
	rapid.Check(t, func(rt *rapid.T) {
		path := writeYAML(t, rapid.SampledFrom([]uint64{0, 1, 2601000000}).Draw(rt, "frequency"), randomTrace(rt))
		v := LLVMView{
			drawColumn(rt, "edge label"), drawColumn(rt, "edge color"),
			drawColumn(rt, "vertex label"), drawColumn(rt, "vertex color"),
		}
		want, ok := llvm(rt, "graph", "-d", "-e", llvmColumns[v.EdgeLabel], "-c", llvmColumns[v.EdgeColor],
			"-v", llvmColumns[v.VertexLabel], "-b", llvmColumns[v.VertexColor], path)
		if !ok {
			return
		}
		*compared++
		a, c := run(t, path, quantiles)
		var got bytes.Buffer
		if err := a.Report(c).WriteLLVM(&got, nil, v); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(sortedLines(want), sortedLines(got.String())); diff != "" {
			rt.Fatalf("lines (-llvm +ours):\n%s", diff)
		}
	})
}

// Lines are equal to llvm-xray's, except for the numbers of vertices.
func TestLLVMGraphDiff(t *testing.T) {
	testenv.Need(t, llvmXRay)
	compared := atLeast(t, 50)
	rapid.Check(t, func(rt *rapid.T) {
		frequency := rapid.SampledFrom([]uint64{0, 1000, 2601000000})
		pathA := writeYAML(t, frequency.Draw(rt, "frequency A"), randomTrace(rt))
		pathB := writeYAML(t, frequency.Draw(rt, "frequency B"), randomTrace(rt))
		v := LLVMDiffView{
			EdgeLabel: drawColumn(rt, "edge label"), EdgeColor: drawColumn(rt, "edge color"),
			VertexLabel: drawColumn(rt, "vertex label"), VertexColor: drawColumn(rt, "vertex color"),
		}
		want, ok := llvm(rt, "graph-diff", "-d", "-e", llvmColumns[v.EdgeLabel], "-c", llvmColumns[v.EdgeColor],
			"-v", llvmColumns[v.VertexLabel], "-b", llvmColumns[v.VertexColor], pathA, pathB)
		if !ok {
			return
		}
		*compared++
		a, clockA := run(t, pathA, quantiles)
		b, clockB := run(t, pathB, quantiles)
		var got bytes.Buffer
		d := Compare(Side{a, clockA, nil}, Side{b, clockB, nil})
		if err := d.WriteLLVM(&got, v); err != nil {
			rt.Fatal(err)
		}
		want = strings.ReplaceAll(want, "nan", "0.00%") // zero compared with zero
		if diff := cmp.Diff(byName(want), byName(got.String())); diff != "" {
			rt.Fatalf("lines (-llvm +ours):\n%s", diff)
		}
	})
}

var vertexLine = regexp.MustCompile(`(?m)^(F\d+) \[label="\{?([^|"]*)`)

// byName replaces vertex numbers by names, and sorts the lines.
func byName(dot string) []string {
	name := make(map[string]string)
	for _, m := range vertexLine.FindAllStringSubmatch(dot, -1) {
		name[m[1]] = m[2]
	}
	return sortedLines(regexp.MustCompile(`(?m)^F\d+|-> F\d+`).ReplaceAllStringFunc(dot, func(s string) string {
		arrow, number := "", s
		if strings.HasPrefix(s, "-> ") {
			arrow, number = s[:3], s[3:]
		}
		return arrow + name[number]
	}))
}

// Names are formatted as in llvm-xray if its output is valid DOT.
func TestLLVMNames(t *testing.T) {
	long := strings.Repeat("x", 39) + "é" + "tail"
	n := names{1: long, 2: `f<int&>("{|}\")`, -5: "plain"}
	a := collect(t, quantiles, call(0, 1, 10, 5), call(1, 2, 5, 5), call(2, -5, 1, 1))
	a.opts.Quantiles = false
	var got bytes.Buffer
	if err := a.Report(zeroClock).WriteLLVM(&got, n, LLVMView{VertexLabel: Count}); err != nil {
		t.Fatal(err)
	}
	want := `digraph xray {
node [shape=record];
F0 -> F1 [label=""];
F1 -> F2 [label=""];
F2 -> "F-5" [label=""];
"F-5" [label="{plain|1}"];
F1 [label="{` + strings.Repeat("x", 39) + `...|1}"];
F2 [label="{f&lt;int&amp;&gt;(\"\{\|\}\\\")|1}"];
}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var _ symbolize.Names = names{}
