//go:build linux && amd64

package recorder_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// soak reports whether tests should try everything, however long that takes.

// choice is an alternative and its flags.
type choice struct {
	name  string
	flags []string
}

// withoutJumps filters to the functions of testdata/program.c that return: llvm-xray account
// refuses traces with others.
func withoutJumps(t *testing.T, program string) string {
	t.Helper()
	table := namesOf(t, program)
	var text strings.Builder
	fmt.Fprintf(&text, "object %s\n", program)
	for _, f := range table.Map().Functions {
		if name := symbolize.Label(table, f.ID); !strings.HasPrefix(name, "jump") {
			fmt.Fprintln(&text, f.ID)
		}
	}
	path := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkStockCounts checks that llvm-xray counts the same calls as our reader.
func checkStockCounts(t *testing.T, trace string) {
	t.Helper()
	want := readTrace(t, trace).calls
	for _, version := range []string{"14", "19", "22"} {
		tool := "llvm-xray-" + version
		testenv.Need(t, tool)
		out, err := exec.Command(tool, "account", "--format=csv", trace).Output()
		if err != nil {
			t.Errorf("%s account: %v", tool, err)
			continue
		}
		if diff := cmp.Diff(want, csvCounts(t, out)); diff != "" {
			t.Errorf("%s account (-recorded +counted):\n%s", tool, diff)
		}
	}
}

// A program prints the same and is recorded exactly with every compiler, linker, optimization level
// and way to add the recorder. Without XRAY_SOAK=1, the test tries each linker and level, but not
// all combinations.
func TestMatrix(t *testing.T) {
	t.Parallel()
	l := library(t)
	testenv.Need(t, "ld.bfd", "ld.lld-22")
	linked := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive"}
	ways := []choice{
		{"preload", nil},
		{"dynamic", linked},
		{"static", slices.Concat([]string{"-static"}, linked)},
		{"static-pie", slices.Concat([]string{"-static-pie", "-fPIE"}, linked)},
	}
	linkers := []choice{{"bfd", []string{"-fuse-ld=bfd"}}, {"lld", []string{"--ld-path=ld.lld-22"}}}
	levels := []choice{{"O0", []string{"-O0"}}, {"O2", []string{"-O2"}}, {"LTO", []string{"-O2", "-flto"}}}
	for c, clang := range slices.Sorted(maps.Keys(clangs)) {
		for w, way := range ways {
			for n, linker := range linkers {
				for v, level := range levels {
					if level.name == "LTO" && linker.name == "bfd" && !hasPlugin(clang) {
						continue
					}
					if !testenv.Soak() && (c+w+v)%3 != 0 || !testenv.Soak() && level.name != "LTO" && (c+w)%2 != n {
						continue
					}
					t.Run(strings.Join([]string{clang, way.name, linker.name, level.name}, "/"), func(t *testing.T) {
						t.Parallel()
						flags := slices.Concat(level.flags, way.flags, linker.flags)
						preload := &l
						if way.name != "preload" {
							preload = nil
						}
						checkBuild(t, preload, buildProgram(t, clang, "program.c", flags...))
					})
				}
			}
		}
	}
}

// hasPlugin reports whether GNU ld can link objects of clang -flto.
func hasPlugin(clang string) bool {
	// -### prints the commands to standard error.
	out, err := exec.Command(clang, "-flto", "-fuse-ld=bfd", "-###", "-x", "c", os.DevNull, "-o", os.DevNull).CombinedOutput()
	_, rest, found := strings.Cut(string(out), `"-plugin" "`)
	path, _, _ := strings.Cut(rest, `"`)
	_, missing := os.Stat(path)
	return err == nil && found && missing == nil
}

// checkBuild runs a build of testdata/program.c with and without the recorder.
func checkBuild(t *testing.T, preload *build.Library, program string) {
	t.Helper()
	plain, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, traces := recordProgram(t, preload, "filter="+withoutJumps(t, program), program)
	if out != string(plain) || stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; the program printed\n%s%s\nwithout the recorder\n%s", len(traces), out, stderr, plain)
	}
	want := counted(t, out)
	maps.DeleteFunc(want, func(name string, _ int64) bool { return strings.HasPrefix(name, "jump") })
	if got := entries(t, program, traces); !maps.Equal(got, want) {
		t.Errorf("got calls %v, want %v as the program counted", got, want)
	}
	checkStockCounts(t, traces[0])
}

// If a program is killed, the file lacks at most the current chunk of each thread.
func TestKilledWhileStreaming(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "killed.c", "-O1")
	trace := filepath.Join(t.TempDir(), "killed.xray")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+l.Preload(), recorder.EnvVar+"=output="+recorder.EscapeOption(trace))
	out, err := cmd.Output()
	if err == nil || cmd.ProcessState.String() != "signal: killed" {
		t.Fatalf("the program was not killed: %v", err)
	}
	calls, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, trace)
	got := readTrace(t, trace)
	const chunk = 65536 / 16 // number of calls
	if n := got.calls[reader.FuncID(1)]; n > calls || n+chunk < calls {
		t.Errorf("got %d of %d calls", n, calls)
	}
	if got.unmatched != 0 || got.backwards != 0 || got.recording == nil || got.recording.Process.Complete {
		t.Errorf("%d exits without entry, %d backward time steps, %+v", got.unmatched, got.backwards, got.recording)
	}
}
