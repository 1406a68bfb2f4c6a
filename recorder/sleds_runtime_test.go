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
	"github.com/xray-tools/xray/symbolize"
)

// leftOff returns the names of the functions that a recording of a program left off, by reason.
func leftOff(t *testing.T, program, path string) map[string][]string {
	t.Helper()
	table, trace := openNamed(t, program, path)
	left := map[string][]string{}
	for _, l := range trace.Recording(0).Objects[0].LeftOff {
		for _, n := range l.Functions {
			left[l.Why] = append(left[l.Why], symbolize.Label(table, reader.FuncID(n)))
		}
		if l.Counted != (l.Why == "they have only entry sleds, or only exit sleds") {
			t.Errorf("wrong counted: %+v", l)
		}
		if int(l.Count) != len(l.Functions) {
			t.Errorf("%d functions left off, %d listed", l.Count, len(l.Functions))
		}
	}
	return left
}

// What compilers and linkers make of sleds does no harm: in all modes, the program prints the same as
// unrecorded. The trace has exactly the calls of each function, but for those that are left off.
func TestOddSleds(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "ld.lld-22", "ld.gold")
	l := library(t)
	const sided = "they have only entry sleds, or only exit sleds"
	const loop, shared = "their entry is the head of a loop", "they share an exit with other functions"
	for _, build := range []struct {
		clang, flags string
		left         map[string][]string // nil: depends on the order of instructions
		folded       bool                // sister is twin
	}{
		{"clang-14", "-Os", map[string][]string{loop: {"spin"}}, false},
		{"clang-14", "-Oz", map[string][]string{loop: {"find", "spin"}}, false},
		{"clang-19", "-Oz -fcf-protection=branch", map[string][]string{loop: {"find", "spin"}}, false},
		{"clang-22", "-O2 -fbasic-block-sections=all -ffunction-sections -fuse-ld=lld-22 -Wl,--icf=all", map[string][]string{shared: nil}, true},
		{"clang-22", "-O2 -ffunction-sections -fuse-ld=gold -Wl,--icf=all", nil, true},
		{"clang-22", "-O2 -fxray-instrumentation-bundle=function-entry", map[string][]string{sided: nil}, false},
		{"clang-22", "-O2 -fxray-instrumentation-bundle=function-exit", map[string][]string{sided: nil}, false},
	} {
		t.Run(build.clang+" "+build.flags, func(t *testing.T) {
			t.Parallel()
			program := buildProgram(t, build.clang, "odd.c", append(strings.Fields(build.flags), "-fxray-instruction-threshold=1")...)
			plain, err := exec.Command(program).Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, options := range []string{
				"mode=record", "mode=prune,threshold=1000000", "mode=depth,depth=1", "mode=count", "mode=profile", "mode=off",
			} {
				out, stderr, traces := recordProgram(t, &l, options, program)
				if out != string(plain) || stderr != "" {
					t.Errorf("%s: the program printed\n%s%s\nwithout the recorder\n%s", options, out, stderr, plain)
				}
				if options != "mode=record" {
					continue
				}
				left := leftOff(t, program, traces[0])
				if !maps.EqualFunc(left, build.left, func(got, want []string) bool { return want == nil || slices.Equal(got, want) }) {
					t.Errorf("left off %v, want %v", left, build.left)
				}
				want := counted(t, out)
				delete(left, sided)
				for _, names := range left {
					maps.DeleteFunc(want, func(name string, _ int64) bool { return slices.Contains(names, name) })
				}
				got := entries(t, program, traces)
				if build.folded {
					want["twin"], want["sister"] = want["twin"]+want["sister"], 0
					got["twin"], got["sister"] = got["twin"]+got["sister"], 0
				}
				if !maps.Equal(got, want) {
					t.Errorf("got calls %v, want %v as the program counted", got, want)
				}
			}
		})
	}
}

// A function that never returns has no exit sleds. Its call lasts to the end of the program, whatever the code
// behind it is.
func TestFunctionsThatNeverReturn(t *testing.T) {
	t.Parallel()
	l := library(t)
	for _, clang := range []string{"clang-14", "clang-22"} {
		program := buildProgram(t, clang, "endless.c", "-O2", "-fxray-instruction-threshold=1000")
		_, _, traces := recordProgram(t, &l, "mode=record", program)
		if left := leftOff(t, program, traces[0]); len(left) > 0 {
			t.Errorf("%s: left off %v", clang, left)
		}
		if got := entries(t, program, traces); got["work"] != 1000 || got["serve"] != 1 {
			t.Errorf("%s: calls %v, want 1000 of work and 1 of serve", clang, got)
		}
	}
}

