package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// picture is what an SVG graph shows.
type picture struct {
	caption      []string
	nodes, edges []shape
}

type shape struct {
	class, title string
	lines        []string
}

// parsePicture parses an SVG graph. It fails for elements that no graph has, because they must come
// from a name.
func parsePicture(text []byte) (*picture, error) {
	var p picture
	d := xml.NewDecoder(bytes.NewReader(text))
	var within []string
	var at *shape // the open group
	for {
		token, err := d.Token()
		if err == io.EOF {
			return &p, nil
		} else if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			attributes := map[string]string{}
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			within = append(within, e.Name.Local)
			class, _, _ := strings.Cut(attributes["class"], " ")
			switch e.Name.Local {
			case "g":
				switch class {
				case "node":
					p.nodes = append(p.nodes, shape{class: attributes["class"]})
					at = &p.nodes[len(p.nodes)-1]
				case "edge":
					p.edges = append(p.edges, shape{class: attributes["class"]})
					at = &p.edges[len(p.edges)-1]
				}
			case "text":
				if class == "caption" {
					p.caption = append(p.caption, "")
				} else {
					at.lines = append(at.lines, "")
				}
			case "svg", "style", "rect", "title", "circle", "path", "polygon":
			default:
				return nil, fmt.Errorf("unexpected element %s", e.Name.Local)
			}
		case xml.EndElement:
			if e.Name.Local == "g" {
				at = nil
			}
			within = within[:len(within)-1]
		case xml.CharData:
			if len(within) == 0 {
				continue
			}
			switch within[len(within)-1] {
			case "title":
				at.title += string(e)
			case "text":
				if at == nil {
					p.caption[len(p.caption)-1] += string(e)
				} else {
					at.lines[len(at.lines)-1] += string(e)
				}
			}
		}
	}
}

func svgOf(t testing.TB, write func(io.Writer) (int, error)) (*picture, int) {
	t.Helper()
	var b bytes.Buffer
	left, err := write(&b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePicture(b.Bytes())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return p, left
}

func TestWriteSVG(t *testing.T) {
	open := call(0, 3, 0, 0)
	open.End = calls.Truncated
	r := collect(t, Options{}, call(0, 1, 4_000_000, 3_000_000), call(1, 2, 1_000_000, 1_000_000), call(2, 2, 5, 5), open).Report(gigahertz)
	n := names{1: "main", 2: `</title><script>"&`, 3: "loop"}
	got, left := svgOf(t, func(w io.Writer) (int, error) { return r.WriteSVG(w, n, DefaultView()) })
	want := &picture{
		caption: []string{"3 functions, 4 edges, 4.000ms of self time", "1 call open at the end, counted in self time only"},
		nodes: []shape{
			{"node", "no caller in the trace", nil},
			{"node", "main\na.cc:1:1", []string{"main", "self 3.000ms (75.0%)", "sum 4.000ms", "1 call"}},
			{"node", n[2] + "\na.cc:2:1", []string{n[2], "self 1.000ms (25.0%)", "sum 1.000ms", "2 calls"}},
			{"node", "loop\na.cc:3:1", []string{"loop", "self 0ns (0.0%)", "sum 0ns", "0 calls", "1 open"}},
		},
		edges: []shape{
			{"edge", "", []string{"sum 4.000ms", "1 call"}},
			{"edge dashed", "", []string{"sum 0ns", "0 calls", "1 open"}},
			{"edge", "main -> " + n[2], []string{"sum 1.000ms", "1 call"}},
			{"edge", n[2] + " -> " + n[2], []string{"sum 5ns", "1 call"}},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(picture{}, shape{})); diff != "" || left != 0 {
		t.Errorf("%d left out; (-want +got):\n%s", left, diff)
	}
}

// A picture is valid XML without markup from names, and shows the same as the DOT graph.
func TestSVGSyntax(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := names{1: nasty.Draw(rt, "one"), 2: nasty.Draw(rt, "two"), -7: nasty.Draw(rt, "three")}
		analysis := func() *Analysis {
			return collect(t, quantiles, call(0, 1, 10, 5), call(1, 2, 5, 5), call(2, 1, 3, 3), call(2, -7, 1, 1))
		}
		r := analysis().Report(gigahertz)
		d := Compare(Side{analysis(), gigahertz, n}, Side{collect(t, quantiles, call(0, 1, 3, 3)), gigahertz, n})
		for name, write := range map[string]struct {
			svg func(io.Writer) (int, error)
			dot func(io.Writer) error
		}{
			"graph": {func(w io.Writer) (int, error) { return r.WriteSVG(w, n, DefaultView()) },
				func(w io.Writer) error { return r.WriteDOT(w, n, DefaultView()) }},
			"diff": {func(w io.Writer) (int, error) { return d.WriteSVG(w, DefaultView()) },
				func(w io.Writer) error { return d.WriteDOT(w, DefaultView()) }},
		} {
			p, _ := svgOf(t, write.svg)
			var dot bytes.Buffer
			if err := write.dot(&dot); err != nil {
				rt.Fatal(err)
			}
			edges := len(regexp.MustCompile(`(?m)^\t\S+ -> \S+ \[`).FindAll(dot.Bytes(), -1))
			nodes := len(regexp.MustCompile(`(?m)^\t"?F\S+ \[`).FindAll(dot.Bytes(), -1))
			if len(p.nodes) != nodes || len(p.edges) != edges {
				rt.Fatalf("%s: got %d nodes and %d edges, want %d and %d as in DOT", name, len(p.nodes), len(p.edges), nodes, edges)
			}
		}
	})
}

