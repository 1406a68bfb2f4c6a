package symbolize

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// program has what real programs have: templates, lambdas, overloads, headers,
// namespaces, exceptions and event sleds.
const program = `#include <algorithm>
#include <map>
#include <string>
#include <vector>
#define INSTRUMENT [[clang::xray_always_instrument]]
extern "C" [[clang::xray_never_instrument]] void __xray_CustomEvent() {} // the runtime's
namespace app {
namespace {
INSTRUMENT int hidden(const std::string &s) { return (int)s.size(); }
}
template <class T, int N> struct Store {
  std::map<std::string, std::vector<T>> data;
  INSTRUMENT __attribute__((noinline)) Store() { data["x"].push_back(N); }
  INSTRUMENT __attribute__((noinline)) virtual ~Store() {}
  INSTRUMENT __attribute__((noinline)) int put(const std::string &s, T t) {
    data[s].push_back(t);
    std::sort(data[s].begin(), data[s].end());
    return data.size();
  }
  INSTRUMENT bool operator<(const Store &o) const { return data.size() < o.data.size(); }
  template <class F> INSTRUMENT __attribute__((noinline)) int each(F f) {
    int n = 0;
    for (auto &p : data)
      for (T t : p.second)
        n += f(t, [](T a) { return a + N; });
    return n;
  }
};
INSTRUMENT void *operator""_p(unsigned long long n) { return (void *)n; }
INSTRUMENT auto decl(int (*f)(int, ...), const volatile char *const *p) -> decltype(f(1)) { return f(1) + **p; }
} // namespace app
static int variadic(int a, ...) { return a; }
extern "C" INSTRUMENT __attribute__((noinline)) int plain(int a) {
  __xray_customevent("x", 1);
  return a * 3;
}
INSTRUMENT int main(int argc, char **argv) {
  app::Store<long, 3> a;
  app::Store<unsigned char, 'c'> b;
  int n = a.put(argv[0], argc) + b.put("k", 1) + app::hidden(argv[0]);
  n += a.each([&](long v, auto g) { return (int)g(v) + n; });
  const volatile char *p = argv[0];
  n += app::decl(variadic, &p);
  return plain(n) + (a < a) + (app::operator""_p(7) == nullptr);
}
`

// variants are ways to build a program with debug information.
var variants = []struct {
	name string
	args []string
}{
	{"O0-dwarf5", []string{"-O0", "-g"}},
	{"O2-dwarf5", []string{"-O2", "-g"}},
	{"O2-dwarf4", []string{"-O2", "-gdwarf-4"}},
	{"O2-dwarf64", []string{"-O2", "-g", "-gdwarf64"}},
	{"O1-dwarf3", []string{"-O1", "-gdwarf-3"}},
	{"tables-only", []string{"-O2", "-gline-tables-only"}},
	{"zlib", []string{"-O2", "-g", "-gz=zlib"}},
	{"zstd", []string{"-O2", "-gdwarf-4", "-gz=zstd"}},
	{"split-dwarf4", []string{"-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"}},
	{"split-dwarf5", []string{"-O2", "-g", "-gsplit-dwarf"}},
	{"sections-lld", []string{"-O2", "-g", "-ffunction-sections", "-fuse-ld=lld-22", "-Wl,--gc-sections", "-Wl,--icf=all"}},
	{"no-pie", []string{"-O2", "-g", "-no-pie"}},
	{"emit-relocs", []string{"-O2", "-g", "-Wl,--emit-relocs"}},
	{"object", []string{"-O2", "-g", "-c"}},
}

