//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// library returns the compiled runtime.
func library(t *testing.T) build.Library {
	t.Helper()
	testenv.Need(t, "gcc", "ar")
	l, err := build.Runtime(context.Background(), "gcc")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// buildProgram compiles a program of testdata for the preloaded recorder, or with link flags that
// add it in another way.
func buildProgram(t *testing.T, clang, source string, flags ...string) string {
	t.Helper()
	args := slices.Concat([]string{"-Iruntime", "-fxray-instrument", clangs[clang], filepath.Join("testdata", source)},
		flags, []string{"-pthread", "-ldl", "-lm"})
	return elftest.Build(t, clang, strings.TrimSuffix(source, ".c"), args...)
}

// recordProgram runs a program with the recorder's options, preloaded unless the library is nil. It
// returns what the program printed and the traces.
func recordProgram(t *testing.T, l *build.Library, options, program string, args ...string) (stdout, stderr string, traces []string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), recorder.EnvVar+"=output="+recorder.EscapeOption(dir)+"/%25p,"+options)
	if l != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+l.Preload())
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", program, args, err, &out, &errs)
	}
	traces, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), traces
}

// namesOf returns the names of the functions of a program.
func namesOf(t *testing.T, program string) *symbolize.Table {
	t.Helper()
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// openNamed opens a trace of a program.
func openNamed(t *testing.T, program, path string) (*symbolize.Table, *reader.Trace) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	return namesOf(t, program), trace
}

// entries returns the number of entries in all traces by function name.
func entries(t *testing.T, program string, traces []string) map[string]int64 {
	t.Helper()
	table := namesOf(t, program)
	n := map[string]int64{}
	for _, path := range traces {
		f := readTrace(t, path)
		if f.backwards != 0 {
			t.Errorf("%s: time runs backwards %d times", path, f.backwards)
		}
		for id, calls := range f.calls {
			n[symbolize.Label(table, id)] += int64(calls)
		}
	}
	return n
}

// counted parses lines of a name and a number, except the line of the program's result, sum.
func counted(t *testing.T, output string) map[string]int64 {
	t.Helper()
	m := map[string]int64{}
	for line := range strings.Lines(output) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "sum" {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatalf("the program printed %q", line)
		}
		m[name] += n
	}
	return m
}

// A program prints the same with and without the recorder, however it was compiled, and the trace has
// exactly the calls that the program counted.
func TestKnownAnswers(t *testing.T) {
	t.Parallel()
	l := library(t)
	linked := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive"}
	ways := map[string]struct {
		flags  []string
		linked bool
	}{
		"O0":         {[]string{"-O0"}, false},
		"O2":         {[]string{"-O2", "-mavx"}, false},
		"NoPIE":      {[]string{"-O2", "-no-pie", "-fno-pic"}, false},
		"Nops7":      {[]string{"-O2", "-mtune=silvermont"}, false},
		"CET":        {[]string{"-O2", "-fcf-protection=full"}, false},
		"Gold":       {[]string{"-O2", "-fuse-ld=gold"}, false},
		"Sections":   {[]string{"-O2", "-ffunction-sections", "-Wl,--gc-sections"}, false},
		"Linked":     {slices.Concat([]string{"-O2", "-mavx"}, linked), true},
		"LinkedGold": {slices.Concat([]string{"-O2", "-fuse-ld=gold", "-Wl,--gc-sections"}, linked), true},
		"Static":     {slices.Concat([]string{"-O2", "-static"}, linked), true},
		"StaticPIE":  {slices.Concat([]string{"-O2", "-static-pie", "-fPIE"}, linked), true},
	}
	for clang := range clangs {
		for way, w := range ways {
			t.Run(clang+"/"+way, func(t *testing.T) {
				t.Parallel()
				if slices.Contains(w.flags, "-fuse-ld=gold") {
					testenv.Need(t, "ld.gold")
				}
				program := buildProgram(t, clang, "program.c", w.flags...)
				plain, err := exec.Command(program).Output()
				if err != nil {
					t.Fatal(err)
				}
				preload := &l
				if w.linked {
					preload = nil
				}
				for _, options := range []string{"mode=record", "mode=depth,depth=200"} {
					out, stderr, traces := recordProgram(t, preload, options, program)
					if out != string(plain) || stderr != "" {
						t.Errorf("%s: the program printed\n%s%s\nwithout the recorder\n%s", options, out, stderr, plain)
					}
					if want, got := counted(t, out), entries(t, program, traces); !maps.Equal(got, want) {
						t.Errorf("%s: got calls %v, want %v as the program counted", options, got, want)
					}
				}
			})
		}
	}
}

