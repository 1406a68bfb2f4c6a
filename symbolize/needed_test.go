//go:build unix

package symbolize

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

const linkedLibrary = `extern "C" [[clang::xray_always_instrument, gnu::noinline]] int NAME(int n) { return n + 1; }
`

// linkedProgram prints the runtime's numbers of objects.
const linkedProgram = `#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern "C" int fa(int), fb(int), fc(int);
extern "C" uintptr_t __xray_function_address_in_object(int32_t, int32_t);
[[clang::xray_always_instrument]] int main() {
  int n = fa(1) + fb(2) + fc(3);
  for (int object = 1; object < 4; object++) {
    Dl_info info;
    if (dladdr((void *)__xray_function_address_in_object(1, object), &info))
      printf("%s ", strrchr(info.dli_fname, '/') + 1);
  }
  return n != 9;
}
`

// Objects have the same numbers as in the runtime, whatever their dependencies.
func TestLinkedObjects(t *testing.T) {
	testenv.Need(t, "clang++-22")
	for _, c := range []struct {
		name    string
		a, b, c string // dependencies of the libraries
		certain bool
	}{
		{"independent", "", "", "", false},
		{"diamond", "", "a", "a", false},
		{"chain", "b", "c", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			write("lib.cc", linkedLibrary)
			write("main.cc", linkedProgram)
			clang := func(args ...string) {
				cmd := exec.Command("clang++-22", append([]string{"-O1", "-fxray-instrument", "-fxray-shared", "-fPIC", "-L.",
					"-Wl,-rpath,$ORIGIN/lib", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"}, args...)...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
				}
			}
			needs := map[string]string{"a": c.a, "b": c.b, "c": c.c}
			made := make(map[string]bool)
			var build func(name string)
			build = func(name string) {
				if made[name] {
					return
				}
				made[name] = true
				args := []string{"-shared", "-DNAME=f" + name, "lib.cc", "-o", "libx" + name + ".so"}
				if need := needs[name]; need != "" {
					build(need)
					args = append(args, "-l:libx"+need+".so")
				}
				clang(args...)
			}
			for name := range needs {
				build(name)
			}
			clang("main.cc", "-o", "prog", "-l:libxa.so", "-l:libxb.so", "-l:libxc.so")
			if c.name == "chain" { // found in the first folder of the run path
				move(t, filepath.Join(dir, "libxb.so"), filepath.Join(dir, "lib", "libxb.so"))
				os.Symlink(filepath.Join("..", "libxc.so"), filepath.Join(dir, "lib", "libxc.so"))
			}
			prog := filepath.Join(dir, "prog")
			want := strings.Fields(elftest.Run(t, prog))
			paths, certain, err := LinkedObjects(prog, Search{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range paths {
				got = append(got, filepath.Base(p))
			}
			if len(want) != 3 || !slices.Equal(got, want) || certain != c.certain {
				t.Errorf("got %v, certain: %v; want %v as in the runtime, certain: %v", got, certain, want, c.certain)
			}
			if IsSharedObject(prog) || !IsSharedObject(paths[0]) {
				t.Errorf("IsSharedObject: got %v for the program, %v for the library", IsSharedObject(prog), IsSharedObject(paths[0]))
			}
			if !IsProgram(prog) || IsProgram(paths[0]) || IsProgram("needed_test.go") {
				t.Errorf("IsProgram: got %v for the program, %v for the library, %v for text", IsProgram(prog), IsProgram(paths[0]), IsProgram("needed_test.go"))
			}
			for _, name := range []string{"libxc.so", filepath.Join("lib", "libxb.so")} {
				os.Remove(filepath.Join(dir, name))
			}
			if _, _, err := LinkedObjects(prog, Search{}); err == nil || !strings.Contains(err.Error(), "libxc.so") && !strings.Contains(err.Error(), "libxb.so") {
				t.Errorf("without a library: got error %v", err)
			}
		})
	}
}

// FDR logs truncate the numbers of objects. An object has a name only if its truncated number is
// unambiguous.
func TestPackedCut(t *testing.T) {
	table := func(name string, functions int) *Table {
		var text strings.Builder
		for i := range functions {
			fmt.Fprintf(&text, "- { id: %d, address: 0x%x, function: 0x%[2]x, kind: function-enter, always-instrument: true, function-name: %s%[1]d, version: 2 }\n",
				i+1, 0x1000+i, name)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return load(t, path)
	}
	objects := Objects{0: table("main", 2), 16: table("sixteen", 3), 1: table("one", 1)}
	for _, c := range []struct {
		id         uint32
		whole, cut string
	}{
		{2, "main2", "#2"},    // or function 2 of object 16
		{3, "#3", "sixteen3"}, // the program has no function 3
		{4, "#4", "#4"},       // no object has it
		{1<<24 | 1, "one1", "one1"},
		{16<<24 | 1, "sixteen1", "#268435457"}, // no FDR log has it
	} {
		whole, cut := NewPacked(objects, false), NewPacked(objects, true)
		if got := Label(whole, reader.FuncID(c.id)); got != c.whole {
			t.Errorf("%#x: got %s, want %s", c.id, got, c.whole)
		}
		if got := Label(cut, reader.FuncID(c.id)); got != c.cut {
			t.Errorf("%#x truncated: got %s, want %s", c.id, got, c.cut)
		}
		object, function := Unpack(reader.FuncID(c.id))
		if got := whole.Largest(object); got != function {
			t.Errorf("%#x: got largest function %d", c.id, got)
		}
	}
}

// An event for which the function has no sled contradicts the file.
func TestPackedContradicts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	var text strings.Builder
	for id, kinds := range []string{"function-enter function-exit", "function-enter tail-exit", "log-args-enter function-exit", "function-enter"} {
		for i, kind := range strings.Fields(kinds) {
			fmt.Fprintf(&text, "- { id: %d, address: 0x%x, function: 0x%x, kind: %s, always-instrument: true, function-name: f, version: 2 }\n",
				id+1, 0x1000*(id+1)+0x10*i, 0x1000*(id+1), kind)
		}
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	p := NewPacked(Objects{1: load(t, path)}, false)
	for _, c := range []struct {
		function uint32
		kind     reader.Kind
		want     bool
	}{
		{1<<24 | 1, reader.TailExit, true},
		{1<<24 | 1, reader.EnterArg, true},
		{1<<24 | 1, reader.Exit, false},
		{1<<24 | 2, reader.TailExit, false},
		{1<<24 | 2, reader.Exit, false}, // some recorders write tail exits this way
		{1<<24 | 2, reader.EnterArg, true},
		{1<<24 | 3, reader.EnterArg, false},
		{1<<24 | 3, reader.Enter, false}, // the program had no handler for arguments
		{1<<24 | 4, reader.TailExit, false},
		{1<<24 | 4, reader.EnterArg, false},
		{1<<24 | 5, reader.TailExit, false},
		{1, reader.TailExit, false},
	} {
		events := []reader.Event{{Func: 1<<24 | 1, Kind: reader.Enter}, {Func: reader.FuncID(c.function), Kind: c.kind}}
		if e, got := p.contradicts(events); got != c.want || got && e != events[1] {
			t.Errorf("%v of function %#x: got %v, %+v; want %v", c.kind, c.function, got, e, c.want)
		}
	}
}

// linkedFile makes a shared object that names its dependencies.
func linkedFile(names string, needed []uint64, symbols []uint32) []byte {
	order := binary.LittleEndian
	var dynamic, table []byte
	for _, at := range needed {
		dynamic = append(dynamic, elftest.Words(order, 8, uint64(elf.DT_NEEDED), at)...)
	}
	for _, at := range symbols {
		table = order.AppendUint32(table, at)
		table = append(table, byte(elf.STB_GLOBAL)<<4, 0, 0, 0)
		table = append(table, make([]byte, 16)...)
	}
	return elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_DYN,
		elftest.Section{Name: ".dynstr", Kind: elf.SHT_STRTAB, Data: []byte(names)},
		elftest.Section{Name: ".dynamic", Kind: elf.SHT_DYNAMIC, Link: 1, Data: dynamic},
		elftest.Section{Name: ".dynsym", Kind: elf.SHT_DYNSYM, Link: 1, Data: table},
		elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x1000, Data: make([]byte, 32)})
}

// Dependencies of untrusted files are read within limits, whatever they name.
func TestHostileLinks(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	linked := func(path string) (paths []string, err error) {
		elftest.Bounded(t, 128<<20, func() { paths, _, err = LinkedObjects(path, Search{Dirs: []string{dir}}) })
		return paths, err
	}
	const used = "\x00liba.so\x00" + registers + "\x00"
	plain := linkedFile(used, nil, []uint32{0, 9})
	write("liba.so", plain)
	if paths, err := linked(write("one", linkedFile(used, []uint64{1}, nil))); err != nil || len(paths) != 1 {
		t.Errorf("plain file: got %v, error %v", paths, err)
	}
	if !IsSharedObject(filepath.Join(dir, "liba.so")) {
		t.Error("plain shared object: IsSharedObject returned false")
	}

	// Names that are suffixes of one long string.
	const long, many = 1 << 20, 200_000
	text := strings.Repeat("x", long) + "\x00"
	var at []uint64
	var at32 []uint32
	for i := range uint64(many) {
		at, at32 = append(at, i), append(at32, uint32(i))
	}
	path := write("names", linkedFile(text, nil, at32))
	elftest.Bounded(t, 64<<20, func() {
		if IsSharedObject(path) {
			t.Error("found a symbol of the runtime, want none")
		}
	})
	if _, err := linked(write("needs", linkedFile(text, at, nil))); err == nil || !strings.Contains(err.Error(), "more than 4096 dependencies") {
		t.Errorf("very many dependencies: got error %v", err)
	}

	// Nothing is ever written to the pipe.
	if err := syscall.Mkfifo(filepath.Join(dir, "libpipe.so"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := linked(write("piped", linkedFile("\x00libpipe.so\x00", []uint64{1}, nil))); err == nil || !strings.Contains(err.Error(), "was not found") {
		t.Errorf("dependency is a pipe: got error %v", err)
	}
}
