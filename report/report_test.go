package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

type names struct{}

func (names) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	list := []symbolize.Symbol{
		{Name: "main", File: "main.cc", Line: 3},
		{Name: "std::vector<int>::push_back(int const&)", File: "vector.h", Line: 100},
		{Name: "parse<a|b>"},
	}
	if id < 1 || int(id) > len(list) {
		return symbolize.Symbol{}, false
	}
	return list[id-1], true
}

type row struct {
	fn     reader.FuncID
	count  uint64
	self   uint64
	at     uint64
	guess  bool
	thread reader.Thread
	path   []reader.FuncID
	level  int
}

func sample() *Doc {
	list := []row{
		{fn: 1, count: 1234567, self: 2500, at: 1000, thread: reader.Thread{Process: 7, Thread: 8}, path: []reader.FuncID{1}},
		{fn: 2, count: 3, self: 0, at: 5000, guess: true, thread: reader.Thread{Process: 7, Thread: 9}, path: []reader.FuncID{1, 2}},
		{fn: 3, count: 0, at: 5000, thread: reader.Thread{Process: 7, Thread: 9}},
	}
	nodes := []row{{fn: 1, count: 2}, {fn: 2, count: 1, level: 1}, {fn: 3, count: 5, level: 2}, {fn: 2, count: 6, level: 1}, {fn: 3, count: 1}}
	d := &Doc{
		Kind: "sample", Clock: reader.Clock{Frequency: 1e9}, Names: names{}, Start: 1000,
		Caveats: []string{"Calls are missing."},
		Threads: label.Threads{Name: func(t reader.Thread) string {
			if t.Thread == 8 {
				return "worker"
			}
			return ""
		}},
	}
	all := row{count: 3, self: 2500}
	d.Body = []Node{
		Paragraph("One trace with <odd> names."),
		Facts(&all, Count("calls", func(r *row) uint64 { return r.count }), Time("self", func(r *row) uint64 { return r.self })),
		Table("functions", list,
			Count("count", func(r *row) uint64 { return r.count }),
			Time("self", func(r *row) uint64 { return r.self }).About(func(r *row) bool { return r.guess }).Missing(func(r *row) bool { return r.count == 0 }),
			Share("share", func(r *row) float64 { return float64(r.self) / 2500 }).Optional(),
			Flag("approximate", func(r *row) bool { return r.guess }).ForPrograms(),
			Moment("first", func(r *row) uint64 { return r.at }).Optional(),
			Thread("thread", func(r *row) reader.Thread { return r.thread }),
			Path("path", func(r *row) []reader.FuncID { return r.path }).ForPrograms(),
			Function("function", func(r *row) reader.FuncID { return r.fn }).WithLocation(),
		),
		&Section{Key: "tree", Title: "Call tree", Body: []Node{
			Tree("nodes", nodes, func(r *row) int { return r.level },
				Function("function", func(r *row) reader.FuncID { return r.fn }), Count("calls", func(r *row) uint64 { return r.count })),
		}},
		Notes{"~: approximate"},
	}
	return d
}

