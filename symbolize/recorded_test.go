package symbolize

import (
	"debug/elf"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

const kvserver = "../testdata/kvserver"

// copyFile copies a file and creates the folder for it.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// recorded are two objects that are both kvserver.
func recorded(table *Table) []reader.Object {
	n := uint32(len(table.Map().Functions))
	id := table.Object().BuildID
	return []reader.Object{
		{First: 1, Count: n, Path: "/usr/bin/server", BuildID: id},
		{First: reader.FuncID(n) + 1, Count: n, Path: "/usr/lib/libplugin.so", BuildID: id},
	}
}

func loadRecorded(t testing.TB, objects []reader.Object, addresses []uint64, given map[int]string, s Search) (*Recorded, []Missing) {
	t.Helper()
	r, missing, err := LoadRecorded(objects, addresses, given, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, missing
}

func TestRecordedIDs(t *testing.T) {
	table := load(t, kvserver)
	root := t.TempDir()
	copyFile(t, kvserver, filepath.Join(root, "usr/bin/server"))
	copyFile(t, kvserver, filepath.Join(root, "usr/lib/libplugin.so"))
	objects := recorded(table)
	r, missing := loadRecorded(t, objects, nil, nil, Search{Sysroot: root})
	if len(missing) != 0 {
		t.Fatalf("got missing objects %+v, want none", missing)
	}
	n := reader.FuncID(objects[0].Count)
	for id := reader.FuncID(1); id <= n; id++ {
		want, _ := table.Func(id)
		if got, ok := r.Func(id); !ok || got != want {
			t.Fatalf("function %d: got %+v, want %+v", id, got, want)
		}
		if got, ok := r.Func(n + id); !ok || got != want {
			t.Fatalf("function %d: got %+v, want %+v", n+id, got, want)
		}
	}
	for _, id := range []reader.FuncID{-1, 0, 2*n + 1} {
		if s, ok := r.Func(id); ok {
			t.Errorf("function %d: got %+v", id, s)
		}
	}
	if got := TableOf(r, n+1).Object().Path; got != filepath.Join(root, "usr/lib/libplugin.so") {
		t.Errorf("function %d: got object %s", n+1, got)
	}
}

func TestRecordedSearch(t *testing.T) {
	table := load(t, kvserver)
	id := table.Object().BuildID
	for _, c := range []struct {
		name string
		at   string // the path of kvserver's copy
		find Search // relative to the test's folder
	}{
		{"by path below the sysroot", "usr/bin/server", Search{Sysroot: "."}},
		{"by path in a folder", "usr/bin/server", Search{Dirs: []string{"."}}},
		{"by name in a folder", "server", Search{Dirs: []string{"."}}},
		{"by build id", ".build-id/" + id[:2] + "/" + id[2:], Search{Dirs: []string{"."}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			copyFile(t, kvserver, filepath.Join(dir, c.at))
			if c.find.Sysroot != "" {
				c.find.Sysroot = dir
			} else {
				c.find.Sysroot, c.find.Dirs = filepath.Join(dir, "empty"), []string{dir}
			}
			r, missing := loadRecorded(t, recorded(table)[:1], nil, nil, c.find)
			if len(missing) != 0 || Label(r, 1) != Label(table, 1) {
				t.Errorf("function 1: got %s, want %s; missing %+v", Label(r, 1), Label(table, 1), missing)
			}
		})
	}
}

func TestRecordedMissing(t *testing.T) {
	table := load(t, kvserver)
	root := t.TempDir()
	objects := recorded(table)
	s := Search{Sysroot: root}
	check := func(changed bool, text string) {
		t.Helper()
		r, missing := loadRecorded(t, objects[:1], nil, nil, s)
		if len(missing) != 1 || missing[0].Changed != changed || !strings.Contains(missing[0].Err.Error(), text) {
			t.Errorf("got missing %+v, want changed=%v and %q", missing, changed, text)
		}
		if got := Label(r, 1); got != "#1" {
			t.Errorf("function 1: got %s", got)
		}
	}
	check(false, "no such file")
	path := filepath.Join(root, "usr/bin/server")
	copyFile(t, "recorded_test.go", path)
	check(false, "instrumentation map")
	copyFile(t, kvserver, path)
	objects[0].BuildID = "0123"
	check(true, " instead of 0123")

	s.IgnoreBuildID = true
	r, missing := loadRecorded(t, objects[:1], nil, nil, s)
	if len(missing) != 0 || Label(r, 1) != Label(table, 1) {
		t.Errorf("function 1: got %s; missing %+v", Label(r, 1), missing)
	}
	s.IgnoreBuildID = false

	// A given file is used whatever it is, and another build is reported.
	r, missing = loadRecorded(t, objects[:1], nil, map[int]string{0: kvserver}, s)
	if len(missing) != 1 || !missing[0].Given || !missing[0].Changed || Label(r, 1) != Label(table, 1) {
		t.Errorf("given: function 1 is %s; missing %+v", Label(r, 1), missing)
	}
	if _, _, err := LoadRecorded(objects[:1], nil, map[int]string{0: "nowhere"}, s); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("given a missing file: got error %v", err)
	}
}

// Files without a build ID are compared by their functions and the addresses of their code, with or
// without a map.
func TestRecordedWithoutBuildID(t *testing.T) {
	testenv.Need(t, "objcopy")
	root := t.TempDir()
	path := filepath.Join(root, "srv", "prog")
	copyFile(t, kvserver, path)
	elftest.Run(t, "objcopy", "--remove-section=.note.gnu.build-id", path)
	table := load(t, path)
	if table.Object().BuildID != "" {
		t.Fatalf("got build ID %s, want none", table.Object().BuildID)
	}
	var first, last uint64 = math.MaxUint64, 0
	for _, s := range table.Map().Sleds {
		first, last = min(first, s.Address), max(last, s.Address)
	}
	n := uint32(len(table.Map().Functions))
	segment := executable(t, path)
	const bias = 0x7f00_0000_0000
	for _, c := range []struct {
		name   string
		first  uint64
		end    uint64
		count  uint32
		hooked bool
		want   string
	}{
		{"the same", first, last + 11, n, false, ""},
		{"no text", 0, 0, n, false, ""},
		{"moved", first + 16, last + 27, n, false, "its code is not at"},
		{"shorter", first, last - 11, n, false, "its code is not at"},
		{"longer", first, last + 0x1000, n, false, "its code is not at"},
		{"more functions", first, last + 11, n + 1, false, "its number of functions is 55 instead of 56"},
		{"the same segment", segment.Vaddr, segment.Vaddr + segment.Memsz, 0, true, ""},
		{"another segment", segment.Vaddr, segment.Vaddr + segment.Memsz + 16, 0, true, "its code is not at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := reader.Object{First: 1, Count: c.count, Path: "/srv/prog", Bias: bias}
			if c.end != 0 {
				o.Text = [2]reader.Address{reader.Address(bias + c.first), reader.Address(bias + c.end)}
			}
			var addresses []uint64
			if c.hooked {
				addresses = []uint64{bias + table.Map().Functions[0].Address}
			}
			for _, given := range []map[int]string{nil, {0: path}} {
				r, missing := loadRecorded(t, []reader.Object{o}, addresses, given, Search{Sysroot: root})
				if c.want == "" {
					if len(missing) != 0 || Label(r, 1) != Label(table, 1) {
						t.Errorf("function 1: got %s; missing %+v", Label(r, 1), missing)
					}
					continue
				}
				if len(missing) != 1 || !missing[0].Changed || missing[0].Given != (given != nil) || !strings.Contains(missing[0].Err.Error(), c.want) {
					t.Errorf("got missing %+v, want %q", missing, c.want)
				}
				if got := Label(r, 1); (got == "#1") != (given == nil) {
					t.Errorf("function 1: got %s", got)
				}
			}
		})
	}
}