// A tail call may have its target in r11. In every mode, the program prints the same as unrecorded.
func TestTailCallsThroughPointers(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "objdump")
	l := library(t)
	for clang := range clangs {
		program := buildProgram(t, clang, "tail.c", "-O2")
		code, err := exec.Command("objdump", "-d", "--no-show-raw-insn", program).Output()
		if err != nil || !regexp.MustCompile(`jmp\s+\*%r11`).Match(code) {
			t.Fatalf("%s: no jump through r11 (%v)", clang, err)
		}
		plain, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range []string{
			"mode=record", "mode=prune,threshold=1", "mode=prune,threshold=1000000", "mode=depth,depth=1",
			"mode=depth,depth=5,threshold=1000000", "mode=count", "mode=profile", "mode=off",
		} {
			out, stderr, traces := recordProgram(t, &l, options, program)
			if out != string(plain) || stderr != "" {
				t.Errorf("%s, %s: the program printed\n%s%s\nwithout the recorder\n%s", clang, options, out, stderr, plain)
			}
			if options != "mode=record" {
				continue
			}
			if want, got := counted(t, out), entries(t, program, traces); !maps.Equal(got, want) {
				t.Errorf("%s: got calls %v, want %v as the program counted", clang, got, want)
			}
		}
	}
}

// Programs with another libc can be recorded if the runtime is compiled for that libc.
func TestMusl(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-19", "musl-gcc")
	const include = "/usr/include/x86_64-linux-musl"
	// musl comes without kernel headers.
	command := []string{"musl-gcc", "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"}
	l, err := build.Runtime(context.Background(), strings.Join(command, " "))
	if err != nil {
		t.Fatal(err)
	}
	resources, err := exec.Command("clang-19", "-print-resource-dir").Output()
	if err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(t.TempDir(), "program.o")
	if out, err := exec.Command("clang-19", "-O2", "-fPIC", "-fxray-instrument", "-nostdinc",
		"-isystem", include, "-isystem", strings.TrimSpace(string(resources))+"/include", "-c", "-o", object, "testdata/program.c").CombinedOutput(); err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	linked := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive", "-pthread", "-ldl"}
	for way, flags := range map[string][]string{"preload": nil, "dynamic": linked, "static": append([]string{"-static"}, linked...)} {
		t.Run(way, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			args := slices.Concat(command[1:], []string{"-o", program, object}, flags, []string{"-lm"})
			if out, err := exec.Command("musl-gcc", args...).CombinedOutput(); err != nil {
				t.Fatalf("musl-gcc: %v\n%s", err, out)
			}
			preload := &l
			if flags != nil {
				preload = nil
			}
			out, stderr, traces := recordProgram(t, preload, "mode=record", program)
			if want, got := counted(t, out), entries(t, program, traces); stderr != "" || !maps.Equal(got, want) {
				t.Errorf("got calls %v, want %v as the program counted; %s", got, want, stderr)
			}
			// musl registers no rseq areas, so the runtime does.
			if _, _, p := allSwitches(t, traces[0]); p.OffCPU != "rseq" {
				t.Errorf("got off-CPU source %q, reason %q", p.OffCPU, p.NoOffCPU)
			}
		})
	}
}

