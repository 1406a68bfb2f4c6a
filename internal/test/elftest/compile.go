package elftest

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// built has the results of Compile and Build by their inputs, because compilers are slow.
var built struct {
	sync.Mutex
	dir    string
	kept   string // see findKept
	result map[string]func() (string, error)
}

// Main runs tests that use [Compile] or [Build], and removes their files.
func Main(m *testing.M) { os.Exit(Tests{m}.Run()) }

// Tests wraps the tests that [Main] runs, for packages with their own main function.
type Tests struct{ M *testing.M }

// Run runs the tests and returns their exit status.
func (tests Tests) Run() int {
	built.result = make(map[string]func() (string, error))
	var err error
	if built.dir, err = os.MkdirTemp("", "elftest"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(built.dir)
	built.kept = findKept()
	return tests.M.Run()
}

// Compile builds a source file with clang in a directory of its own, once, and returns the path
// of the result. Like Build, it shares the result with other runs of the tests, but not with debug
// information, which names the directory. It needs [Main].
func Compile(t testing.TB, source string, args ...string) string {
	t.Helper()
	const compiler = "clang++-22"
	testenv.Need(t, compiler)
	for _, arg := range args {
		if linker, ok := strings.CutPrefix(arg, "-fuse-ld="); ok {
			testenv.Need(t, "ld."+linker)
		}
	}
	return once(t, source+strings.Join(args, "\x00"), func(dir string) (string, error) {
		if err := os.WriteFile(filepath.Join(dir, "main.cc"), []byte(source), 0o666); err != nil {
			return "", err
		}
		output := filepath.Join(dir, "out")
		key := keyOfText(compiler, "main.cc\x00"+source, args)
		if restore(key, output) {
			return output, nil
		}
		args := append([]string{"-fxray-instrument", "-fno-xray-link-deps", "main.cc", "-o", output}, args...)
		cmd := exec.Command(compiler, args...)
		cmd.Dir = dir // a relative path, as most build systems give
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
		}
		keep(key, output)
		return output, nil
	})
}

// Build runs a compiler with these arguments and with -o for a file of that name, once, and returns
// the file under that name in a directory of the test. Other tests have the same file under other
// paths, so no test may change its contents or its mode. Runs of the tests share it through the
// user's cache. It needs [Main].
func Build(t testing.TB, compiler, name string, args ...string) string {
	t.Helper()
	path, err := TryBuild(t, compiler, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TryBuild is Build for programs that compilers may refuse.
func TryBuild(t testing.TB, compiler, name string, args ...string) (string, error) {
	t.Helper()
	testenv.Need(t, compiler)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	built, err := tryOnce(strings.Join(append([]string{here, compiler, name}, args...), "\x00"), func(dir string) (string, error) {
		output := filepath.Join(dir, name)
		key := keyOf(compiler, args)
		if restore(key, output) {
			return output, nil
		}
		cmd := exec.Command(compiler, append([]string{"-o", output}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
		}
		keep(key, output)
		return output, nil
	})
	if err != nil {
		return "", err
	}
	// Not a copy: another goroutine may start a program at any time, which would inherit the
	// descriptor, and a file open for writing cannot be executed.
	path := filepath.Join(t.TempDir(), name)
	if err := os.Link(built, path); err != nil {
		t.Fatal(err)
	}
	return path, nil
}

// once calls run for a key once, with a new directory that stays, and returns its result.
func once(t testing.TB, key string, run func(dir string) (string, error)) string {
	t.Helper()
	path, err := tryOnce(key, run)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func tryOnce(key string, run func(dir string) (string, error)) (string, error) {
	built.Lock()
	build, ok := built.result[key]
	if !ok {
		build = sync.OnceValues(func() (string, error) {
			dir, err := os.MkdirTemp(built.dir, "")
			if err != nil {
				return "", err
			}
			return run(dir)
		})
		built.result[key] = build
	}
	built.Unlock()
	return build()
}

// Keep calls run to make the file at a path, unless an earlier run of the tests has made it from the same
// sources in a folder, or below it in xray, with the same compiler and arguments. It needs [Main].
func Keep(t testing.TB, compiler, folder string, args []string, path string, run func()) {
	t.Helper()
	testenv.Need(t, compiler)
	text := sha256.New()
	if err := errors.Join(addSources(text, folder), addSources(text, filepath.Join(folder, "xray"))); err != nil {
		t.Fatal(err)
	}
	key := keyOfText(compiler, string(text.Sum(nil)), args)
	if !restore(key, path) {
		run()
		keep(key, path)
	}
}

// KeepFiles calls run to make files in a folder, unless an earlier run of the tests has made them there from the
// same sources in it, with the same compiler and arguments. Debug information names the folder, so it must be at
// the same place in each run, and not in the folder for temporary files. It needs [Main].
func KeepFiles(t testing.TB, compiler, folder string, args []string, run func()) {
	t.Helper()
	testenv.Need(t, compiler)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n", "2", keyOf(compiler, args), folder) // 2: the archive has files that were replaced, too
	if err := addSources(sum, folder); err != nil {
		t.Fatal(err)
	}
	key, archive := hex.EncodeToString(sum.Sum(nil)), filepath.Join(t.TempDir(), "kept.tar")
	if keyOf(compiler, args) == "" {
		key = ""
	}
	if restore(key, archive) && exec.Command("tar", "-C", folder, "-xf", archive).Run() == nil {
		return
	}
	before := filesIn(t, folder)
	run()
	made := []string{"-C", folder, "-cf", archive}
	for path, written := range filesIn(t, folder) {
		if !before[path].Equal(written) {
			made = append(made, path)
		}
	}
	if exec.Command("tar", made...).Run() == nil {
		keep(key, archive)
	}
}

// filesIn returns the files below a folder, relative to it, and when they were written.
func filesIn(t testing.TB, folder string) map[string]time.Time {
	t.Helper()
	files := make(map[string]time.Time)
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				files[path] = info.ModTime()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// CompileC builds the text of a C program and returns the output file, which it keeps as Compile does.
// It needs [Main].
func CompileC(t testing.TB, compiler, text string, flags ...string) string {
	t.Helper()
	testenv.Need(t, compiler)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.c"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	key := keyOfText(compiler, "in.c\x00"+text, flags)
	if restore(key, out) {
		return out
	}
	cmd := exec.Command(compiler, append([]string{"-o", out, in}, flags...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, said)
	}
	keep(key, out)
	return out
}

// Exports returns the symbols that a shared object exports.
func Exports(t testing.TB, path string) (names []string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

// Run runs a command and returns its output.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	testenv.Need(t, name)
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

// Xray builds the program, once, and returns its path. It needs [Main].
func Xray(t testing.TB) string {
	t.Helper()
	return once(t, "xray", func(dir string) (string, error) {
		path := filepath.Join(dir, "xray")
		out, err := exec.Command("go", "build", "-pgo=off", "-o", path, "github.com/xray-tools/xray/cmd/xray").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(out))
		}
		return path, nil
	})
}
