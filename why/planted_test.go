//go:build linux && amd64

package why_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/clock"
	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/why"
)

// everything has compiler-rt keep short calls, which it leaves out by default.
const everything = "func_duration_threshold_us=0"

// planted compiles and records a program of testdata, and explains its requests.
func planted(t *testing.T, name, options string) (*why.Report, symbolize.Names) {
	t.Helper()
	testenv.Need(t, "clang++-22")
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	compile := exec.Command("clang++-22", "-std=c++17", "-O2", "-pthread", "-fxray-instrument",
		"-fxray-instruction-threshold=1", filepath.Join("testdata", name+".cpp"), "-o", program)
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic verbosity=0 xray_logfile_base="+dir+"/log.",
		"XRAY_BASIC_OPTIONS="+options)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	logs, _ := filepath.Glob(dir + "/log.*")
	trace, err := reader.Open(reader.Options{}, logs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	frequency, err := trace.CycleFrequency()
	if err != nil {
		t.Fatal(err)
	}
	return explain(t, trace, why.Options{
		Root:  func(fn reader.FuncID) bool { return strings.HasPrefix(symbolize.Label(table, fn), "handleRequest") },
		Clock: clock.Clock{Frequency: frequency},
	}), table
}

// short is the name of a function in a program.
func short(names symbolize.Names, fn reader.FuncID) string {
	return why.ShortName(symbolize.Label(names, fn))
}

func TestPlantedTree(t *testing.T) {
	r, names := planted(t, "tree", everything)
	if len(r.Causes) == 0 || r.Causes[0].Kind != why.MoreCalls || short(names, r.Causes[0].Func) != "walk" {
		t.Fatalf("%+v", r.Causes)
	}
	for _, a := range r.Causes[0].Associations {
		if a.Kind == "argument" && short(names, a.Func) == "dispatch" && a.Value == 7 {
			return
		}
	}
	t.Errorf("no kind of request: %+v", r.Causes[0].Associations)
}

func TestPlantedStall(t *testing.T) {
	r, names := planted(t, "stall", everything)
	if len(r.Causes) == 0 || r.Causes[0].Kind != why.Wait || short(names, r.Causes[0].Func) != "enterRegion" {
		t.Fatalf("%+v", r.Causes)
	}
	if h := r.Causes[0].Holder; short(names, h.Self) != "compact" && short(names, h.Self) != "collect" {
		t.Errorf("held by %s", short(names, h.Self))
	}
}

func TestPlantedSteady(t *testing.T) {
	if r, names := planted(t, "steady", everything); len(r.Causes) != 0 {
		t.Errorf("%s is named: %+v", short(names, r.Causes[0].Func), r.Causes)
	}
}

// A short call that is left out appears when its thread is stopped in it. That is no
// new path.
func TestPlantedSteadyPruned(t *testing.T) {
	r, names := planted(t, "steady", "func_duration_threshold_us=5")
	if len(r.Causes) != 0 {
		t.Errorf("%s is named: %+v", short(names, r.Causes[0].Func), r.Causes)
	}
	if len(r.Warnings) == 0 || !strings.HasPrefix(r.Warnings[0], "hardly any call is shorter than 5.") {
		t.Errorf("warnings %q", r.Warnings)
	}
}