// Each mode and the filter omit the right calls.
func TestModesOfAProgram(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "program.c", "-O2")
	recordOf := func(program, options string) map[string]int64 {
		_, stderr, traces := recordProgram(t, &l, options, program)
		if stderr != "" {
			t.Error(stderr)
		}
		return entries(t, program, traces)
	}
	record := func(options string) map[string]int64 { return recordOf(program, options) }
	if got := record("mode=depth,depth=1"); got["fib"] != 1 || got["jumped"] != 2000 || got["jump"] != 0 {
		t.Errorf("depth 1: wrong calls %v", got)
	}
	// Calls that are open when the thread moves to another CPU are also kept.
	pruned := recordOf(buildProgram(t, "clang-22", "program.c", append(prunable, "-O2")...), "mode=prune,threshold=1000000000")
	others := -pruned["jumped"] - pruned["jump"]
	for _, n := range pruned {
		others += n
	}
	if others > 1000 || pruned["jumped"] == 0 || pruned["jump"] == 0 {
		t.Errorf("prune: want only calls that longjmp left, got %v", pruned)
	}
	if got := record("mode=off"); len(got) != 0 {
		t.Errorf("off: wrong calls %v", got)
	}
	if got := record("mode=count"); len(got) != 0 {
		t.Errorf("count: wrong calls %v", got)
	}
	filter := filepath.Join(t.TempDir(), "filter")
	table := namesOf(t, program)
	text := "default off\nobject " + program + "\n"
	for _, f := range table.Map().Functions {
		if name := symbolize.Label(table, f.ID); name == "tail" || name == "fib" {
			text += strconv.Itoa(int(f.ID)) + "\n"
		}
	}
	if err := os.WriteFile(filter, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := record("filter=" + filter); len(got) != 2 || got["tail"] != 2000 || got["fib"] != 8361 {
		t.Errorf("filter: wrong calls %v", got)
	}
}

// Processes and threads that come and go.
func TestLives(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "life.c", "-O1")
	for _, life := range []struct {
		what    string
		options string
		traces  int
		more    int64 // calls of children, which the process does not count
	}{
		{"leaf", "", 1, 0},
		{"fork", "", 2, 70},
		{"fork", "follow=0", 1, 0},
		{"vfork", "", 1, 0},
		{"exec", "", 2, 0},
		{"churn", "", 1, 0},
		{"churn", "ring=131072,budget=1000000", 1, 0},
		{"fiber", "", 1, 0},
		{"mdwe", "", 2, 0},
		{"seccomp", "", 2, 0},
	} {
		t.Run(strings.ReplaceAll(life.what+" "+life.options, ",", " "), func(t *testing.T) {
			out, stderr, traces := recordProgram(t, &l, life.options, program, life.what)
			if stderr != "" || len(traces) != life.traces {
				t.Errorf("got %d traces; stderr: %s", len(traces), stderr)
			}
			want := counted(t, out)["leaf"] + life.more
			if got := entries(t, program, traces)["leaf"]; got != want {
				t.Errorf("got %d calls of leaf in %v, want %d", got, traces, want)
			}
		})
	}
	t.Run("NoFollowOfExec", func(t *testing.T) {
		_, _, traces := recordProgram(t, &l, "follow=0", program, "exec")
		if len(traces) != 1 {
			t.Errorf("traces: %v", traces)
		}
	})
}

// If recording is impossible, the program runs unrecorded and the recorder says why.
func TestRefusals(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "life.c", "-O1")
	out, stderr, _ := recordProgram(t, &l, "start=0", program, "denied")
	if c := counted(t, out); c["refused"] != 1 || c["leaf"] != 100 || strings.Count(stderr, "\n") != 1 ||
		!strings.Contains(stderr, "cannot make its code writable: permission denied") {
		t.Errorf("denied: %s%s", out, stderr)
	}
	if _, stderr, _ = recordProgram(t, &l, "start=0,quiet=1", program, "denied"); stderr != "" {
		t.Errorf("quiet: %s", stderr)
	}
	out, _, traces := recordProgram(t, &l, "ring=8000000000", program, "memory")
	if c := counted(t, out); c["leaf"] != 1000 {
		t.Errorf("memory: %v", c)
	}
	if got := entries(t, program, traces); got["leaf"] != 0 {
		t.Errorf("memory: unexpected calls %v", got)
	}
}

// A program that uses compiler-rt's XRay runtime keeps its sleds.
func TestSledsOfTheStockRuntime(t *testing.T) {
	l := library(t)
	testenv.Need(t, "clang-22")
	program := filepath.Join(t.TempDir(), "stock")
	if out, err := exec.Command("clang-22", "-O1", "-fxray-instrument", "-o", program, "testdata/stock.c").CombinedOutput(); err != nil {
		t.Skipf("no compiler-rt: %s", out)
	}
	out, stderr, _ := recordProgram(t, &l, "start=0", program)
	if out != "handled 200\n" || stderr != "" {
		t.Errorf("not started: %s%s", out, stderr)
	}
	out, stderr, _ = recordProgram(t, &l, "start=1", program)
	if out != "handled 200\n" || !strings.Contains(stderr, "another recorder, such as LLVM's, has changed its sleds") {
		t.Errorf("started: %s%s", out, stderr)
	}
}

