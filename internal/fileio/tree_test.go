package fileio

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contents are all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// create writes files of a tree.
func create(t *Tree, files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := t.Create(name)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(files[name]))
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Folders replace those of the same name as a whole, and leave all others.
func TestWriteTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "tree")
	for _, step := range []struct{ files, want map[string]string }{
		{map[string]string{"a/x/1": "1", "a/x/2": "2", "b/x/1": "3"}, map[string]string{"a/x/1": "1", "a/x/2": "2", "b/x/1": "3"}},
		{map[string]string{"a/y/1": "4"}, map[string]string{"a/x/1": "1", "a/x/2": "2", "a/y/1": "4", "b/x/1": "3"}},
		{map[string]string{"a/x/1": "5"}, map[string]string{"a/x/1": "5", "a/y/1": "4", "b/x/1": "3"}},
	} {
		if err := WriteTree(dir, func(t *Tree) error { return create(t, step.files) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, contents(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A file that is created again replaces the first one.
func TestTreeCreatesAgain(t *testing.T) {
	dir := t.TempDir()
	err := WriteTree(dir, func(t *Tree) error {
		return errors.Join(create(t, map[string]string{"a/1": "long"}), create(t, map[string]string{"a/1": "s"}))
	})
	if got := contents(t, dir); err != nil || !maps.Equal(got, map[string]string{"a/1": "s"}) {
		t.Error(got, err)
	}
}

// A failure leaves everything as it was.
func TestTreeFails(t *testing.T) {
	dir := t.TempDir()
	old := map[string]string{"a/x/1": "old", "b": "a file"}
	if err := WriteTree(dir, func(t *Tree) error { return create(t, map[string]string{"a/x/1": "old"}) }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("a file"), 0o666); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	for _, c := range []struct {
		dir  string
		fill func(*Tree) error
		want string
	}{
		{dir, func(t *Tree) error { return errors.Join(create(t, map[string]string{"a/x/1": "new"}), failed) }, "failed"},
		// The place of a folder is a file.
		{dir, func(t *Tree) error { return create(t, map[string]string{"a/x/1": "new", "b/x/1": "new"}) }, "cannot write " + dir + ": not a directory"},
		{filepath.Join(dir, "b"), nil, "cannot write " + filepath.Join(dir, "b") + ": it is a file, not a directory"},
		{filepath.Join(dir, "new"), func(*Tree) error { return failed }, "failed"},
	} {
		if err := WriteTree(c.dir, c.fill); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if diff := cmp.Diff(old, contents(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.want, diff)
		}
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			t.Error("a directory that was made is still there")
		}
	}
}
