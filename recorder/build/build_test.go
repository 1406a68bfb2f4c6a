//go:build linux && amd64

package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

func TestMain(m *testing.M) {
	status := elftest.Tests{M: m}.Run()
	if dir, err := remembering(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// emptyCache sets the user's cache directory to an empty folder.
func emptyCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	return dir
}

// remembering is the folder of a compiler "cc" that compiles a runtime once, without optimization, however
// often tests build it: when a command comes again, it copies the output. TestMain removes the folder.
var remembering = sync.OnceValues(func() (string, error) {
	real, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "remembering")
	if err != nil {
		return "", err
	}
	// Commands run in the folder of the sources or below it, and name their files relative to it.
	script := `#!/bin/sh
previous=
output=
for argument; do
	[ "$previous" = -o ] && output=$argument
	previous=$argument
done
[ "$output" ] || exec REAL "$@"
known=DIR/$(echo "${PWD##*/} $*" | cksum | tr ' ' -)
[ -e $known ] || { REAL "$@" -O0 && cp "$output" $known.$$ && mv $known.$$ $known; } || exit
cp $known "$output"
`
	script = strings.NewReplacer("REAL", real, "DIR", dir).Replace(script)
	return dir, os.WriteFile(filepath.Join(dir, "cc"), []byte(script), 0o700)
})

// rememberingCompiler returns the path of the compiler of remembering.
func rememberingCompiler(t *testing.T) string {
	t.Helper()
	testenv.Need(t, "sh", "cc", "ar")
	dir, err := remembering()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "cc")
}