// naive finds lines with the standard library's reader: it collects the rows of
// every sequence, and then applies the rule.
func naive(t *testing.T, path string, starts, ends []uint64) []location {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	result := make([]location, len(starts))
	units := d.Reader()
	for {
		unit, err := units.Next()
		if err != nil || unit == nil {
			break
		}
		units.SkipChildren()
		lines, err := d.LineReader(unit)
		if err != nil || lines == nil {
			continue
		}
		var sequence []dwarf.LineEntry
		var e dwarf.LineEntry
		for lines.Next(&e) == nil {
			sequence = append(sequence, e)
			if !e.EndSequence {
				continue
			}
			for i, a := range starts {
				if sequence[0].Address == 0 || a < sequence[0].Address || a >= e.Address || result[i].line != 0 {
					continue
				}
				var in dwarf.LineEntry
				for _, r := range sequence[:len(sequence)-1] {
					exact := r.Address == a && r.Line != 0
					if r.Address <= a && !(in.Address == a && in.Line != 0) {
						in = r
					}
					if exact || r.Address > a && r.Address < ends[i] && in.Line == 0 {
						in = r
					}
					if in.Address >= a && in.Line != 0 {
						break
					}
				}
				if in.File != nil {
					result[i] = location{in.File.Name, int32(in.Line), int32(in.Column)}
				}
			}
			sequence = sequence[:0]
		}
	}
	return result
}

// Lines are those that the standard library's reader gives, whatever the form
// of the debug information.
func TestLines(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			path := compile(t, program, v.args...)
			table := load(t, path)
			if err := table.Locate(); err != nil {
				t.Fatal(err)
			}
			located := 0
			for _, f := range table.Map().Functions {
				s, _ := table.Func(f.ID)
				if !filepath.IsAbs(s.File) || s.Line == 0 {
					t.Errorf("%s is at %q line %d", s.Name, s.File, s.Line)
				}
				if filepath.Base(s.File) == "main.cc" {
					located++
				}
				if s.Name == "plain" && s.Line != 33 || s.Name == "main" && s.Line != 37 {
					t.Errorf("%s is on line %d", s.Name, s.Line)
				}
			}
			if located < 11 {
				t.Errorf("only %d functions", located)
			}
			if v.name == "object" || v.name == "O2-dwarf64" {
				// The layout of sections is this package's own; and the standard
				// library finds nothing in 64-bit DWARF 5.
				return
			}
			want := naive(t, path, table.keys, table.ends)
			got := slices.Clone(table.code())
			for i := range got {
				got[i].file = filepath.Clean(got[i].file) // as the standard library does
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(location{})); diff != "" {
				t.Errorf("(-standard library +got)\n%s", diff)
			}
		})
	}
}

// Where LLVM's symbolizer knows a line, so do we, and it is in the same file.
func TestLinesLikeLLVM(t *testing.T) {
	path := compile(t, program, variants[1].args...)
	table, err := Load(path, Options{Code: true})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for _, f := range table.Map().Functions {
		out := strings.Fields(run(t, "llvm-symbolizer-22", "--no-inlines", "--functions=none", "-e", path, "0x"+hexAddress(f.Address)))
		parts := strings.Split(out[len(out)-1], ":")
		s, _ := table.Func(f.ID)
		if llvm := parts[len(parts)-2]; llvm != "0" && llvm != itoa(s.Line) || parts[0] != s.File {
			t.Errorf("%s: LLVM says %v, we say %s:%d", s.Name, out, s.File, s.Line)
		}
	}
}

// A tableBuilder makes line tables for tests.
type tableBuilder struct {
	program []byte
}

func (b *tableBuilder) row(address uint64, line int64, advance int64) {
	b.program = append(b.program, 0, 9, lneSetAddress)
	b.program = binary.LittleEndian.AppendUint64(b.program, address)
	b.program = append(b.program, lnsAdvanceLine)
	b.program = appendSleb(b.program, advance)
	b.program = append(b.program, lnsCopy)
}

func appendSleb(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7F)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// sequence adds rows and an end.
func (b *tableBuilder) sequence(rows []row) {
	line := int64(1)
	for i, r := range rows {
		if i == len(rows)-1 {
			b.program = append(b.program, 0, 9, lneSetAddress)
			b.program = binary.LittleEndian.AppendUint64(b.program, r.address)
			b.program = append(b.program, 0, 1, lneEndSequence)
			break
		}
		b.row(r.address, int64(r.line), int64(r.line)-line)
		line = int64(r.line)
	}
}

