package stack

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// text returns a report as text.
func text(t testing.TB, r *Report, n symbolize.Names, v View) string {
	t.Helper()
	return write(t, report.Text, r, n, v)
}

func write(t testing.TB, format report.Format, r *Report, n symbolize.Names, v View) string {
	t.Helper()
	var b strings.Builder
	doc := report.Doc{Kind: "stack", Clock: r.Clock, Names: n, Body: r.Body(n, v)}
	if err := doc.Write(&b, report.Style{Format: format}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	r := collect(t, Options{PerThread: true}, first, second+" +9 !").Report(gigahertz)
	want := `8 stacks of 2 threads, 9 calls, 237ns. 1 call was still open at the end. It counts up to the last
record of its thread.

The 3 heaviest stacks:

#1  100ns self (42.2%), 1 call, 107ns total, thread 2

depth  location  function
    0  a.cc:1:1  main

#2  59ns self (24.9%), 1 call, 60ns total, 1 open at the end, thread 2

depth  location  function
    0  a.cc:5:1  loop

#3  50ns self (21.1%), 2 calls, 51ns total, thread 1

depth  location  function
    0  a.cc:1:1  main
    1  a.cc:2:1  work
`
	if diff := cmp.Diff(want, text(t, r, names{1: "main", 2: "work", 5: "loop"}, View{Top: 3})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := text(t, r, nil, View{Metric: Count, Top: 1})
	if want := "#1  2 calls (22.2%), 50ns self, 51ns total, thread 1\n\ndepth  function\n    0  #1\n    1  #2\n"; !strings.HasSuffix(got, want) {
		t.Errorf("by count: got\n%s\nwant the end\n%s", got, want)
	}
}

// The list has the heaviest stacks in order, whatever their number.
func TestTop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(rt, "stacks")
		top := rapid.IntRange(1, 12).Draw(rt, "top")
		var script strings.Builder
		for fn := range n {
			fmt.Fprintf(&script, "%d +%d . ", fn+1, rapid.IntRange(1, 50).Draw(rt, "ticks"))
		}
		r := collect(t, Options{}, script.String()).Report(reader.Clock{})
		lists := map[int][]string{}
		for _, top := range []int{top, 0} {
			lists[top] = strings.Split(strings.TrimSpace(text(t, r, nil, View{Top: top})), "\n\n#")[1:]
		}
		if len(lists[0]) != n {
			rt.Fatalf("got %d of %d stacks", len(lists[0]), n)
		}
		if diff := cmp.Diff(lists[0][:min(n, top)], lists[top]); diff != "" {
			rt.Fatalf("top %d (-all +got):\n%s", top, diff)
		}
	})
}

func TestElides(t *testing.T) {
	var script strings.Builder
	for fn := range 150 {
		fmt.Fprintf(&script, "%d ", fn+1)
	}
	script.WriteString("+5 " + strings.Repeat(". ", 150))
	got := text(t, collect(t, Options{}, script.String()).Report(reader.Clock{}), nil, View{})
	for _, want := range []string{"\n\nDepths 20 to 69 are not shown.\n\n", "\n   19  #20\n   70  #71\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.HasSuffix(got, "\n  149  #150\n") {
		t.Error("the last line is not the innermost frame")
	}
}

func TestJSON(t *testing.T) {
	r := collect(t, Options{PerThread: true}, first, second+" +9 !").Report(reader.Clock{Frequency: 500_000_000})
	text := write(t, report.JSON, r, names{1: `<"main">`, 2: "work"}, View{})
	type object = map[string]any
	var got object
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	stacks := got["stacks"].([]any)
	row := func(id, parent, depth any, function string, function_id float64, location string, values ...float64) object {
		o := object{"file": 1.0, "process": 7.0, "thread": 2.0, "thread_name": "", "id": id, "parent": parent, "depth": depth,
			"function": function, "function_id": function_id, "location": location}
		for i, key := range []string{"count", "self_ns", "total_ns", "open", "open_self_ns", "open_total_ns"} {
			o[key] = values[i]
		}
		return o
	}
	n := float64(len(stacks))
	want := []any{
		row(n-3, nil, 0.0, `<"main">`, 1, "a.cc:1:1", 1, 200, 214, 0, 0, 0),
		row(n-2, n-3, 1.0, "work", 2, "a.cc:2:1", 1, 14, 14, 0, 0, 0),
		row(n-1, nil, 0.0, "#5", 5, "", 0, 0, 0, 1, 118, 120),
		row(n, n-1, 1.0, "work", 2, "a.cc:2:1", 1, 2, 2, 0, 0, 0),
	}
	if diff := cmp.Diff(want, stacks[len(stacks)-4:]); diff != "" {
		t.Errorf("stacks (-want +got):\n%s", diff)
	}
	if got["stack_count"] != n || got["calls"] != 9.0 || got["self_ns"] != 474.0 || got["open"] != 1.0 {
		t.Errorf("got %v stacks, %v calls, %v ns, %v open", got["stack_count"], got["calls"], got["self_ns"], got["open"])
	}
}

