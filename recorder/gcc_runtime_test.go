//go:build linux && amd64

package recorder_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// hooks are the flags that make GCC instrument functions. With __fentry__, calls that become loops
// or are inlined would not be recorded.
var hooks = map[string][]string{
	"functions": {"-finstrument-functions"},
	"fentry":    {"-pg", "-mfentry", "-minstrument-return=call", "-fno-inline", "-fno-optimize-sibling-calls"},
}

// buildHooked compiles a program of testdata with GCC. The flags in compile are not passed to the
// linker, because -pg would add gprof's start files.
func buildHooked(t *testing.T, source string, compile []string, link ...string) string {
	t.Helper()
	object := elftest.Build(t, "gcc", "program.o", slices.Concat([]string{"-g", "-Iruntime", "-Dxray_always_instrument=noinline",
		"-Dxray_log_args(n)=noinline", "-Dxray_never_instrument=no_instrument_function", "-c", filepath.Join("testdata", source)}, compile)...)
	return elftest.Build(t, "gcc", "program", slices.Concat([]string{object}, link, []string{"-pthread", "-ldl", "-lm"})...)
}

// named converts numbers by function ID to numbers by function name.
func named(t *testing.T, r *reader.Recording, byID map[reader.FuncID]uint64) map[string]int64 {
	t.Helper()
	names, missing, err := symbolize.LoadRecorded(r.Objects, r.Addresses, nil, symbolize.Search{})
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	defer names.Close()
	m := map[string]int64{}
	for id, n := range byID {
		if n > 0 {
			m[symbolize.Label(names, id)] += int64(n)
		}
	}
	return m
}

// sums returns the calls that a recording counted or profiled, by function.
func sums(r *reader.Recording) map[reader.FuncID]uint64 {
	n := map[reader.FuncID]uint64{}
	for _, c := range r.Counters {
		n[c.Func] += c.Calls
	}
	for _, p := range r.Profiles {
		for _, path := range p.Paths {
			n[path.Func] += path.Count + path.Open
		}
	}
	return n
}

// With either kind of GCC instrumentation, every mode has exactly the calls that the program
// counted, and the program prints the same as unrecorded.
func TestHooks(t *testing.T) {
	t.Parallel()
	l := library(t)
	archive := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive"}
	for way, flags := range hooks {
		for _, o := range [][]string{{"-O0"}, {"-O2", "-mavx"}, {"-O2", "-fno-pie", "-no-pie"}, {"-O2", "-fcf-protection"}} {
			t.Run(way+strings.Join(o, ""), func(t *testing.T) {
				t.Parallel()
				preload, link := &l, slices.Clone(o)
				if way == "fentry" {
					preload, link = nil, append(link, archive...) // only the recorder defines __return__
				}
				program := buildHooked(t, "program.c", slices.Concat(flags, o), link...)
				plain, err := exec.Command(program).Output()
				if err != nil {
					t.Fatal(err)
				}
				want := counted(t, string(plain))
				for _, options := range []string{"mode=record", "mode=record,stream=0,ring=4194304", "mode=count", "mode=profile"} {
					out, stderr, traces := recordProgram(t, preload, options, program)
					if out != string(plain) || stderr != "" || len(traces) != 1 {
						t.Fatalf("%s: the program printed\n%s%s\nwithout the recorder\n%s%v", options, out, stderr, plain, traces)
					}
					f := readTrace(t, traces[0])
					calls := f.calls
					if len(calls) == 0 {
						calls = sums(f.recording)
					}
					if got := named(t, f.recording, calls); !maps.Equal(got, want) {
						t.Errorf("%s: got calls %v, want %v as the program counted", options, got, want)
					}
				}
			})
		}
	}
}

