package symbolize

import (
	"debug/dwarf"
	"debug/elf"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// program has the constructs of real programs: templates, lambdas, overloads, headers, namespaces,
// exceptions and event sleds.
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

// naive finds lines with the standard library's reader. It collects the rows of each sequence and
// applies the rule.
func naive(t *testing.T, path string, starts, ends []uint64) []debuginfo.Location {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	result := make([]debuginfo.Location, len(starts))
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
				if sequence[0].Address == 0 || a < sequence[0].Address || a >= e.Address || result[i].Line != 0 {
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
					result[i] = debuginfo.Location{File: in.File.Name, Line: int32(in.Line), Column: int32(in.Column)}
				}
			}
			sequence = sequence[:0]
		}
	}
	return result
}

// Lines are the same as with the standard library's reader, for all forms of debug information.
func TestLines(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			path := elftest.Compile(t, program, v.args...)
			table := load(t, path)
			if err := table.locate(); err != nil {
				t.Fatal(err)
			}
			located := 0
			for _, f := range table.Map().Functions {
				s, _ := table.Func(f.ID)
				if !filepath.IsAbs(s.File) || s.Line == 0 {
					t.Errorf("%s: wrong location %q, line %d", s.Name, s.File, s.Line)
				}
				if filepath.Base(s.File) == "main.cc" {
					located++
				}
				if s.Name == "plain" && s.Line != 33 || s.Name == "main" && s.Line != 37 {
					t.Errorf("%s: wrong line %d", s.Name, s.Line)
				}
			}
			if located < 11 {
				t.Errorf("located only %d functions", located)
			}
			if v.name == "object" || v.name == "O2-dwarf64" {
				// The standard library does not use this package's layout of
				// sections, and finds nothing in 64-bit DWARF 5.
				return
			}
			starts, ends := bounds(t, path, table)
			want := naive(t, path, starts, ends)
			var got []debuginfo.Location
			for _, start := range starts {
				i := slices.IndexFunc(table.Map().Functions, func(f Function) bool { return f.Address == start })
				l, _ := table.debug.CodeLocation(i)
				l.File = filepath.Clean(l.File) // as the standard library does
				got = append(got, l)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-standard library +got)\n%s", diff)
			}
		})
	}
}

// bounds returns the sorted addresses of a table's functions, and where they end.
func bounds(t *testing.T, path string, table *Table) (starts, ends []uint64) {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range table.Map().Functions {
		starts = append(starts, f.Address)
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	for i, start := range starts {
		end := uint64(math.MaxUint64)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		for _, s := range symbols {
			if s.Value == start && s.Size != 0 {
				end = min(end, start+s.Size)
			}
		}
		ends = append(ends, end)
	}
	return starts, ends
}

// If LLVM's symbolizer finds a line, so does this package, in the same file.
func TestLinesLikeLLVM(t *testing.T) {
	path := elftest.Compile(t, program, variants[1].args...)
	table, err := Load(path, Options{Options: debuginfo.Options{Code: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for _, f := range table.Map().Functions {
		out := strings.Fields(elftest.Run(t, "llvm-symbolizer-22", "--no-inlines", "--functions=none", "-e", path, "0x"+hexAddress(f.Address)))
		parts := strings.Split(out[len(out)-1], ":")
		s, _ := table.Func(f.ID)
		if llvm := parts[len(parts)-2]; llvm != "0" && llvm != itoa(s.Line) || parts[0] != s.File {
			t.Errorf("%[1]s: got %[3]s:%[4]d, want %[2]v as in LLVM", s.Name, out, s.File, s.Line)
		}
	}
}