// executable is the segment of an ELF file that holds its code.
func executable(t *testing.T, path string) *elf.Prog {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 })
	return f.Progs[i]
}

// Packed functions must be at the same addresses.
func TestDisagrees(t *testing.T) {
	table := load(t, kvserver)
	s, _ := table.Func(2)
	same := reader.NamedFunction{ID: 2, Name: "f", Address: reader.Address(s.Address)}
	moved, unknown, beyond := same, same, same
	moved.Address++
	unknown.Address = 0
	beyond.ID = 900
	for _, c := range []struct {
		names  Names
		packed []reader.NamedFunction
		want   bool
	}{
		{table, []reader.NamedFunction{same, unknown}, false},
		{table, []reader.NamedFunction{same, moved}, true},
		{table, []reader.NamedFunction{same, beyond}, true},
		{Objects{1: table}, []reader.NamedFunction{moved}, false}, // the program has no table
		{Objects{0: table}, []reader.NamedFunction{moved}, true},
		{nil, []reader.NamedFunction{moved}, false},
	} {
		if f, got := Disagrees(c.names, c.packed); got != c.want || got && f.ID != c.packed[len(c.packed)-1].ID {
			t.Errorf("%T, %+v: got %v, %+v; want %v", c.names, c.packed, got, f, c.want)
		}
	}
}

