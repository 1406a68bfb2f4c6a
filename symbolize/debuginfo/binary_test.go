package debuginfo

import (
	"debug/elf"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

func TestMain(m *testing.M) { elftest.Main(m) }

// openFunctions opens a program and asks for all functions of its symbol table.
func openFunctions(t *testing.T, path string) *Binary {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var functions []uint64
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			functions = append(functions, s.Value)
		}
	}
	e, err := OpenELF(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	b, err := NewBinary(e, path, functions, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// program has inlined functions and line tables.
const program = `#include <algorithm>
#include <string>
#include <vector>
static inline int twice(int x) { return 2 * x; }
__attribute__((noinline)) int sum(const std::vector<int> &v) { int s = 0; for (int x : v) s += twice(x); return s; }
int main(int argc, char **argv) {
  std::vector<int> v;
  for (int i = 0; i < argc; i++) v.push_back(std::string(argv[i]).size());
  std::sort(v.begin(), v.end());
  return sum(v);
}
`

// Sections that were read to locate functions do not stay in memory unless they were compressed,
// because there may be hundreds of objects.
func TestLocateForgets(t *testing.T) {
	b := openFunctions(t, elftest.Compile(t, program, "-O2", "-g"))
	sections := func() (held int) {
		d := b.info().main
		for _, s := range []*Section{d.info, d.abbrev, d.str, d.lineStr, d.strOffsets, d.addr, d.rnglists, d.line} {
			if s == nil {
				t.Fatal("a section is missing")
			}
			if w := s.around.Load(); w != nil {
				held += len(w.data)
			}
			held += len(s.data)
		}
		return held
	}
	if err := b.Locate(); err != nil {
		t.Fatal(err)
	}
	if n := sections(); n != 0 {
		t.Errorf("%d bytes of sections are still held", n)
	}
	inlined := 0
	for i := range b.functions {
		inlined += len(b.InlinedCalls(i))
	}
	if inlined == 0 {
		t.Error("got no inlined calls")
	}
	if sections() == 0 {
		t.Error("no section was read for inlined calls")
	}
}
