package stack

import (
	"bytes"
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
	"github.com/xray-tools/xray/symbolize"
)

func TestWriteText(t *testing.T) {
	r := collect(t, Options{PerThread: true}, first, second+" +9 !").Report(gigahertz)
	var got strings.Builder
	if err := r.WriteText(&got, names{1: "main", 2: "work", 5: "loop"}, TextView{Top: 3}); err != nil {
		t.Fatal(err)
	}
	want := `8 stacks of 2 threads, 9 calls, 237ns; 1 open at the end, up to their thread's last record
the 3 heaviest stacks:

#1  100ns self (42.19%), 1 call, 107ns total, thread 2
     0  a.cc:1:1  main

#2  59ns self (24.89%), 1 call, 60ns total, 1 open at the end, thread 2
     0  a.cc:5:1  loop

#3  50ns self (21.10%), 2 calls, 51ns total, thread 1
     0  a.cc:1:1  main
     1  a.cc:2:1  work
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	got.Reset()
	if err := r.WriteText(&got, nil, TextView{Metric: Count, Top: 1}); err != nil {
		t.Fatal(err)
	}
	if want := "#1  2 calls (22.22%), 50ns self, 51ns total, thread 1\n     0  #1\n     1  #2\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("by count:\n%s\nwant an end of\n%s", got.String(), want)
	}
}

// Locations of any width align, and so do names of any length.
func TestTextAligns(t *testing.T) {
	long := strings.Repeat("n", 200)
	r := collect(t, Options{}, "1 12345 3 +5 . . .").Report(gigahertz)
	var got strings.Builder
	if err := r.WriteText(&got, names{1: long, 12345: "b", 3: "c"}, TextView{Top: 1}); err != nil {
		t.Fatal(err)
	}
	want := "     0  a.cc:1:1      " + long + "\n" +
		"     1  a.cc:12345:1  b\n" +
		"     2  a.cc:3:1      c\n"
	if !strings.HasSuffix(got.String(), want) {
		t.Errorf("%s\nwant an end of\n%s", got.String(), want)
	}

	got.Reset()
	if err := r.WriteText(&got, names{12345: "b"}, TextView{Top: 1}); err != nil {
		t.Fatal(err)
	}
	if want := "     0                #1\n     1  a.cc:12345:1  b\n     2                #3\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("one location:\n%s\nwant an end of\n%s", got.String(), want)
	}

	got.Reset()
	if err := r.WriteText(&got, names{}, TextView{Top: 1}); err != nil {
		t.Fatal(err)
	}
	if want := "     0  #1\n     1  #12345\n     2  #3\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("no location:\n%s\nwant an end of\n%s", got.String(), want)
	}
}

// The list holds the heaviest stacks in order, however many there are.
func TestTextTop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(rt, "stacks")
		top := rapid.IntRange(1, 12).Draw(rt, "top")
		var script strings.Builder
		for fn := range n {
			fmt.Fprintf(&script, "%d +%d . ", fn+1, rapid.IntRange(1, 50).Draw(rt, "ticks"))
		}
		r := collect(t, Options{}, script.String()).Report(reader.Clock{})
		lists := map[int][]string{}
		for _, top := range []int{top, -1} {
			var b strings.Builder
			if err := r.WriteText(&b, nil, TextView{Top: top}); err != nil {
				rt.Fatal(err)
			}
			lists[top] = strings.Split(b.String(), "\n\n")[1:]
			// The last one has no empty line behind it.
			last := len(lists[top]) - 1
			lists[top][last] = strings.TrimSpace(lists[top][last])
		}
		if len(lists[-1]) != n {
			rt.Fatalf("%d of all %d stacks are listed", len(lists[-1]), n)
		}
		if diff := cmp.Diff(lists[-1][:min(n, top)], lists[top]); diff != "" {
			rt.Fatalf("top %d (-all +got):\n%s", top, diff)
		}
	})
}

func TestTextElides(t *testing.T) {
	var script strings.Builder
	for fn := range 150 {
		fmt.Fprintf(&script, "%d ", fn+1)
	}
	script.WriteString("+5 " + strings.Repeat(". ", 150))
	var b strings.Builder
	if err := collect(t, Options{}, script.String()).Report(reader.Clock{}).WriteText(&b, nil, TextView{}); err != nil {
		t.Fatal(err)
	}
	if want := "    19  #20\n        ... 50 frames ...\n    70  #71\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no\n%s in\n%s", want, b.String())
	}
	if !strings.HasSuffix(b.String(), "\n   149  #150\n") {
		t.Error("the innermost frame is not the last line")
	}
}

func TestWriteJSON(t *testing.T) {
	r := collect(t, Options{PerThread: true}, first, second+" +9 !").Report(reader.Clock{Frequency: 500_000_000})
	var b bytes.Buffer
	if err := r.WriteJSON(&b, names{1: `<"main">`, 2: "work"}); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	var got object
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	tree := got["trees"].([]any)[1].(object)
	want := []any{
		object{"id": 1.0, "parent": 0.0, "depth": 0.0, "function": 1.0, "count": 1.0, "total": 214.0, "self": 200.0},
		object{"id": 2.0, "parent": 1.0, "depth": 1.0, "function": 2.0, "count": 1.0, "total": 14.0, "self": 14.0},
		object{"id": 3.0, "parent": 0.0, "depth": 0.0, "function": 5.0, "count": 0.0, "total": 0.0, "self": 0.0,
			"open": 1.0, "open_total": 120.0, "open_self": 118.0},
		object{"id": 4.0, "parent": 3.0, "depth": 1.0, "function": 2.0, "count": 1.0, "total": 2.0, "self": 2.0},
	}
	if diff := cmp.Diff(want, tree["stacks"]); diff != "" {
		t.Errorf("stacks (-want +got):\n%s", diff)
	}
	if tree["thread"] != 2.0 || tree["process"] != 7.0 || got["unit"] != "ns" {
		t.Errorf("thread %v, process %v, unit %v", tree["thread"], tree["process"], got["unit"])
	}
	main := object{"id": 1.0, "name": `<"main">`, "location": "a.cc:1:1"}
	if diff := cmp.Diff(main, got["functions"].([]any)[0]); diff != "" {
		t.Errorf("function (-want +got):\n%s", diff)
	}
}

// svgFrame is what a flame graph shows of a frame.
type svgFrame struct {
	name, title string
	row         int
	x, width    float64
	text        string
}

// parseSVG reads a flame graph back, and fails unless it is well-formed XML.
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
		{"#3", "#3\n25ns (25.00%), 25ns self, 1 call, 1 open at the end\n(unknown)", 2, 75, 25, "#3"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(svgFrame{})); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if a, b := writeSVG(t, r, n, SVGView{}), writeSVG(t, r, n, SVGView{}); !bytes.Equal(a, b) {
		t.Error("two pictures of one trace differ")
	}
	_, texts := parseSVG(t, writeSVG(t, r, n, SVGView{Metric: Count, Title: "<mine>"}))
	if texts[0] != "<mine>" || !strings.HasPrefix(texts[1], "3 calls in all.") {
		t.Errorf("texts: %q", texts)
	}
}

// Frames lie within their parents and do not overlap, whatever the names.
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
				rt.Fatalf("%+v overlaps what ends at %f", f, ends[f.row])
			}
			ends[f.row] = f.x + f.width
		}
	})
}

// Whatever the trace, the file has a size that a browser takes, and says what is
// missing.
func TestSVGBounded(t *testing.T) {
	wide := New(Options{})
	paths := calls.NewPaths()
	b := &calls.Batch{Paths: paths, Thread: reader.Thread{Thread: 1}}
	const n = 100_000
	for i := range n {
		// A tree of threes: most of its frames are too narrow.
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
			t.Errorf("%s: %d frames in %d bytes", name, len(frames), len(svg))
		}
		all := map[string]int{"wide": n, "deep": 5000}[name] + 1
		if last, want := texts[len(texts)-1], plural(uint64(all-len(frames)), "frame")+" too narrow"; !strings.HasPrefix(last, want) {
			t.Errorf("%s: %q does not say %q", name, last, want)
		}
	}
}

// More frames than fit are cut where they are narrowest.
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
		var b bytes.Buffer
		if err := r.WriteJSON(&b, nil); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("%v\n%s", err, b.String())
		}
		parseSVG(t, writeSVG(t, r, nil, SVGView{}))
		if err := r.WriteText(&b, nil, TextView{}); err != nil {
			t.Error(err)
		}
		if got := folded(t, r, nil, FoldedView{}); got != "" {
			t.Errorf("folded: %q", got)
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
		t.Error("ParseMetric takes ticks")
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