// A function is left off if its entry is the head of a loop that goes on in the code behind a table of
// jumps, or in another part of the function.
func TestLoopHeads(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "ld.lld-22", "llvm-profdata-22")
	l := library(t)
	const loop = "their entry is the head of a loop"
	profile := func(t *testing.T) string {
		dir := t.TempDir()
		cmd := exec.Command(buildProgram(t, "clang-22", "heads.c", "-O2", "-fprofile-generate", "-pthread"))
		cmd.Env = append(os.Environ(), "LLVM_PROFILE_FILE="+filepath.Join(dir, "raw"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		elftest.Run(t, "llvm-profdata-22", "merge", "-o", filepath.Join(dir, "profile"), filepath.Join(dir, "raw"))
		return "-fprofile-use=" + filepath.Join(dir, "profile")
	}
	split := []string{"-O2", "-fsplit-machine-functions", "-ffunction-sections", "--ld-path=ld.lld-22"}
	for _, build := range []struct {
		clang   string
		flags   []string
		profile bool
		left    []string
	}{
		{"clang-14", []string{"-Os", "-fno-pie", "-no-pie"}, false, []string{"pass", "walk", "await"}},
		{"clang-22", []string{"-Os", "-fno-pie", "-no-pie"}, false, []string{"pass", "walk", "await"}},
		{"clang-22", split, true, []string{"await"}},
	} {
		t.Run(build.clang+" "+build.flags[0], func(t *testing.T) {
			t.Parallel()
			flags := append([]string{"-fxray-instruction-threshold=1", "-pthread"}, build.flags...)
			if build.profile {
				flags = append(flags, profile(t))
			}
			program := buildProgram(t, build.clang, "heads.c", flags...)
			out, stderr, traces := recordProgram(t, &l, "mode=record", program, "turns")
			if left := leftOff(t, program, traces[0]); stderr != "" || !maps.EqualFunc(left, map[string][]string{loop: build.left}, slices.Equal) {
				t.Errorf("left off %v, want %v\n%s", left, build.left, stderr)
			}
			want := counted(t, out)
			maps.DeleteFunc(want, func(name string, _ int64) bool { return slices.Contains(build.left, name) })
			if got := entries(t, program, traces); !maps.Equal(got, want) {
				t.Errorf("got calls %v, want %v as the program counted", got, want)
			}
		})
	}
}

// Processes that share their thread-local storage are not recorded from then on, and run on.
func TestSharedThreadLocalStorage(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "clones.c", "-O1", "-fxray-instruction-threshold=1")
	for _, options := range []string{"mode=record", "mode=count", "mode=profile", "mode=prune,threshold=100", "mode=depth,depth=2"} {
		out, stderr, traces := recordProgram(t, &l, options, program)
		if out != "n 1200012\n" || !strings.Contains(stderr, "shares its thread-local storage") {
			t.Errorf("%s: the program printed\n%s%s", options, out, stderr)
		}
		if options != "mode=record" {
			continue
		}
		if got := entries(t, program, traces); got["deep"] != 6 || got["leaf"] != 12 {
			t.Errorf("calls %v, want those before the first process", got)
		}
		changes := readTrace(t, traces[0]).recording.Changes
		if !slices.ContainsFunc(changes, func(c reader.Change) bool { return strings.HasSuffix(c.What, "both are not recorded from then on") }) {
			t.Errorf("the trace says %v", changes)
		}
	}
}

// A thread that may not read the clock any more is not recorded from then on, and the program runs on.
func TestForbiddenClock(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "tsc.c", "-O1", "-fxray-instruction-threshold=1")
	for _, args := range [][]string{{"tsc"}, {"tsc", "back"}, {"strict"}} {
		plain, err := exec.Command(program, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range []string{"mode=record", "mode=count", "mode=profile", "mode=prune,threshold=100", "mode=depth,depth=2"} {
			out, stderr, _ := recordProgram(t, &l, options, program, args...)
			if out != string(plain) || !strings.Contains(stderr, "a thread may not read the clock any more") {
				t.Errorf("%v, %s: the program printed\n%s%s\nwithout the recorder\n%s", args, options, out, stderr, plain)
			}
		}
	}
}
