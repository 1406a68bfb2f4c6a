//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
)

// buildLLVM compiles testdata/llvm_api.cc with compiler-rt's runtime, or with ours if archive is
// not empty. Only marked functions have sleds.
func buildLLVM(t *testing.T, clang, archive string, flags ...string) string {
	t.Helper()
	const source = "testdata/llvm_api.cc"
	if _, err := os.ReadFile(source); err != nil { // so that the go command tracks it
		t.Fatal(err)
	}
	runtime := []string{"-fxray-modes=xray-fdr,xray-basic,xray-profiling"}
	if archive != "" {
		runtime = []string{clangs[clang], "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"}
	}
	args := slices.Concat([]string{
		"-O1", "-g", "-std=c++17", "-Wall", "-Werror", "-fxray-instrument", "-fxray-instruction-threshold=1000000", "-fxray-ignore-loops", source,
	}, flags, runtime, []string{"-pthread", "-lstdc++", "-lm", "-ldl"})
	return elftest.Build(t, clang, "llvm_api", args...)
}

// llvmRun is a run of testdata/llvm_api.cc: its output, and the folder that it ran in.
type llvmRun struct{ stdout, stderr, dir string }

func runLLVM(t *testing.T, program string, env []string, args ...string) llvmRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v %v: %v\n%s%s", env, args, err, &out, &errs)
	}
	return llvmRun{out.String(), errs.String(), cmd.Dir}
}