// IDs are dense: functions with sleds come first, then others in the order of their first calls.
func TestHooksAndSledsTogether(t *testing.T) {
	l := library(t)
	testenv.Need(t, "clang-22")
	dir := t.TempDir()
	lib := filepath.Join(dir, "libhooked.so")
	if out, err := exec.Command("gcc", "-O1", "-g", "-fPIC", "-shared", "-finstrument-functions", "-o", lib,
		"testdata/hooked.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	program := buildProgram(t, "clang-22", "hooking.c", "-O1", "-g", lib, "-Wl,-rpath,"+dir)
	_, stderr, traces := recordProgram(t, &l, "mode=record", program)
	if stderr != "" || len(traces) != 1 {
		t.Fatal(stderr, traces)
	}
	f := readTrace(t, traces[0])
	want := map[string]int64{"call_hooked": 100, "main": 1, "hooked": 100, "inner": 200, "hooked_callback": 100, "called_back": 100}
	if got := named(t, f.recording, f.calls); !maps.Equal(got, want) {
		t.Errorf("got calls %v, want %v", got, want)
	}
	if n := len(f.recording.Addresses); n != len(want) {
		t.Errorf("got %d addresses, want %d", n, len(want))
	}
	if f.unmatched+f.orphan != 0 {
		t.Errorf("%d exits without entry, %d calls without exit", f.unmatched, f.orphan)
	}
}

// After a longjmp, an exit belongs to the function that returns, not to those that were left. A
// function's exit comes before the tail call that it makes.
func TestHooksFindTheFunctionThatReturns(t *testing.T) {
	l := library(t)
	archive := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive"}
	program := buildHooked(t, "program.c", slices.Concat(hooks["fentry"], []string{"-O2", "-foptimize-sibling-calls"}), archive...)
	_, _, traces := recordProgram(t, nil, "mode=record", program)
	trace, err := reader.Open(reader.Options{}, traces[0])
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	enters, exits := map[reader.FuncID]uint64{}, map[reader.FuncID]uint64{}
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			if e.Kind.IsEnter() {
				enters[e.Func]++
			} else if e.Kind.IsExit() {
				exits[e.Func]++
			}
		}
	}
	r := trace.Recording(0)
	in, out := named(t, r, enters), named(t, r, exits)
	for name, n := range in {
		left := int64(0)
		if name == "jump" || name == "jumped" {
			left = 667
		}
		if out[name] != n-left {
			t.Errorf("%s: got %d entries and %d exits; longjmp left %d calls", name, n, out[name], left)
		}
	}
}

// Exceptions end calls. With -finstrument-functions, the call has a normal exit. With __return__ it
// has none, and the callers' exits still match.
func TestExceptionsThroughHooks(t *testing.T) {
	t.Parallel()
	l := library(t)
	testenv.Need(t, "g++")
	archive := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive"}
	for way, flags := range hooks {
		t.Run(way, func(t *testing.T) {
			object := elftest.Build(t, "g++", "program.o", slices.Concat([]string{"-O1", "-Dxray_always_instrument=noinline",
				"-Dxray_never_instrument=no_instrument_function", "-c", "testdata/thrown.cc"}, flags)...)
			program := elftest.Build(t, "g++", "program", slices.Concat([]string{object}, archive, []string{"-pthread", "-ldl"})...)
			for _, options := range []string{"mode=record", "mode=count", "mode=profile"} {
				out, stderr, traces := recordProgram(t, nil, options, program)
				if stderr != "" || len(traces) != 1 {
					t.Fatalf("%s: got %d traces; stderr: %s", options, len(traces), stderr)
				}
				f := readTrace(t, traces[0])
				calls := f.calls
				if len(calls) == 0 {
					calls = sums(f.recording)
				}
				got := named(t, f.recording, calls)
				for name, n := range counted(t, out) {
					if got[name] != n {
						t.Errorf("%s: got %d calls of %s, want %d", options, got[name], name, n)
					}
				}
				if way == "functions" && f.unmatched+f.orphan > 0 || f.backwards > 0 {
					t.Errorf("%s: %d exits without entry, %d calls without exit, %d backward time steps", options, f.unmatched, f.orphan, f.backwards)
				}
			}
		})
	}
}