// Functions without a map are identified by their addresses in memory.
func TestRecordedAddresses(t *testing.T) {
	table := load(t, kvserver)
	root := t.TempDir()
	copyFile(t, kvserver, filepath.Join(root, "usr/bin/server"))
	const bias = 0x5555_0000_0000
	objects := recorded(table)[:1]
	objects[0].Bias = bias
	objects[0].Text = [2]reader.Address{bias + 0x1000, bias + 0x10_0000}
	addresses := []uint64{1}
	want := []string{"#1"}
	for id := reader.FuncID(20); id > 0; id-- {
		s, _ := table.Func(id)
		addresses = append(addresses, bias+s.Address+5) // after the function's first instructions
		want = append(want, s.Name)
	}
	r, missing := loadRecorded(t, objects, addresses, nil, Search{Sysroot: root})
	if len(missing) != 0 {
		t.Fatalf("got missing objects %+v, want none", missing)
	}
	for i, name := range want {
		if got := Label(r, reader.FuncID(i+1)); got != name {
			t.Errorf("function %d at %#x: got %s, want %s", i+1, addresses[i], got, name)
		}
	}
	if s, _ := r.Func(2); s.Line == 0 {
		t.Error("a function has no line")
	}
}

// A stripped file takes names and lines from its debug file.
func TestDebugFile(t *testing.T) {
	testenv.Need(t, "objcopy", "strip")
	dir := t.TempDir()
	table := load(t, kvserver)
	id := table.Object().BuildID
	stripped, debug := filepath.Join(dir, "bin", "kvserver"), filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
	copyFile(t, kvserver, stripped)
	copyFile(t, kvserver, debug)
	elftest.Run(t, "strip", "-s", stripped)
	elftest.Run(t, "objcopy", "--only-keep-debug", debug)

	bare := load(t, stripped)
	if s, _ := bare.Func(1); s.Name != "" {
		t.Errorf("without its debug file, the stripped file has a name for function 1: %s", s.Name)
	}
	full, err := Load(stripped, Options{Options: debuginfo.Options{DebugDirs: []string{"/nowhere", dir}}})
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, f := range table.Map().Functions {
		want, _ := table.Func(f.ID)
		if got, _ := full.Func(f.ID); got != want {
			t.Fatalf("function %d: got %+v, want %+v", f.ID, got, want)
		}
	}
	// A debug file of another build is not used.
	other := t.TempDir()
	copyFile(t, elftest.Compile(t, "int main() { return 0; }\n", "-O1"), filepath.Join(other, "kvserver.debug"))
	wrong, err := Load(stripped, Options{Options: debuginfo.Options{DebugDirs: []string{other}}})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if s, _ := wrong.Func(1); s.Name != "" {
		t.Errorf("function 1 has a name from a debug file of another build: %s", s.Name)
	}
}
