//go:build linux && amd64

package recorder_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// tree counts the calls of a trace by path and by how they ended.
type tree struct {
	name  func(reader.FuncID) string
	paths map[string]int
	ends  [calls.Ends]int
	depth int
}

func (tr *tree) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		var names []string
		for _, id := range b.Paths.Frames(nil, c.Path) {
			names = append(names, tr.name(id))
		}
		tr.paths[strings.Join(names, ";")]++
		tr.ends[c.End]++
		tr.depth = max(tr.depth, len(names))
	}
	return nil
}

func (tr *tree) Merge(*tree) {}

// treeOf rebuilds the calls of a trace. Functions of objects without an instrumentation map are
// named by their addresses.
func treeOf(t *testing.T, program, path string) (*tree, *calls.Stats) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var name func(reader.FuncID) string
	if r := trace.Recording(0); len(r.Addresses) > 0 {
		known := make(map[reader.FuncID]string)
		name = func(id reader.FuncID) string {
			if _, ok := known[id]; !ok {
				known[id] = "?"
				for n := range named(t, r, map[reader.FuncID]uint64{id: 1}) {
					known[id] = n
				}
			}
			return known[id]
		}
	} else {
		table, err := symbolize.Load(program, symbolize.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		name = func(id reader.FuncID) string { return symbolize.Label(table, id) }
	}
	tr, stats, err := calls.Run(trace, calls.Options{Shards: 1, Paths: true}, func() *tree {
		return &tree{name: name, paths: map[string]int{}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr, stats
}

// buildLandings compiles testdata/landings.cc for the preloaded recorder, or with link flags that
// add it in another way.
func buildLandings(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	return elftest.Build(t, compiler, "landings", slices.Concat([]string{"-O2", "-g", "-Iruntime", "testdata/landings.cc"}, flags, []string{"-pthread", "-ldl"})...)
}

// The calls of testdata/landings.cc by path.
var (
	requestPaths = map[string]int{
		"serve": 1, "serve;request": 1000, "serve;request;parse": 1000, "serve;request;parse;check": 1000,
		"serve;request;parse;work": 100, "serve;request;work": 900, "serve;request;cleaned": 1000,
	}
	jumpPaths = map[string]int{
		"jumped": 1, "jumped;jumping": 1000, "jumped;jumping;jump": 1000, "jumped;jumping;work": 700,
	}
	landings = []struct {
		what  string
		paths map[string]int
		left  int
	}{
		{"exceptions", requestPaths, 300},
		{"recursion", divePaths(), 150},
		{"inside", map[string]int{"inside": 100, "inside;work": 50}, 0},
		{"longjmp", jumpPaths, 600},
		{"handler", map[string]int{"handled": 1, "handled;fault": 50, "handled;fault;on_fault": 50}, 100},
	}
)

func divePaths() map[string]int {
	paths := map[string]int{}
	path := "dive"
	for i := range 301 {
		paths[path] = 1
		if i == 150 {
			paths[path+";work"] = 1
		}
		path += ";dive"
	}
	return paths
}

// checkLandings runs one scenario of the program and compares its calls. left is how many of them
// exceptions or longjmp leave.
func checkLandings(t *testing.T, preload *build.Library, program, options, what string, want map[string]int, left int) {
	t.Helper()
	plain, err := exec.Command(program, what).Output()
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, traces := recordProgram(t, preload, options, program, what)
	if out != string(plain) || stderr != "" || len(traces) != 1 {
		t.Fatalf("%s: got %d traces; the program printed %q, %s; without the recorder %q", what, len(traces), out, stderr, plain)
	}
	got, stats := treeOf(t, program, traces[0])
	for path := range want {
		if got.paths[path] != want[path] {
			t.Errorf("%s: got %d calls of %s, want %d", what, got.paths[path], path, want[path])
		}
	}
	for path, n := range got.paths {
		if want[path] == 0 {
			t.Errorf("%s: got %d calls of %s, want none", what, n, path)
		}
	}
	if got.ends[calls.Left] != left || got.ends[calls.Inferred]+got.ends[calls.Truncated] != 0 || stats.Unmatched != 0 {
		t.Errorf("%s: got %d calls left, want %d; %d without exit, %d open, %d exits without entry", what,
			got.ends[calls.Left], left, got.ends[calls.Inferred], got.ends[calls.Truncated], stats.Unmatched)
	}
}

// Calls that an exception or longjmp leaves end at that moment, and calls made during unwinding
// belong to their real caller. llvm-xray reads the same calls.
func TestLandings(t *testing.T) {
	t.Parallel()
	l := library(t)
	for _, clang := range []string{"clang++-14", "clang++-19", "clang++-22"} {
		t.Run(clang, func(t *testing.T) {
			t.Parallel()
			noStock := clangs[strings.Replace(clang, "++", "", 1)]
			program := buildLandings(t, clang, "-fxray-instrument", noStock)
			for _, c := range landings {
				checkLandings(t, &l, program, "mode=record", c.what, c.paths, c.left)
			}
			checkLandings(t, &l, buildLandings(t, clang, "-fxray-instrument", noStock, "-D_FORTIFY_SOURCE=2"), "mode=record", "longjmp", jumpPaths, 600)
			checkLandings(t, &l, buildLandings(t, clang, "-fxray-instrument", noStock, "-O0"), "mode=record", "exceptions", requestPaths, 300)
			_, _, traces := recordProgram(t, &l, "mode=record", program, "exceptions")
			checkStockCounts(t, traces[0])
		})
	}
}

// A function whose code is in several parts is left like others: the unwinder sees only the part.
func TestLandingsInParts(t *testing.T) {
	t.Parallel()
	l := library(t)
	testenv.Need(t, "ld.lld-22")
	// Blocks that are not in the list are in a cold part, and landing pads in one of their own.
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("v1\nf check\nc 0\nf parse\nc 0\nf dive\nc 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, sections := range map[string]string{"all": "all", "cold": "list=" + list} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps", "-fuse-ld=lld-22", "-fbasic-block-sections="+sections)
			checkLandings(t, &l, program, "mode=record", "recursion", divePaths(), 150)
			if name != "all" { // then clang makes a program that aborts
				checkLandings(t, &l, program, "mode=record", "exceptions", requestPaths, 300)
			}
		})
	}
}

