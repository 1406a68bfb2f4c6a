//go:build linux && amd64

package real

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// A flavor is a set of compiler flags for building programs.
type flavor struct{ name, flags string }

var (
	instrumented = flavor{"xray", "-O2 -g -fxray-instrument -fxray-instruction-threshold=1"}
	// counting makes the compiler count the entries of each function, including inlined calls.
	counting = flavor{"count", "-O1 -fprofile-instr-generate -fprofile-update=atomic"}
)

const (
	compiler = "clang-22"
	profdata = "llvm-profdata-22"
)

// cacheDirectory returns the directory for sources and builds.
func cacheDirectory(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "xray-tests", "real")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// source fetches the sources of a Debian package once and returns their directory. Without network
// it skips the test, or fails it with CI=true.
func source(t *testing.T, pkg string) string {
	t.Helper()
	dir := filepath.Join(cacheDirectory(t), "source-"+pkg)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	testenv.Need(t, "apt-get", "dpkg-source", "flock")
	if out, err := exec.Command("../../../script/real", pkg, dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot fetch the sources of %s: %v\n%s", pkg, err, out)
		}
		t.Skipf("cannot fetch the sources of %s: %v\n%s", pkg, err, out)
	}
	return dir
}

// build builds the program once and returns the build directory. The directory's name depends on
// all inputs of the build. Processes that build the same program take turns.
func (p program) build(t *testing.T, f flavor) string {
	t.Helper()
	testenv.Need(t, slices.Concat([]string{compiler, "make"}, p.needs)...)
	for _, file := range p.files {
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing; run script/setup to install it", file)
		}
		t.Skipf("%s is missing; run script/setup to install it", file)
	}
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte(strings.Join([]string{p.source, p.script, f.flags, string(version)}, "\x00")))
	base := filepath.Join(cacheDirectory(t), p.name+"-"+f.name)
	dir := fmt.Sprintf("%s-%x", base, key[:6])
	lock, err := os.Create(base + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".built")); err == nil {
		return dir
	}
	from := source(t, p.source)
	old, _ := filepath.Glob(base + "-*")
	for _, d := range old { // made by another script or compiler, or incomplete
		os.RemoveAll(d)
	}
	if out, err := exec.Command("cp", "-r", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	t.Logf("building %s", dir)
	cmd := exec.Command("nice", "-n", "5", "bash", "-euo", "pipefail", "-c",
		// The build is a build of its own, whatever make runs the test: PostgreSQL generates its headers
		// only at level 0.
		"unset MAKELEVEL MAKEFLAGS MFLAGS\n"+p.script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CC="+compiler, "CXX="+strings.Replace(compiler, "clang", "clang++", 1),
		"CFLAGS="+f.flags, "LDFLAGS="+f.flags, "LLVM_PROFILE_FILE=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s in %s: %v\n%s", p.name, dir, err, out[max(0, len(out)-4000):])
	}
	if err := os.WriteFile(filepath.Join(dir, ".built"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBuild builds the programs. With XRAY_REAL, it prepares the cache for the other tests and takes
// some 20 minutes.
func TestBuild(t *testing.T) {
	for _, p := range programs {
		quick := slices.ContainsFunc(p.loads, func(l load) bool { return l.quick })
		if !quick && os.Getenv("XRAY_REAL") == "" {
			continue
		}
		for _, f := range []flavor{instrumented, counting} {
			counts := slices.ContainsFunc(p.loads, func(l load) bool { return l.exact != nil })
			if f == counting && !counts {
				continue
			}
			t.Run(p.name+"/"+f.name, func(t *testing.T) { p.build(t, f) })
		}
	}
}

// Two tests that need the same program at the same time build it once.
func TestBuildOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache := cacheDirectory(t)
	if err := os.Mkdir(filepath.Join(cache, "source-small"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := program{name: "small", source: "small", script: "echo >> ../builds; sleep 0.3; echo >> result"}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			dir := p.build(t, instrumented)
			if result, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || len(result) != 1 {
				t.Errorf("the build has %q, %v", result, err)
			}
		})
	}
	wg.Wait()
	if builds, err := os.ReadFile(filepath.Join(cache, "builds")); err != nil || len(builds) != 1 {
		t.Errorf("built %d times, %v", len(builds), err)
	}
}
