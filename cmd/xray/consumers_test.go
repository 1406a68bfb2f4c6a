package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/browser"
	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/internal/traceprocessor"
	"github.com/xray-tools/xray/internal/tracetext"
)

// The tests of this file hand what is written for other programs to these.

// produce runs the program and returns what it prints.
func produce(t *testing.T, args ...string) string {
	t.Helper()
	o := runHere(append([]string{"xray"}, args...)...)
	if o.status != exitOK {
		t.Fatalf("xray %s: %v", strings.Join(args, " "), o)
	}
	return o.stdout
}

// consumedTraces are the options for the recorded traces, by name.
func consumedTraces(t *testing.T) map[string][]string {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata")
	found, err := filepath.Glob(filepath.Join(dir, "*.xray"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no traces in %s: %v", dir, err)
	}
	traces := map[string][]string{}
	for _, path := range found {
		name := filepath.Base(path)
		traces[name] = []string{path}
		if strings.HasPrefix(name, "kvserver") {
			traces[name] = []string{"-m", filepath.Join(dir, "kvserver"), path}
		}
	}
	return traces
}

func TestGraphsInGraphviz(t *testing.T) {
	testenv.Need(t, "dot")
	kvserver := filepath.Join("..", "..", "testdata", "kvserver-fdr.xray")
	for name, args := range consumedTraces(t) {
		for _, command := range [][]string{
			{"graph"},
			{"graph", "-e", "count,p99", "-v", "self,max", "-c", "p99", "-b", "count"},
			{"graph-diff", kvserver},
		} {
			dot := exec.Command("dot", "-Tsvg")
			dot.Stdin = strings.NewReader(produce(t, append(command, args...)...))
			var svg, errs bytes.Buffer
			dot.Stdout, dot.Stderr = &svg, &errs
			if err := dot.Run(); err != nil || errs.Len() > 0 || !strings.Contains(svg.String(), "<svg") {
				t.Errorf("%s %v: dot: %v\n%.1000s", name, command, err, errs.String())
			}
		}
	}
}

func TestProfilesInPprof(t *testing.T) {
	testenv.Need(t, "go")
	for name, args := range consumedTraces(t) {
		file := filepath.Join(t.TempDir(), "profile.pb.gz")
		produce(t, append([]string{"convert", "-f", "pprof", "-o", file}, args...)...)
		text, err := exec.Command("go", "tool", "pprof", "-top", file).CombinedOutput()
		if err != nil || !strings.Contains(string(text), "Type: self") {
			t.Errorf("%s: go tool pprof: %v\n%.1000s", name, err, text)
		}
	}
	// Profiles of one program can be subtracted: nothing is left of a profile less itself.
	var files []string
	for _, name := range []string{"kvserver-fdr.xray", "kvserver-basic.xray"} {
		file := filepath.Join(t.TempDir(), "profile.pb.gz")
		produce(t, append([]string{"convert", "-f", "pprof", "-o", file}, consumedTraces(t)[name]...)...)
		files = append(files, file)
	}
	for i, want := range []string{"0, 0% of", "kv::"} {
		text, err := exec.Command("go", "tool", "pprof", "-top", "-diff_base", files[0], files[i]).CombinedOutput()
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "kv::") != (i == 1) {
			t.Errorf("go tool pprof -diff_base: %v, no %q in\n%.1000s", err, want, text)
		}
	}
}

// svgBox is a frame of a flame graph.
type svgBox struct {
	Class string `xml:"class,attr"`
	Depth int    `xml:"data-d,attr"`
	X     string `xml:"x,attr"`
	Width string `xml:"width,attr"`
	Title string `xml:"title"`
}

func (b *svgBox) name() string {
	name, _, _ := strings.Cut(b.Title, "\n")
	return name
}

