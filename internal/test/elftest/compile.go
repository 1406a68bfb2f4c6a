package elftest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// built has the results of Compile by source and arguments, because compilers are slow.
var built struct {
	sync.Mutex
	dir    string
	result map[string]func() (string, error)
}

// Main runs tests that use [Compile], and removes its files.
func Main(m *testing.M) {
	built.result = make(map[string]func() (string, error))
	var err error
	if built.dir, err = os.MkdirTemp("", "elftest"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(status)
}

// Compile builds a source file with clang in a directory of its own, once, and returns the path
// of the result. It needs [Main].
func Compile(t testing.TB, source string, args ...string) string {
	t.Helper()
	const compiler = "clang++-22"
	testenv.Need(t, compiler)
	for _, arg := range args {
		if linker, ok := strings.CutPrefix(arg, "-fuse-ld="); ok {
			testenv.Need(t, "ld."+linker)
		}
	}
	key := source + strings.Join(args, "\x00")
	built.Lock()
	build, ok := built.result[key]
	if !ok {
		build = sync.OnceValues(func() (string, error) {
			dir, err := os.MkdirTemp(built.dir, "")
			if err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(dir, "main.cc"), []byte(source), 0o666); err != nil {
				return "", err
			}
			output := filepath.Join(dir, "out")
			args := append([]string{"-fxray-instrument", "-fno-xray-link-deps", "main.cc", "-o", output}, args...)
			cmd := exec.Command(compiler, args...)
			cmd.Dir = dir // a relative path, as most build systems give
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
			}
			return output, nil
		})
		built.result[key] = build
	}
	built.Unlock()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
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
