//go:build unix

package source

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/symbolize"
)

// FuzzRead reads a path that a binary names. Read must return only files below the
// directory that the binary was compiled in.
func FuzzRead(f *testing.F) {
	base, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(base, "project")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.MkdirAll(at("src"), 0o777), os.WriteFile(at("src/good.c"), []byte("good"), 0o666), os.WriteFile(at("good.c"), []byte("good"), 0o666),
		os.WriteFile(at(".hidden"), []byte("hidden"), 0o666), os.WriteFile(at("../secret.c"), []byte("secret"), 0o666),
		os.Symlink("../secret.c", at("link")), os.Symlink("..", at("up")), os.Symlink("src", at("in")), os.Symlink("/", at("root")),
		os.Symlink("loop", at("loop")), os.Symlink("/dev/zero", at("zero")), syscall.Mkfifo(at("fifo"), 0o600),
	); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{"good.c", "src/good.c", "in/good.c", "src/../good.c", "link", "up/secret.c", "up/project/good.c", "../secret.c", "root/etc/passwd",
		"root" + dir + "/good.c", "in/../../secret.c", "loop", "zero", "fifo", ".hidden", "", ".", "//", "good.c/", "\x00", "src/" + dir} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, named := range []string{path, dir + "/" + path} {
			files := &Files{results: make(map[string]result), binaries: []*binary{{table: new(symbolize.Table), files: []string{named}, dirs: []string{dir}}}}
			if file, err := files.Read(named); err == nil && string(file.Text) != "good" {
				t.Errorf("%q: got %.20q", named, file.Text)
			}
		}
	})
}