// span is where the box starts and ends, in percent.
func (b *svgBox) span(t *testing.T) (start, end float64) {
	start, err := strconv.ParseFloat(strings.TrimSuffix(b.X, "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	width, err := strconv.ParseFloat(strings.TrimSuffix(b.Width, "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return start, start + width
}

// A flame graph can be searched and zoomed in a browser.
func TestFlameGraphInBrowser(t *testing.T) {
	testenv.Need(t, "chromium")
	file := filepath.Join(t.TempDir(), "flame.svg")
	produce(t, append([]string{"stack", "--format", "svg", "-o", file}, consumedTraces(t)["kvserver-fdr.xray"]...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Boxes []svgBox `xml:"svg"`
	}
	if err := xml.Unmarshal(text, &picture); err != nil {
		t.Fatal(err)
	}
	boxes := picture.Boxes
	if len(boxes) < 10 {
		t.Fatalf("only %d frames", len(boxes))
	}
	// Of the frames that have both callers and callees, one in the middle.
	to := -1
	for i := range boxes[:len(boxes)-1] {
		if boxes[i].Depth >= 2 && boxes[i+1].Depth > boxes[i].Depth {
			to = i
			break
		}
	}
	if to < 0 {
		t.Fatal("no frame has callers and callees")
	}
	name := boxes[to].name()

	page := browser.Open(t, "file://"+file)
	type state struct {
		Hits, Misses, Shown int
		Widths              []string // of frames that have the whole width
		Matched             string
	}
	look := func(script string) (s state) {
		t.Helper()
		page.Eval(fmt.Sprintf(`(() => {
			const root = document.documentElement;
			const frames = [...root.querySelectorAll("svg.f")];
			const input = root.querySelector("input");
			const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
			const press = (key) => root.dispatchEvent(new KeyboardEvent("keydown", { key }));
			%s;
			const shown = frames.filter((f) => getComputedStyle(f).display !== "none");
			return {
				Hits: frames.filter((f) => f.classList.contains("hit")).length,
				Misses: frames.filter((f) => f.classList.contains("miss")).length,
				Shown: shown.length,
				Widths: shown.filter((f) => f.getAttribute("width") === "100%%").map((f) => f.querySelector("title").textContent.split("\n")[0]),
				Matched: root.querySelector("#matched").textContent,
			};
		})()`, script), &s)
		return s
	}

	start := look("")
	if start.Shown != len(boxes) || start.Hits+start.Misses != 0 || start.Matched != "" {
		t.Errorf("at the start: %+v, want %d frames", start, len(boxes))
	}

	quoted, _ := json.Marshal(name)
	hits := 0
	for i := range boxes {
		if strings.Contains(strings.ToLower(boxes[i].name()), strings.ToLower(name)) {
			hits++
		}
	}
	found := look(fmt.Sprintf(`type(%s.replace(/[^\w]/g, "\\$&"))`, quoted))
	if found.Hits != hits || found.Misses != len(boxes)-hits || !strings.HasPrefix(found.Matched, fmt.Sprintf("%d frames match, ", hits)) {
		t.Errorf("search for %q: %+v, want %d hits of %d", name, found, hits, len(boxes))
	}
	if none := look(`type("(no such function")`); none.Hits != 0 || none.Misses != len(boxes) || none.Matched != "0 frames match, 0.00% of all" {
		t.Errorf("search for nothing: %+v", none)
	}

	// What is inside the frame stays, and what is around it, with all the width.
	from, end := boxes[to].span(t)
	shown, around := 0, []string{}
	for i := range boxes {
		a, b := boxes[i].span(t)
		const rounding = 0.001
		switch {
		case boxes[i].Depth < boxes[to].Depth && a <= from+rounding && b >= end-rounding:
			shown++
			around = append(around, boxes[i].name())
		case boxes[i].Depth >= boxes[to].Depth && a >= from-rounding && b <= end+rounding:
			shown++
		}
	}
	zoomed := look(fmt.Sprintf(`type(""); frames[%d].dispatchEvent(new MouseEvent("click"))`, to))
	wide := zoomed.Widths[:min(len(around)+1, len(zoomed.Widths))]
	if diff := cmp.Diff(append(around, name), wide); diff != "" || zoomed.Shown != shown {
		t.Errorf("zoomed to %q: %d frames shown, want %d; frames of the whole width (-want +got):\n%s", name, zoomed.Shown, shown, diff)
	}
	if again := look(`press("Escape")`); !cmp.Equal(again, start) {
		t.Errorf("zoomed out: %+v, want %+v", again, start)
	}
}

// What reads traces for the Performance panel of Chromium's DevTools finds every
// call of our Chrome JSON.
func TestChromeInDevTools(t *testing.T) {
	page := browser.Open(t, "devtools://devtools/bundled/devtools_app.html")
	const module = "devtools://devtools/bundled/models/trace/trace.js"
	var known bool
	page.Eval(fmt.Sprintf(`import(%q).then((m) => !!m.TraceModel?.Model?.createWithAllHandlers, () => false)`, module), &known)
	if !known {
		t.Skip("this Chromium keeps its trace model elsewhere")
	}
	for name, args := range consumedTraces(t) {
		text := produce(t, append([]string{"convert", "-f", "chrome"}, args...)...)
		var written struct {
			TraceEvents []struct{ Ph string }
		}
		if err := json.Unmarshal([]byte(text), &written); err != nil {
			t.Fatal(err)
		}
		calls := 0
		for _, e := range written.TraceEvents {
			if e.Ph == "X" {
				calls++
			}
		}
		var entries int
		page.Eval(fmt.Sprintf(`(async () => {
			const { TraceModel } = await import(%q);
			const model = TraceModel.Model.createWithAllHandlers();
			await model.parse((%s).traceEvents, { isFreshRecording: false });
			let entries = 0;
			for (const p of model.parsedTrace(0).data.Renderer.processes.values())
				for (const t of p.threads.values()) entries += t.entries.length;
			return entries;
		})()`, module, text), &entries)
		if entries != calls {
			t.Errorf("%s: %d calls found, want %d", name, entries, calls)
		}
	}
}

// sumsOfCalls are the number of calls and their nanoseconds, by function.
func sumsOfCalls(t *testing.T, args ...string) map[string][2]int64 {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(produce(t, append([]string{"convert", "-f", "csv"}, args...)...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	function, duration := slices.Index(rows[0], "function"), slices.Index(rows[0], "duration_ns")
	sums := map[string][2]int64{}
	for _, row := range rows[1:] {
		ns, err := strconv.ParseInt(row[duration], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := sums[row[function]]
		sums[row[function]] = [2]int64{s[0] + 1, s[1] + ns}
	}
	return sums
}

// Perfetto finds the calls that we do, on the threads that we do.
func TestPerfettoInTraceProcessor(t *testing.T) {
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	for name, args := range map[string][]string{
		"fdr":      kvserver,
		"long":     append([]string{"--min-duration", "20us"}, kvserver...),
		"recorded": consumedTraces(t)["kvserver-recorded.xray"],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "trace.pftrace")
			produce(t, append([]string{"convert", "-f", "perfetto", "-o", file}, args...)...)
			trace, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := traceprocessor.Open(t, trace)
			for _, row := range p.Query(`select name, value from stats where value > 0 and severity in ('error', 'data_loss')`) {
				t.Errorf("Perfetto complains: %v", row)
			}
			got := map[string][2]int64{}
			for _, row := range p.Query(`select s.name, count(*), sum(dur) from slice s join thread_track t on s.track_id = t.id
				where dur > 0 or s.name not in ('custom event') group by 1`) {
				got[row[0].(string)] = [2]int64{row[1].(int64), row[2].(int64)}
			}
			// A slice ends at a whole nanosecond, where a call has a whole duration.
			for function, want := range sumsOfCalls(t, args...) {
				if sum := got[function]; sum[0] != want[0] || max(sum[1]-want[1], want[1]-sum[1]) > want[0] {
					t.Errorf("%s: Perfetto has %d calls and %d ns, we %d and %d", function, sum[0], sum[1], want[0], want[1])
				}
				delete(got, function)
			}
			if len(got) > 0 {
				t.Errorf("Perfetto has also %v", got)
			}
			if n := p.Query(`select count(*) from thread where upid > 0`)[0][0].(int64); n < 7 {
				t.Errorf("%d threads", n)
			}
			// Where there are names and lines, a slice shows them.
			if n := p.Query(`select count(*) from args where key = 'source.line_number' and int_value > 0`)[0][0].(int64); n == 0 {
				t.Error("no slice has a source location")
			}
		})
	}
}

// The JSON for VizTracer's viewer is a trace to Perfetto, which that viewer is made of, and
// has a place for each slice of a function with debug information, by its name.
func TestVizTracerInTraceProcessor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	produce(t, append([]string{"convert", "-f", "viztracer", "--source", "-o", file}, consumedTraces(t)["kvserver-fdr.xray"]...)...)
	trace, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written struct {
		FileInfo struct {
			Files, Functions map[string][2]any
		} `json:"file_info"`
	}
	if err := json.Unmarshal(trace, &written); err != nil {
		t.Fatal(err)
	}
	placed := 0
	for _, row := range traceprocessor.Open(t, trace).Query(`select name, count(*) from slice where dur > 0 group by 1`) {
		place, ok := written.FileInfo.Functions[row[0].(string)]
		if !ok {
			t.Errorf("%s has no place", row[0])
			continue
		}
		if _, ok := written.FileInfo.Files[place[0].(string)]; !ok {
			t.Errorf("%s is in %s, which is no file", row[0], place[0])
		}
		placed++
	}
	if placed < 20 {
		t.Errorf("only %d functions have a place", placed)
	}
}

// Perfetto shows arguments, payloads, and a request's way over threads.
func TestEventsInTraceProcessor(t *testing.T) {
	text := `xray fdr version=5
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter-arg 1 +5
arg 42
arg 0xffff800000001000
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00" +5
exit 1 +100
end-of-buffer
zeros auto
thread 12 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 2 +50
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00checkout" +5
custom "step one" +1
typed 513 "\x00\xff" +1
enter 3 +10
end-of-buffer
`
	trace, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	input, output := filepath.Join(dir, "trace.xray"), filepath.Join(dir, "trace.pftrace")
	if err := os.WriteFile(input, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	produce(t, "convert", "-f", "perfetto", "-o", output, input)
	written, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	p := traceprocessor.Open(t, written)
	for query, want := range map[string][][]any{
		`select tid, s.ts, dur, s.name from slice s join thread_track t on s.track_id = t.id join thread using (utid) order by 1, 2, 3 desc`: {
			{int64(11), int64(0), int64(105), "#1"}, {int64(11), int64(5), int64(0), "request 5"},
			{int64(12), int64(45), int64(17), "#2"}, {int64(12), int64(50), int64(0), "request 5: checkout"},
			{int64(12), int64(51), int64(0), "custom event"}, {int64(12), int64(52), int64(0), "typed event 513"},
			{int64(12), int64(62), int64(0), "#3"},
		},
		`select a.name, b.name from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id`: {
			{"request 5", "request 5: checkout"},
		},
		`select distinct key, ifnull(string_value, int_value) from args where key like 'debug.%' order by 1, 2`: {
			{"debug.argument 1", int64(42)}, {"debug.argument 2", int64(-0x00007ffffffff000)},
			{"debug.end", "truncated"}, {"debug.hex", "00ff"},
			{"debug.request", "5"}, {"debug.text", "checkout"}, {"debug.text", "step one"},
		},
	} {
		if diff := cmp.Diff(want, p.Query(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// callgrind_annotate finds the self times that we do.
func TestProfilesInCallgrindAnnotate(t *testing.T) {
	testenv.Need(t, "callgrind_annotate")
	file := filepath.Join(t.TempDir(), "callgrind.out")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	produce(t, append([]string{"convert", "-f", "callgrind", "-o", file}, args...)...)
	for _, inclusive := range []string{"no", "yes"} {
		text, err := exec.Command("callgrind_annotate", "--threshold=100", "--auto=no", "--inclusive="+inclusive, file).CombinedOutput()
		if err != nil {
			t.Fatalf("callgrind_annotate: %v\n%s", err, text)
		}
		got := map[string]int64{}
		for _, m := range regexp.MustCompile(`(?m)^ *([\d,]+) \([ \d.]+%\)  \S+?:(.*) \[.*\]$`).FindAllStringSubmatch(string(text), -1) {
			ns, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got[m[2]] = ns
		}
		var report struct {
			Rows []struct {
				Function    string
				Self, Total int64
			}
		}
		account := produce(t, append([]string{"account", "--format", "json"}, args...)...)
		if err := json.Unmarshal([]byte(account), &report); err != nil || len(report.Rows) == 0 {
			t.Fatalf("%v in %.300s", err, account)
		}
		for _, row := range report.Rows {
			want := row.Self
			if inclusive == "yes" {
				want = row.Total
			}
			if row.Function != "kv::sumNested(char const*&, int)" && got[row.Function] != want {
				t.Errorf("inclusive=%s: %s: %d, we have %d", inclusive, row.Function, got[row.Function], want)
			}
		}
	}
}
