//go:build linux && amd64

package recorder_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// unwound is what a debugger found while it stepped through recorded calls.
type unwound struct {
	lost    []string       // where it did not find the caller
	stepped map[string]int // instructions by function; "?" is the thunks
}

// unwind steps through the calls of testdata/unwind.c.
func unwind(t *testing.T, program, mode string) unwound {
	t.Helper()
	testenv.Need(t, "gdb")
	out, err := exec.Command("gdb", "-nx", "-batch", "-x", "testdata/unwind.py", "--args", program, mode).CombinedOutput()
	if strings.Contains(string(out), "ptrace: Operation not permitted") {
		t.Skip("debugging is not permitted here")
	}
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	u := unwound{stepped: map[string]int{}}
	for line := range strings.Lines(string(out)) {
		var name string
		var n int
		if strings.HasPrefix(line, "lost at ") {
			u.lost = append(u.lost, strings.TrimSpace(line))
		} else if _, err := fmt.Sscanf(line, "stepped %s %d", &name, &n); err == nil {
			u.stepped[name] = n
		}
	}
	if len(u.stepped) == 0 {
		t.Fatalf("unexpected output of gdb:\n%s", out)
	}
	return u
}

// A debugger finds the caller from each instruction of thunks and trampolines, on the fast and the
// slow path.
func TestUnwindFromEveryInstruction(t *testing.T) {
	t.Parallel()
	program := buildLinked(t, "clang-22", library(t).Archive(), "unwind.c", append(prunable, "-g")...)
	always := buildLinked(t, "clang-22", library(t).Archive(), "unwind.c", "-g")
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		checkUnwind(t, always, "depth", "xr_depth_keep", "xr_record_rseq", "?")
	})
	for mode, trampolines := range map[string][]string{
		"record":  {"xr_record_rseq", "slow"},
		"prune":   {"xr_record_rseq", "xr_prune_rseq", "slow"},
		"arg":     {"xr_record_arg_rseq", "xr_record_rseq", "slow"},
		"count":   {"xr_count", "slow"},
		"depth":   {"xr_depth_enter", "xr_depth_exit", "xr_record_rseq"},
		"profile": {"xr_profile"},
		"events":  {"__xray_CustomEvent", "__xray_TypedEvent", "xr_record_rseq", "slow"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			checkUnwind(t, program, mode, append(trampolines, "?")...)
		})
	}
}

// checkUnwind checks that the debugger found the caller everywhere and stepped through the given
// functions.
func checkUnwind(t *testing.T, program, mode string, functions ...string) {
	t.Helper()
	u := unwind(t, program, mode)
	for _, l := range u.lost {
		t.Error(l)
	}
	for _, name := range functions {
		if u.stepped[name] == 0 {
			t.Errorf("the debugger did not step through %s: %v", name, u.stepped)
		}
	}
}

// The same for the hooks that GCC-instrumented functions call. Without XRAY_SOAK=1, the test does not
// step through the same trampolines after each kind of hook.
func TestUnwindFromHooksOfGCC(t *testing.T) {
	t.Parallel()
	archive := library(t).Archive()
	for name, way := range map[string]struct {
		flags, hooks []string
		profile      string
		others       []string // modes that only the soak tries
	}{
		"functions": {[]string{"-finstrument-functions"}, []string{"xr_on_cyg_enter", "xr_on_cyg_exit"}, "xr_gcc_profile_inlined", []string{"record", "prune"}},
		"fentry":    {[]string{"-pg", "-mfentry", "-minstrument-return=call"}, []string{"xr_on_fentry", "xr_on_return"}, "xr_gcc_profile", []string{"prune", "count"}},
	} {
		program := elftest.Build(t, "gcc", "unwind", slices.Concat([]string{"-O2", "-g", "-Wno-attributes", "-Iruntime"}, way.flags, []string{
			"testdata/unwind.c", "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-pthread", "-ldl",
		})...)
		for mode, trampoline := range map[string]string{
			"record": "xr_record_rseq", "prune": "xr_prune_rseq", "count": "xr_count", "profile": way.profile,
		} {
			if slices.Contains(way.others, mode) && !testenv.Soak() {
				continue
			}
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				checkUnwind(t, program, mode, append(way.hooks, trampoline)...)
			})
		}
	}
}

// Assembly without frame information fails the tests above.
func TestUnwindFindsMissingFrameInformation(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t, edit{
		"trampoline_amd64.h",
		"	pushq	%\\reg\n	.cfi_adjust_cfa_offset 8\n", "	pushq	%\\reg\n",
	})
	if u := unwind(t, buildLinked(t, "clang-22", archive, "unwind.c"), "record"); len(u.lost) == 0 {
		t.Errorf("the broken runtime passed: %v", u.stepped)
	}
}
