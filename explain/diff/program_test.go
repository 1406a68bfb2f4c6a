//go:build linux && amd64

package diff_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// record builds testdata/server.cpp, runs it, and adds its traces to a comparison.
func record(t *testing.T, all *diff.Comparison, side diff.Side, runs int, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "server")
	flags = append(flags, "-O2", "-fxray-instrument", filepath.Join("testdata", "server.cpp"), "-o", program)
	if said, err := exec.Command("clang++-22", flags...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	root := func(fn reader.FuncID) bool { return symbolize.Label(table, fn) == "handleRequest()" }
	for range runs {
		log := filepath.Join(dir, "log.")
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic verbosity=0 xray_logfile_base="+log,
			"XRAY_BASIC_OPTIONS=func_duration_threshold_us=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		paths, _ := filepath.Glob(log + "*")
		if len(paths) != 1 {
			t.Fatalf("wrong traces: %q", paths)
		}
		addTrace(t, all, side, paths[0], root, table)
		os.Remove(paths[0])
	}
}

func addTrace(t *testing.T, all *diff.Comparison, side diff.Side, path string, root func(reader.FuncID) bool,
	names symbolize.Names) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	frequency, err := trace.CycleFrequency()
	if err != nil {
		t.Fatal(err)
	}
	sink, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true},
		func() *diff.Analysis { return diff.NewAnalysis(diff.Options{Root: root}) })
	if err != nil {
		t.Fatal(err)
	}
	run := diff.Run{Name: path, Clock: reader.Clock{Frequency: frequency}, Names: names}
	if err := all.Add(side, sink, run); err != nil {
		t.Fatal(err)
	}
}

// diff finds the planted changes in a real program.
func TestTwoBuilds(t *testing.T) {
	testenv.Need(t, "clang++-22")
	gate, err := diff.ParseGate("p50:+50%", true)
	if err != nil {
		t.Fatal(err)
	}
	all := diff.NewComparison(true, "", []diff.Gate{gate})
	record(t, all, diff.A, 5)
	record(t, all, diff.B, 5, "-DSLOW")
	r, err := all.Report(diff.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Gates[0].Verdict != diff.Fail || r.Gates[0].Change < 1 {
		t.Errorf("got %+v", r.Gates[0])
	}
	c := r.Changes[0]
	if c.Kind != diff.Slower || strings.Join(c.Path, " ") != "handleRequest() parse() tokenize()" {
		t.Errorf("got %+v", c)
	}
	kinds := make(map[string]diff.Kind)
	for _, c := range r.Changes {
		if c.Kind != diff.Slower {
			kinds[c.Function] = c.Kind
		}
	}
	for fn, kind := range map[string]diff.Kind{"lookup()": diff.MoreCalls, "audit()": diff.New, "log()": diff.Gone} {
		if got, ok := kinds[fn]; !ok || got != kind {
			t.Errorf("%s: got %v, want %v", fn, got, kind)
		}
	}
	for _, row := range r.Rows {
		if n := row.Metrics[0]; row.Path[len(row.Path)-1] == "lookup()" && (n.A != 1 || n.B != 3) {
			t.Errorf("calls of lookup: got %+v", n)
		}
	}
}