// The recorder also intercepts the unwinder when it is linked in.
func TestLandingsLinkedIn(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps", "-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive")
	checkLandings(t, nil, program, "mode=record", "exceptions", requestPaths, 300)
	checkLandings(t, nil, program, "mode=record", "recursion", divePaths(), 150)
}

// Exceptions land while another thread changes the mode.
func TestLandingsWhileModesChange(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps")
	plain, err := exec.Command(program, "modes").Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, stderr, _ := recordProgram(t, &l, "mode=record", program, "modes"); out != string(plain) || stderr != "" {
		t.Errorf("the program printed\n%s%s\nwithout the recorder\n%s", out, stderr, plain)
	}
}

// Calls that are not recorded do not count as left: those below the limit of depth mode and those
// that a filter omits. Pruning keeps calls that are left, however short.
func TestLandingsInOtherModes(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps")
	shallow := map[string]int{"serve": 1, "serve;request": 1000}
	checkLandings(t, &l, program, "mode=depth,depth=2", "exceptions", shallow, 100)
	checkLandings(t, &l, program, "mode=depth,depth=2", "longjmp", map[string]int{"jumped": 1, "jumped;jumping": 1000}, 300)
	checkLandings(t, &l, program, "mode=depth,depth=200", "recursion", divesTo(200), 49)
	for what, want := range map[string]map[string]int{"exceptions": requestPaths, "longjmp": jumpPaths, "handler": landings[4].paths} {
		_, stderr, traces := recordProgram(t, &l, "mode=profile", program, what)
		if stderr != "" || len(traces) != 1 {
			t.Fatalf("%s: got %d traces; stderr: %s", what, len(traces), stderr)
		}
		got, _ := profiled(t, program, traces[0])
		for path, n := range want {
			if got[path] != int64(n) {
				t.Errorf("profile of %s: got %d calls of %s, want %d", what, got[path], path, n)
			}
		}
		if len(got) != len(want) {
			t.Errorf("profile of %s: got %d paths, want %d", what, len(got), len(want))
		}
	}
	program = buildLandings(t, "clang++-22", append(prunable, "-fxray-instrument", "-fno-xray-link-deps")...)
	_, _, traces := recordProgram(t, &l, "mode=prune,threshold=1000000000", program, "exceptions")
	got, stats := treeOf(t, program, traces[0])
	if got.ends[calls.Left] != 300 || got.ends[calls.Inferred] != 0 || stats.Unmatched != 0 || got.depth != 5 && got.depth != 4 {
		t.Errorf("pruned: got calls by end %v, %d exits without entry, depth %d", got.ends, stats.Unmatched, got.depth)
	}
}

// divesTo returns divePaths cut off at a depth.
func divesTo(depth int) map[string]int {
	paths := divePaths()
	maps.DeleteFunc(paths, func(path string, _ int) bool { return strings.Count(path, ";") >= depth })
	return paths
}

