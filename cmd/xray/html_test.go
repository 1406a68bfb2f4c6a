package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/browser"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// handles gives the scripts of tests what they use of the page. settled waits until the page shows the current selection
// and has stored it in its address.
const handles = `const {page, timeline} = await xray.app, {calls, state, meta} = page;
	Object.assign(window, {page, timeline, calls, state, meta, $: id => document.getElementById(id), settled: () => page.settled(),
		change: what => page.change(what), pickFunction: f => page.pickFunction(f),
		// The calls that pass the filter, sorted by a column.
		filtered: (column = "start", down = false) => page.engine.ask("list", page.filter(), column, down)});`

// openHTML opens a page and waits until it shows its calls. The test fails if the page reports an
// error before the test ends.
func openHTML(t *testing.T, file, fragment string) *browser.Page {
	t.Helper()
	page := browser.Open(t, "file://"+file+fragment)
	awaitHTML(page)
	t.Cleanup(func() {
		if errors := page.Errors(); len(errors) > 0 {
			t.Errorf("errors in the page: %q", errors)
		}
	})
	return page
}

func awaitHTML(page *browser.Page) {
	var ready bool
	page.Eval(`(async () => { `+handles+` await settled(); return true; })()`, &ready)
}

// htmlOf writes the page of a text trace, or of a file in testdata.
func htmlOf(t *testing.T, text string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if text != "" {
		trace, err := tracetext.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		input := filepath.Join(dir, "trace.xray")
		if err := os.WriteFile(input, trace, 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, input)
	}
	file := filepath.Join(dir, "trace.html")
	produce(t, append([]string{"html", "-o", file}, args...)...)
	return file
}

// The page holds all calls with their times, shows them, and its controls work.
func TestHTMLInBrowser(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	file := htmlOf(t, "", args...)
	page := openHTML(t, file, "")

	sums := map[string][2]float64{}
	page.Eval(`(() => { const s = {}; for (let i = 0; i < calls.n; i++) {
		const t = s[page.fullName(calls.func[i])] ||= [0, 0]; t[0]++; t[1] += calls.duration[i]; } return s; })()`, &sums)
	for name, want := range sumsOfCalls(t, args...) {
		if got := sums[name]; int64(got[0]) != want[0] || max(int64(got[1])-want[1], want[1]-int64(got[1])) > want[0] {
			t.Errorf("%s: got %v, want %v as in the trace", name, got, want)
		}
		delete(sums, name)
	}
	if len(sums) > 0 {
		t.Errorf("functions that the trace lacks: %v", sums)
	}
	var same bool
	page.Eval(`(() => { let self = 0, outermost = 0; for (let i = 0; i < calls.n; i++) {
		self += calls.selfOf(i); if (calls.parentOf(i) < 0) outermost += calls.duration[i]; } return self === outermost; })()`, &same)
	if !same {
		t.Error("self times do not add up to the times of outermost calls")
	}

	// do runs a script and returns what the page shows afterwards.
	type shown struct {
		Range, Title string
		Rows         []string
		Hash         string
	}
	do := func(script string) (s shown) {
		t.Helper()
		page.Eval(`(async () => { `+script+`; await settled();
			const panel = document.querySelector("#panels > section:not([hidden])");
			return {Range: $("range").textContent, Title: panel.id, Hash: location.hash,
				Rows: Array.from(panel.querySelectorAll(".space .row")).filter(r => !r.hidden).map(r => r.innerText)}; })()`, &s)
		return s
	}
	if s := do(""); s.Range != "" || s.Title != "calls" || len(s.Rows) < 3 || len(s.Rows) > 100 {
		t.Errorf("at first: %+v", s)
	}
	sortBy := func(name string) string {
		return `document.querySelector('#calls [data-name="` + name + `"] button').click()`
	}
	if s := do(sortBy("duration")); !strings.HasPrefix(s.Rows[0], "kv::work") || !strings.Contains(s.Hash, "down=1") {
		t.Errorf("sorted by duration: %q %s", s.Rows[0], s.Hash)
	}
	do(sortBy("duration"))
	if s := do(sortBy("function")); !strings.HasPrefix(s.Rows[0], "kv::Flusher::run") {
		t.Errorf("sorted by name: %q", s.Rows[0])
	}
	set := func(id, value string) string {
		return `$("` + id + `").value = "` + value + `"; $("` + id + `").dispatchEvent(new Event("input"))`
	}
	s := do(set("query", "^kv::execute") + ";" + set("min", "5us"))
	if !strings.Contains(s.Range, " of 10,344") || strings.HasPrefix(s.Range, "10,344") || len(s.Rows) == 0 || !strings.HasPrefix(s.Rows[0], "kv::execute") {
		t.Errorf("filtered: %+v", s)
	}
	if s := do(`$("calls").querySelector(".space .row").click()`); !strings.Contains(s.Hash, "call=") {
		t.Errorf("the selected call is not in the address: %s", s.Hash)
	}
	hash := do(`$("tab-function").click()`).Hash
	var text string
	page.Eval(`$("function").innerText`, &text)
	for _, want := range []string{"kv::execute(kv::Store&, kv::Request const&)", "slowest calls", "p99", ".cc:"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the function's view: %.300s", want, text)
		}
	}
	for _, tab := range []string{"functions", "tree", "events"} {
		if s := do(`$("tab-` + tab + `").click()`); s.Title != tab || len(s.Rows) == 0 {
			t.Errorf("%s: %+v", tab, s)
		}
	}
	var boxes int
	if page.Eval(`(async () => { $("tab-flame").click(); await settled(); return Number(document.querySelector("#flame canvas").dataset.boxes); })()`, &boxes); boxes < 10 {
		t.Errorf("got %d boxes in the flame graph", boxes)
	}
	// Zoom by keys and measure by dragging.
	var before, after float64
	page.Eval("state.to - state.from", &before)
	page.Eval(`(async () => { dispatchEvent(new KeyboardEvent("keydown", {key: "w"})); await settled(); return state.to - state.from; })()`, &after)
	if !(after < before) {
		t.Errorf("key w: the width went from %v to %v", before, after)
	}
	var selected float64
	page.Eval(`(async () => { const c = $("canvas"), at = (type, x) => c.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: c.getBoundingClientRect().top + 100, pointerId: 1}));
		c.setPointerCapture = () => {}; at("pointerdown", 300); at("pointermove", 500); at("pointerup", 500); await settled();
		return (state.selection[1] - state.selection[0]) / timeline.view().perPixel; })()`, &selected)
	if selected < 199 || selected > 201 {
		t.Errorf("selecting 200 pixels: got %v", selected)
	}
	if s := do(""); !strings.Contains(s.Hash, "a=") {
		t.Errorf("the selected time is not in the address: %s", s.Hash)
	}
	// The browser's Back button restores the previous view.
	if s := do("dispatchEvent(new KeyboardEvent('keydown', {key: 'Backspace'})); await new Promise(r => { addEventListener('popstate', r, {once: true}); setTimeout(r, 30000); })"); strings.Contains(s.Hash, "a=") {
		t.Errorf("Back: got %s", s.Hash)
	}

	// The address restores the whole view.
	again := openHTML(t, file, hash)
	var back struct {
		Query, Tab string
		Call       int
	}
	again.Eval("({Query: $('query').value, Tab: state.tab, Call: state.call})", &back)
	if back.Query != "^kv::execute" || back.Tab != "function" || back.Call < 0 {
		t.Errorf("%s: restored %+v", hash, back)
	}
}