// Objects keep their IDs when they are closed and opened again, even at the same address.
func TestPlugins(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "life.c", "-O1")
	var plugins []string
	for i, p := range []struct{ clang, flag string }{
		{"clang-14", clangs["clang-14"]}, {"clang-19", clangs["clang-19"]}, {"clang-22", clangs["clang-22"]}, {"clang-22", "-fxray-shared"},
	} {
		testenv.Need(t, p.clang)
		path := filepath.Join(t.TempDir(), "plugin.so")
		out, err := exec.Command(p.clang, "-O1", "-fPIC", "-shared", "-Wl,--build-id", "-fxray-instrument", p.flag, "-DCOPY="+strconv.Itoa(i), "-o", path, "testdata/plugin.c").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		plugins = append(plugins, path)
	}
	out, stderr, traces := recordProgram(t, &l, "", program, append([]string{"plugins"}, plugins...)...)
	want := counted(t, out)
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	f := readTrace(t, traces[0])
	objects := f.recording.Objects
	if len(objects) != 1+len(plugins) {
		t.Errorf("objects: %v", objects)
	}
	calls := map[int]uint64{} // by object
	for id, n := range f.calls {
		for i, o := range objects {
			if id >= o.First && id < o.First+reader.FuncID(o.Count) {
				calls[i] += n
			}
		}
	}
	if calls[0] != uint64(want["leaf"]) {
		t.Errorf("got %d calls of leaf, want %d", calls[0], want["leaf"])
	}
	for i := 1; i < len(objects); i++ {
		if calls[i] != uint64(want["plug"])*2/uint64(len(plugins)) {
			t.Errorf("got %d calls in %s, want the plugin's share of %d", calls[i], objects[i].Path, want["plug"]*2)
		}
	}
}

// An object that is closed, and opened again at another address before the recorder notices, is one object.
func TestMovedPlugin(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "life.c", "-O1")
	plugin := elftest.Build(t, "clang-22", "plugin.so", "-O1", "-fPIC", "-shared", "-Wl,--build-id", "-fxray-instrument", clangs["clang-22"], "-DCOPY=0", "testdata/plugin.c")
	out, stderr, traces := recordProgram(t, &l, "", program, "moved", plugin)
	want := counted(t, out)
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	f := readTrace(t, traces[0])
	objects := f.recording.Objects
	if len(objects) != 2 {
		t.Fatalf("objects: %v", objects)
	}
	calls := uint64(0)
	for id, n := range f.calls {
		if id >= objects[1].First {
			calls += n
		}
	}
	if calls != 2*uint64(want["plug"]) {
		t.Errorf("got %d calls in the plugin, want %d", calls, 2*want["plug"])
	}
}

// vectorRegister matches registers of SSE, AVX, AVX-512 including masks, MMX, AMX and x87.
var vectorRegister = regexp.MustCompile(`%([xyzt]?mm|k[0-7]|st)`)

// The runtime runs inside any function and must not change vector registers. Only one function uses
// them, to save them before it calls a handler of the program.
func TestNoVectorRegisters(t *testing.T) {
	testenv.Need(t, "objdump")
	l := library(t)
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", "-j", ".text", l.Preload()).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for function := range strings.SplitSeq(string(out), "\n\n") {
		name, _, _ := strings.Cut(function, ":\n")
		if vectorRegister.MatchString(function) {
			found[name[strings.LastIndex(name, " ")+1:]] = true
		}
	}
	// xr_store_vector stores what is in a register, and changes none.
	if want := map[string]bool{"<call_handler>": true, "<xr_store_vector>": true}; !maps.Equal(found, want) {
		t.Errorf("got vector registers in %v, want %v", found, want)
	}
	out, err = exec.Command("nm", "-D", "--undefined-only", l.Preload()).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		for _, name := range []string{" memcpy", " memset", " memmove", " strlen"} {
			if strings.Contains(line, name) {
				t.Errorf("the slow path may call libc's%s", name)
			}
		}
	}
}