// If a graph is too large, the picture shows the most expensive edges and says so.
func TestSVGLimit(t *testing.T) {
	a := New(Options{})
	batch := &calls.Batch{}
	n := names{}
	for i := range reader.FuncID(2 * mostDrawn) {
		// Functions with even numbers take longer when called by others than from outside.
		batch.Calls = append(batch.Calls, call(0, i+1, 10, 0), call(i%7+1, i+1, uint64(1+10*(1+i%2*4)), 1))
		n[i+1] = fmt.Sprint("f", i+1)
	}
	if err := a.Calls(batch); err != nil {
		t.Fatal(err)
	}
	r := a.Report(gigahertz)
	p, left := svgOf(t, func(w io.Writer) (int, error) { return r.WriteSVG(w, n, DefaultView()) })
	if len(p.edges) != mostDrawn || left != len(r.Edges)-mostDrawn {
		t.Errorf("got %d nodes and %d edges of %d, %d left out", len(p.nodes), len(p.edges), len(r.Edges), left)
	}
	for _, e := range p.edges {
		if e.lines[0] != "sum 51ns" {
			t.Fatalf("got an edge with little time: %v", e)
		}
	}
	want := "incomplete: shows only the 1,000 of 4,000 edges with the most time"
	if got := p.caption[len(p.caption)-1]; got != want {
		t.Errorf("got caption %q, want %q", got, want)
	}
}

// A picture for a screen is not larger than one, has the heaviest function and the path to it, and says
// what it omits.
func TestSVGOnScreen(t *testing.T) {
	t.Parallel()
	var list []calls.Call
	n := names{1: "main"}
	list = append(list, call(0, 1, 1e9, 5))
	for i := range reader.FuncID(400) {
		list = append(list, call(1+i/8, i+2, 1e6, uint64(10+i*7%400)))
		n[i+2] = fmt.Sprint("a_function_with_a_rather_long_name_", i+2)
	}
	list[301].Self = 9e5
	heaviest := n[list[301].Func]
	r := collect(t, Options{}, list...).Report(gigahertz)
	view := DefaultView()
	all, _ := svgOf(t, func(w io.Writer) (int, error) { return r.WriteSVG(w, n, view) })
	view.Screen = true
	var b bytes.Buffer
	left, err := r.WriteSVG(&b, n, view)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePicture(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	size := regexp.MustCompile(`<svg [^>]* width="(\d+)" height="(\d+)"`).FindStringSubmatch(b.String())
	if width, height := atoi(t, size[1]), atoi(t, size[2]); width > 1950 || height > 1500 {
		t.Errorf("the picture is %d by %d pixels", width, height)
	}
	if left == 0 || left != len(all.edges)-len(p.edges) || len(p.nodes) < 4 {
		t.Errorf("got %d nodes and %d edges of %d, %d left out", len(p.nodes), len(p.edges), len(all.edges), left)
	}
	if !slices.ContainsFunc(p.nodes, func(s shape) bool { return strings.HasPrefix(s.title, heaviest) }) {
		t.Errorf("%s is not in the picture", heaviest)
	}
	if last := p.caption[len(p.caption)-1]; !strings.HasPrefix(last, "shows the first ") || !strings.Contains(last, "--top 0 all") {
		t.Errorf("got caption %q", last)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
