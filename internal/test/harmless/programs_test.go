//go:build linux && amd64

package harmless

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// A situation is a program in which a recorder may do harm, and how to build it.
type situation struct {
	name    string // of the source, which is in testdata or in the recorder's, and more
	clang   []int  // versions; by default 14 and 22
	flags   []string
	args    []string
	file    string // what it needs besides a compiler
	preload bool   // the file
	root    bool
	linked  bool                    // with the recorder
	more    map[string]int64        // calls that the program does not count
	absent  []string                // functions that are left off
	kept    []string                // functions that are never pruned
	build   func(*testing.T) string // if no clang compiles it
}

var lld = []string{"--ld-path=ld.lld-22"}

var situations = []situation{
	// Calls
	{name: "tail.c", clang: []int{14, 16, 18, 19, 20, 22}, flags: []string{"-O2"}},
	{name: "plain.cc", flags: []string{"-O2"}},
	{name: "plain.cc LTO", flags: slices.Concat([]string{"-O2", "-flto"}, lld)},
	{name: "thrown.cc", flags: []string{"-O1"}},
	{name: "program.c", flags: []string{"-O2"}},
	{name: "landings.cc exceptions", flags: []string{"-O1"}, args: []string{"exceptions"}},
	{name: "landings.cc longjmp", flags: []string{"-O1"}, args: []string{"longjmp"}},
	{name: "landings.cc handler", flags: []string{"-O1"}, args: []string{"handler"}},
	{name: "landings.cc fibers", flags: []string{"-O1"}, args: []string{"fibers"}},
	{name: "always.c", flags: []string{"-O2"}, kept: []string{"lock"}},
	{name: "names.d", build: buildD},
	{name: "panics.rs", build: buildRust},
	// Processes and threads
	{name: "life.c fork", flags: []string{"-O1"}, args: []string{"fork"}, more: map[string]int64{"leaf": 70}},
	{name: "life.c vfork", flags: []string{"-O1"}, args: []string{"vfork"}},
	{name: "life.c exec", flags: []string{"-O1"}, args: []string{"exec"}},
	{name: "threads.c", flags: []string{"-O2"}, args: []string{"400"}},
	{name: "altstack.c", flags: []string{"-O2"}, args: []string{"64"}},
	{name: "altstack.c O0", flags: []string{"-O0"}, args: []string{"300"}},
	{name: "altstack.c linked", flags: []string{"-O2"}, args: []string{"600"}, linked: true},
	{name: "heap.c", flags: []string{"-O2"}},
	{name: "heap.c tcmalloc", flags: []string{"-O2"}, file: "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", preload: true},
	{name: "heap.c jemalloc", flags: []string{"-O2"}, file: "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", preload: true},
	{name: "reexec.c", flags: []string{"-O2"}},
	// What programs forbid, and do to their descriptors and users
	{name: "sealed.c", flags: []string{"-O2", "-lseccomp"}, file: "/usr/include/seccomp.h"},
	{name: "descriptors.c each", flags: []string{"-O2"}, args: []string{"each"}},
	{name: "descriptors.c range", flags: []string{"-O2"}, args: []string{"range"}},
	{name: "descriptors.c serve", flags: []string{"-O2"}, args: []string{"serve", "1"}},
	{name: "dropped.c setuid", args: []string{"setuid"}, root: true},
	{name: "dropped.c seteuid", args: []string{"seteuid"}, root: true},
	// Sleds
	{name: "shapes.c O0", clang: []int{14, 22}, flags: []string{"-O0"}},
	{name: "shapes.c Os", clang: []int{18}, flags: []string{"-Os"}},
	{name: "shapes.c Oz", clang: []int{16}, flags: []string{"-Oz"}},
	{name: "shapes.c", clang: []int{20, 22}, flags: []string{"-O2"}},
	{name: "shapes.c LTO", clang: []int{19}, flags: slices.Concat([]string{"-O3", "-flto"}, lld)},
	{name: "conditional.c", clang: []int{14, 16, 18, 19}, flags: []string{"-Os"}},
	{name: "conditional.c Oz", clang: []int{14, 16, 18, 22}, flags: []string{"-Oz"}},
	{name: "preserve.c", clang: []int{18, 19, 20, 22}, flags: []string{"-O2"}},
	{name: "preserve.c O0", flags: []string{"-O0"}},
	{name: "plain.cc linked", flags: []string{"-O2"}, linked: true},
	{name: "plain.cc static", clang: []int{14, 19, 22}, flags: []string{"-O2", "-static"}, linked: true},
	{name: "plain.cc static-pie", clang: []int{14, 19, 22}, flags: []string{"-O2", "-static-pie"}, linked: true},
	{name: "entries.c only", clang: []int{14, 19, 22}, flags: []string{"-O2", "-fxray-instrumentation-bundle=function-entry"}},
	{name: "entries.c exits", clang: []int{14, 19, 22}, flags: []string{"-O2", "-fxray-instrumentation-bundle=function-exit"}},
	{name: "folded.cc all", clang: []int{22}, flags: slices.Concat([]string{"-O2", "-fbasic-block-sections=all", "-ffunction-sections", "-Wl,--icf=all"}, lld), absent: []string{"rising", "falling"}},
	{name: "folded.cc functions", clang: []int{22}, flags: slices.Concat([]string{"-O2", "-ffunction-sections", "-Wl,--icf=all"}, lld)},
	{name: "folded.cc", clang: []int{22}, flags: []string{"-O2", "-ffunction-sections"}},
}

