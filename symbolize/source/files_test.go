//go:build unix

package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/source"
)

// build compiles a program in dir. By its debug information, each of the files contains one
// of its functions.
func build(t *testing.T, dir string, files []string, flags ...string) *symbolize.Table {
	t.Helper()
	testenv.Need(t, "clang-22")
	var b strings.Builder
	for i, file := range files {
		fmt.Fprintf(&b, "#line 1 %q\nint f%d(int n) { return n + %d; }\n", file, i, i)
	}
	b.WriteString("#line 1 \"main.c\"\nint main(void) { return 0; }\n")
	out := t.TempDir()
	path, binary := filepath.Join(out, "lines.c"), filepath.Join(out, "prog")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-gdwarf-4", "-fdebug-compilation-dir=" + dir, "-fxray-instrument", "-fxray-instruction-threshold=1", "-o", binary, path}, flags...)
	return load(t, binary, args)
}

func load(t *testing.T, binary string, args []string) *symbolize.Table {
	t.Helper()
	if out, err := exec.Command("clang-22", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := symbolize.Load(binary, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// soon fails the test if f blocks on a file. No path may cause that.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("f blocks")
	}
}

// Whatever path a binary names, Read returns only source code below its compilation
// directory or below the directories that the user chose.
func TestHostilePaths(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, secret := filepath.Join(base, "project"), filepath.Join(base, "secret.c")
	write(t, filepath.Join(dir, "src", "good.c"), "good")
	write(t, filepath.Join(dir, ".env"), "hidden")
	write(t, filepath.Join(dir, "binary.c"), "a\x00b")
	write(t, filepath.Join(dir, "empty.c"), "")
	write(t, secret, "secret")
	write(t, dir+"-other/c.c", "beside")
	if err := errors.Join(
		os.Truncate(filepath.Join(dir, "binary.c"), 17<<20),
		syscall.Mkfifo(filepath.Join(dir, "fifo.c"), 0o600),
		os.Symlink(secret, filepath.Join(dir, "link.c")),
		os.Symlink("../secret.c", filepath.Join(dir, "relative.c")),
		os.Symlink("..", filepath.Join(dir, "up")),
		os.Symlink("src/good.c", filepath.Join(dir, "inside.c")),
		os.Symlink("/dev/zero", filepath.Join(dir, "zero.c")),
		os.Symlink("/proc/self/environ", filepath.Join(dir, "environ.c")),
	); err != nil {
		t.Fatal(err)
	}
	const good, outside = "good", ""
	cases := []struct{ path, text, withRoot string }{
		{dir + "/src/good.c", good, good},
		{dir + "/inside.c", good, good},
		{dir + "/src/../src/./good.c", good, good},
		{dir + "/../project/src/good.c", good, good},
		{"src/good.c", good, good}, // the compilation directory is in front of it
		{dir + "/.env", outside, outside},
		{dir + "/binary.c", outside, outside},
		{dir + "/empty.c", outside, outside},
		{dir + "/fifo.c", outside, outside},
		{dir + "/link.c", outside, outside},
		{dir + "/relative.c", outside, outside},
		{dir + "/up/secret.c", outside, outside},
		{dir + "/zero.c", outside, outside},
		{dir + "/environ.c", outside, outside},
		{dir + "/src", outside, outside},
		{dir + "/../secret.c", outside, outside},
		{dir + "-other/c.c", outside, "beside"},
		{"../secret.c", outside, outside},
		{secret, outside, outside},
		{"/etc/passwd", outside, outside},
		{"/proc/self/environ", outside, outside},
		{"/proc/self/fd/0", outside, outside},
		{"/dev/zero", outside, outside},
		{"/dev/tty", outside, outside},
	}
	var paths []string
	for _, c := range cases {
		paths = append(paths, c.path)
	}
	table := build(t, dir, paths)
	for name, roots := range map[string][]string{"": nil, "with a root": {dir + "-other"}} {
		f, err := source.New(roots, []*symbolize.Table{table})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			want, path := c.text, c.path
			if roots != nil {
				want = c.withRoot
			}
			if !filepath.IsAbs(path) {
				path = dir + "/" + path
			}
			soon(t, func() {
				if got, err := f.Read(path); string(got.Text) != want || (err == nil) != (want != "") {
					t.Errorf("%s: %s: got %.20q, error %v; want %q", name, c.path, got.Text, err, want)
				}
			})
		}
		if n := len(f.Failed(source.ErrUnknown)); n != 0 {
			t.Errorf("want nothing unknown from the debug information, got %q", f.Failed(source.ErrUnknown))
		}
		if roots == nil && !slices.Contains(f.Failed(source.ErrOutside), secret) {
			t.Errorf("%s is not reported", secret)
		}
	}
	// A file that no binary names is not read, wherever it is.
	f, err := source.New([]string{"/"}, []*symbolize.Table{table, nil})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/unnamed.c", "unnamed")
	if _, err := f.Read(dir + "/unnamed.c"); !errors.Is(err, source.ErrUnknown) {
		t.Errorf("unnamed.c: got error %v", err)
	}
	// The user may allow all directories. Only regular files are read even then.
	for path, want := range map[string]bool{secret: true, dir + "/link.c": true, dir + "/.env": true, "/proc/self/environ": false, "/dev/zero": false, dir + "/fifo.c": false} {
		soon(t, func() {
			if _, err := f.Read(path); (err == nil) != want {
				t.Errorf("below /: %s: got error %v", path, err)
			}
		})
	}
}

