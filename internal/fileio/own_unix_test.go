//go:build unix

package fileio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nobody is another user.
const nobody = 65534

// give makes another user the owner of a file.
func give(t *testing.T, path string) {
	t.Helper()
	if err := os.Lchown(path, nobody, nobody); err != nil {
		t.Skipf("no other user: %v", err)
	}
}

func folder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	const sticky = os.ModeSticky | 0o777
	for _, c := range []struct {
		name  string
		above os.FileMode // of the folder above
		make  func(t *testing.T, path string) error
		want  string
	}{
		{"own", 0o700, func(t *testing.T, path string) error { return os.Mkdir(path, 0o755) }, ""},
		{"own in a sticky folder", sticky, func(t *testing.T, path string) error { return os.Mkdir(path, 0o755) }, ""},
		{"sticky itself", sticky, func(t *testing.T, path string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chmod(path, sticky)
		}, "others may write to"},
		{"where all may write", 0o777, func(t *testing.T, path string) error { return os.Mkdir(path, 0o755) }, "others may write to"},
		{"where the group may write", 0o770, func(t *testing.T, path string) error { return os.Mkdir(path, 0o755) }, "chmod go-w"},
		{"another user's", sticky, func(t *testing.T, path string) error {
			err := os.Mkdir(path, 0o755)
			give(t, path)
			return err
		}, "belongs to user 65534"},
		{"below another user's", 0o700, func(t *testing.T, path string) error {
			err := os.Mkdir(path, 0o755)
			give(t, filepath.Dir(path))
			return err
		}, "belongs to user 65534"},
		{"behind an own link", sticky, func(t *testing.T, path string) error { return os.Symlink(folder(t, 0o700), path) }, ""},
		{"behind a relative link", 0o700, func(t *testing.T, path string) error { return os.Symlink("../folder/./..", path) }, ""},
		{"behind a link to where all may write", 0o700, func(t *testing.T, path string) error { return os.Symlink(folder(t, 0o777), path) }, "others may write to"},
		{"behind another user's link", sticky, func(t *testing.T, path string) error {
			err := os.Symlink(folder(t, 0o700), path)
			give(t, path)
			return err
		}, "belongs to user 65534"},
		{"a loop", 0o700, func(t *testing.T, path string) error { return os.Symlink(path, path) }, "too many"},
		{"nothing", 0o700, func(t *testing.T, path string) error { return nil }, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(folder(t, c.above), "cache")
			if err := c.make(t, path); err != nil {
				t.Fatal(err)
			}
			err := Private(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// In a folder where others may write, they can plant links, and files of theirs.
func TestAppendToOwnFiles(t *testing.T) {
	t.Parallel()
	dir := folder(t, os.ModeSticky|0o777)
	path := func(name string) string { return filepath.Join(dir, name) }
	victim := filepath.Join(t.TempDir(), "victim")
	for _, name := range []string{victim, path("own"), path("theirs")} {
		if err := os.WriteFile(name, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(victim, path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(victim, path("hard")); err != nil {
		t.Fatal(err)
	}
	give(t, path("theirs"))
	for name, want := range map[string]string{"own": "", "new": "", "link": "symbolic link", "hard": "another name", "theirs": "belongs to user", "": "is a directory"} {
		file, err := Append(path(name), true)
		if err == nil {
			_, err = file.WriteString("after\n")
			file.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
		if file, err := Own(path(name)); err == nil {
			file.Close()
		} else if want == "" {
			t.Errorf("%s: cannot read: %v", name, err)
		}
	}
	if text, _ := os.ReadFile(victim); string(text) != "before\n" {
		t.Errorf("another file is now %q", text)
	}
}

// Write follows links, but not those that another user has planted.
func TestPlantedLink(t *testing.T) {
	t.Parallel()
	for _, planted := range []bool{false, true} {
		dir, victim := folder(t, os.ModeSticky|0o777), filepath.Join(t.TempDir(), "victim")
		link := filepath.Join(dir, "out")
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		if planted {
			give(t, link)
		}
		err := Write(link, func(f *os.File) error { _, err := f.WriteString("text"); return err })
		_, missing := os.Stat(victim)
		if planted != (err != nil) || planted != (missing != nil) {
			t.Errorf("planted %v: error %v, the target: %v", planted, err, missing)
		}
	}
}
