//go:build unix

package fileio

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("file", path("link")), syscall.Mkfifo(path("fifo"), 0o600), os.Symlink("fifo", path("to fifo"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		f, size, err := OpenRegular(path(name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if string(text) != "content" || size != int64(len(text)) || err != nil || f.Name() != path(name) {
			t.Errorf("%s: got %q of %d bytes, %v", f.Name(), text, size, err)
		}
		f.Close()
	}
	for name, want := range map[string]error{"fifo": ErrNotRegular, "to fifo": ErrNotRegular, "none": fs.ErrNotExist, ".": ErrNotRegular} {
		if _, _, err := OpenRegular(path(name)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

// Another user can replace the file at any moment.
func TestOpenWhatChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, file, fifo := filepath.Join(dir, "path"), filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), syscall.Mkfifo(fifo, 0o600), os.Symlink(file, path)); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !over.Load(); i++ {
			link := filepath.Join(dir, "next")
			if err := errors.Join(os.Symlink([]string{file, fifo}[i%2], link), os.Rename(link, path)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var opened, refused int
	for i := 0; (opened < 1000 || refused < 1000) && i < 1e6; i++ {
		switch f, _, err := OpenRegular(path); {
		case err == nil:
			opened++
			f.Close()
		case errors.Is(err, ErrNotRegular):
			refused++
		default:
			t.Fatal(err)
		}
	}
	over.Store(true)
	<-done
	t.Logf("%d opened, %d refused", opened, refused)
}