// A binary can claim any compilation directory.
func TestHostileCompilationDirs(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", "//etc/", "/proc/self/cwd", "/dev", ".", link, "/tmp/../etc"} {
		files := []string{"/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/zero", "passwd", "etc/passwd", "../etc/passwd"}
		table := build(t, dir, files)
		f, err := source.New(nil, []*symbolize.Table{table})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range table.SourceFiles() {
			soon(t, func() {
				if got, err := f.Read(path); err == nil {
					t.Errorf("compiled in %q: %s: got %.20q", dir, path, got.Text)
				}
			})
		}
	}
}

// Relative paths, as in reproducible builds, are looked up below the user's directories.
func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "root", "src", "a.c"), "a")
	write(t, filepath.Join(dir, "secret.c"), "secret")
	table := build(t, ".", []string{"src/a.c", "../secret.c"})
	t.Chdir(filepath.Join(dir, "root"))
	for _, c := range []struct {
		root string
		read []string
	}{{"", nil}, {".", []string{"a"}}, {"src/..", []string{"a"}}, {"..", nil}} {
		var roots []string
		if c.root != "" {
			roots = []string{c.root}
		}
		f, err := source.New(roots, []*symbolize.Table{table})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range table.SourceFiles() {
			if file, err := f.Read(path); err == nil {
				got = append(got, string(file.Text))
			}
		}
		if !slices.Equal(got, c.read) {
			t.Errorf("below %q: got %q of %q, want %q", c.root, got, table.SourceFiles(), c.read)
		}
	}
	for _, root := range []string{"nowhere", "src/a.c"} {
		if _, err := source.New([]string{root}, nil); err == nil {
			t.Errorf("%s was accepted as a directory", root)
		}
	}
}

// Read returns the file that was compiled, as far as the debug information can tell.
func TestChanged(t *testing.T) {
	for _, dwarf := range []string{"-gdwarf-5", "-gdwarf-4"} {
		dir := t.TempDir()
		path, binary := filepath.Join(dir, "prog.c"), filepath.Join(dir, "prog")
		const text = "int main(void) { return 0; }\n"
		write(t, path, text)
		table := load(t, binary, []string{dwarf, "-fdebug-compilation-dir=" + dir, "-fxray-instrument", "-fxray-instruction-threshold=1", "-o", binary, path})
		read := func() (*source.Files, source.File, error) {
			f, err := source.New(nil, []*symbolize.Table{table})
			if err != nil {
				t.Fatal(err)
			}
			file, err := f.Read(path)
			return f, file, err
		}
		checked := dwarf == "-gdwarf-5"
		f, file, err := read()
		if err != nil || string(file.Text) != text || (len(file.MD5) == 32) != checked || len(f.Newer()) != 0 {
			t.Errorf("%s: got %+v, error %v", dwarf, file, err)
		}
		write(t, path, "// New.\n"+text)
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		f, _, err = read()
		if changed := errors.Is(err, source.ErrChanged); changed != checked || slices.Equal(f.Newer(), []string{path}) == checked {
			t.Errorf("%s, changed file: got error %v, newer %v", dwarf, err, f.Newer())
		}
		if checked != slices.Equal(f.Failed(source.ErrChanged), []string{path}) {
			t.Errorf("%s: got changed files %v", dwarf, f.Failed(source.ErrChanged))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if f, _, err = read(); !errors.Is(err, fs.ErrNotExist) || !slices.Equal(f.Unread(), []string{path}) {
			t.Errorf("%s, missing file: got error %v, unread %v", dwarf, err, f.Unread())
		}
	}
}