func write(t *testing.T, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := sample().Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestText(t *testing.T) {
	equal(t, write(t, Style{}), `Calls are missing.

One trace with <odd> names.

calls  3
self   2.500us

    count     self   share    first  thread      location      function
1,234,567  2.500us  100.0%      0ns  7/8 worker  main.cc:3     main
        3     ~0ns    0.0%  4.000us  7/9         vector.h:100  std::vector<int>::push_back(int const&)
        0        -    0.0%  4.000us  7/9                       parse<a|b>

Call tree

function                                   calls
main                                           2
  std::vector<int>::push_back(int const&)      1
    parse<a|b>                                 5
  std::vector<int>::push_back(int const&)      6
parse<a|b>                                     1

~: approximate
`)
}

// On a narrow terminal, optional columns are hidden first, and then names are cut on the left.
func TestNarrow(t *testing.T) {
	for _, width := range []int{60, 72, 80, 100, 120} {
		got := write(t, Style{Width: width})
		for line := range strings.Lines(got) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns: got %d in %q", width, n, line)
			}
		}
	}
	got := write(t, Style{Width: 60})
	for _, want := range []string{"\n    count     self  thread      function\n", "…int>::push_back(int const&)\n", "(--wide also shows: share, first, location)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestMarkdown(t *testing.T) {
	got := write(t, Style{Format: Markdown})
	for _, want := range []string{
		"> Calls are missing.\n\nOne trace with &lt;odd&gt; names.\n\n- calls: 3\n- self: 2.500us\n\n|",
		"| ---: | ---: | ---: | ---: | --- | --- | --- |\n| 1,234,567 | 2.500us | 100.0% | 0ns | 7/8 worker | main.cc:3 | main |\n",
		`parse&lt;a\|b&gt; |`, "\n## Call tree\n\n```\nfunction", "\n    parse<a|b>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestCSV(t *testing.T) {
	got := write(t, Style{Format: CSV})
	equal(t, got, `count,self_ns,share,approximate,first_ns,file,process,thread,thread_name,path,path_ids,function,function_id,location
1234567,2500,1,false,0,1,7,8,worker,main,1,main,1,main.cc:3
3,0,0,true,4000,1,7,9,,main > std::vector<int>::push_back(int const&),1 2,std::vector<int>::push_back(int const&),2,vector.h:100
0,,0,false,4000,1,7,9,,,,parse<a|b>,3,
`)
	if _, err := csv.NewReader(strings.NewReader(got)).ReadAll(); err != nil {
		t.Error(err)
	}
}

func TestJSON(t *testing.T) {
	got := write(t, Style{Format: JSON})
	equal(t, got, `{
 "report": "sample",
 "version": 1,
 "caveats": ["Calls are missing."],
 "calls": 3,
 "self_ns": 2500,
 "functions": [
  {"count": 1234567, "self_ns": 2500, "share": 1, "approximate": false, "first_ns": 0, "file": 1, "process": 7, "thread": 8, "thread_name": "worker", "path": ["main"], "path_ids": [1], "function": "main", "function_id": 1, "location": "main.cc:3"},
  {"count": 3, "self_ns": 0, "share": 0, "approximate": true, "first_ns": 4000, "file": 1, "process": 7, "thread": 9, "thread_name": "", "path": ["main", "std::vector<int>::push_back(int const&)"], "path_ids": [1, 2], "function": "std::vector<int>::push_back(int const&)", "function_id": 2, "location": "vector.h:100"},
  {"count": 0, "self_ns": null, "share": 0, "approximate": false, "first_ns": 4000, "file": 1, "process": 7, "thread": 9, "thread_name": "", "path": [], "path_ids": [], "function": "parse<a|b>", "function_id": 3, "location": ""}
 ],
 "tree": {
  "nodes": [
   {"function": "main", "function_id": 1, "calls": 2, "children": [
    {"function": "std::vector<int>::push_back(int const&)", "function_id": 2, "calls": 1, "children": [
     {"function": "parse<a|b>", "function_id": 3, "calls": 5}
    ]},
    {"function": "std::vector<int>::push_back(int const&)", "function_id": 2, "calls": 6}
   ]},
   {"function": "parse<a|b>", "function_id": 3, "calls": 1}
  ]
 },
 "notes": ["~: approximate"]
}
`)
	var any map[string]any
	if err := json.Unmarshal([]byte(got), &any); err != nil {
		t.Error(err)
	}
}

func TestHTML(t *testing.T) {
	got := write(t, Style{Format: HTML})
	for _, want := range []string{
		"<title>xray sample</title>", `<p class="caveat">Calls are missing.</p>`, "<dt>self</dt><dd>2.500us</dd>", "<h2>Call tree</h2>",
		`<td class="n">1,234,567</td>`, `<td class="n part" style="--part: 100.0%">100.0%</td>`, "<td>parse&lt;a|b&gt;</td>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// The least important optional columns are hidden first, wherever they are.
func TestLeast(t *testing.T) {
	column := func(key string) Column[int] { return Count(key, func(*int) uint64 { return 1e12 }) }
	d := Doc{Body: []Node{Table("rows", []int{1}, column("a"), column("b").Least(), column("c").Optional(), column("d").Optional())}}
	for width, want := range map[int]string{80: "", 66: "b", 50: "b, d", 32: "b, c, d"} {
		var b strings.Builder
		if err := d.Write(&b, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		_, hidden, _ := strings.Cut(b.String(), "(--wide also shows: ")
		if hidden = strings.TrimSuffix(hidden, ")\n"); hidden != want {
			t.Errorf("%d columns: got hidden %q, want %q", width, hidden, want)
		}
	}
}

// Sums are converted like rational numbers.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := quantile.Sum{
			Hi: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "Hi"),
			Lo: rapid.Uint64().Draw(t, "Lo"),
		}
		f := rapid.Uint64Range(1, 1<<40).Draw(t, "frequency")
		d := Doc{Clock: reader.Clock{Frequency: f}}
		got, ok := new(big.Int).SetString(d.nanos(cell{n: s.Lo, high: s.Hi}).s, 10)
		if !ok {
			t.Fatalf("%v has no number", s)
		}
		// Twice the error in ticks is at most the frequency.
		err := new(big.Int).Mul(got, new(big.Int).SetUint64(f))
		err.Sub(err, new(big.Int).Mul(s.Big(), big.NewInt(nanosPerSecond)))
		if err.Lsh(err.Abs(err), 1).Cmp(new(big.Int).SetUint64(f)) > 0 {
			t.Errorf("%v ticks at %d Hz = %v ns", s, f, got)
		}
	})
	sum := quantile.NewSum(math.MaxUint64)
	sum.Add(math.MaxUint64)
	column := Sum("total", func(s *quantile.Sum) quantile.Sum { return *s })
	for frequency, want := range map[uint64]string{1e9: "36,893,488,147s", 0: "36,893,488,147,419,103,230 ticks"} {
		d := Doc{Clock: reader.Clock{Frequency: frequency}}
		if got := d.words(&column.column, column.value(&sum)); got != want {
			t.Errorf("total = %s, want %s", got, want)
		}
	}
}

