//go:build linux && amd64

package recorder_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/recorder"
)

// checkedLocks makes the runtime end a process that takes locks out of order.
var checkedLocks = edit{"locks.c", "enum { CHECKED = 0 };", "enum { CHECKED = 1 };"}

// linkedWith returns the flags that link an archive into a program.
func linkedWith(archive string) []string {
	return []string{"-O1", "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"}
}

// The runtime takes locks in the order of locks.h while threads come and go, it writes rings,
// processes fork and objects are opened.
func TestLockOrder(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t, checkedLocks)
	storms := buildProgram(t, "clang-22", "storms.c", linkedWith(archive)...)
	for _, options := range []string{"ring=131072,budget=1000000,control=1", "mode=profile", "stream=0,shm=" + recorder.EscapeOption(t.TempDir())} {
		recordProgram(t, nil, options, storms, "churn", "100")
	}
	recordProgram(t, nil, "start=0,ring=131072", storms, "snapshots", "5", t.TempDir())
	recordProgram(t, nil, "start=0,control=1", storms, slices.Concat([]string{"plugins", "20"}, buildPlugins(t, 3))...)
	recordProgram(t, nil, "control=1", buildProgram(t, "clang-22", "life.c", linkedWith(archive)...), "fork")
	variant{storms, nil}.runObserved(t, "mode=record", "churn", "100")
}

// A wrong order fails the test above.
func TestLockOrderFindsWrongOrder(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t, checkedLocks, edit{"ring.c", "	xr_lock(XR_LOCK_THREADS);\n	mark_namesake_dead(tid);", "	xr_lock(XR_LOCK_STREAM);\n	mark_namesake_dead(tid);"})
	cmd := exec.Command(buildProgram(t, "clang-22", "storms.c", linkedWith(archive)...), "churn", "100")
	cmd.Env = append(cmd.Environ(), recorder.EnvVar+"=output="+recorder.EscapeOption(t.TempDir())+"/%25p,ring=131072,budget=1000000")
	if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), "signal: illegal instruction") {
		t.Errorf("the program ended with %v", err)
	}
}

// runtimeFloors are the files of the runtime, without their endings, from the ground up. Code calls what is on its
// own floor and below.
var runtimeFloors = []string{
	"clock code descriptors layout locks options output state syscall text warnings",
	"arena budget counters events fibers folded libcalls libcalls_amd64 offcpu profile profile_dump ring shared sums tailcalls threads trampoline_amd64 values values_amd64",
	"gcc gcc_amd64 imports jumps landings loader objects parts patch sleds",
	"later metadata window writer",
	"api commands control dumps handlers_amd64 hooks interpose interpose_amd64 interpose_exec lifecycle llvm_api llvm_flags llvm_log server stubs",
}

// floorOfRuntime returns the floor of each file of the runtime.
func floorOfRuntime() map[string]int {
	floor := map[string]int{}
	for i, files := range runtimeFloors {
		for f := range strings.FieldsSeq(files) {
			floor[f] = i
		}
	}
	return floor
}

// Files include headers of their own floor and below, and the table of calls upwards.
func TestRuntimeIncludesPointDown(t *testing.T) {
	t.Parallel()
	floor, include := floorOfRuntime(), regexp.MustCompile(`(?m)^#include "(.*)\.h"$`)
	files, err := filepath.Glob("runtime/*.[chS]")
	if err != nil || len(files) < 50 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		own, ok := floor[strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))]
		if !ok {
			t.Errorf("%s is on no floor", file)
		}
		if file == "runtime/hooks.h" {
			own = 0 // every floor includes it
		}
		for _, m := range include.FindAllStringSubmatch(string(text), -1) {
			if f, ok := floor[m[1]]; m[1] != "hooks" && m[1] != "xray/recorder" && (!ok || f > own) {
				t.Errorf("%s includes %s.h, which is on a higher floor", file, m[1])
			}
		}
	}
}

// Calls and variables point down from floor to floor, but for the table of calls upwards.
func TestRuntimeFloors(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("nm", "-A", "-P", library(t).Archive()).Output()
	if err != nil {
		t.Fatal(err)
	}
	type symbol struct{ file, name string }
	floor, used := floorOfRuntime(), map[symbol]bool{}
	definedIn := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)\[(.*)\.o\]: (\S+) ([A-Za-z])`).FindAllStringSubmatch(string(out), -1) {
		if _, ok := floor[m[1]]; !ok {
			t.Fatalf("%s is on no floor", m[1])
		}
		if m[3] == "U" {
			used[symbol{m[1], m[2]}] = true
		} else if strings.ToUpper(m[3]) == m[3] {
			definedIn[m[2]] = m[1]
		}
	}
	if len(definedIn) < 100 {
		t.Fatalf("nm lists %d symbols", len(definedIn))
	}
	for s := range used {
		if in := definedIn[s.name]; in != "" && s.name != "xr_above" && floor[in] > floor[s.file] {
			t.Errorf("%s uses %s of %s, which is on a higher floor: see hooks.h", s.file, s.name, in)
		}
	}
}

// leaves are the runtime's basic headers and what each may include.
var leaves = map[string][]string{
	"syscall":     nil,
	"locks":       {"locks", "syscall"},
	"text":        {"text", "syscall"},
	"descriptors": {"descriptors", "text", "syscall"},
	"warnings":    {"warnings", "descriptors", "text", "syscall"},
}

// Locks, warnings and their helpers do not depend on the rest of the runtime.
func TestLeavesIncludeNothingElse(t *testing.T) {
	include := regexp.MustCompile(`(?m)^#include "(.*)\.h"$`)
	for leaf, allowed := range leaves {
		files, err := filepath.Glob("runtime/" + leaf + ".[ch]")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range include.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(allowed, m[1]) {
					t.Errorf("%s includes %s.h", file, m[1])
				}
			}
		}
	}
}