// With -finstrument-functions, the hooks end calls that an exception leaves, but not those that
// longjmp leaves. With __return__, hooks end neither.
func TestLandingsThroughHooks(t *testing.T) {
	t.Parallel()
	l := library(t)
	for way, left := range map[string]map[string]int{
		"functions": {"exceptions": 0, "longjmp": 600},
		"fentry":    {"exceptions": 300, "longjmp": 600, "recursion": 150},
	} {
		object := elftest.Build(t, "g++", "landings.o", slices.Concat([]string{"-O2", "-g", "-c", "-Iruntime", "testdata/landings.cc"}, hooks[way], []string{"-fno-optimize-sibling-calls"})...)
		program := elftest.Build(t, "g++", "landings", object, l.Preload(), "-Wl,-rpath,"+filepath.Dir(l.Preload()), "-pthread", "-ldl")
		for _, c := range landings {
			if n, ok := left[c.what]; ok {
				checkLandings(t, nil, program, "mode=record", c.what, c.paths, n)
			}
		}
	}
}

// If a thread switches between stacks, nothing crashes and every entry is recorded. If a thread ends
// inside its calls, only the call that does not clean up stays open.
func TestLandingsOnOtherStacks(t *testing.T) {
	l := library(t)
	program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps")
	for what, want := range map[string]map[string]int64{
		"fibers":   {"fiber": 2, "throwing": 200, "turn": 300},
		"switched": {"bottom": 1, "check": 200, "work": 100},
		"jumped":   {"hopper": 1, "hop": 200, "work": 200},
		"thread":   {"first": 1, "last": 1, "cleaned": 2},
	} {
		plain, err := exec.Command(program, what).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range []string{"mode=record", "mode=prune,threshold=1000000", "mode=depth,depth=2", "mode=profile", "mode=count"} {
			out, stderr, traces := recordProgram(t, &l, options, program, what)
			if out != string(plain) || stderr != "" {
				t.Errorf("%s, %s: the program printed %q, %s; without the recorder %q", what, options, out, stderr, plain)
			}
			if options != "mode=record" {
				continue
			}
			if got := entries(t, program, traces); !maps.Equal(got, want) {
				t.Errorf("%s: got calls %v, want %v", what, got, want)
			}
		}
	}
}

// A runtime that records no landings fails the tests above.
func TestLandingsFindWhatIsMissing(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t, edit{"landings.c", "	if (ours)\n		xr_land(unwinder.cfa(c), XR_LEFT_BY_UNWINDING);\n", ""})
	program := buildLandings(t, "clang++-22", "-fxray-instrument", "-fno-xray-link-deps", "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive")
	_, _, traces := recordProgram(t, nil, "mode=record", program, "exceptions")
	if got, _ := treeOf(t, program, traces[0]); got.ends[calls.Inferred] == 0 || got.depth < 100 {
		t.Errorf("got calls by end %v and depth %d; the broken runtime passed", got.ends, got.depth)
	}
}

// Caught panics of Rust.
func TestLandingsOfRust(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("rustc"); err != nil {
		t.Skip("rustc is not on PATH")
	}
	l := library(t)
	program := filepath.Join(t.TempDir(), "panics")
	cmd := exec.Command("rustc", "-O", "-g", "-Z", "instrument-xray=always", "-o", program, "testdata/panics.rs")
	cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("rustc does not support XRay: %s", out)
	}
	_, stderr, traces := recordProgram(t, &l, "mode=record", program)
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	got, stats := treeOf(t, program, traces[0])
	sums := map[string]int{}
	for path, n := range got.paths {
		names := strings.Split(path, ";")
		inner := names[len(names)-1]
		if caller := names[max(len(names)-2, 0)]; strings.HasSuffix(inner, "check") || strings.HasSuffix(inner, "drop") {
			inner += " in " + caller
		}
		sums[inner] += n
	}
	for name, want := range map[string]int{
		"panics::serve": 3, "panics::request": 3000, "panics::check in panics::request": 3000,
		"<panics::Guard as core::ops::drop::Drop>::drop in panics::request": 3000,
	} {
		if sums[name] != want {
			t.Errorf("got %d calls of %s, want %d; all calls: %v", sums[name], name, want, sums)
		}
	}
	if got.ends[calls.Left] < 600 || got.ends[calls.Inferred] != 0 || stats.Unmatched != 0 {
		t.Errorf("got calls by end %v, %d exits without entry", got.ends, stats.Unmatched)
	}
}

// Exceptions in C++20 coroutines.
func TestLandingsOfCoroutines(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := elftest.Build(t, "clang++-22", "coroutines", "-std=c++20", "-O1", "-g", "-fxray-instrument", "-fno-xray-link-deps", "testdata/coroutines.cc")
	checkLandings(t, &l, program, "mode=record", "", map[string]int{
		"request": 1000, "request;resume": 2000, "request;resume;check": 1000,
	}, 200)
}
