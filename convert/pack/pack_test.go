package pack_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/convert/pack"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

const program = `// A program.

// outer calls inner.
__attribute__((noinline)) int inner(int n) {
  return n * 3;
}

int outer(int n) {
  return inner(n) + 1;
}
` + "\n\n\n\n\n\n" + `
int main(int argc, char **argv) {
  return outer(argc);
}
`

// build compiles the program and returns its names and functions.
func build(t *testing.T, dwarf string) (string, symbolize.Names, []reader.NamedFunction) {
	t.Helper()
	testenv.Need(t, "clang++-22")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "prog.cc"), filepath.Join(dir, "prog")
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang++-22", dwarf, "-fxray-instrument", "-fxray-instruction-threshold=1",
		"-Wl,--build-id", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := symbolize.Load(binary, symbolize.Options{Style: symbolize.Mangled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return source, table, pack.Functions(table, nil, []reader.FuncID{-5, 1, 2, 3, 900, 1 << 28})
}

func TestFunctions(t *testing.T) {
	source, names, functions := build(t, "-gdwarf-5")
	if len(functions) != 3 {
		t.Fatalf("got %d functions, want 3: %+v", len(functions), functions)
	}
	object := symbolize.TableOf(names, 2).Object()
	s, _ := names.Func(2)
	want := reader.NamedFunction{ID: 2, Name: "_Z5outeri", File: source, Line: 8, Column: int32(s.Column),
		Address: reader.Address(s.Address), Object: object.Path, BuildID: object.BuildID}
	if !reflect.DeepEqual(functions[1], want) || want.Address == 0 || len(want.BuildID) != 40 {
		t.Errorf("outer: got %+v, want %+v", functions[1], want)
	}
	// FDR logs truncate the ID of object 16 to that of the program's function.
	if got := pack.Functions(names, nil, []reader.FuncID{1, 2, 3, 1<<28 | 2}); len(got) != 2 || got[0].ID != 1 || got[1].ID != 3 {
		t.Errorf("with an ID of object 16: got %+v", got)
	}
}

// Functions are found in records of all kinds, in counters and in sums.
func TestOccurring(t *testing.T) {
	r := &reader.Recording{
		Counters: []reader.Counter{{Func: 70, Calls: 3}},
		Profiles: []reader.Profile{{Process: 7, Thread: 8, Paths: []reader.ProfilePath{{Func: 60, Parent: -1, Count: 1}}}},
	}
	path := filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tracewrite.NewFDR(f, reader.Header{CycleFrequency: 1_000_000_000}, tracewrite.Options{Recording: r, First: 100})
	for i, kind := range []reader.Kind{reader.Enter, reader.Exit, reader.TailExit, reader.EnterArg} {
		if err := w.Block(&reader.Block{
			Thread: reader.Thread{Process: 7, Thread: int32(i + 1)},
			Events: []reader.Event{{TSC: 100, Func: reader.FuncID(10 + i), Kind: kind}, {TSC: 101, Func: 5, Kind: reader.Enter}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	tr, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for shards := range 5 {
		got, err := pack.Occurring(tr, shards)
		if want := []reader.FuncID{5, 10, 11, 12, 13, 60, 70}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%d shards: got %v, error %v; want %v", shards, got, err, want)
		}
	}
}

// Source files beyond the size limit are omitted one by one.
func TestSourcesLarge(t *testing.T) {
	line := strings.Repeat("x", 100_000) + "\n"
	files := map[string]string{
		"a.c": strings.Repeat(line, 60),
		"b.c": strings.Repeat(line, 60), // exceeds the limit together with the first
		"c.c": strings.Repeat(line, 10),
		"d.c": strings.Repeat("\n", reader.MaxSourceLines+1),
	}
	var functions []reader.NamedFunction
	for _, name := range []string{"d.c", "c.c", "b.c", "a.c", "e.c", ""} {
		functions = append(functions, reader.NamedFunction{ID: reader.FuncID(len(functions) + 1), File: name, Line: 1})
	}
	s := pack.NewSources(functions, func(path string) ([]byte, string, error) {
		if text, ok := files[path]; ok {
			return []byte(text), "", nil
		}
		return nil, "", fs.ErrNotExist
	})
	if len(s.Texts) != 2 || s.Texts[0].File != "a.c" || s.Texts[1].File != "c.c" {
		t.Errorf("got %d passages", len(s.Texts))
	}
	if !slices.Equal(s.Large, []string{"b.c", "d.c"}) || !slices.Equal(s.Unread, []string{"e.c"}) {
		t.Errorf("got too large %v, unread %v", s.Large, s.Unread)
	}
}

// The packed source covers the functions and has the MD5 that it was compared with.
func TestSources(t *testing.T) {
	file, _, functions := build(t, "-gdwarf-5")
	lines := strings.Split(program, "\n")
	s := pack.NewSources(functions, func(path string) ([]byte, string, error) {
		text, err := os.ReadFile(path)
		return text, "md5", err
	})
	if len(s.Texts) != 2 || len(s.Unread)+len(s.Large) != 0 {
		t.Fatalf("got %+v", s)
	}
	for i, first := range []int32{1, 15} {
		got, want := s.Texts[i], strings.Join(lines[:10], "\n")
		if first > 1 {
			want = strings.Join(lines[14:20], "\n")
		}
		if got.File != file || got.First != first || got.Text != want || got.MD5 != "md5" {
			t.Errorf("passage %d: got %+v, want\n%s", i, got, want)
		}
	}
}
