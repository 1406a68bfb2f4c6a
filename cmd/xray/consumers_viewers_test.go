package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/browser"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// The trace model of the Performance panel in Chromium's DevTools finds every call of our Chrome
// JSON, with its times.
func TestChromeInDevTools(t *testing.T) {
	t.Parallel()
	page := browser.Open(t, "devtools://devtools/bundled/devtools_app.html")
	const module = "devtools://devtools/bundled/models/trace/trace.js"
	var known bool
	page.Eval(fmt.Sprintf(`import(%q).then((m) => !!m.TraceModel?.Model?.createWithAllHandlers, () => false)`, module), &known)
	if !known {
		t.Skip("this Chromium has its trace model elsewhere")
	}
	traces := consumedTraces(t)
	traces["off CPU"] = []string{offCPUTrace(t)}
	for name, args := range traces {
		if strings.HasPrefix(name, "header-only") {
			continue
		}
		var got map[string]sums
		page.Eval(fmt.Sprintf(`(async () => {
			const { TraceModel } = await import(%q);
			const model = TraceModel.Model.createWithAllHandlers();
			await model.parse((%s).traceEvents, { isFreshRecording: false });
			const { processes, entryToNode } = model.parsedTrace(0).data.Renderer, sums = {};
			for (const p of processes.values()) for (const t of p.threads.values()) for (const entry of t.entries) {
				const s = sums[entry.name] ||= { Count: 0, Self: 0, Total: 0 }, node = entryToNode.get(entry);
				let outer = node.parent;
				while (outer && outer.entry.name !== entry.name) outer = outer.parent;
				s.Count++;
				s.Self += node.selfTime;
				s.Total += outer ? 0 : entry.dur;
			}
			for (const s of Object.values(sums)) {
				s.Self = Math.round(s.Self * 1000);
				s.Total = Math.round(s.Total * 1000);
			}
			return sums;
		})()`, module, produce(t, append([]string{"convert", "-f", "chrome"}, args...)...)), &got)
		t.Run(name, func(t *testing.T) { agree(t, got, accounted(t, args...), 3) })
	}
}

// harmless matches messages of the Perfetto UI that it prints for any trace, about itself and about
// missing network resources.
var harmless = regexp.MustCompile(`'navigate-to'|is_internal_user|googletagmanager|127\.0\.0\.1:9001/status|live_?reload|LiveReload`)

// inUI waits until the Perfetto UI in a page has loaded a trace, and returns the sums of the slices
// and the names of the tracks shown.
func inUI(t *testing.T, page *browser.Page) (map[string]sums, []string) {
	t.Helper()
	var shown struct {
		Problems int
		Rows     [][]any
		Tracks   []string
	}
	page.Eval(fmt.Sprintf(`(async () => {
		while (!self.app?.trace || app.isLoadingTrace) {
			if (document.querySelector(".pf-modal-dialog") || performance.now() > 120_000) throw new Error(document.body.innerText);
			await new Promise(r => setTimeout(r, 20));
		}
		await waitForPerfettoIdle();
		const result = await app.trace.engine.query(%q), rows = [];
		for (const row = result.iter({}); row.valid(); row.next())
			rows.push(result.columns().map(c => { const v = row.get(c); return typeof v === "bigint" ? Number(v) : v; }));
		return {Problems: app.trace.traceInfo.importErrors, Rows: rows, Tracks: app.trace.workspace.flatTracks.map(track => track.name)};
	})()`, sumsOfSlices), &shown)
	if shown.Problems != 0 {
		t.Errorf("the UI reports %d errors of the trace", shown.Problems)
	}
	all := map[string]sums{}
	for _, row := range shown.Rows {
		all[row[0].(string)] = sums{int64(row[1].(float64)), int64(row[2].(float64)), int64(row[3].(float64))}
	}
	for _, e := range page.Errors() {
		if !harmless.MatchString(e) {
			t.Errorf("error in the UI: %s", e)
		}
	}
	return all, shown.Tracks
}

