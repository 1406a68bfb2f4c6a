package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/browser"
	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/internal/tracetext"
)

// openHTML opens a page and waits until it shows its calls.
func openHTML(t *testing.T, file, fragment string) *browser.Page {
	t.Helper()
	page := browser.Open(t, "file://"+file+fragment)
	var ready bool
	page.Eval(`window.errors = []; addEventListener("error", e => errors.push(e.message));
		addEventListener("securitypolicyviolation", e => errors.push(e.violatedDirective));
		(async () => { while (!document.body.dataset.ready) await settled(); await settled(); return true; })();
		async function settled() { await new Promise(r => requestAnimationFrame(() => setTimeout(r, 20))); }`, &ready)
	t.Cleanup(func() {
		var errors []string
		if page.Eval("errors", &errors); len(errors) > 0 {
			t.Errorf("errors in the page: %q", errors)
		}
	})
	return page
}

// The page holds all calls with their times, shows them, and does what its controls say.
func TestHTMLInBrowser(t *testing.T) {
	testenv.Need(t, "chromium")
	file := filepath.Join(t.TempDir(), "trace.html")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	produce(t, append([]string{"html", "-o", file}, args...)...)
	page := openHTML(t, file, "")

	sums := map[string][2]float64{}
	page.Eval(`(() => { const s = {}; for (let i = 0; i < calls.n; i++) {
		const t = s[nameOf(i)] ||= [0, 0]; t[0]++; t[1] += calls.duration[i]; } return s; })()`, &sums)
	for name, want := range sumsOfCalls(t, args...) {
		if got := sums[name]; int64(got[0]) != want[0] || max(int64(got[1])-want[1], want[1]-int64(got[1])) > want[0] {
			t.Errorf("%s: %v in the page, %v in the trace", name, got, want)
		}
		delete(sums, name)
	}
	if len(sums) > 0 {
		t.Errorf("also in the page: %v", sums)
	}
	var same bool
	page.Eval(`(() => { let self = 0, outermost = 0; for (let i = 0; i < calls.n; i++) {
		self += calls.self[i]; if (calls.parent[i] < 0) outermost += calls.duration[i]; } return self === outermost; })()`, &same)
	if !same {
		t.Error("self times do not add up to the outermost calls")
	}

	// do runs a script, and returns what the page then shows.
	type shown struct {
		Range, Title string
		Rows         []string
		Hash         string
	}
	do := func(script string) (s shown) {
		t.Helper()
		page.Eval(`(async () => { `+script+`; await settled(); await settled(); await new Promise(r => setTimeout(r, 250));
			const panel = document.querySelector("main > section:not([hidden])");
			return {Range: $("range").textContent, Title: panel.id, Hash: location.hash,
				Rows: Array.from(panel.querySelectorAll(".rows .row")).filter(r => !r.hidden).map(r => r.innerText)}; })()`, &s)
		return s
	}
	if s := do(""); !strings.HasPrefix(s.Range, "10,344 of 10,344") || s.Title != "calls" || len(s.Rows) < 3 || len(s.Rows) > 100 {
		t.Errorf("at first: %+v", s)
	}
	sortBy := func(name string) string {
		return `document.querySelector('#calls [data-name="` + name + `"]').click()`
	}
	if s := do(sortBy("duration")); !strings.HasPrefix(s.Rows[0], "kv::work(") || !strings.Contains(s.Hash, "down=1") {
		t.Errorf("by duration: %q %s", s.Rows[0], s.Hash)
	}
	do(sortBy("duration"))
	if s := do(sortBy("function")); !strings.HasPrefix(s.Rows[0], "kv::Flusher::run(") {
		t.Errorf("by name: %q", s.Rows[0])
	}
	set := func(id, value string) string {
		return `$("` + id + `").value = "` + value + `"; $("` + id + `").dispatchEvent(new Event("input"))`
	}
	s := do(set("query", "^kv::execute") + ";" + set("min", "5us"))
	if !strings.Contains(s.Range, " of 10,344") || strings.HasPrefix(s.Range, "10,344") || len(s.Rows) == 0 || !strings.HasPrefix(s.Rows[0], "kv::execute") {
		t.Errorf("filtered: %+v", s)
	}
	if s := do(`$("calls").querySelector(".rows .row").click()`); !strings.Contains(s.Hash, "call=") {
		t.Errorf("a chosen call is not in the address: %s", s.Hash)
	}
	hash := do(`$("tab-function").click()`).Hash
	var text string
	page.Eval(`$("function").innerText`, &text)
	for _, want := range []string{"kv::execute(kv::Store&, kv::Request const&)", "slowest calls", "p99", ".cc:"} {
		if !strings.Contains(text, want) {
			t.Errorf("the function's page has no %q: %.300s", want, text)
		}
	}
	for _, tab := range []string{"functions", "tree", "events"} {
		if s := do(`$("tab-` + tab + `").click()`); s.Title != tab || len(s.Rows) == 0 {
			t.Errorf("%s: %+v", tab, s)
		}
	}
	var boxes int
	if page.Eval(`(async () => { $("tab-flame").click(); await settled(); return flame.boxes.length; })()`, &boxes); boxes < 10 {
		t.Errorf("%d boxes in the flame graph", boxes)
	}
	// Zooming by keys, and measuring by dragging.
	var before, after float64
	page.Eval("state.to - state.from", &before)
	page.Eval(`(async () => { dispatchEvent(new KeyboardEvent("keydown", {key: "w"})); await settled(); return state.to - state.from; })()`, &after)
	if !(after < before) {
		t.Errorf("w zooms from %v to %v", before, after)
	}
	var selected float64
	page.Eval(`(async () => { const c = $("canvas"), at = (type, x) => c.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: c.getBoundingClientRect().top + 100, pointerId: 1}));
		c.setPointerCapture = () => {}; at("pointerdown", 100); at("pointermove", 300); at("pointerup", 300); await settled();
		return (state.selection[1] - state.selection[0]) / (state.to - state.from) * c.clientWidth; })()`, &selected)
	if selected < 199 || selected > 201 {
		t.Errorf("200 pixels are %v", selected)
	}

	// The address brings all of it back.
	again := openHTML(t, file, hash)
	var back struct {
		Query, Tab string
		Call       int
	}
	again.Eval("({Query: $('query').value, Tab: state.tab, Call: state.call})", &back)
	if back.Query != "^kv::execute" || back.Tab != "function" || back.Call < 0 {
		t.Errorf("%s brings back %+v", hash, back)
	}
}

// Names cannot break out of the page.
func TestHTMLOfHostileNames(t *testing.T) {
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
	page.Eval(`({Title: document.title, Name: functionName(0), Event: meta.events[0].text, Scripts: document.querySelectorAll("img, i, b").length})`, &got)
	want := got
	want.Title, want.Name, want.Event, want.Scripts = "<i>.xray", name, "custom event: <b>bold</b>", 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