// CSV has the names of all functions of a path, unless there are very many.
func TestCSV(t *testing.T) {
	r := collect(t, Options{}, "1 +1 2 +2 . .").Report(gigahertz)
	want := "id,parent,depth,count,self_ns,total_ns,open,open_self_ns,open_total_ns,function,function_id,location,path,path_ids\n" +
		"1,,0,1,1,3,0,0,0,main,1,a.cc:1:1,main,1\n2,1,1,1,2,2,0,0,0,#2,2,,main > #2,1 2\n"
	if diff := cmp.Diff(want, write(t, report.CSV, r, names{1: "main"}, View{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	deep := collect(t, Options{}, strings.Repeat("1 ", 3000)+strings.Repeat(". ", 3000)).Report(gigahertz)
	lines := strings.Split(strings.TrimSpace(write(t, report.CSV, deep, nil, View{})), "\n")
	if len(lines) != 3001 || strings.HasSuffix(lines[1000], ",,") || !strings.HasSuffix(lines[1001], ",,") {
		t.Errorf("got %d lines, 1000 deep: %.60s, 1001 deep: %.60s", len(lines), lines[1000], lines[1001])
	}
}

// The page has the flame graph next to the list.
func TestPage(t *testing.T) {
	r := collect(t, Options{}, "1 +1 2 +2 . .").Report(gigahertz)
	page := write(t, report.HTML, r, names{1: "main"}, View{})
	_, data, _ := strings.Cut(page, `data="data:image/svg+xml;base64,`)
	data, _, _ = strings.Cut(data, `"`)
	picture, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	if frames, _ := parseSVG(t, picture); len(frames) != 3 || !strings.Contains(page, "<td>main</td>") {
		t.Errorf("got %d frames in the picture of the page\n%s", len(frames), page)
	}
}

// svgFrame is a frame of a flame graph as shown.
type svgFrame struct {
	name, title string
	row         int
	x, width    float64
	text        string
}

// parseSVG parses a flame graph, and fails unless it is well-formed XML.
func parseSVG(t testing.TB, svg []byte) (frames []svgFrame, texts []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var f *svgFrame
	var element string
	for {
		token, err := d.Token()
		if err == io.EOF {
			return frames, texts
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			element = e.Name.Local
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			if element == "svg" && strings.HasPrefix(attr["class"], "f ") {
				frames = append(frames, svgFrame{})
				f = &frames[len(frames)-1]
				f.row, _ = strconv.Atoi(attr["data-d"])
				f.x, _ = strconv.ParseFloat(strings.TrimSuffix(attr["x"], "%"), 64)
				f.width, _ = strconv.ParseFloat(strings.TrimSuffix(attr["width"], "%"), 64)
			}
		case xml.EndElement:
			if e.Name.Local == "svg" {
				f = nil
			}
			element = ""
		case xml.CharData:
			switch {
			case f != nil && element == "title":
				f.title = string(e)
				f.name, _, _ = strings.Cut(f.title, "\n")
			case f != nil && element == "text":
				f.text = string(e)
			case element == "text":
				texts = append(texts, string(e))
			}
		}
	}
}

func writeSVG(t testing.TB, r *Report, n symbolize.Names, v SVGView) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteSVG(&b, n, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteSVG(t *testing.T) {
	r := collect(t, Options{PerThread: true}, "1 +25 2 +50 . .", "3 +25 !").Report(gigahertz)
	n := names{1: "main", 2: `a<b> && "c"`}
	got, _ := parseSVG(t, writeSVG(t, r, n, SVGView{}))
	want := []svgFrame{
		{"all", "all\n100ns (100.00%)", 0, 0, 100, "all"},
		{"thread 1", "thread 1\n75ns (75.00%)", 1, 0, 75, "thread 1"},
		{"main", "main\n75ns (75.00%), 25ns self, 1 call\na.cc:1:1", 2, 0, 75, "main"},
		{`a<b> && "c"`, "a<b> && \"c\"\n50ns (50.00%), 50ns self, 1 call\na.cc:2:1", 3, 0, 50, `a<b> && "c"`},
		{"thread 2", "thread 2\n25ns (25.00%)", 1, 75, 25, "thread 2"},
		{"#3", "#3\n25ns (25.00%), 25ns self, 1 call, 1 open at the end", 2, 75, 25, "#3"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(svgFrame{})); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if a, b := writeSVG(t, r, n, SVGView{}), writeSVG(t, r, n, SVGView{}); !bytes.Equal(a, b) {
		t.Error("two pictures of one trace differ")
	}
	_, texts := parseSVG(t, writeSVG(t, r, n, SVGView{Metric: Count, Title: "<mine>"}))
	if texts[0] != "<mine>" || !strings.HasPrefix(texts[1], "3 calls in total.") {
		t.Errorf("got texts %q", texts)
	}
}

// Frames lie inside their parents and do not overlap, whatever the names.
func TestSVGLayout(t *testing.T) {
	nasty := rapid.StringOf(rapid.SampledFrom([]rune("ab<>&\"'\x00\x1b\n]\uFFFE\uFFFF\U0001F600é")))
	rapid.Check(t, func(rt *rapid.T) {
		n := names{1: nasty.Draw(rt, "one"), 2: nasty.Draw(rt, "two") + "]]>"}
		opts := Options{PerThread: rapid.Bool().Draw(rt, "per thread")}
		r := collect(t, opts, randomScript(rt), randomScript(rt)).Report(reader.Clock{})
		m := rapid.SampledFrom([]Metric{Time, Count}).Draw(rt, "metric")
		frames, _ := parseSVG(t, writeSVG(t, r, n, SVGView{Metric: m}))
		const slack = 0.001 // positions are rounded
		var open []svgFrame
		ends := map[int]float64{}
		for _, f := range frames {
			if f.row > len(open) {
				rt.Fatalf("%+v skips a row", f)
			}
			open = append(open[:f.row], f)
			if f.row > 0 {
				p := open[f.row-1]
				if f.x < p.x-slack || f.x+f.width > p.x+p.width+slack {
					rt.Fatalf("%+v is not inside %+v", f, p)
				}
			}
			if f.x < ends[f.row]-slack {
				rt.Fatalf("%+v overlaps a frame that ends at %f", f, ends[f.row])
			}
			ends[f.row] = f.x + f.width
		}
	})
}

// For any trace, the size of the file is limited, and the picture says what is missing.
func TestSVGBounded(t *testing.T) {
	wide := New(Options{})
	paths := calls.NewPaths()
	b := &calls.Batch{Paths: paths, Thread: reader.Thread{Thread: 1}}
	const n = 100_000
	for i := range n {
		// A tree with three children each: most frames are too narrow.
		id := paths.Child(calls.PathID(max(0, i/3)), reader.FuncID(i+1))
		b.Calls = append(b.Calls, calls.Call{Path: id, Func: reader.FuncID(i + 1), Self: 1, Duration: 1})
	}
	if err := wide.Calls(b); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("1 +1 ", 5000) + strings.Repeat(". ", 5000)
	for name, r := range map[string]*Report{
		"wide": wide.Report(reader.Clock{}),
		"deep": collect(t, Options{}, deep).Report(reader.Clock{}),
	} {
		svg := writeSVG(t, r, nil, SVGView{})
		frames, texts := parseSVG(t, svg)
		if len(svg) > 4<<20 || len(frames) > svgMaxBoxes {
			t.Errorf("%s: got %d frames in %d bytes", name, len(frames), len(svg))
		}
		all := map[string]int{"wide": n, "deep": 5000}[name] + 1
		if last, want := texts[len(texts)-1], label.Count(uint64(all-len(frames)), "frame", "frames")+" too narrow"; !strings.HasPrefix(last, want) {
			t.Errorf("%s: got %q, want %q in it", name, last, want)
		}
	}
}

// If there are too many frames, the narrowest are dropped.
func TestWidest(t *testing.T) {
	var boxes []box
	for i, w := range []uint64{100, 60, 60, 5, 5, 40, 40} {
		boxes = append(boxes, box{weight: w, row: i})
	}
	var got []int
	for _, x := range widest(boxes, 5) {
		got = append(got, x.row)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 5, 6}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEmpty(t *testing.T) {
	for _, opts := range []Options{{}, {PerThread: true}} {
		r := New(opts).Report(reader.Clock{})
		for _, format := range report.Formats {
			if got := write(t, format, r, nil, View{}); format == report.JSON && !json.Valid([]byte(got)) {
				t.Errorf("invalid JSON: %s", got)
			}
		}
		parseSVG(t, writeSVG(t, r, nil, SVGView{}))
		if got := folded(t, r, nil, FoldedView{}); got != "" {
			t.Errorf("got folded %q", got)
		}
	}
}

func TestParseMetric(t *testing.T) {
	for _, m := range []Metric{Time, Count} {
		if got, err := ParseMetric(m.String()); got != m || err != nil {
			t.Errorf("ParseMetric(%q) = %v, %v", m.String(), got, err)
		}
	}
	if _, err := ParseMetric("ticks"); err == nil {
		t.Error("ParseMetric accepts ticks")
	}
}

func ExampleReport_WriteFolded() {
	paths := calls.NewPaths()
	outer := paths.Child(0, 1)
	inner := paths.Child(outer, 2)
	a := New(Options{})
	a.Calls(&calls.Batch{Paths: paths, Calls: []calls.Call{
		{Path: inner, Func: 2, Caller: 1, Depth: 1, Duration: 30, Self: 30},
		{Path: outer, Func: 1, Duration: 100, Self: 70},
	}})
	a.Report(reader.Clock{}).WriteFolded(os.Stdout, nil, FoldedView{})
	// Output:
	// #1 70
	// #1;#2 30
}
