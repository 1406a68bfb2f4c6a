//go:build linux && amd64

package harmless

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

var (
	onlySeed = flag.Uint64("seed", 0, "record only the program of this seed, in all modes, and say where its source is")
	programs = flag.Int("programs", 0, "record this many programs; by default 50, and 1000 with XRAY_SOAK=1")
	from     = flag.Uint64("from", 1, "first seed")
)

// A compiler is a version of clang and the flags that it needs.
type compiler struct {
	command string
	version int
	flags   []string
}

// compilers returns the versions of clang: Debian's, and others that script/setup has fetched.
func compilers(t *testing.T) []compiler {
	t.Helper()
	var list []compiler
	for _, version := range []int{14, 16, 18, 19, 20, 22} {
		c := compiler{command: fmt.Sprint("clang-", version), version: version, flags: []string{"-fno-xray-link-deps"}}
		if version < 17 {
			c.flags = []string{"-fnoxray-link-deps"}
		}
		if version == 18 || version == 20 {
			c.command = testenv.Fetched(t, fmt.Sprintf("clang-%d/bin/clang-%d", version, version))
			c.flags = append(c.flags, "-rtlib=libgcc", "-unwindlib=libgcc", "-stdlib=libstdc++")
		}
		testenv.Need(t, c.command)
		list = append(list, c)
	}
	return list
}

// A build is a way to compile a program.
type build struct {
	compiler
	level, kind string
	flags       []string
	split       bool // with a profile, into hot and cold parts of functions
}

func (b build) String() string {
	return fmt.Sprintf("%s %s %s", filepath.Base(b.command), b.level, b.kind)
}

// chooseBuild returns the build of a seed.
func chooseBuild(seed uint64, compilers []compiler) build {
	r := rand.New(rand.NewPCG(seed, 1))
	b := build{compiler: compilers[r.IntN(len(compilers))], level: []string{"-O0", "-O1", "-Os", "-Os", "-Oz", "-O2", "-O2", "-O3"}[r.IntN(8)]}
	const lld = "--ld-path=ld.lld-22"
	kinds := []build{
		{kind: "plain"}, {kind: "plain"},
		{kind: "frames", flags: []string{"-fno-omit-frame-pointer", "-fstack-protector-all"}},
		{kind: "cet", flags: []string{"-fcf-protection=full", "-fno-pie", "-no-pie"}},
		{kind: "avx2", flags: []string{"-march=x86-64-v3"}},
		{kind: "LTO", flags: []string{"-flto", lld}},
		{kind: "ThinLTO", flags: []string{"-flto=thin", lld}},
		{kind: "sections", flags: []string{"-fbasic-block-sections=all", "-ffunction-sections", lld}},
		// Promoted indirect calls could be calls of the function itself, and become loops.
		{kind: "split", flags: []string{"-ffunction-sections", "-mllvm", "-disable-icp", lld}, split: true},
	}
	if b.version == 18 || b.version == 20 {
		kinds = kinds[:len(kinds)-1] // there is no llvm-profdata that reads their profiles
	}
	k := kinds[r.IntN(len(kinds))]
	b.kind, b.flags, b.split = k.kind, k.flags, k.split
	return b
}

