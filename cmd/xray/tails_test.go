//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
)

// recordTails returns the environment and arguments that make the programs of testdata record to a
// file whose name begins with log. mode is one of LLVM's, or anything else for our recorder.
func recordTails(t *testing.T, mode, log string) (environment, args []string) {
	t.Helper()
	stock := "XRAY_OPTIONS=verbosity=0 xray_logfile_base=" + log
	switch mode {
	case "basic":
		return []string{stock + " patch_premain=true xray_mode=xray-basic", "XRAY_BASIC_OPTIONS=func_duration_threshold_us=0 max_stack_depth=1000"}, nil
	case "fdr":
		return []string{stock}, []string{"fdr"}
	}
	testenv.Need(t, "cc", "ar")
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	preload, _, err := build.PreloadEnvironment(library, "")
	if err != nil {
		t.Fatal(err)
	}
	options := recorder.Options{Output: recorder.EscapeTemplate(log) + "%p"}
	return []string{preload, options.Environment()}, nil
}

// buildInstrumented compiles a program of testdata with all of its functions instrumented.
func buildInstrumented(t *testing.T, clang, source string) string {
	t.Helper()
	return elftest.Build(t, clang, strings.TrimSuffix(source, ".cc"), "-O2", "-fxray-instrument", "-fxray-instruction-threshold=1",
		filepath.Join("testdata", source))
}

// recordedProgram runs a program and returns its trace.
func recordedProgram(t *testing.T, program, mode string, args ...string) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log.")
	environment, first := recordTails(t, mode, log)
	cmd := exec.Command(program, append(first, args...)...)
	cmd.Env = append(os.Environ(), environment...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	traces, _ := filepath.Glob(log + "*")
	if len(traces) != 1 {
		t.Fatalf("got traces %q, want one", traces)
	}
	return traces[0]
}

// xrayOutput runs a command and returns its output.
func xrayOutput(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(append([]string{"xray"}, args...), strings.NewReader(""), &stdout, &stderr); status != exitOK {
		t.Fatalf("%s: status %d: %s", args, status, stderr.String())
	}
	return stdout.String()
}

// foldedPaths returns the call paths below serve and their numbers of calls.
func foldedPaths(t *testing.T, program, trace string) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for line := range strings.Lines(xrayOutput(t, "stack", "--format", "folded", "--metric", "count", "-m", program, trace)) {
		path, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path, ok := strings.CutPrefix(strings.TrimPrefix(path, "main;"), "serve;"); ok {
			paths[path] = count
		}
	}
	return paths
}

// If the binary shows the target of a tail call, every command shows the callee inside the caller,
// with all recorders.
func TestTailCalls(t *testing.T) {
	want := map[string]string{
		"to_recorded": "1200", "to_recorded;work": "1200", "to_recorded;finish": "1200",
		"to_two": "1200", "to_two;work": "1200", "to_two;to_recorded": "1200", "to_two;to_recorded;work": "1200", "to_two;to_recorded;finish": "1200",
		"to_unrecorded": "1200", "to_unrecorded;work": "1200",
		"to_libc": "1200", "to_libc;work": "1200",
		"indirect": "1200", "indirect;work": "1200", "finish": "1200",
		"even": "2400", "odd": "2400",
		"either": "1200", "either;work": "1200", "either;finish": "600",
	}
	for _, clang := range []string{"clang++-14", "clang++-19", "clang++-22"} {
		t.Run(clang, func(t *testing.T) {
			t.Parallel()
			program := buildInstrumented(t, clang, "tails.cc")
			for _, mode := range []string{"basic", "fdr", "ours"} {
				trace := recordedProgram(t, program, mode)
				if diff := cmp.Diff(want, foldedPaths(t, program, trace)); diff != "" {
					t.Errorf("%s: calls by path (-want +got):\n%s", mode, diff)
				}
				for _, fn := range []string{"to_recorded", "to_two", "to_unrecorded", "to_libc", "indirect", "either"} {
					n := "1,200"
					if fn == "to_recorded" {
						n = "2,400" // half of them by to_two
					}
					said := xrayOutput(t, "why", "--root", "^"+fn+"$", "--all", "-m", program, trace)
					if !strings.Contains(said, fn+": "+n+" calls on 1 thread") {
						t.Errorf("%s: why %s:\n%s", mode, fn, said)
					}
				}
				checkTailAccount(t, mode, xrayOutput(t, "account", "--format", "json", "-m", program, trace))
			}
		})
	}
}

// checkTailAccount checks the counts of account.
func checkTailAccount(t *testing.T, mode, text string) {
	t.Helper()
	var report struct {
		Functions []struct {
			Function          string
			Count, Total, Sum float64
			TailExited        float64 `json:"tail_exited"`
		}
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][2]float64)
	for _, f := range report.Functions {
		got[f.Function] = [2]float64{f.Count, f.TailExited}
	}
	for fn, want := range map[string][2]float64{
		"to_recorded": {2400, 2400}, "to_two": {1200, 1200}, "to_unrecorded": {1200, 1200}, "to_libc": {1200, 1200},
		"indirect": {1200, 1200}, "either": {1200, 1200}, "even": {2400, 2400}, "odd": {2400, 1200}, "finish": {4200, 0}, "work": {8400, 0},
	} {
		if got[fn] != want {
			t.Errorf("%s: account: %s: got %v calls and tail calls, want %v", mode, fn, got[fn], want)
		}
	}
}
