package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/browser"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// scope is what speedscope holds of a thread, or of a profile without threads.
type scope struct {
	Name, Microsecond string // Microsecond is 1 µs as speedscope prints it
	Frames            map[string]sums
	Places            map[string]string // file and line by function
	Shown             bool              // shown first
}

// inSpeedscope opens files in speedscope's own page and returns its scopes of each file.
func inSpeedscope(t *testing.T, files map[string][]byte) map[string][]scope {
	t.Helper()
	index := testenv.Fetched(t, "speedscope/package/dist/release/index.html")
	pages := http.FileServer(http.Dir(filepath.Dir(index)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data, ok := files[strings.TrimPrefix(r.URL.Path, "/traces/")]; ok {
			_, _ = w.Write(data)
			return
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	held := map[string][]scope{}
	var page *browser.Page
	for name := range files {
		address := server.URL + "/#view=sandwich&profileURL=/traces/" + name
		if page == nil {
			// speedscope mounts its page on the element that it replaces, which is its
			// script.
			page = browser.OpenWith(t, address, browser.Options{Script: `new MutationObserver(changes => {
				for (const c of changes) for (const e of c.addedNodes) if (e.tagName === "SCRIPT") window.place = e;
			}).observe(document, {childList: true, subtree: true})`})
		} else {
			page.Visit(address)
		}
		var scopes []scope
		page.Eval(`(async () => {
			const group = (v) => v && (v.props?.profileGroup || [v.__k].flat().map(group).find(Boolean));
			let found;
			while (!(found = group(place.__k))) {
				if (document.body.innerText.includes("Something went wrong")) throw new Error(document.body.innerText);
				await new Promise(r => setTimeout(r, 20));
			}
			return found.profiles.map(({profile}, i) => {
				const scale = profile.formatValue(1e6) === "1.00s" ? 1000 : 1; // microseconds, else nanoseconds
				const frames = {}, places = {};
				profile.forEachFrame(f => {
					const s = frames[f.name] ||= {Count: 0, Self: 0, Total: 0};
					s.Self += Math.round(f.getSelfWeight() * scale);
					s.Total += Math.round(f.getTotalWeight() * scale);
					places[f.name] = f.file ? f.file + ":" + f.line : "";
				});
				profile.forEachCall(node => frames[node.frame.name].Count++, () => {});
				return {Name: profile.getName(), Microsecond: profile.formatValue(1000 / scale), Frames: frames, Places: places, Shown: i === found.indexToView};
			});
		})()`, &scopes)
		held[name] = scopes
	}
	if errs := page.Errors(); len(errs) > 0 {
		t.Errorf("errors in speedscope: %q", errs)
	}
	return held
}

// Speedscope finds the same calls as xray, names the threads, and sums profiles and folded stacks
// to the same times.
func TestSpeedscope(t *testing.T) {
	t.Parallel()
	traces := consumedTraces(t)
	files := map[string][]byte{}
	for _, name := range []string{"kvserver-fdr.xray.speedscope", "kvserver-fdr.xray.pprof", "kvserver-fdr.xray.folded",
		"kvserver-recorded.xray.speedscope", "typed-event-fdr.xray.speedscope",
		"header-only-fdr.xray.speedscope",
		// Speedscope also reads the timeline without arguments, in which calls end
		// together.
		"dso-fdr.xray.chrome"} {
		file := filepath.Join(t.TempDir(), name)
		format := strings.TrimPrefix(filepath.Ext(name), ".")
		produce(t, append([]string{"convert", "-f", format, "-o", file}, traces[strings.TrimSuffix(name, "."+format)]...)...)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	held := inSpeedscope(t, files)
	for name, scopes := range held {
		t.Run(name, func(t *testing.T) {
			format := strings.TrimPrefix(filepath.Ext(name), ".")
			args := traces[strings.TrimSuffix(name, "."+format)]
			if strings.HasPrefix(name, "header-only") {
				if len(scopes) != 1 || len(scopes[0].Frames) > 0 {
					t.Errorf("got %v for a trace without calls", scopes)
				}
				return
			}
			want, got := accounted(t, args...), map[string]sums{}
			for _, s := range scopes {
				if format != "folded" && s.Microsecond != "1.00µs" {
					t.Errorf("%s: 1 µs is shown as %s", s.Name, s.Microsecond)
				}
				for function, f := range s.Frames {
					g := got[function]
					got[function] = sums{g.Count + f.Count, g.Self + f.Self, g.Total + f.Total}
				}
			}
			if format == "speedscope" {
				// Speedscope shows nothing for calls without a duration.
				leaveOut(t, want, func(c calledOnce) bool { return c.Duration == 0 }, args...)
			} else {
				// A profile has one sample for all calls of a path.
				for function, g := range got {
					got[function] = sums{want[function].Count, g.Self, g.Total}
				}
			}
			agree(t, got, want, 3)
		})
	}

	var names []string
	longest, shown := int64(0), int64(-1)
	for _, s := range held["kvserver-fdr.xray.speedscope"] {
		busy := int64(0)
		for _, f := range s.Frames {
			busy += f.Self
		}
		if longest = max(longest, busy); s.Shown {
			shown = busy
		}
		names = append(names, s.Name)
		for function, place := range s.Places {
			if strings.HasPrefix(function, "kv::handle(") && place != "./src/kvserver.cc:266" {
				t.Errorf("%s: got location %q, want ./src/kvserver.cc:266", function, place)
			}
		}
	}
	if shown != longest {
		t.Errorf("the first thread shown has %d ns in calls, want the longest, %d", shown, longest)
	}
	if diff := cmp.Diff([]string{
		"process 15748, thread 15749", "process 15748, thread 15750", "process 15748, thread 15751", "process 15748, thread 15752",
		"process 15748, thread 15753", "process 15748, thread 15754", "process 15748, thread 15755",
	}, names); diff != "" {
		t.Errorf("threads (-want +got):\n%s", diff)
	}
	if name := held["kvserver-recorded.xray.speedscope"][1].Name; !regexp.MustCompile(`^kvserver \d+, kvserver \d+$`).MatchString(name) {
		t.Errorf("got thread name %q, want kvserver with IDs", name)
	}
}