// VizTracer's vizviewer shows the calls, has a source location for every function, and shows the
// source of the selected call.
func TestVizviewer(t *testing.T) {
	testenv.Need(t, "chromium", "python3")
	viewer := testenv.Fetched(t, "viztracer/viztracer/viewer.py")
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Chdir(filepath.Join("..", "..", "testdata")) // the source path in its debug information
	args := []string{"-m", "kvserver", "kvserver-fdr.xray"}
	produce(t, append([]string{"convert", "-f", "viztracer", "--source", "--source-root", ".", "-o", file}, args...)...)

	page := browser.Open(t, serveVizviewer(t, viewer, file))
	got, _ := inUI(t, page)
	agree(t, got, accounted(t, args...), 3)
	var places struct{ Files, Functions map[string][2]any }
	page.Eval("app.trace.traceInfo.vizTracerSourceStorage", &places)
	for function := range got {
		place, _ := places.Functions[function][0].(string)
		if _, ok := places.Files[place]; !ok {
			t.Errorf("%s: location %q is not a file", function, place)
		}
	}
	source, err := os.ReadFile(filepath.Join("src", "kvserver.cc"))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	page.Eval(`(async () => {
		const chosen = await app.trace.engine.query("select id from slice where name glob 'kv::handle(*' limit 1");
		app.trace.selection.selectSqlEvent("slice", Number(chosen.iter({}).get("id")), {switchToCurrentSelectionTab: true});
		for (;;) {
			const code = document.querySelector("pre.line-numbers code, pre.line-numbers");
			if (code?.textContent) return code.textContent;
			await new Promise(r => setTimeout(r, 20));
		}
	})()`, &text)
	if !strings.Contains(text, strings.TrimSpace(string(source))) {
		t.Errorf("wrong source for a call of kv::handle: %.300q", text)
	}
}

// serveVizviewer starts vizviewer, which ends with the test, and returns its address.
func serveVizviewer(t *testing.T, viewer, file string) string {
	t.Helper()
	for range 5 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		_, port, _ := net.SplitHostPort(address)
		listener.Close() // free for vizviewer, unless another process takes it first
		cmd := exec.Command("python3", "-I", viewer, "--server_only", "--port", port, file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for said := bufio.NewScanner(out); said.Scan(); {
			if strings.Contains(said.Text(), "Press Ctrl+C") {
				return "http://" + address + "/"
			}
		}
	}
	t.Fatal("vizviewer did not start")
	return ""
}

// TestViewInPerfettoUI does what a user's browser does after xray view --perfetto: it opens the
// printed address, and the Perfetto UI fetches the trace. The test serves the UI from this machine.
func TestViewInPerfettoUI(t *testing.T) {
	testenv.Need(t, "chromium", "sh")
	index := testenv.Fetched(t, "viztracer/viztracer/web_dist/index.html")
	ui := httptest.NewTLSServer(http.FileServer(http.Dir(filepath.Dir(index))))
	t.Cleanup(ui.Close)

	dir := t.TempDir()
	script, given := filepath.Join(dir, "browser"), filepath.Join(dir, "given")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$1\" >"+given+".new && mv "+given+".new "+given+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", script)
	args := consumedTraces(t)["kvserver-fdr.xray"]
	ended := make(chan output, 1)
	// All tests on this machine share one port.
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		go func() { ended <- runHere(append([]string{"xray", "view", "--perfetto"}, args...)...) }()
		if o, over := waitFor(given, ended); !over {
			break
		} else if !strings.Contains(o.stderr, "address already in use") || time.Since(start) > 3*time.Minute {
			t.Fatalf("xray view --perfetto: %v", o)
		}
	}
	address, err := os.ReadFile(given)
	if err != nil {
		t.Fatal(err)
	}
	page := browser.OpenWith(t, strings.TrimSpace(string(address)), browser.Options{
		AnyCertificate: true,
		Hosts:          map[string]string{"ui.perfetto.dev:443": ui.Listener.Addr().String()},
		Script:         `delete Navigator.prototype.serviceWorker`, // it would load the UI again for later use
	})
	got, tracks := inUI(t, page)
	agree(t, got, accounted(t, args...), 3)
	for _, name := range []string{"process 15748", "thread 15749", "thread 15755", "open calls (15755)"} {
		if !slices.Contains(tracks, name) {
			t.Errorf("no track %q in %q", name, tracks)
		}
	}
	if o := <-ended; o.status != exitOK {
		t.Errorf("xray view --perfetto: %v", o)
	}
}

// waitFor waits until a file exists or the program has ended.
func waitFor(file string, ended <-chan output) (o output, over bool) {
	for {
		select {
		case o := <-ended:
			return o, true
		case <-time.After(10 * time.Millisecond):
			if _, err := os.Stat(file); err == nil {
				return output{}, false
			}
		}
	}
}