// files returns the files that the run has written and that match a pattern.
func (r llvmRun) files(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var keepAll = []string{
	"XRAY_OPTIONS=patch_premain=false:xray_logfile_base=log-:verbosity=1",
	"XRAY_FDR_OPTIONS=func_duration_threshold_us=0", "XRAY_BASIC_OPTIONS=func_duration_threshold_us=0",
}

// llvmCase is a case of testdata/llvm_api.cc. If logs is not empty, it matches the logs.
type llvmCase struct {
	name, logs string
	env        []string
}

// Programs that call LLVM's API print the same with compiler-rt's runtime and with ours, and write
// logs of the same calls.
func TestLLVMAPI(t *testing.T) {
	t.Parallel()
	basic := slices.Concat(keepAll, []string{"XRAY_OPTIONS=patch_premain=true,xray_mode='xray-basic',xray_logfile_base=log-,verbosity=1"})
	all := []llvmCase{
		{"patching", "", nil}, {"coverage", "", nil}, {"ids", "", nil}, {"arguments", "", nil}, {"custom", "", nil}, {"typed", "", nil},
		{"modes", "", nil}, {"fdr", "log-*", keepAll}, {"some", "log-*", keepAll}, {"memory", "", keepAll}, {"reinit", "", nil},
		{"plain", "log-*", basic}, {"profiling", "", nil}, {"end", "", nil},
	}
	patching := all[:3]
	for name, variant := range map[string]struct {
		clang string
		flags []string
		cases []llvmCase
	}{
		"Clang14":        {"clang-14", nil, all},
		"Clang22":        {"clang-22", nil, all},
		"NoIndex":        {"clang-22", []string{"-fno-xray-function-index"}, patching},
		"NoSleds":        {"clang-22", []string{"-Dxray_always_instrument=xray_never_instrument", "-Dxray_log_args(n)=noinline"}, patching},
		"DefaultOptions": {"clang-22", []string{"-DDEFAULT_OPTIONS"}, []llvmCase{{"plain", "log-*", keepAll[1:]}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours := buildLLVM(t, variant.clang, library(t).Archive(), variant.flags...)
			theirs := buildLLVM(t, variant.clang, "", variant.flags...)
			for _, c := range variant.cases {
				c.check(t, ours, theirs)
			}
		})
	}
}

func (c llvmCase) check(t *testing.T, ours, theirs string) {
	t.Helper()
	got, want := runLLVM(t, ours, c.env, c.name), runLLVM(t, theirs, c.env, c.name)
	if got.stdout != want.stdout {
		t.Errorf("%s: got\n%swant\n%s", c.name, got.stdout, want.stdout)
	}
	if c.logs == "" {
		return
	}
	logs := got.files(t, c.logs)
	gotCalls, wantCalls := entries(t, ours, logs), entries(t, theirs, want.files(t, c.logs))
	if len(wantCalls) == 0 || !maps.Equal(gotCalls, wantCalls) {
		t.Errorf("%s: got calls %v, want %v", c.name, gotCalls, wantCalls)
	}
	if len(logs) != 1 || !strings.Contains(got.stderr, "XRay: Log file in '"+logs[0]+"'") {
		t.Errorf("%s: got logs %v; the log's name is missing: %s", c.name, logs, got.stderr)
	}
	for _, path := range logs {
		verify(t, path)
	}
}

// Shared objects have IDs of their own, and are patched when they are opened.
func TestLLVMAPIOfSharedObjects(t *testing.T) {
	t.Parallel()
	build := func(archive string) (program, opened string) {
		dir := t.TempDir()
		for _, name := range []string{"linked", "opened"} {
			args := []string{"-O1", "-fPIC", "-shared", "-fxray-instrument", "-fxray-shared", "-DFUNCTION=" + name, "-o", filepath.Join(dir, name+".so"), "testdata/llvm_object.c"}
			if archive != "" {
				args = append(args, clangs["clang-22"])
			}
			if out, err := exec.Command("clang-22", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		return buildLLVM(t, "clang-22", archive, "-fPIC", "-fxray-shared", "-rdynamic", "-DOBJECTS", filepath.Join(dir, "linked.so")), filepath.Join(dir, "opened.so")
	}
	testenv.Need(t, "clang-22")
	ours, oursOpened := build(library(t).Archive())
	theirs, theirsOpened := build("")
	for name, env := range map[string][]string{"objects": nil, "opening": {"XRAY_OPTIONS=patch_premain=true"}} {
		got, want := runLLVM(t, ours, env, name, oursOpened), runLLVM(t, theirs, env, name, theirsOpened)
		if got.stdout != want.stdout {
			t.Errorf("%s: got\n%swant\n%s", name, got.stdout, want.stdout)
		}
	}
}

// Behavior that LLVM's runtimes do not have, or not always.
func TestLLVMAPIBesideTheRecorder(t *testing.T) {
	program := buildLLVM(t, "clang-22", library(t).Archive())
	t.Run("Buffers", func(t *testing.T) { checkBuffers(t, program) })
	t.Run("Handlers", func(t *testing.T) { checkHandlers(t, program) })
	t.Run("LogInARecording", func(t *testing.T) { checkLogInARecording(t, program) })
	t.Run("Forks", func(t *testing.T) { checkForkedLogs(t, program) })
	t.Run("Threshold", func(t *testing.T) { checkThreshold(t, program) })
	t.Run("Profiles", func(t *testing.T) { checkLLVMProfiles(t, program) })
	t.Run("Types", func(t *testing.T) { checkEventTypes(t, program) })
	t.Run("Flags", func(t *testing.T) { checkLLVMFlags(t, program) })
}

// All buffers together are a complete log. compiler-rt's buffers lack the calls of the thread that
// asks for them.
func checkBuffers(t *testing.T, program string) {
	logs := runLLVM(t, program, keepAll, "memory").files(t, "buffers.*")
	want := map[string]int64{"leaf()": 24, "middle()": 12, "outer()": 6, "tail()": 6, "logged(unsigned long)": 12}
	if calls := entries(t, program, logs); len(logs) != 3 || !maps.Equal(calls, want) {
		t.Errorf("got logs %v of calls %v, want %v", logs, calls, want)
	}
	for _, path := range logs {
		verify(t, path)
	}
}

// An instrumented handler does not call itself. Handlers and the recorder each get the functions that
// they asked for.
func checkHandlers(t *testing.T, program string) {
	if got := runLLVM(t, program, nil, "recursion").stdout; got != "handled 4\nhandled 6\n" {
		t.Errorf("recursion: %s", got)
	}
	const handled = "not patched 0\nhandled 200\nhandled 202\n"
	out, stderr, traces := recordProgram(t, nil, "", program, "beside")
	if calls := entries(t, program, traces); out != handled || stderr != "" || calls["leaf()"] != 1113 || calls["middle()"] != 3 {
		t.Errorf("got %s%s, calls %v", out, stderr, calls)
	}
	nothing := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(nothing, []byte("default off\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	out, stderr, traces = recordProgram(t, nil, "filter="+recorder.EscapeOption(nothing), program, "beside")
	if calls := entries(t, program, traces); out != handled || stderr != "" || len(calls) != 0 {
		t.Errorf("with a filter: got %s%s, calls %v", out, stderr, calls)
	}
}

// If there is already a recording, a log of the program is a part of it.
func checkLogInARecording(t *testing.T, program string) {
	base := filepath.Join(t.TempDir(), "log-")
	t.Setenv("XRAY_OPTIONS", "xray_logfile_base="+base)
	out, stderr, traces := recordProgram(t, nil, "", program, "fdr")
	logs, err := filepath.Glob(base + "*")
	if err != nil || len(logs) != 1 || stderr != "" {
		t.Fatalf("got logs %v, error %v\n%s%s", logs, err, out, stderr)
	}
	all, part := entries(t, program, traces), entries(t, program, logs)
	if all["outer()"] != 5 || part["outer()"] != 2 || part["logged(unsigned long)"] != 2 || part["tail()"] != 1 {
		t.Errorf("got calls %v, and in the log %v", all, part)
	}
}

// Forked children have logs of their own.
func checkForkedLogs(t *testing.T, program string) {
	env := slices.Concat(keepAll, []string{"XRAY_OPTIONS=patch_premain=1:xray_mode=xray-basic:xray_logfile_base=log-"})
	logs := runLLVM(t, program, env, "forks").files(t, "log-*")
	if calls := entries(t, program, logs); len(logs) != 2 || calls["middle()"] != 1 || calls["logged(unsigned long)"] != 2 {
		t.Errorf("got logs %v of calls %v", logs, calls)
	}
}

// Short calls are pruned even if their functions are always instrumented, as by LLVM, unless they have
// arguments.
func checkThreshold(t *testing.T, program string) {
	run := runLLVM(t, program, []string{"XRAY_OPTIONS=xray_logfile_base=log-", "XRAY_FDR_OPTIONS=func_duration_threshold_us=10000000"}, "fdr")
	calls := entries(t, program, run.files(t, "log-*"))
	if calls["logged(unsigned long)"] != 2 || calls["outer()"]+calls["middle()"]+calls["leaf()"]+calls["tail()"] >= 8 {
		t.Errorf("got calls %v", calls)
	}
}

// A profile has the calls of all threads. It is written at the end of a program that does not write it.
func checkLLVMProfiles(t *testing.T, program string) {
	for _, name := range []string{"profiling", "end"} {
		logs := runLLVM(t, program, keepAll, name).files(t, "log-*")
		if len(logs) != 1 {
			t.Fatalf("%s: got logs %v", name, logs)
		}
		calls, _ := profiled(t, program, logs[0])
		if calls["outer();middle();leaf()"] != 1 || calls["outer();leaf()"] != 1 || calls["logged(unsigned long)"] != 2 || calls["middle();leaf()"] != 1 {
			t.Errorf("%s: got calls %v", name, calls)
		}
	}
}

// If there are too many types of events, the last number stands for several, and not an earlier one as with
// compiler-rt. A warning says so once.
func checkEventTypes(t *testing.T, program string) {
	const want = "type 65536 has number 65535\ntype 65537 has number 65535\ntype 65538 has number 65535\ntype 65539 has number 65535\nfirst 0 1\n"
	got := runLLVM(t, program, nil, "types")
	if got.stdout != want || strings.Count(got.stderr, "further types have the number 65535\n") != 1 {
		t.Errorf("got %s%swant %s", got.stdout, got.stderr, want)
	}
}

// Warnings name flags of compiler-rt that have no effect only on request, and wrong values always.
func checkLLVMFlags(t *testing.T, program string) {
	const ignored = "xray recorder: a flag of LLVM's runtime is ignored: "
	for options, want := range map[string]string{
		"":                              "",
		"xray_page_size_override=4096":  "",
		"verbosity=1:help=1":            ignored + "help has no effect\n",
		"verbosity=maybe":               ignored + "verbosity: its value is not a number, true or false\n",
		" patch_premain = no ,":         ignored + "patch_premain has no value\n",
		"xray_mode=none,patch_premain=": ignored + "patch_premain: its value is not a number, true or false\n",
	} {
		if got := runLLVM(t, program, []string{"XRAY_OPTIONS=" + options}, "ids").stderr; got != want {
			t.Errorf("%q: got %q, want %q", options, got, want)
		}
	}
}

// Threads run through sleds while these are switched and handlers change. Signal handlers are
// instrumented, and handlers use all registers. Locks are taken in order.
func TestLLVMAPIStorm(t *testing.T) {
	t.Parallel()
	program := buildLLVM(t, "clang-22", buildArchive(t, checkedLocks))
	const want = "wrong 0, handled 1, then 200\nregisters 58\n"
	if got := runLLVM(t, program, nil, "storm"); got.stdout != want || got.stderr != "" {
		t.Errorf("got %s%s", got.stdout, got.stderr)
	}
	if out, stderr, _ := recordProgram(t, nil, "", program, "storm"); out != want || stderr != "" {
		t.Errorf("while recording: got %s%s", out, stderr)
	}
	for _, name := range []string{"coverage", "modes", "fdr", "reinit", "profiling"} {
		runLLVM(t, program, nil, name)
		runLLVM(t, program, []string{recorder.EnvVar + "=control=1"}, name)
	}
}