// Programs that root starts may change their user and execute others, which need the recorder.
func TestAllUsersCanReadRootsRecorder(t *testing.T) {
	testenv.Need(t, "cc", "ar")
	testenv.NeedOtherUsers(t)
	t.Setenv("XDG_CACHE_HOME", "")
	l, err := Runtime(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat", l.Preload())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testenv.Nobody, Gid: testenv.Nobody}}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// What others can write is not loaded, and what is damaged is built again.
func TestCompiledRecorderIsChecked(t *testing.T) {
	testenv.NeedOtherUsers(t)
	t.Setenv("CC", rememberingCompiler(t))
	old := syscall.Umask(0o002)
	defer syscall.Umask(old)
	cache := emptyCache(t)
	if err := os.Chmod(cache, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	build := func() (Library, error) { return Runtime(t.Context(), "") }
	l, err := build()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(l.Preload())
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"another content": func() error { return os.WriteFile(l.Preload(), slices.Concat(whole, []byte("more")), 0o755) },
		"a file too many": func() error { return os.WriteFile(filepath.Join(filepath.Dir(l.Preload()), "more.so"), nil, 0o755) },
		"no checksums":    func() error { return os.Remove(filepath.Join(filepath.Dir(filepath.Dir(l.Preload())), sumsName)) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		again, err := build()
		if err != nil || again != l {
			t.Errorf("%s: %v, error %v", name, again, err)
		}
		if got, _ := os.ReadFile(l.Preload()); !slices.Equal(got, whole) {
			t.Errorf("%s: the recorder was not built again", name)
		}
	}
	for name, plant := range map[string]struct{ do, undo func() error }{
		"another user's library": {
			func() error { return os.Chown(l.Preload(), testenv.Nobody, testenv.Nobody) }, func() error { return os.Chown(l.Preload(), 0, 0) },
		},
		"a library that all may write": {
			func() error { return os.Chmod(l.Preload(), 0o777) }, func() error { return os.Chmod(l.Preload(), 0o755) },
		},
		"another user's folder": {
			func() error { return os.Chown(filepath.Join(cache, "xray"), testenv.Nobody, testenv.Nobody) }, func() error { return os.Chown(filepath.Join(cache, "xray"), 0, 0) },
		},
		"a folder above that all may write": {
			func() error { return os.Chmod(cache, 0o777) }, func() error { return os.Chmod(cache, os.ModeSticky|0o777) },
		},
	} {
		if err := plant.do(); err != nil {
			t.Fatal(err)
		}
		if l, err := build(); err == nil || !strings.Contains(err.Error(), "set XDG_CACHE_HOME") {
			t.Errorf("%s: %v, error %v", name, l, err)
		}
		if err := plant.undo(); err != nil {
			t.Fatal(err)
		}
		if _, err := build(); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestBuildIsDoneOnceForManyAtOnce(t *testing.T) {
	remembering := rememberingCompiler(t)
	cache := emptyCache(t)
	compiled := filepath.Join(t.TempDir(), "compiled")
	cc := filepath.Join(t.TempDir(), "cc")
	if err := os.WriteFile(cc, []byte("#!/bin/sh\necho \"$@\" >>"+compiled+"\nexec "+remembering+" \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", cc)
	var libraries [3]Library
	var wg sync.WaitGroup
	for i := range libraries {
		wg.Go(func() {
			var err error
			if libraries[i], err = Runtime(context.Background(), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l := libraries[0]
	if libraries[1] != l || libraries[2] != l {
		t.Errorf("got libraries %v", libraries)
	}
	if entries, _ := os.ReadDir(filepath.Join(cache, "xray")); len(entries) != 1 {
		t.Errorf("got cache entries %v", entries)
	}
	text, err := os.ReadFile(compiled)
	if err != nil {
		t.Fatal(err)
	}
	commands := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		if line != "--version\n" {
			commands[line]++
		}
	}
	for line, n := range commands {
		if n > 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	if len(commands) < 10 {
		t.Errorf("got commands %v", commands)
	}
	for _, path := range []string{l.Preload(), l.Archive(), filepath.Join(l.Include(), "xray", "recorder.h")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	before, err := os.Stat(l.Preload())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Runtime(context.Background(), ""); again != l || err != nil {
		t.Errorf("second build: got %v, error %v", again, err)
	}
	if after, err := os.Stat(l.Preload()); err != nil || !os.SameFile(before, after) {
		t.Error("the second build compiled again")
	}
}

// A new recorder makes room: others go if nobody has used them for long, but the newest few, and those that a
// process has mapped, stay.
func TestUnusedRecordersAreRemoved(t *testing.T) {
	t.Setenv("CC", rememberingCompiler(t))
	cache := filepath.Join(emptyCache(t), "xray")
	days := func(n int) time.Time { return time.Now().Add(-time.Duration(n) * 24 * time.Hour) }
	folders := []struct {
		name string
		used int
		stay bool
	}{
		{"recorder-recent", 29, true}, {"recorder-old", 31, true}, {"recorder-older", 32, false}, {"recorder-oldest", 400, false},
		{"recorder-mapped", 401, true}, {"build-left", 31, false}, {"build-running", 0, true}, {"other", 400, true},
	}
	for _, f := range folders {
		lib := filepath.Join(cache, f.name, "lib")
		if err := errors.Join(os.MkdirAll(lib, 0o700), os.WriteFile(filepath.Join(lib, "object.so"), make([]byte, 4096), 0o700),
			os.Chtimes(filepath.Join(cache, f.name), days(f.used), days(f.used))); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(filepath.Join(cache, "recorder-mapped", "lib", "object.so"))
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err = errors.Join(err, file.Close(), os.Symlink("recorder-mapped", filepath.Join(cache, "recorder-1")), os.Symlink("recorder-gone", filepath.Join(cache, "recorder-2"))); err != nil {
		t.Fatal(err)
	}
	l, err := Runtime(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(cache, name))
		return err == nil
	}
	for _, f := range folders {
		if exists(f.name) != f.stay {
			t.Errorf("%s, used %d days ago, stays: %t, want %t", f.name, f.used, !f.stay, f.stay)
		}
	}
	if !exists("recorder-1") || exists("recorder-2") {
		t.Errorf("the link to a recorder stays: %t, the link to nothing: %t", exists("recorder-1"), exists("recorder-2"))
	}

	// What is used again counts as used.
	if err := errors.Join(syscall.Munmap(mapped), os.Chtimes(l.dir, days(500), days(500))); err != nil {
		t.Fatal(err)
	}
	if again, err := Runtime(t.Context(), ""); err != nil || again != l {
		t.Fatalf("got %v, %v, want %v", again, err, l)
	}
	removeUnused(t.Context(), cache)
	if _, err := os.Stat(l.Preload()); err != nil {
		t.Error(err)
	}
	if exists("recorder-mapped") {
		t.Error("a recorder stays that nobody has mapped any more")
	}
}

// Names of one compiler share a library.
func TestBuildIsDoneOnceForAllNames(t *testing.T) {
	testenv.Need(t, "gcc")
	ctx := context.Background()
	link := filepath.Join(t.TempDir(), "other-gcc")
	gcc, err := findCompiler(ctx, "gcc")
	if err == nil {
		err = os.Symlink(gcc.command[0], link)
	}
	if err != nil {
		t.Fatal(err)
	}
	for cc, same := range map[string]bool{link: true, "gcc -m64": false} {
		c, err := findCompiler(ctx, cc)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.key() == gcc.key(); got != same {
			t.Errorf("%s has the key of gcc: %v", cc, got)
		}
	}
}

// Every supported compiler compiles the runtime without warnings, and the runtime exports only the
// listed names. The second build comes from the user's cache. Without XRAY_SOAK=1, only the oldest and
// the newest clang are tested.
func TestBuildWithEveryCompiler(t *testing.T) {
	t.Parallel()
	compilers := []string{"gcc", "clang-14", "clang-22"}
	if testenv.Soak() {
		compilers = append(compilers, "clang-19")
	}
	for _, cc := range compilers {
		t.Run(cc, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, cc)
			l, err := Runtime(context.Background(), cc+" -Werror")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range elftest.Exports(t, l.Preload()) {
				if !slices.ContainsFunc(exported, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
					t.Errorf("unexpected export %s", name)
				}
			}
		})
	}
}

// exported lists prefixes of the names that the shared object may export.
var exported = []string{"xray_", "__xray_", "_ZN6__xray", "__cyg_profile_func_", "__fentry__", "__return__",
	"_Unwind_SetIP", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "setcontext", "swapcontext",
	"dlopen", "dlsym", "unshare", "setrlimit", "prlimit", "mlockall", "setns", "prctl", "syscall", "pthread_exit", "pthread_setname_np",
	"setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups", "initgroups", "sigaltstack", "clone", "exec", "fexecve", "posix_spawn"}

func TestBuildWithoutCompiler(t *testing.T) {
	cache := emptyCache(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	if _, err := Runtime(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "install cc") {
		t.Errorf("without a compiler: %v", err)
	}
	if _, err := Runtime(context.Background(), "nocc -O1"); err == nil || !strings.Contains(err.Error(), "nocc") {
		t.Errorf("with a missing compiler: %v", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("got cache entries %v", entries)
	}
}

// Without a compiler, Build returns an earlier build of a default compiler, but not one of a compiler
// that the user named.
func TestBuildFromCacheAlone(t *testing.T) {
	remembering := rememberingCompiler(t)
	emptyCache(t)
	path := filepath.Dir(remembering) + string(filepath.ListSeparator) + os.Getenv("PATH")
	for _, cc := range []string{"cc", ""} {
		t.Setenv("CC", "")
		t.Setenv("PATH", path)
		built, err := Runtime(context.Background(), cc)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", t.TempDir())
		found, err := Runtime(context.Background(), "")
		if cc == "" && (err != nil || found != built) {
			t.Errorf("got %v, %v, want %v", found, err, built)
		} else if cc != "" && err == nil {
			t.Errorf("got %v, which was built with a compiler that was asked for", found)
		}
	}
}

func TestBuildSaysWhatTheCompilerSaid(t *testing.T) {
	testenv.Need(t, "sh")
	cache := emptyCache(t)
	cc := filepath.Join(t.TempDir(), "cc")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'no such target' >&2\nexit 1\n"
	if err := os.WriteFile(cc, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", cc)
	if _, err := Runtime(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "no such target") {
		t.Errorf("got error %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Join(cache, "xray")); len(entries) != 0 {
		t.Errorf("got cache entries %v", entries)
	}
}

func TestXRayFlagsSuitTheCompiler(t *testing.T) {
	ctx := context.Background()
	for cc, want := range map[string]string{
		"clang-14": "-fnoxray-link-deps", "clang-19": "-fno-xray-link-deps", "clang-22": "-fno-xray-link-deps",
	} {
		testenv.Need(t, cc)
		flags, err := XRayFlags(ctx, cc, Library{"/x"})
		if err != nil || !slices.Contains(flags.Link, want) {
			t.Errorf("%s: %v, %v", cc, flags, err)
		}
	}
	testenv.Need(t, "gcc")
	if _, err := XRayFlags(ctx, "gcc", Library{"/x"}); err == nil || !strings.Contains(err.Error(), "--gcc") {
		t.Errorf("gcc: %v", err)
	}
}

func TestInstall(t *testing.T) {
	testenv.Need(t, "cc", "ar")
	l, err := Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Installed(dir); err == nil {
		t.Error("an empty folder was accepted")
	}
	for range 2 { // the second time, files exist
		if err := l.Install(dir); err != nil {
			t.Fatal(err)
		}
	}
	installed, err := Installed(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{installed.Preload(), installed.Archive(), filepath.Join(installed.Include(), "xray", "recorder.h")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	testenv.Need(t, "pkg-config")
	cmd := exec.Command("pkg-config", "--cflags", "--libs", "xray-recorder")
	cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(dir, "lib", "pkgconfig"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), archiveName) {
		t.Errorf("%s: %v", out, err)
	}
}
