package graph

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

var (
	zeroClock = reader.Clock{}
	gigahertz = reader.Clock{Frequency: 1_000_000_000}
)

func TestWriteDOT(t *testing.T) {
	open := call(0, 3, 0, 0)
	open.End = calls.Truncated
	inferred := call(1, 2, 1_000_000, 1_000_000)
	inferred.End = calls.Inferred
	r := collect(t, Options{}, call(0, 1, 4_000_000, 3_000_000), inferred, open, call(3, 4, 1, 1)).Report(gigahertz)
	var got bytes.Buffer
	n := names{1: "main", 2: `op<"x">`, 3: "loop", 4: "tiny"}
	if err := r.Trim(0.001, 0).WriteDOT(&got, n, DefaultView()); err != nil {
		t.Fatal(err)
	}
	want := `digraph xray {
	graph [label="3 functions, 3 edges, 4.000ms of self time\lnot shown, too small: 1 function, 1 edge\l1 call open at the end, counted in self time only\l1 call without an exit record, ended with the caller\l", labelloc=t, labeljust=l, fontname="Helvetica", fontsize=12];
	node [shape=box, style="rounded,filled", fillcolor="#FFFFFF", fontname="Helvetica", fontsize=11];
	edge [fontname="Helvetica", fontsize=9, color="#606060"];
	F0 [shape=point, label="", tooltip="no caller in the trace"];
	F1 [label="main\nself 3.000ms (75.0%)\nsum 4.000ms\n1 call", tooltip="main\na.cc:1:1", fillcolor="#7F0000", fontcolor="#FFFFFF"];
	F2 [label="op&lt;\"x\"&gt;\nself 1.000ms (25.0%)\nsum 1.000ms\n1 call", tooltip="op&lt;\"x\"&gt;\na.cc:2:1", fillcolor="#F4744E", fontcolor="#000000"];
	F3 [label="loop\nself 0ns (0.0%)\nsum 0ns\n0 calls\n1 open", tooltip="loop\na.cc:3:1", fillcolor="#FFF7EC", fontcolor="#000000"];
	F0 -> F1 [label="sum 4.000ms\n1 call", penwidth=5.00, color="#7F0000"];
	F0 -> F3 [label="sum 0ns\n0 calls\n1 open", penwidth=1.00, style=dashed, color="#FDCB94"];
	F1 -> F2 [label="sum 1.000ms\n1 call", penwidth=3.00, color="#EA5A3F", tooltip="main -> op&lt;\"x\"&gt;"];
}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// nasty draws names with characters that are special in DOT, XML and CSV.
var nasty = rapid.StringOf(rapid.SampledFrom([]rune("a{}|<>\\\"&;,#\n\r\t\x00é漢 lt;nN")))

// Every line is a statement with matching quotes, whatever the names.
func TestDOTSyntax(t *testing.T) {
	_, err := exec.LookPath("dot")
	haveDOT := err == nil
	rapid.Check(t, func(rt *rapid.T) {
		n := names{1: nasty.Draw(rt, "one"), 2: nasty.Draw(rt, "two"), -7: nasty.Draw(rt, "three")}
		analysis := func() *Analysis {
			return collect(t, quantiles, call(0, 1, 10, 5), call(1, 2, 5, 5), call(2, -7, 1, 1))
		}
		r := analysis().Report(gigahertz)
		d := Compare(Side{analysis(), gigahertz, n}, Side{collect(t, quantiles, call(0, 1, 3, 3)), gigahertz, n})
		for name, write := range map[string]func(b *bytes.Buffer) error{
			"DOT":  func(b *bytes.Buffer) error { return r.WriteDOT(b, n, DefaultView()) },
			"LLVM": func(b *bytes.Buffer) error { return r.WriteLLVM(b, n, LLVMView{VertexLabel: Count}) },
			"diff": func(b *bytes.Buffer) error { return d.WriteDOT(b, DefaultView()) },
			"LLVM diff": func(b *bytes.Buffer) error {
				return d.WriteLLVM(b, LLVMDiffView{VertexLabel: Count, VertexColor: Sum, EdgeColor: Sum})
			},
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				rt.Fatal(err)
			}
			if err := checkDOT(b.String()); err != "" {
				rt.Fatalf("%s: %s\n%s", name, err, b.String())
			}
			if haveDOT && rapid.IntRange(0, 19).Draw(rt, "run dot") == 0 {
				cmd := exec.Command("dot", "-Tcanon")
				cmd.Stdin = &b
				if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "bad label") {
					rt.Fatalf("%s: dot: %v\n%s", name, err, out)
				}
			}
		}
	})
}

// checkDOT returns what is wrong with a graph, or "".
func checkDOT(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "digraph ") || lines[len(lines)-1] != "}" {
		return "not a digraph"
	}
	for _, line := range lines[1 : len(lines)-1] {
		// Outside quotes there may be only our own syntax.
		quoted, depth := false, 0
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '[':
				depth++
			case c == ']':
				depth--
			case strings.IndexByte("{}|&\\", c) >= 0:
				return "stray " + string(c) + " in: " + line
			}
		}
		if quoted || depth != 0 {
			return "open at the end of: " + line
		}
	}
	return ""
}

func write(t *testing.T, format report.Format, c reader.Clock, n symbolize.Names, body []report.Node) string {
	t.Helper()
	var b strings.Builder
	doc := report.Doc{Clock: c, Names: n, Body: body}
	if err := doc.Write(&b, report.Style{Format: format}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBody(t *testing.T) {
	n := names{1: "main", 2: `a<"b">, c`}
	for _, opts := range []Options{{}, quantiles} {
		r := collect(t, opts, call(0, 1, 4000, 3000), call(1, 2, 1000, 1000)).Report(reader.Clock{Frequency: 2_000_000_000})
		body := r.Body(n, DefaultView())
		text := write(t, report.JSON, r.Clock, n, body)
		var doc struct {
			Self      uint64 `json:"self_ns"`
			Functions []map[string]any
			Edges     []map[string]any
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		edge := map[string]any{
			"caller": "main", "caller_id": 1.0, "callee": `a<"b">, c`, "callee_id": 2.0, "count": 1.0, "open": 0.0, "inferred": 0.0,
			"sum_ns": 500.0, "self_ns": 500.0, "min_ns": 500.0, "max_ns": 500.0,
		}
		header := "count,open,inferred,sum_ns,self_ns,min_ns,max_ns,caller,caller_id,callee,callee_id\n"
		row := `1,0,0,500,500,500,500,main,1,"a<""b"">, c",2` + "\n"
		if opts.Quantiles {
			for _, q := range []string{"p50_ns", "p90_ns", "p99_ns", "p999_ns"} {
				edge[q] = 500.0
			}
			edge["approximate"] = false
			header = "count,open,inferred,sum_ns,self_ns,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,approximate,caller,caller_id,callee,callee_id\n"
			row = `1,0,0,500,500,500,500,500,500,500,500,false,main,1,"a<""b"">, c",2` + "\n"
		}
		if diff := cmp.Diff(edge, doc.Edges[1]); diff != "" {
			t.Errorf("edge (-want +got):\n%s", diff)
		}
		if doc.Edges[0]["caller_id"] != nil || doc.Self != 2000 || doc.Functions[1]["function"] != `a<"b">, c` {
			t.Errorf("got self %d, edges %v, functions %v", doc.Self, doc.Edges, doc.Functions)
		}
		if text := write(t, report.CSV, r.Clock, n, body); !strings.HasPrefix(text, header) || !strings.HasSuffix(text, row) {
			t.Errorf("got\n%s\nwant\n%s...\n%s", text, header, row)
		}
		if text := write(t, report.HTML, r.Clock, n, body); !strings.Contains(text, `<object type="image/svg+xml"`) {
			t.Error("the page has no picture")
		}
	}
}

// Empty traces give valid graphs.
func TestEmpty(t *testing.T) {
	r := New(quantiles).Report(gigahertz).Trim(0.5, 3)
	d := Compare(Side{New(Options{}), gigahertz, nil}, Side{New(Options{}), zeroClock, nil}).Trim(0.5, 3)
	for _, write := range []func(b *bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.WriteDOT(b, nil, DefaultView()) },
		func(b *bytes.Buffer) error { return r.WriteLLVM(b, nil, LLVMView{}) },
		func(b *bytes.Buffer) error { return d.WriteDOT(b, DefaultView()) },
		func(b *bytes.Buffer) error { return d.WriteLLVM(b, LLVMDiffView{}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Error(err)
		}
		if s := checkDOT(b.String()); s != "" {
			t.Error(s)
		}
	}
	for _, body := range [][]report.Node{r.Body(nil, DefaultView()), d.Body(strings.ToUpper, DefaultView())} {
		for _, format := range report.Formats {
			if text := write(t, format, gigahertz, nil, body); format == report.JSON && !json.Valid([]byte(text)) {
				t.Error(text)
			}
		}
	}
}

func TestCompareByName(t *testing.T) {
	// The two builds have different IDs, and A has two functions named f.
	a := collect(t, quantiles, call(0, 1, 100, 60), call(1, 2, 10, 10), call(1, 3, 30, 30), call(1, 4, 7, 7))
	b := collect(t, quantiles, call(0, 8, 400, 200), call(8, 9, 200, 200))
	d := Compare(
		Side{a, reader.Clock{Frequency: 1000}, names{1: "main", 2: "f", 3: "f", 4: "gone"}},
		Side{b, reader.Clock{Frequency: 2000}, names{8: "main", 9: "f"}})
	var got []string
	for _, e := range d.Edges {
		s := d.Functions[e.Caller].Name + ">" + d.Functions[e.Callee].Name
		if e.B != nil {
			r, _ := d.change(e.A, e.B, Sum)
			s += percent(r)
		}
		got = append(got, s)
	}
	// Times are compared in seconds: 0.1 s and 0.2 s, 0.04 s and 0.1 s.
	want := []string{">main (+100.0%)", "main>f (+150.0%)", "main>gone"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	if f := d.Functions[1]; f.Name != "f" || f.A.Count != 2 || f.A.Min != 10 || f.A.Max != 30 || f.A.P99 != 30 {
		t.Errorf("functions with equal names: got %+v", f.A)
	}

	trimmed := d.Trim(0, 1)
	if len(trimmed.Functions) != 2 || trimmed.Functions[1].Name != "f" || trimmed.Left.Functions != 2 {
		t.Errorf("Trim(0, 1): got %+v", trimmed)
	}
	// gone's 7 ms are less than a tenth of B's 200 ms.
	trimmed = d.Trim(0.1, 0)
	if len(trimmed.Edges) != 2 || trimmed.Left.Edges != 1 {
		t.Errorf("Trim(0.1, 0): got %d edges, %d left out", len(trimmed.Edges), trimmed.Left.Edges)
	}

	trimmed = Compare(
		Side{collect(t, Options{}, call(0, 1, 5, 5), call(0, 2, 9, 9)), zeroClock, names{1: "a", 2: "b"}},
		Side{collect(t, Options{}, call(0, 1, 5, 5), call(0, 2, 1, 1)), zeroClock, names{1: "a", 2: "b"}}).Trim(0.1, 0)
	if len(trimmed.Edges) != 1 || trimmed.Functions[trimmed.Edges[0].Callee].Name != "b" {
		t.Errorf("only b changed: got %+v", trimmed)
	}

	rows, err := csv.NewReader(strings.NewReader(write(t, report.CSV, d.Clock(), nil, d.Body(strings.ToUpper, DefaultView())))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("got error %v, rows %q", err, rows)
	}
	column := func(name string, row int) string {
		for i, h := range rows[0] {
			if h == name {
				return rows[row][i]
			}
		}
		return "no such column"
	}
	// The largest changes in seconds come first.
	for i, want := range []map[string]string{
		{"caller": "", "callee": "MAIN", "sum_change": "1", "b_sum_ns": "200000000"},
		{"caller": "MAIN", "callee": "F", "sum_change": "1.5", "a_sum_ns": "40000000", "count_change": "-0.5"},
		{"caller": "MAIN", "callee": "GONE", "sum_change": "", "b_sum_ns": "", "b_count": "", "a_sum_ns": "7000000"},
	} {
		for key, want := range want {
			if got := column(key, i+1); got != want {
				t.Errorf("edge %d: %s = %q, want %q", i, key, got, want)
			}
		}
	}
}

// A change from zero is infinite, and a change from zero to zero is none.
func TestChangeOfNothing(t *testing.T) {
	if r := change(0, 0); r != 0 {
		t.Errorf("change(0, 0) = %g", r)
	}
	if r := change(0, 1); !math.IsInf(r, 1) {
		t.Errorf("change(0, 1) = %g", r)
	}
	side := func(d uint64) Side { return Side{collect(t, quantiles, call(0, 1, d, d)), zeroClock, nil} }
	var b bytes.Buffer
	err := Compare(side(0), side(5)).WriteLLVM(&b, LLVMDiffView{EdgeLabel: Sum, EdgeColor: Sum})
	if want := `label="INF" color="#276419" labelfontcolor="#276419" penwidth=1.00`; err != nil || !strings.Contains(b.String(), want) {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func ExampleReport_WriteLLVM() {
	a := New(Options{})
	a.Calls(&calls.Batch{Calls: []calls.Call{
		{Caller: 1, Func: 2, Duration: 20, Self: 20},
		{Caller: 0, Func: 1, Duration: 100, Self: 80},
	}})
	a.Report(reader.Clock{}).WriteLLVM(os.Stdout, nil, LLVMView{EdgeLabel: Count, VertexColor: Sum})
	// Output:
	// digraph xray {
	// F0 -> F1 [label="1"];
	// F1 -> F2 [label="1"];
	// F1 [label="#1" color="#7F0000"];
	// F2 [label="#2" color="#FCA26B"];
	// }
}