// change is a row of differences.
type change struct {
	by, low, high, ratio float64
	unknown              bool
	path                 []string
	level                int
	parts                []row
}

func changes() *Doc {
	list := []change{
		{by: 1500.5, low: -20, high: 3000, ratio: 0.25, path: []string{"main", "f(int)"}, parts: []row{{fn: 2, count: 4}}},
		{by: -0.25, low: math.Inf(-1), high: math.Inf(1), ratio: math.Inf(1), unknown: true, path: []string{"main"}, level: 1},
	}
	number := func(f func(c *change) float64) func(*change) float64 { return f }
	by := number(func(c *change) float64 { return c.by })
	low, high := number(func(c *change) float64 { return c.low }), number(func(c *change) float64 { return c.high })
	columns := []Column[change]{
		Mean("change", by).Signed(),
		Mean("interval", low).To(high).Signed().Titled("95% interval"),
		Share("ratio", func(c *change) float64 { return c.ratio }).Signed(),
		Number("nothing", func(c *change) float64 { return math.NaN() }),
		Rows("parts", func(c *change) *TableNode {
			return Table("parts", c.parts, Count("count", func(r *row) uint64 { return r.count }))
		}, nil),
		NamePath("path", func(c *change) []string { return c.path }),
	}
	return &Doc{Kind: "changes", Clock: reader.Clock{Frequency: 2e9}, Body: []Node{
		People{Tree("few", list, func(c *change) int { return 0 }, columns...)},
		Programs{Tree("all", list, func(c *change) int { return c.level }, columns...)},
	}}
}

func TestChanges(t *testing.T) {
	for format, want := range map[Format]string{
		Text: "change       95% interval   ratio  path\n" +
			"+750ns  -10ns to +1.500us  +25.0%  main > f(int)\n   0ns           -∞ to +∞      +∞  main\n",
		CSV: "level,change_ns,interval_low_ns,interval_high_ns,ratio,nothing,path\n" +
			"0,750.25,-10,1500,0.25,,main > f(int)\n1,-0.125,,,,,main\n",
		JSON: `{
 "report": "changes",
 "version": 1,
 "caveats": [],
 "all": [
  {"change_ns": 750.25, "interval_low_ns": -10, "interval_high_ns": 1500, "ratio": 0.25, "nothing": null, "parts": [
   {"count": 4}
  ], "path": ["main", "f(int)"], "children": [
   {"change_ns": -0.125, "interval_low_ns": null, "interval_high_ns": null, "ratio": null, "nothing": null, "parts": [], "path": ["main"]}
  ]}
 ]
}
`,
	} {
		var b bytes.Buffer
		if err := changes().Write(&b, Style{Format: format}); err != nil {
			t.Fatal(err)
		}
		equal(t, b.String(), want)
	}
}

