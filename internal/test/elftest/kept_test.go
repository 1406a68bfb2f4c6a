package elftest

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
}

// The key of a command changes with all that its result depends on.
func TestKeyOf(t *testing.T) {
	if _, err := os.Stat(installed); err != nil {
		t.Skip("nothing is kept on this system: ", err)
	}
	dir, headers := t.TempDir(), t.TempDir()
	source, beside, header, compiler := filepath.Join(dir, "main.c"), filepath.Join(dir, "beside.h"), filepath.Join(headers, "head.h"), filepath.Join(dir, "cc")
	for _, path := range []string{source, beside, header, compiler} {
		write(t, path, "1")
	}
	args := []string{"-O1", "-I" + headers, source}
	if key := keyOf(compiler, args); key != "" {
		t.Errorf("a command with temporary names has the key %s", key)
	}
	t.Setenv("TMPDIR", "/nowhere") // the names are no longer temporary
	key := func() string { return keyOf(compiler, args) }
	first := key()
	if first == "" || key() != first {
		t.Fatalf("keys %q and %q", first, key())
	}
	for _, path := range []string{source, beside, header, compiler} {
		before := key()
		write(t, path, "22")
		if key() == before {
			t.Errorf("%s changed, but not the key", path)
		}
	}
	before := key()
	if args = append(args, "-g"); key() == before {
		t.Error("a flag changed, but not the key")
	}
	before = key()
	if t.Chdir(headers); key() == before {
		t.Error("debug information names another folder, but the key is the same")
	}
	before = key()
	if t.Setenv("CPATH", headers); key() == before {
		t.Error("the environment changed, but not the key")
	}
	object := filepath.Join(dir, "a.o")
	write(t, object, "1")
	args = []string{object}
	before = key()
	other := filepath.Join(headers, "b.o")
	write(t, other, "1")
	if args = []string{other}; key() != before {
		t.Error("the name of an object changed the key")
	}
	if write(t, other, "2"); key() == before {
		t.Error("an object changed, but not the key")
	}
}

// keepNothing makes the test begin with nothing kept.
func keepNothing(t *testing.T) {
	kept := built.kept
	built.kept = t.TempDir()
	t.Cleanup(func() { built.kept = kept })
}

func TestKept(t *testing.T) {
	keepNothing(t)
	file, again := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, file, "text")
	if restore("key", again) {
		t.Error("something was kept before")
	}
	keep("key", file)
	if !restore("key", again) {
		t.Fatal("nothing was kept")
	}
	text, err := os.ReadFile(again)
	info, statErr := os.Stat(again)
	if err != nil || statErr != nil || string(text) != "text" || info.Mode()&0o100 == 0 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
	if entries, _ := os.ReadDir(built.kept); len(entries) != 1 {
		t.Errorf("kept %v", entries)
	}
}

// What is kept is made again when a source or an argument changes, and only then.
func TestKeep(t *testing.T) {
	if _, err := os.Stat(installed); err != nil {
		t.Skip("nothing is kept on this system: ", err)
	}
	keepNothing(t)
	folder := t.TempDir()
	source, header := filepath.Join(folder, "main.c"), filepath.Join(folder, "xray", "head.h")
	if err := os.Mkdir(filepath.Dir(header), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, source, "1")
	write(t, header, "1")
	args := []string{"-O1"}
	made := func() (runs int) {
		path := filepath.Join(t.TempDir(), "made")
		Keep(t, "sh", folder, args, path, func() { runs++; write(t, path, "made") })
		if text, err := os.ReadFile(path); string(text) != "made" {
			t.Errorf("got %q, %v", text, err)
		}
		return runs
	}
	for name, change := range map[string]func(){
		"nothing":     func() {},
		"a source":    func() { write(t, source, "2") },
		"a header":    func() { write(t, header, "2") },
		"an argument": func() { args = []string{"-O2"} },
	} {
		made()
		change()
		want := 1
		if name == "nothing" {
			want = 0
		}
		if got := made(); got != want {
			t.Errorf("%s changed: made %d times, want %d", name, got, want)
		}
	}
	args = []string{"-g"}
	if made()+made() != 2 {
		t.Error("debug information names the folder, but the file was kept")
	}
}

// Files are made again when a source changes, and only then. Their folders are made anew, too.
func TestKeepFiles(t *testing.T) {
	if _, err := os.Stat(installed); err != nil {
		t.Skip("nothing is kept on this system: ", err)
	}
	keepNothing(t)
	folder := t.TempDir()
	made := func(source string) (runs int) {
		out := filepath.Join(folder, "out")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "main.c"), source)
		KeepFiles(t, "sh", folder, []string{"-g"}, func() {
			runs++
			if err := os.Mkdir(out, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(out, "a.dwo"), "of "+source)
		})
		if text, err := os.ReadFile(filepath.Join(out, "a.dwo")); string(text) != "of "+source {
			t.Errorf("got %q, %v", text, err)
		}
		return runs
	}
	for _, c := range []struct {
		source string
		want   int
	}{{"1", 1}, {"1", 0}, {"2", 1}, {"1", 0}} {
		if got := made(c.source); got != c.want {
			t.Errorf("source %s: made %d times, want %d", c.source, got, c.want)
		}
	}
}

// A file that a later compilation replaces is kept, too.
func TestKeepFilesReplaced(t *testing.T) {
	keepNothing(t)
	folder := t.TempDir()
	out := filepath.Join(folder, "out")
	write(t, filepath.Join(folder, "main.c"), "source")
	for run := range 2 {
		for _, want := range []string{"first", "second"} {
			KeepFiles(t, "sh", folder, []string{want}, func() {
				if run > 0 {
					t.Errorf("%s was compiled again", want)
				}
				write(t, out, want)
			})
			if text, err := os.ReadFile(out); string(text) != want {
				t.Errorf("run %d: got %q, %v, want %q", run, text, err, want)
			}
		}
	}
}