// make compiles a program.
func (b build) make(t *testing.T, p program) string {
	t.Helper()
	// Compiled programs are kept by the paths and contents of their sources.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "xray-tests", "generated", fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(p.sources, ""))))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"-w", b.level, "-fxray-instrument", "-fxray-instruction-threshold=1"}, b.compiler.flags, b.flags)
	if p.cplusplus {
		args = append(args, "--driver-mode=g++")
	}
	var sources []string
	for i, text := range p.sources {
		path := filepath.Join(dir, fmt.Sprint(i, map[bool]string{false: ".c", true: ".cc"}[p.cplusplus]))
		if old, err := os.ReadFile(path); err != nil || string(old) != text {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sources = append(sources, path)
	}
	t.Logf("sources: %s", strings.Join(sources, " "))
	sources = append(sources, "-pthread")
	if b.split {
		profile := filepath.Join(dir, "profile-"+strconv.Itoa(b.version))
		if _, err := os.Stat(profile); err != nil {
			b.profile(t, slices.Concat(args, sources), profile)
		}
		args = append(args, "-fprofile-use="+profile, "-fsplit-machine-functions")
	}
	return b.compile(t, slices.Concat(args, sources))
}

// compile runs the compiler. If it crashes or gives up, as each version does with some programs, the test
// is skipped.
func (b build) compile(t *testing.T, args []string) string {
	t.Helper()
	program, err := elftest.TryBuild(t, b.command, "program", append([]string{"-fno-crash-diagnostics"}, args...)...)
	if err != nil && (strings.Contains(err.Error(), "PLEASE submit a bug report") || strings.Contains(err.Error(), "error in backend") || strings.Contains(err.Error(), "ran out of registers")) {
		t.Skipf("%s does not manage this program", b.command)
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// profile writes a profile of a run of the program.
func (b build) profile(t *testing.T, args []string, profile string) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	program := b.compile(t, append([]string{"-fprofile-generate"}, args...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "1")
	cmd.Env = append(os.Environ(), "LLVM_PROFILE_FILE="+raw)
	if _ = cmd.Run(); ctx.Err() != nil { // the status is random
		t.Skip("the program has no end")
	}
	merge := fmt.Sprint("llvm-profdata-", b.version)
	testenv.Need(t, merge)
	elftest.Run(t, merge, "merge", "-o", profile, raw)
}

// seeds returns the seeds of the programs to record, or one for each share of them.
func seeds(share int) (list []uint64) {
	n := 50
	if soak() {
		n = 1000
	}
	if *programs != 0 {
		n = *programs
	}
	if *onlySeed != 0 {
		return []uint64{*onlySeed}
	}
	for i := range n / share {
		list = append(list, *from+uint64(i))
	}
	return list
}

// eachMode calls f with the modes in which to record the program of a seed: all, or a few of them.
func eachMode(seed uint64, f func(mode)) {
	for i, m := range modes {
		if soak() || *onlySeed != 0 || (uint64(i)+seed)%4 == 0 {
			f(m)
		}
	}
}

// A generated program prints the same and has the same exit status in each mode, and its calls are
// as many as it counts itself.
func TestGenerated(t *testing.T) {
	t.Parallel()
	all := compilers(t)
	for _, seed := range seeds(1) {
		b := chooseBuild(seed, all)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("-seed %d: %v", seed, b)
			program := b.make(t, generate(seed, b.version))
			steady := func(rounds string) outcome {
				first, _ := run(t, program, rounds)
				for range 2 {
					if again, _ := run(t, program, rounds); difference(first, again, "on_timer") != "" {
						t.Skip("the compiler made a program that varies by itself")
					}
				}
				return first
			}
			steady("1")
			eachMode(seed, func(m mode) {
				rounds := "1"
				if m.commands != nil {
					rounds = "300"
				}
				want := steady(rounds)
				got, stderr, traces := record(t, m, program, rounds)
				// The timer's number of calls varies.
				if d := difference(want, got, "on_timer"); d != "" {
					t.Errorf("%s: %s\n%s", m.name, d, stderr)
				} else if d := differences(counted(got.stdout), accounted(t, traces...)); m.exact && d != "" {
					t.Errorf("%s: %s", m.name, d)
				}
			})
		})
	}
}

// A program of Csmith prints the same and has the same exit status in each mode, and modes that
// count all calls agree.
func TestCsmith(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "csmith")
	all := compilers(t)
	for _, seed := range seeds(5) {
		b := chooseBuild(seed, all)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("-seed %d: %v", seed, b)
			b.flags = append(b.flags, "-I/usr/include/csmith")
			csmith := exec.Command("csmith", "--seed", fmt.Sprint(seed), "--concise")
			csmith.Dir = t.TempDir() // it writes a file there
			source, err := csmith.Output()
			if err != nil {
				t.Fatal(err)
			}
			program := b.make(t, program{sources: []string{string(source)}})
			var first map[string]int64
			eachMode(seed, func(m mode) {
				want, _ := run(t, "timeout", "5", program)
				if want.status == 124 {
					t.Skip("the program has no end")
				}
				got, stderr, traces := record(t, m, program)
				if d := difference(want, got, ""); d != "" {
					t.Errorf("%s: %s\n%s", m.name, d, stderr)
					return
				}
				if !m.exact {
					return
				}
				calls := accounted(t, traces...)
				if first == nil {
					first = calls
				}
				if d := differences(first, calls); d != "" {
					t.Errorf("%s: %s", m.name, d)
				}
			})
		})
	}
}