func TestNumberWords(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1: "1", 0.25: "0.25", 56.291: "56.3", -999.4: "-999", 1234567.8: "1,234,568", -5e-6: "-5e-6", 2e-12: "2e-12"} {
		if got := numberWords(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}

// Computed rows are requested in order, and CSV has flat columns for what JSON nests.
func TestComputed(t *testing.T) {
	last, passes := 0, 0
	at := func(row int) *int {
		switch {
		case row < last:
			passes++
		case row > last+1:
			t.Errorf("got row %d after %d", row, last)
		}
		last = row
		return &row
	}
	number := func(n *int) uint64 { return uint64(*n) }
	for _, format := range Formats {
		last, passes = 0, 0
		d := Doc{Body: []Node{Computed("rows", 1000, at, Count("n", number), Count("flat", number).Flat())}}
		var b strings.Builder
		if err := d.Write(&b, Style{Format: format}); err != nil || passes > 2 || last != 999 {
			t.Errorf("%s: got error %v, %d passes, up to row %d", format, err, passes+1, last)
		}
		if got := strings.Contains(b.String(), "flat"); got == (format == JSON) {
			t.Errorf("%s: got flat column %v", format, got)
		}
	}
}

// Text shows the first rows of a table and the last functions of a path. JSON and CSV have all.
func TestParts(t *testing.T) {
	list := []row{{fn: 1, path: make([]reader.FuncID, 40)}, {fn: 2}, {fn: 3}}
	for i := range list[0].path {
		list[0].path[i] = reader.FuncID(1 + i%2*2)
	}
	d := &Doc{Names: names{}, Body: []Node{Table("functions", list,
		Path("path", func(r *row) []reader.FuncID { return r.path }),
		Function("function", func(r *row) reader.FuncID { return r.fn }),
	).Top(2)}}
	for format, want := range map[Format][2]string{
		Text:     {"\n(1 more row)\n", "… > main > parse<a|b> > main"},
		Markdown: {"\n\n(1 more row)\n", "| (no function) |"},
		HTML:     {"<p>(1 more row)</p>", "<td>… &gt; main"},
		CSV:      {"3\n", "\n" + strings.Repeat("main > parse<a|b> > ", 19)},
		JSON:     {`"function_id": 3}`, `"path_ids": []`},
	} {
		var b bytes.Buffer
		if err := d.Write(&b, Style{Format: format}); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s: want %q in\n%s", format, text, b.String())
			}
		}
	}
}

func TestTransposed(t *testing.T) {
	list := []row{{count: 1, fn: 1, self: 2000}, {count: 20, fn: 3}}
	d := &Doc{Names: names{}, Clock: reader.Clock{Frequency: 1e9}, Body: []Node{Table("rows", list,
		Function("function", func(r *row) reader.FuncID { return r.fn }),
		Count("count", func(r *row) uint64 { return r.count }),
		Time("self", func(r *row) uint64 { return r.self }).Missing(func(r *row) bool { return r.self == 0 }),
	).Transposed()}}
	var b bytes.Buffer
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	equal(t, b.String(), "          main  parse<a|b>\ncount        1          20\nself   2.000us           -\n")
}

func TestFloating(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1e6: "1000000", -2.5e9: "-2500000000", 1e300: "1e+300", 0.25: "0.25", 5e-6: "5e-06"} {
		if got := floating(f); got.s != want || got.null {
			t.Errorf("%v: got %s, want %s", f, got.s, want)
		}
	}
}

// Facts that do not fit the terminal continue on the next line.
func TestLongFacts(t *testing.T) {
	d := &Doc{Body: []Node{Facts(&row{count: 7},
		Count("calls", func(r *row) uint64 { return r.count }),
		String("command", func(*row) string { return "./server --threads 8 --name verylongname" }),
	)}}
	for width, want := range map[int]string{
		0:  "calls    7\ncommand  ./server --threads 8 --name verylongname\n",
		26: "calls    7\ncommand  ./server\n         --threads 8\n         --name\n         verylongname\n",
	} {
		var b bytes.Buffer
		if err := d.Write(&b, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		equal(t, b.String(), want)
	}
}
