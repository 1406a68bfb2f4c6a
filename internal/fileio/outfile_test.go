//go:build unix

package fileio

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// text returns a function that writes s.
func text(s string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(s)
		return err
	}
}

func private(path string) (*os.File, error) { return Mode(0o600)(path) }

// Write and Replace never replace anything but a regular file.
func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	path := func(name string) string { return filepath.Join(dir, name) }
	fifo, err := os.OpenFile(makeFIFO(t, path("fifo")), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if err := errors.Join(
		os.WriteFile(path("file"), []byte("old"), 0o640),
		os.Symlink("file", path("link")), os.Symlink("nowhere", path("dangling")),
		os.Symlink("loop", path("loop")), os.Mkdir(path("dir"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		writes, replace bool
	}{
		{"file", true, true},
		{"new", true, true},
		{"fifo", true, false},
		{"link", true, false},
		{"dangling", true, false},
		{"loop", false, false},
		{"socket", false, false},
		{"dir", false, false},
		{"/dev/null", true, false},
		{"missing/file", false, false},
	} {
		target := c.name
		if !filepath.IsAbs(target) {
			target = path(target)
		}
		before := fs.ModeIrregular
		if info, err := os.Lstat(target); err == nil {
			before = info.Mode()
		}
		if err := Replace(target, private, text("replaced")); (err == nil) != c.replace {
			t.Errorf("Replace(%s): got error %v", c.name, err)
		} else if err != nil && !strings.Contains(err.Error(), target) {
			t.Errorf("Replace(%s): error %v does not name the target", c.name, err)
		}
		if err := Write(target, text("written")); (err == nil) != c.writes {
			t.Errorf("Write(%s): got error %v", c.name, err)
		}
		if info, err := os.Lstat(target); err == nil && before != fs.ModeIrregular && info.Mode().Type() != before.Type() {
			t.Errorf("%s: mode changed from %v to %v", c.name, before, info.Mode())
		}
	}
	for _, name := range []string{"file", "nowhere"} { // by way of the links
		if got, err := os.ReadFile(path(name)); string(got) != "written" {
			t.Errorf("%s: got %q, error %v", name, got, err)
		}
	}
	got := make([]byte, 99)
	if n, err := fifo.Read(got); string(got[:n]) != "written" {
		t.Errorf("got %q, error %v through the FIFO", got[:n], err)
	}
	noTemporaries(t, dir)
}

func makeFIFO(t *testing.T, path string) string {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func noTemporaries(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// A file keeps its permissions. If writing fails, it keeps its contents.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 255))
	if err := Write(path, text("first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o77)
	defer syscall.Umask(old)
	failure := errors.New("failure")
	err := Write(path, func(f *os.File) error {
		_, _ = io.WriteString(f, "half")
		return failure
	})
	if got, readErr := os.ReadFile(path); !errors.Is(err, failure) || string(got) != "first" {
		t.Errorf("after a failure: got %q, errors %v and %v", got, err, readErr)
	}
	if err := Write(path, text("second")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("got mode %v, error %v; want the previous permissions", info.Mode(), err)
	}
	private := filepath.Join(dir, "private")
	if err := Replace(private, Mode(0o600), text("x")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, error %v", info.Mode(), err)
	}
	noTemporaries(t, dir)
}

// Each temporary file has a unique name. A file that a killed process left behind does not
// block another process with the same id.
func TestTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	seen := make(map[string]bool)
	err := Write(path, func(outer *os.File) error {
		seen[outer.Name()] = true
		return Write(path, func(inner *os.File) error {
			seen[inner.Name()] = true
			return nil
		})
	})
	if err != nil || len(seen) != 2 {
		t.Errorf("got %v, error %v", seen, err)
	}
	for name := range seen {
		if base := filepath.Base(name); strings.Contains(base, "out") || len(base) > 32 || filepath.Dir(name) != dir {
			t.Errorf("%s is too long or in another directory", name)
		}
	}
}

// Writing to an inherited descriptor appends, whatever path names it.
func TestWriteDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, form := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if _, err := os.Stat(form); err != nil {
			continue
		}
		log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := text("before ")(log); err != nil {
			t.Fatal(err)
		}
		n, err := syscall.Dup(int(log.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(form+strconv.Itoa(n), link); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Write(link, text("after")), log.Close()); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(path); string(got) != "before after" {
			t.Errorf("%s: got %q, error %v", form, got, err)
		}
	}
}