// shapes returns builds of shapes.c by all compilers, at all levels of optimization, also with LTO and
// with a profile by which functions are split. The linker does not read events of older compilers.
func shapes() (all []situation) {
	for _, level := range []string{"-O0", "-O1", "-Os", "-Oz", "-O2", "-O3"} {
		for kind, flags := range map[string][]string{"plain": nil, "LTO": slices.Concat([]string{"-flto", "-DNO_EVENTS"}, lld), "split": slices.Concat([]string{splits}, lld)} {
			s := situation{name: fmt.Sprint("shapes.c all", level, " ", kind), clang: []int{14, 16, 18, 19, 20, 22}, flags: append([]string{level}, flags...)}
			if kind == "split" {
				s.clang = []int{14, 16, 19, 22} // there is no llvm-profdata for the others
			}
			all = append(all, s)
		}
	}
	return all
}

// splits is the flag by which a profile splits functions.
const splits = "-fsplit-machine-functions"

// sourceOf returns the path of a source.
func sourceOf(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"testdata", filepath.Join("..", "..", "..", "recorder", "testdata")} {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("no source %s", name)
	return ""
}

// buildC compiles a situation with a version of clang.
func (s situation) buildC(t *testing.T, c compiler) string {
	t.Helper()
	source, _, _ := strings.Cut(s.name, " ")
	path := sourceOf(t, source)
	args := slices.Concat([]string{"-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-I../../../recorder/runtime", path}, s.flags, c.flags, []string{"-pthread", "-ldl", "-lm"})
	if filepath.Ext(source) == ".cc" {
		args = append(args, "--driver-mode=g++")
	}
	if s.linked {
		args = append(args, linkFlags(t, c)...)
	}
	if slices.Contains(s.flags, splits) {
		profile := filepath.Join(t.TempDir(), "profile")
		build{compiler: c}.profile(t, args, profile)
		args = append(args, "-fprofile-use="+profile, "-w")
	}
	return elftest.Build(t, c.command, "program", args...)
}

// linkFlags returns the flags that link the recorder into a program.
func linkFlags(t *testing.T, c compiler) []string {
	t.Helper()
	return strings.Fields(elftest.Run(t, elftest.Xray(t), "runtime", "flags", "--link", "--cc", c.command))
}

func buildD(t *testing.T) string {
	testenv.Need(t, "ldc2")
	program := filepath.Join(t.TempDir(), "program")
	elftest.Run(t, "ldc2", "-O2", "-g", "--fxray-instrument", "--fxray-instruction-threshold=1", "-of="+program, sourceOf(t, "names.d"))
	return program
}

func buildRust(t *testing.T) string {
	testenv.Need(t, "rustc")
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("rustc", "-O", "-g", "-Z", "instrument-xray=instruction-threshold=1", "-o", program, sourceOf(t, "panics.rs"))
	cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("rustc does not support XRay: %s", out)
	}
	return program
}

// A program prints the same and has the same exit status in each mode, and its calls are as many as
// it counts itself.
func TestSituations(t *testing.T) {
	t.Parallel()
	all, list := compilers(t), situations
	if soak() {
		list = slices.Concat(list, shapes())
	}
	for _, s := range list {
		versions := s.clang
		if versions == nil {
			versions = []int{14, 22}
		}
		if s.build != nil {
			versions = []int{0}
		}
		for _, version := range versions {
			t.Run(strings.TrimSpace(fmt.Sprint(s.name, " ", version)), func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(s.file); s.file != "" && err != nil {
					t.Skip(err)
				}
				if s.root && os.Geteuid() != 0 {
					t.Skip("needs root")
				}
				var program string
				if s.build != nil {
					program = s.build(t)
				} else {
					i := slices.IndexFunc(all, func(c compiler) bool { return c.version == version })
					program = s.buildC(t, all[i])
				}
				for _, m := range modes {
					static := slices.ContainsFunc(s.flags, func(flag string) bool { return strings.HasPrefix(flag, "-static") })
					if static && m.name == "libcalls" {
						continue // it would have to be linked in
					}
					s.check(t, m, program)
				}
			})
		}
	}
}

func (s situation) check(t *testing.T, m mode, program string) {
	t.Helper()
	command := append([]string{program}, s.args...)
	if s.preload {
		m.within = []string{"env", "LD_PRELOAD=" + s.file}
	}
	want, _ := run(t, slices.Concat(m.within, command)...)
	if want.status >= 126 {
		t.Fatalf("the program fails unrecorded: %+v", want)
	}
	got, stderr, traces := record(t, m, command...)
	if d := difference(want, got, ""); d != "" {
		t.Errorf("%s: %s\n%s", m.name, d, stderr)
		return
	}
	calls := counted(got.stdout)
	for name, n := range s.more {
		calls[name] += n
	}
	recorded := accounted(t, traces...)
	for _, name := range s.absent {
		if recorded[name] != 0 {
			t.Errorf("%s: %d calls of %s, which shares a sled", m.name, recorded[name], name)
		}
		delete(calls, name)
	}
	if m.name == "prune" {
		maps.DeleteFunc(calls, func(name string, _ int64) bool { return !slices.Contains(s.kept, name) })
	} else if !m.exact {
		return
	}
	if d := differences(calls, recorded); d != "" {
		t.Errorf("%s: %s\n%s", m.name, d, stderr)
	}
}