func (b *tableBuilder) table() *lineTable {
	return &lineTable{
		order: binary.LittleEndian, version: 4, addressSize: 8, minInst: 1, lineBase: -3, lineRange: 12, opcodeBase: 13,
		operands: []byte{0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, program: b.program,
	}
}

func (b *tableBuilder) find(starts, ends []uint64) map[uint64]uint64 {
	got := make(map[uint64]uint64)
	s := seeker{wanted: wanted{starts: starts, ends: ends, first: 1}, report: func(i int, r row) { got[starts[i]] = r.line }}
	b.table().run(&s)
	return got
}

func TestSeeker(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []row // line 0 of the last one: end of the sequence
		want map[uint64]uint64
	}{
		{"at", []row{{address: 0x10, line: 5}, {address: 0x14, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 5}},
		{"within a row", []row{{address: 0x8, line: 5}, {address: 0x14, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 5}},
		{"after", []row{{address: 0x10}, {address: 0x14}, {address: 0x18, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 6}},
		{"first of several", []row{{address: 0x10}, {address: 0x10, line: 7}, {address: 0x10, line: 8}, {address: 0x10}, {address: 0x20}}, map[uint64]uint64{0x10: 7}},
		{"none within the function", []row{{address: 0x10}, {address: 0x1C, line: 9}, {address: 0x20}}, nil},
		{"end is not a row", []row{{address: 0x8, line: 9}, {address: 0x10}}, nil},
		{"next function", []row{{address: 0x10}, {address: 0x40, line: 9}, {address: 0x44, line: 3}, {address: 0x50}}, map[uint64]uint64{0x40: 9}},
		{"starts behind", []row{{address: 0x12, line: 9}, {address: 0x20}}, nil},
		{"backwards", []row{{address: 0x30, line: 9}, {address: 0x8, line: 2}, {address: 0x20}}, nil},
		{"dropped by the linker", []row{{address: 0, line: 9}, {address: 0x20, line: 4}, {address: 0x60}}, nil},
	} {
		var b tableBuilder
		b.sequence(c.rows)
		got := b.find([]uint64{0x10, 0x40}, []uint64{0x1C, math.MaxUint64})
		if c.want == nil {
			c.want = map[uint64]uint64{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// On any sequence, the seeker finds what the rule says.
func TestSeekerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 40), 1, 6, rapid.ID).Draw(t, "starts")
		slices.Sort(starts)
		ends := make([]uint64, len(starts))
		for i := range starts {
			ends[i] = uint64(math.MaxUint64)
			if i+1 < len(starts) {
				ends[i] = rapid.Uint64Range(starts[i]+1, starts[i+1]).Draw(t, "end")
			}
		}
		n := rapid.IntRange(2, 12).Draw(t, "rows")
		rows := make([]row, n)
		for i := range rows {
			rows[i] = row{address: rapid.Uint64Range(1, 45).Draw(t, "address"), line: rapid.Uint64Range(0, 3).Draw(t, "line")}
		}
		slices.SortStableFunc(rows, func(a, b row) int { return int(a.address) - int(b.address) })
		want := make(map[uint64]uint64)
		end := rows[n-1].address
		for i, a := range starts {
			if a < rows[0].address || a >= end {
				continue
			}
			line := uint64(0)
			for _, r := range rows[:n-1] { // the row that a is in
				if r.address < a {
					line = r.line
				}
			}
			if slices.ContainsFunc(rows[:n-1], func(r row) bool { return r.address == a }) {
				line = 0
			}
			for _, r := range rows[:n-1] { // or the next one with a line
				if line == 0 && r.address >= a && r.address < ends[i] {
					line = r.line
				}
			}
			if line != 0 {
				want[a] = line
			}
		}
		var b tableBuilder
		b.sequence(rows)
		if diff := cmp.Diff(want, b.find(starts, ends)); diff != "" {
			t.Fatalf("rows %v, functions %v to %v: (-want +got)\n%s", rows, starts, ends, diff)
		}
	})
}
