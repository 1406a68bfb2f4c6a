//go:build linux && amd64

package why_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// recording is a way to record a program.
type recording int

const (
	ours        recording = iota // our recorder
	oursPruned                   // the same with short calls pruned
	basic                        // LLVM's basic mode
	basicPruned                  // the same with short calls dropped
	fdr                          // LLVM's FDR mode
)

func (how recording) String() string {
	return [...]string{"ours", "ours-pruned", "basic", "basic-pruned", "fdr"}[how]
}

// planted is a recorded program with a known cause.
type planted struct {
	said  string // the program's output
	trace *reader.Trace
	names symbolize.Names
}

// compileRequests compiles a program of testdata that handles requests.
func compileRequests(t *testing.T, name string) string {
	return compilePlanted(t, name, "-I"+library(t).Include(), filepath.Join("testdata", name+".cpp"))
}

// run records a program, with an environment besides that of the test.
func (how recording) run(t *testing.T, program string, env ...string) planted {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program)
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	cmd.Env = slices.Concat(os.Environ(), how.environment(t, dir), env)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	return openPlanted(t, dir, program, said.String())
}

// library returns our compiled recorder.
func library(t *testing.T) build.Library {
	t.Helper()
	testenv.Need(t, "cc", "ar")
	l, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMain(m *testing.M) { elftest.Main(m) }

func compilePlanted(t *testing.T, name string, args ...string) string {
	t.Helper()
	return elftest.Build(t, "clang++-22", name, append(args, "-std=c++17", "-O2", "-pthread", "-fxray-instrument", "-fxray-instruction-threshold=1")...)
}

// openPlanted opens the traces log.* that a program wrote to dir.
func openPlanted(t *testing.T, dir, program, said string) planted {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(dir, "log.*"))
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
	return planted{said: said, trace: trace, names: table}
}

// environment returns the environment that records a program to log.* in dir. With our recorder, it
// can preload other libraries, too.
func (how recording) environment(t *testing.T, dir string, preload ...string) []string {
	t.Helper()
	stock := "XRAY_OPTIONS=verbosity=0 xray_logfile_base=" + dir + "/log."
	switch how {
	case basic:
		return []string{stock + " patch_premain=true xray_mode=xray-basic", "XRAY_BASIC_OPTIONS=func_duration_threshold_us=0"}
	case basicPruned:
		return []string{stock + " patch_premain=true xray_mode=xray-basic", "XRAY_BASIC_OPTIONS=func_duration_threshold_us=5"}
	case fdr:
		return []string{stock, "PLANTED_FDR=1"}
	}
	options := recorder.Options{Output: recorder.EscapeTemplate(dir) + "/log.%p"}
	if how == oursPruned {
		options.Mode, options.Threshold = recorder.Prune, 5000
	}
	entry, _, err := build.PreloadEnvironment(library(t), strings.Join(preload, ":"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{entry, options.Environment()}
}

// explain runs why on the requests.
func (p *planted) explain(t *testing.T, slow why.Rule) *why.Report {
	t.Helper()
	frequency, err := p.trace.CycleFrequency()
	if err != nil {
		t.Fatal(err)
	}
	ticks := func(ns uint64) uint64 { return ns * frequency / 1_000_000_000 }
	slow.Ticks = ticks(slow.Ticks)
	opts := why.Options{Slow: slow, Clock: reader.Clock{Frequency: frequency}, Role: p.role, Loop: why.LoopsByName(p.names)}
	opts.Root = func(fn reader.FuncID) bool { return strings.HasSuffix(short(p.names, fn), "handleRequest") }
	opts.Calls.Continue = symbolize.FindTailCalls(p.names).Continue
	if r := p.trace.Recording(0); r != nil {
		if r.Process.OffCPU != "" {
			opts.Calls.OffCPU = &opts.Clock
		}
		opts.Pruned, opts.PrunedKnown = ticks(r.Process.ThresholdNS), true
	}
	return explain(t, p.trace, opts)
}

// role returns the role of a function by its name.
func (p *planted) role(fn reader.FuncID) why.Role {
	name := short(p.names, fn)
	switch name[strings.LastIndex(name, ":")+1:] {
	case "lock":
		return why.Locks
	case "unlock":
		return why.Unlocks
	case "wait", "poll":
		return why.Waits
	}
	return why.Runs
}