// sumsOfFunction is what account or a page says about all calls of a function.
type sumsOfFunction struct {
	Count, Open, Pruned, Total, Self, CPU, Blocked, Queued, Recorder float64
	Quantiles                                                        []float64
	Bins                                                             []octaveOfCalls
}

type octaveOfCalls struct{ From, To, N float64 }

// accountOf returns what account says about functions, their order, and the sum of their self
// times.
func accountOf(t *testing.T, args ...string) (functions map[string]sumsOfFunction, ranked []string, self float64) {
	t.Helper()
	var report struct {
		Self      float64 `json:"self_ns"`
		Functions []struct {
			Function            string
			Count, Open, Pruned float64
			Total               float64 `json:"total_ns"`
			Self                float64 `json:"self_ns"`
			CPU                 float64 `json:"on_cpu_ns"`
			Blocked             float64 `json:"blocked_ns"`
			Queued              float64 `json:"queued_ns"`
			Recorder            float64 `json:"recorder_ns"`
			Min                 float64 `json:"min_ns"`
			P50                 float64 `json:"p50_ns"`
			P90                 float64 `json:"p90_ns"`
			P99                 float64 `json:"p99_ns"`
			P999                float64 `json:"p999_ns"`
			Max                 float64 `json:"max_ns"`
			Histogram           []struct {
				From  float64 `json:"from_ns"`
				To    float64 `json:"to_ns"`
				Count float64
			}
		}
	}
	text := produce(t, append([]string{"account", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	functions = map[string]sumsOfFunction{}
	for _, row := range report.Functions {
		f := sumsOfFunction{row.Count, row.Open, row.Pruned, row.Total, row.Self, row.CPU, row.Blocked, row.Queued, row.Recorder,
			[]float64{row.Min, row.P50, row.P90, row.P99, row.P999, row.Max}, []octaveOfCalls{}}
		for _, o := range row.Histogram {
			f.Bins = append(f.Bins, octaveOfCalls{o.From, o.To - 1, o.Count}) // pages include both ends; a tick is 1 ns
		}
		functions[row.Function] = f
		ranked = append(ranked, row.Function)
	}
	return functions, ranked, report.Self
}

// functionsIn returns what a page says about functions.
func functionsIn(page *browser.Page) map[string]sumsOfFunction {
	functions := map[string]sumsOfFunction{}
	page.Eval(`Object.fromEntries(meta.functions.map((f, k) => {
		const {count: Count, open: Open, pruned: Pruned, cpu: CPU, blocked: Blocked, queued: Queued, recorder: Recorder, quantiles: Quantiles} = f.all, {total: Total, self: Self} = page.functionSums().of(k);
		return [f.name, {Count, Open, Pruned, Total, Self, CPU, Blocked, Queued, Recorder, Quantiles, Bins: f.all.bins.filter(b => b.n).map(({from: From, to: To, n: N}) => ({From, To, N}))}]; }))`, &functions)
	return functions
}

// If a page has no room for all calls, its sums by function are still those of all calls, as in
// account. Views that use only the calls in the page say so.
func TestHTMLOfLongestCalls(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	for _, chosen := range [][]string{{"--max-calls", "500"}, nil, {"--func", "^kv::", "--max-calls", "1"}} {
		var flags []string
		if len(chosen) > 2 {
			flags = chosen[:2]
		}
		want, ranked, self := accountOf(t, slices.Concat(flags, args)...)
		page := openHTML(t, htmlOf(t, "", slices.Concat(chosen, args)...), "#tab=functions")
		if diff := cmp.Diff(want, functionsIn(page)); diff != "" {
			t.Errorf("%v: account (-) and page (+):\n%s", chosen, diff)
		}
		var shown struct {
			Names                         []string
			Self, Share, Range, Bar, Tree string
			Function, Part                string
			Summary                       string
		}
		page.Eval(`(async () => {
			const s = {}, rows = () => Array.from(document.querySelectorAll("#functions .space .row")).filter(r => !r.hidden);
			s.Names = rows().map(r => r.querySelector(".name").title);
			[, , , s.Self, s.Share] = Array.from(rows()[0].children, c => c.textContent);
			s.Range = $("range").textContent; s.Bar = $("functions").querySelector(".bar").textContent; s.Summary = $("summary").textContent;
			$("tab-tree").click(); await settled(); s.Tree = $("tree").querySelector(".bar").textContent;
			const f = meta.functions.findIndex(f => f.name.startsWith("kv::hash("));
			pickFunction(f); await settled(); s.Function = $("function").innerText;
			change({selection: [0, calls.span / 2]}); await settled(); s.Part = $("function").innerText;
			return s; })()`, &shown)
		if n := len(shown.Names); n < 5 || !slices.Equal(shown.Names, ranked[:n]) {
			t.Errorf("%v: got order %q, want %q as in account", chosen, shown.Names, ranked)
		}
		top := want[ranked[0]]
		if wantSelf, wantShare := fmt.Sprintf("%.2f ms", top.Self/1e6), fmt.Sprintf("%.1f %%", 100*top.Self/self); shown.Self != wantSelf || shown.Share != wantShare {
			t.Errorf("%v: first function: got %s, %s, want %s, %s as in account", chosen, shown.Self, shown.Share, wantSelf, wantShare)
		}
		partial := chosen != nil
		for _, text := range []string{shown.Range, shown.Bar, shown.Tree, shown.Part} {
			if says := strings.Contains(text, "in the page"); says != partial {
				t.Errorf("%v: %q: mentions of calls in the page: got %v, want %v", chosen, text, says, partial)
			}
		}
		if partial && !strings.Contains(shown.Function, " of them in the page") || !strings.Contains(shown.Function, " calls in all threads") {
			t.Errorf("%v: wrong counts in the function's view: %.200q", chosen, shown.Function)
		}
		if partial != strings.Contains(shown.Summary, "the longest ") {
			t.Errorf("%v: wrong summary: %q", chosen, shown.Summary)
		}
	}
}

// Of a recording within a budget, a page estimates calls and total times as account does.
func TestHTMLOfBudget(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	trace, err := tracetext.Parse("xray fdr frequency=1000000000 free=5852594d46445231\nthread 0 tsc=1000\n" +
		"metadata 1 `{\"pid\":700,\"recorder\":\"1\",\"mode\":\"record\",\"complete\":true}`\n" +
		"thread 701 pid=700 tsc=1000\nenter 1 +0\nenter 2 +10\nexit 2 +5000\nexit 1 +10000\n")
	if err != nil {
		t.Fatal(err)
	}
	trace = tracewrite.AppendBudget(trace, &reader.Budget{Share: 30_000, From: 1000, To: 20_000, Functions: []reader.BudgetFunction{
		{Func: 2, Counted: 40, Estimated: 1960, Error: 25, Mean: 3000, MeanError: 100}, {Func: 3, Counted: 7, Mean: 20}, {Func: 4, Estimated: 9, Error: 3},
	}}, 1000)
	file := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(file, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	type estimates struct {
		Calls  float64 `json:"all_calls"`
		Margin float64 `json:"margin"`
		Total  float64 `json:"all_total_ns"`
		About  float64 `json:"total_margin_ns"`
	}
	var report struct {
		Functions []struct {
			Function string
			estimates
		}
	}
	if err := json.Unmarshal([]byte(produce(t, "account", "-f", "json", file)), &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]estimates{}
	for _, f := range report.Functions {
		want[f.Function] = f.estimates
	}
	page := openHTML(t, htmlOf(t, "", file), "#tab=functions")
	var got map[string]estimates
	page.Eval(`Object.fromEntries(meta.functions.map(f => [f.name, {all_calls: f.all.allCalls, margin: f.all.callsMargin,
		all_total_ns: f.all.timeless ? 0 : f.all.allTotal, total_margin_ns: f.all.totalMargin}]))`, &got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 4 {
		t.Errorf("account (-) and page (+):\n%s", diff)
	}
	var rows, function string
	page.Eval(`Array.from(document.querySelectorAll("#functions .space .row")).filter(r => !r.hidden).map(r => Array.from(r.children, c => c.textContent).join(" ")).join("|")`, &rows)
	page.Eval(`(async () => { pickFunction(meta.functions.findIndex(f => f.name === "#2")); await settled(); return $("function").innerText; })()`, &function)
	for _, row := range []string{"#2 1 5.000 µs 5.000 µs 33.3 % 5.000 µs ~2,001 ~6.005 ms", "#3 0 0 ns - - - 7 ~140 ns", "#4 0 0 ns - - - ~9 -"} {
		if !strings.Contains(rows, row) {
			t.Errorf("no row %q in %s", row, rows)
		}
	}
	if !strings.Contains(function, "~2,001") || !strings.Contains(function, "all total") {
		t.Errorf("function: got %s", function)
	}
}

// A page includes calls that the recorder pruned or only counted where account does, and says which
// numbers lack them.
func TestHTMLOfPrunedCalls(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	const head = "xray fdr frequency=1000000000 free=5852594d46445231\nthread 0 tsc=1000\n" +
		"metadata 1 `{\"pid\":700,\"recorder\":\"1\",\"mode\":\"prune\",\"threshold_ns\":5000,\"complete\":true}`\n"
	var sums, counts strings.Builder
	for _, n := range []uint64{2, 1000, 300_000, 2, 1000, 5000, 3, 5, 2500} { // the header and two functions
		fmt.Fprintf(&sums, "%q", binary.LittleEndian.AppendUint64(nil, n))
	}
	for _, n := range []uint64{1, 4, 12} {
		fmt.Fprintf(&counts, "%q", binary.LittleEndian.AppendUint64(nil, n))
	}
	body := func(b *strings.Builder) string { return "\"" + strings.ReplaceAll(b.String(), "\"", "") + "\"" }
	const recorded = "thread 701 pid=700 tsc=1000\nenter 1 +0\nexit 1 +10000\nenter 1 +10\nenter 3 +0\nexit 3 +0\nexit 1 +10000\n"
	pruned := head + "metadata 12 " + body(&sums) + "\n" + recorded
	page := openHTML(t, htmlOf(t, head), "#tab=functions")
	for _, test := range []struct {
		name, trace       string
		flags             []string
		bar, rows, notes  string
		function, partial string
	}{
		{"pruned", pruned, nil, "all threads: all calls, including calls that the recorder dropped", "#3 6 2.500 µs 0 ns 0.0 % 0 ns|#2 1,000 5.000 µs - - -",
			"Counts and totals of functions, over all threads and the whole time, include them, and their time counts",
			"1,000 calls in all threads, 0 of them in the page|1,000 dropped by the recorder: included only in the number of calls and the total time",
			"; without the 1,005 calls that the recorder dropped; their time counts as self time of their callers"},
		{"chosen", pruned, []string{"--from", "1us"}, "", "#3 1 0 ns 0 ns 0.0 % 0 ns", "1,005 calls are missing", "1 call in thread 701", ""},
		{"counted", head + "metadata 7 " + body(&counts) + "\n", nil, "all threads: all calls, including calls that were only counted", "#4 12 - - - -",
			"12 were only counted", "12 calls in all threads|12 only counted", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := htmlOf(t, test.trace, test.flags...)
			page.Visit("file://" + file + "#tab=functions")
			awaitHTML(page)
			want, _, _ := accountOf(t, append(test.flags, filepath.Join(filepath.Dir(file), "trace.xray"))...)
			if diff := cmp.Diff(want, functionsIn(page)); diff != "" {
				t.Errorf("account (-) and page (+):\n%s", diff)
			}
			var got struct {
				Bar, Summary, Function, Part string
				Rows                         []string
			}
			page.Eval(`(async () => { const s = {Bar: $("functions").querySelector(".bar").textContent, Summary: $("summary").textContent};
				s.Rows = Array.from(document.querySelectorAll("#functions .space .row")).filter(r => !r.hidden).map(r => Array.from(r.children, c => c.textContent).join(" "));
				pickFunction(meta.functions.length - 1); await settled(); s.Function = $("function").innerText;
				change({tab: "functions", selection: [0, calls.span / 2]}); await settled(); s.Part = $("functions").querySelector(".bar").textContent;
				return s; })()`, &got)
			if got.Bar != test.bar || !strings.Contains(strings.Join(got.Rows, "|"), test.rows) || !strings.Contains(got.Summary, test.notes) {
				t.Errorf("%+v", got)
			}
			for want := range strings.SplitSeq(test.function, "|") {
				if !strings.Contains(got.Function, want) {
					t.Errorf("no %q in the function's view: %q", want, got.Function)
				}
			}
			if test.partial != "" && !strings.HasSuffix(got.Part, test.partial) {
				t.Errorf("with a part of the time selected: %q", got.Part)
			}
		})
	}
}

// The fields select threads and times, all views find a selected call, and the timeline marks
// search results at any zoom.
func TestHTMLChoosing(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	page := openHTML(t, htmlOf(t, "", consumedTraces(t)["kvserver-fdr.xray"]...), "")
	check := func(what, script string) {
		t.Helper()
		var wrong string
		page.Eval(`(async () => { const type = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("input")); };
			const key = (key, on = document.body) => on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
			`+script+` return ""; })()`, &wrong)
		if wrong != "" {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	check("thread", `const name = meta.threads[2].name; type("thread", name); await settled();
		const all = await filtered(); if (page.threads().length !== 1 || all.length !== meta.threads[2].calls || timeline.layout.lanes.length !== 1) return all.length + " calls";
		if (!location.hash.includes("thread=")) return location.hash; type("thread", "");`)
	check("time", `type("time", "1ms - 1500us"); await settled();
		if (String(state.selection) !== "1000000,1500000") return String(state.selection);
		for (const i of await filtered()) if (calls.endOf(i) < 1e6 || calls.start[i] > 1.5e6) return "call " + i;
		$("clear").click(); await settled(); if ($("time").value || page.isFiltered) return "not cleared";`)
	check("what makes no sense", `type("query", "kv::("); type("min", "5 parsecs"); await settled();
		if ((await filtered()).length !== calls.n || $("query").getAttribute("aria-invalid") !== "true" || !$("range").textContent.includes("parsecs")) return $("range").textContent;
		$("clear").click();`)
	check("the table follows the timeline", `change({sort: "duration", down: true, tab: "calls"}); await settled();
		page.choose(9000, false); await settled();
		const row = document.querySelector("#calls .row[aria-selected=true]");
		if (!row || row.line !== page.listed.get().indexOf(9000)) return "row " + row?.line;
		if (!$("chosen-text").textContent.startsWith(page.nameOf(9000))) return $("chosen-text").textContent;`)
	check("keys in the table", `const table = document.querySelector("#calls .table"), at = page.listed.get().indexOf(9000);
		key("ArrowDown", table); await settled(); if (state.call !== page.listed.get()[at + 1]) return "down leads to " + state.call;
		key("Home", table); await settled(); if (state.call !== page.listed.get()[0]) return "home leads to " + state.call;
		const id = table.getAttribute("aria-activedescendant"); if (document.getElementById(id)?.line !== 0) return "active is " + id;
		key("m"); await settled(); if (String(state.selection) !== [calls.start[state.call], calls.endOf(state.call)].join()) return "m chooses " + state.selection;
		key("Escape"); await settled(); if (state.call >= 0 || state.selection) return "escape leaves something";`)
	check("searched for", `type("query", "^kv::hash$"); await settled();
		const all = await filtered(), {rows, count} = page.found.get();
		if (!count || rows.order.length !== count || all.length !== count) return rows.order.length + " of " + count;
		for (const i of all) if (page.nameOf(i) !== "kv::hash") return page.nameOf(i);
		// The pointer finds them though others share their pixels.
		page.change({from: 0, to: calls.span}); timeline.reveal(all[0]); await settled();
		const view = timeline.view(), t = calls.threadOf(all[0]), lane = timeline.laneOf(t);
		for (const i of all) {
			const y = timeline.top(lane) + timeline.above + calls.depth[i] * 17 + 3;
			const there = calls.threadOf(i) === t && y > 22 ? timeline.at(view.x(calls.start[i]), y).call : i;
			if (there < 0 || page.nameOf(there) !== "kv::hash") return "at the place of " + i + " is " + there;
		}
		type("query", "");`)
	check("order", `const parent = i => calls.parentOf(i) < 0 ? -1 : page.rank[calls.func[calls.parentOf(i)]];
		const keys = {function: i => page.rank[calls.func[i]], thread: i => calls.threadOf(i).index, start: i => calls.start[i], duration: i => calls.duration[i],
			self: i => calls.selfOf(i), depth: i => calls.depth[i], parent};
		for (const [name, key] of Object.entries(keys)) {
			const rows = await filtered(name), down = await filtered(name, true);
			if (rows.length !== calls.n) return name + " has " + rows.length;
			for (let k = 1; k < rows.length; k++) {
				const d = key(rows[k]) - key(rows[k - 1]) || rows[k] - rows[k - 1];
				if (!(d > 0)) return name + " at " + k;
			}
			if (String(down.reverse()) !== String(rows)) return name + " downwards";
		}`)
	check("flame graph by keys", `$("tab-flame").click(); await settled(); const c = document.querySelector("#flame canvas");
		key("ArrowDown", c); key("ArrowDown", c); await settled(); const node = Number(c.dataset.cursor), {paths} = page.summed.get(); if (paths.depth(node) !== 2) return "depth " + paths.depth(node);
		key("Enter", c); await settled(); if (c.dataset.top !== c.dataset.cursor) return "not zoomed";`)
	check("call tree by keys", `$("tab-tree").click(); await settled(); const t = document.querySelector("#tree .table"), n = Number(t.getAttribute("aria-rowcount"));
		key("ArrowDown", t); key("ArrowLeft", t); await settled(); if (!(Number(t.getAttribute("aria-rowcount")) < n)) return n + " rows still";
		key("ArrowRight", t); await settled(); if (Number(t.getAttribute("aria-rowcount")) !== n) return "not open again";`)
}

// Pages of traces that are empty or tiny, whose times are in ticks, or that last hours at
// nanosecond resolution.
func TestHTMLOfExtremes(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	const head = "xray fdr version=5 frequency=1000000000 buffer=65536\nthread 11 pid=7 wall=1.000020 cpu=0 tsc=1000\n"
	deep := strings.Repeat("enter 1 +5\n", 4000) + strings.Repeat("exit 1 +5\n", 4000)
	page := openHTML(t, htmlOf(t, head+"end-of-buffer\n"), "")
	for _, test := range []struct {
		name, text, summary, start string
	}{
		{"nothing", "", "no calls", ""},
		{"one", "enter 1 +5\nexit 1 +100\n", "1 call of 1 function on 1 thread in 100 ns", "0.000 µs"},
		{"zero", "enter 1 +0\nexit 1 +0\n", "1 call of 1 function on 1 thread in 0 ns", "0.000 µs"},
		{"hours", "enter 1 +0\ntsc-wrap 36000000001001\nexit 1 +0\nenter 2 +122\nexit 2 +7\nenter 3 +0\ntsc-wrap 74654705665130\nexit 3 +0\n",
			"3 calls of 3 functions on 1 thread in 74,655 s", "36,000.000\u2009000\u2009130 s"},
		{"deep", deep, "4,000 calls of 1 function on 1 thread in 39.99 µs", "19.995 µs"},
		{"open", "enter 1 +5\nenter 2 +5\nexit 2 +5\n", "1 open at the end", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			page.Visit("file://" + htmlOf(t, head+test.text+"end-of-buffer\n"))
			awaitHTML(page)
			var got struct {
				Summary, Start, Duration string
				Ascending                bool
			}
			page.Eval(`(async () => { for (const tab of page.tabs) { change({tab, func: meta.functions.length - 1, call: calls.n - 1}); await settled(); change({from: state.from, to: state.from + (state.to - state.from) / 1000}); await settled(); }
				return {Summary: $("summary").textContent, Start: calls.n ? page.format.moment(calls.start[calls.n - 1]) : "", Duration: calls.n ? page.showDuration(0) : "",
					Ascending: (await filtered("duration")).every((i, k, all) => k === 0 || calls.duration[all[k - 1]] <= calls.duration[i])}; })()`, &got)
			if !strings.Contains(got.Summary, test.summary) || test.start != "" && got.Start != test.start || !got.Ascending {
				t.Errorf("%+v", got)
			}
			if open := strings.HasPrefix(got.Duration, "≥ "); open != (test.name == "open") {
				t.Errorf("first call: got duration %s", got.Duration)
			}
		})
	}
}

// axe finds no accessibility problem in any view, with the light or dark theme.
func TestHTMLAccessible(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	axe, err := os.ReadFile(testenv.Fetched(t, "axe-core/package/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	page := openHTML(t, htmlOf(t, "", consumedTraces(t)["kvserver-fdr.xray"]...), "")
	var loaded bool
	page.Eval(string(axe)+"; true", &loaded)
	var found []string
	page.Eval(`(async () => { const found = [];
		for (const theme of ["light", "dark"]) for (const tab of [...page.tabs, "help"]) {
			change({theme, query: "kv", call: 100, func: calls.func[100], ...(tab === "help" ? {} : {tab})});
			if (tab === "help") $("help").showModal();
			await settled();
			const {violations} = await axe.run();
			for (const v of violations) found.push([theme, tab, v.help, ...v.nodes.map(n => n.html.slice(0, 200))].join(": "));
			$("help").close();
		}
		return found; })()`, &found)
	if len(found) > 0 {
		t.Errorf("%s", strings.Join(found, "\n"))
	}
}

// Names cannot inject markup or scripts into the page.
func TestHTMLOfHostileNames(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	dir := t.TempDir()
	name := `</script><script>document.title = "broken"</script><img src=x onerror=alert(1)>`
	trace, err := tracetext.Parse("xray fdr version=5\nthread 11 pid=7 wall=1.000020 cpu=0 tsc=1000\nenter 1 +5\ncustom \"<b>bold</b>\" +5\nexit 1 +100\nend-of-buffer\n")
	if err != nil {
		t.Fatal(err)
	}
	input, names, file := filepath.Join(dir, "<i>.xray"), filepath.Join(dir, "map.yaml"), filepath.Join(dir, "trace.html")
	for path, data := range map[string][]byte{
		input: trace,
		names: []byte("---\n- { id: 1, address: 0x1, function: 0x1, kind: function-enter, always-instrument: true, function-name: '" + name + "' }\n...\n"),
	} {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	produce(t, "html", "-m", names, "-o", file, input)
	page := openHTML(t, file, "#tab=functions")
	var got struct {
		Title, Name, Event string
		Scripts            int
	}
	page.Eval(`({Title: document.title, Name: page.fullName(0), Event: meta.events[0].text, Scripts: document.querySelectorAll("img, i, b").length})`, &got)
	want := got
	want.Title, want.Name, want.Event, want.Scripts = "<i>.xray", name, "custom event: <b>bold</b>", 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The text about a selected call has its arguments.
func TestHTMLShowsValues(t *testing.T) {
	t.Parallel()
	page := openHTML(t, htmlOf(t, `xray fdr version=5 frequency=1000000000
extents auto
thread 0
metadata process `+"`{\"pid\":7}`"+`
metadata values `+"`"+`{"functions":[{"id":1,"entry":[{"expression":"n","type":"int","kind":"scalar","format":"int","size":4}]}]}`+"`"+`
extents auto
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter-arg 1 +0
arg 5
enter 2 +10
exit 2 +100
exit 1 +1000
`), "")
	var texts []string
	page.Eval(`(async () => {
		const texts = [];
		for (const call of [0, 1]) {
			change({call});
			await settled();
			texts.push($("chosen-text").textContent);
		}
		return texts;
	})()`, &texts)
	if len(texts) != 2 || !strings.HasSuffix(texts[0], "; n: 5") || strings.Contains(texts[1], ";") {
		t.Errorf("got %q", texts)
	}
}

// All threads are in view: one row each, or one a process if there are too many. Rows unfold, and can be pinned, hidden,
// moved and sorted.
func TestHTMLThreads(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	// The threads of a process are busy for 1, 2, 3, ... us.
	trace := func(processes, threads int) string {
		var b strings.Builder
		b.WriteString("xray fdr version=5 frequency=1000000000\n")
		for p := range processes {
			for k := range threads {
				fmt.Fprintf(&b, "extents auto\nthread %d pid=%d wall=1.000020 cpu=0 tsc=1000\nenter 1 +0\nenter 2 +10\nexit 2 +%d\nexit 1 +10\n", 100*p+k+101, p+7, 1000*(k+1)-20)
			}
		}
		return b.String()
	}
	file := htmlOf(t, trace(1, 40))
	page := openHTML(t, file, "")
	page.Resize(1280, 800)
	page.Visit("file://" + file)
	awaitHTML(page)
	check := func(what, script string) {
		t.Helper()
		var wrong string
		page.Eval(`(async () => { const names = () => timeline.layout.lanes.map(l => l.name.replace("thread ", "")).join(" ");
			const c = $("canvas"), box = () => c.getBoundingClientRect(), lane = name => [...timeline.layout.pinned, ...timeline.layout.lanes].find(l => l.name === name);
			const event = (type, x, y, more) => c.dispatchEvent(new (type === "contextmenu" || type === "click" ? MouseEvent : PointerEvent)(type, {clientX: box().left + x, clientY: box().top + y, pointerId: 1, bubbles: true, ...more}));
			const menu = async (name, item) => { event("contextmenu", 20, timeline.top(lane(name)) + 5); Array.from($("menu").children).find(b => b.textContent === item).click(); await settled(); };
			`+script+` return ""; })()`, &wrong)
		if wrong != "" {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	check("40 threads", `const {lanes} = timeline.layout; if (lanes.length !== 40 || lanes.some(l => l.height < 14 || l.height > 20 || l.unfolded)) return names();
		if (timeline.height + 22 > timeline.pane.clientHeight) return timeline.height + " in " + timeline.pane.clientHeight;`)
	check("busy", `for (const t of calls.threads) { const got = timeline.busyOf(t), want = 1000 * (t.index + 1); if (Math.abs(got - want) > want / 100) return t.name + " was busy for " + got; }
		$("order").value = "busy"; $("order").dispatchEvent(new Event("change")); await settled();
		if (!names().startsWith("140 139 138 ")) return names();
		$("order").value = "trace"; $("order").dispatchEvent(new Event("change")); await settled();`)
	check("unfold", `event("click", 20, timeline.top(lane("thread 102")) + 5); await settled();
		const l = lane("thread 102"); if (!l.unfolded || l.height <= 20) return JSON.stringify(l.height);
		if (timeline.at(timeline.view().x(500), timeline.top(l) + timeline.above + 20).call !== calls.threads[1].first + 1) return "no call in it";
		if (!location.hash.includes("unfolded=1")) return location.hash;
		event("click", 20, timeline.top(l) + 5); await settled(); if (lane("thread 102").unfolded) return "still unfolded";`)
	check("pin, hide, move", `await menu("thread 105", "pin to the top");
		if (timeline.layout.pinned.map(l => l.name).join() !== "thread 105" || names().includes("105")) return "not pinned: " + names();
		await menu("thread 101", "hide"); if (names().includes("101") || $("unhide").hidden) return "not hidden: " + names();
		c.setPointerCapture = () => {}; const from = timeline.top(lane("thread 104")) + 5, to = timeline.top(lane("thread 102")) + 1;
		event("pointerdown", 20, from); event("pointermove", 20, to + 5); event("pointermove", 20, to); event("pointerup", 20, to); await settled();
		if (!names().startsWith("104 102 103 106")) return "not moved: " + names();
		$("unhide").click(); await menu("thread 105", "unpin"); if (!names().includes("101") || !names().includes("105")) return names();
		await menu("thread 110", "only this thread"); if (names() !== "110" || !timeline.layout.lanes[0].unfolded) return "only: " + names();`)
	page.Visit("file://" + htmlOf(t, trace(3, 20)))
	awaitHTML(page)
	check("groups", `const of = group => timeline.layout.lanes.filter(l => l.group === group), open = timeline.layout.lanes.filter(l => l.group && l.unfolded);
		if (timeline.layout.lanes.filter(l => l.group).map(l => l.group + l.threads.length).join() !== "7: thread20,8: thread20,9: thread20") return names();
		if (!open.length || open.length === 3 || timeline.layout.lanes.length !== 3 + 20 * open.length || timeline.height > innerHeight - 240) return open.length + " open";
		event("click", 20, timeline.top(of("7: thread")[0]) + 5); await settled(); if (of("7: thread")[0].unfolded === open.some(l => l.group === "7: thread")) return "not toggled";
		timeline.reveal(calls.threads[59].first); await settled(); if (!lane("9: thread 320").unfolded) return "not revealed";`)
}

// Names that do not fit lose their beginning, so that the name of the function itself stays.
func TestHTMLCutsNames(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	page := openHTML(t, htmlOf(t, "", consumedTraces(t)["kvserver-fdr.xray"]...), "#query=kv::execute")
	var got struct {
		Table      [3]float64
		Text, Path string
	}
	page.Eval(`(async () => { const cut = document.querySelector("#calls .space .cut"), name = cut.firstChild; cut.parentNode.style.flex = "0 0 80px"; const box = name.getBoundingClientRect(), room = cut.getBoundingClientRect();
		const drawn = []; CanvasRenderingContext2D.prototype.fillText = function (text) { drawn.push(text); };
		page.choose(page.listed.get()[0], true); const i = state.call; change({from: calls.start[i], to: calls.start[i] + calls.duration[i] * 20}); timeline.reveal(i); await settled();
		return {Table: [box.width, room.width, Math.abs(box.right - room.right)], Text: drawn.find(t => t.startsWith("…")) || "", Path: drawn.join("|")}; })()`, &got)
	if got.Table[0] <= got.Table[1] || got.Table[2] > 1 {
		t.Errorf("the name is %v wide, in a cell of %v, and ends %v pixels beside it", got.Table[0], got.Table[1], got.Table[2])
	}
	if !strings.HasPrefix(got.Text, "…") || strings.HasSuffix(got.Text, "…") {
		t.Errorf("got %q of %q", got.Text, got.Path)
	}
}
