package symbolize

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// inlinedFirst has functions whose first instruction belongs to an inlined function.
const inlinedFirst = `#include <vector>
#include <string>
struct Status { static Status OK() { return Status(); } void *state = nullptr; };
struct Env { virtual ~Env() = default; virtual Status Close(); };
Status
Env::Close()
{
  return Status::OK();
}
static inline int twice(int x) { return 2 * x; }
namespace n {
template <class T>
int
sum(const std::vector<T> &v) { int s = 0; for (auto &x : v) s += twice(x); return s; }
}
int plain(int x) { return twice(x); }
std::vector<std::string> global(3, "text");
int main(int argc, char **argv) {
  std::vector<std::string> args(argv, argv + argc);
  std::vector<int> v(args.size());
  Env e;
  return n::sum(v) + plain(argc) + (e.Close().state != nullptr);
}
`

// definitionsOf returns the declared locations of functions by address, as the standard library
// reads them.
func definitionsOf(t *testing.T, path string) map[uint64]debuginfo.Location {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint64]debuginfo.Location)
	r := data.Reader()
	var files []*dwarf.LineFile
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return found
		}
		if e.Tag == dwarf.TagCompileUnit {
			lines, err := data.LineReader(e)
			if err != nil {
				t.Fatal(err)
			}
			files = lines.Files()
		}
		low, ok := e.Val(dwarf.AttrLowpc).(uint64)
		if e.Tag != dwarf.TagSubprogram || !ok {
			continue
		}
		l := debuginfo.Location{}
		for of := e; of != nil; {
			if n, ok := of.Val(dwarf.AttrDeclFile).(int64); ok && l.File == "" && int(n) < len(files) {
				l.File = filepath.Clean(files[n].Name)
			}
			if n, ok := of.Val(dwarf.AttrDeclLine).(int64); ok && l.Line == 0 {
				l.Line = int32(n)
			}
			at, ok := of.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
			if !ok {
				if at, ok = of.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
					break
				}
			}
			other := data.Reader()
			other.Seek(at)
			if of, err = other.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if l.File != "" && l.Line != 0 {
			found[low] = l
		}
	}
}

// A function's location is its declaration, even if its first instruction was inlined from
// elsewhere.
func TestDefinitions(t *testing.T) {
	for _, args := range [][]string{
		{"clang++-22", "-O2", "-g"}, {"clang++-22", "-O2", "-gdwarf-4"}, {"clang++-14", "-O2", "-g"},
		{"clang++-22", "-O2", "-g", "-gz=zlib"}, {"clang++-22", "-O2", "-g", "-gsplit-dwarf"}, {"clang++-22", "-O2", "-flto", "-fuse-ld=lld", "-g"},
		{"clang++-22", "-O2", "-gline-tables-only"},
	} {
		name := filepath.Join(args...)
		t.Run(name, func(t *testing.T) {
			testenv.Need(t, args[0])
			folder := t.TempDir()
			source, path := filepath.Join(folder, "main.cc"), filepath.Join(folder, "main")
			if err := os.WriteFile(source, []byte(inlinedFirst), 0o666); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(args[0], append(args[1:], "-fxray-instrument", "-fxray-instruction-threshold=1", "-o", path, source)...)
			cmd.Dir = folder
			if out, err := cmd.CombinedOutput(); err != nil {
				if args[3] == "-fuse-ld=lld" {
					t.Skipf("%v: %s", err, out)
				}
				t.Fatalf("%v: %s", err, out)
			}
			table := load(t, path)
			if err := table.locate(); err != nil {
				t.Fatal(err)
			}
			want := definitionsOf(t, path)
			checked := 0
			for _, f := range table.Map().Functions {
				s, _ := table.Func(f.ID)
				if w, ok := want[f.Address]; ok {
					checked++
					if got := (debuginfo.Location{File: filepath.Clean(s.File), Line: int32(s.Line)}); got != w {
						t.Errorf("%s: got %+v, want %+v", s.Name, got, w)
					}
				}
				line := map[string]int{"main": 18, "plain(int)": 16, "Env::Close()": 6}[s.Name]
				if args[len(args)-1] == "-gline-tables-only" && s.Name == "Env::Close()" {
					line = 7
				}
				if line != 0 && (filepath.Base(s.File) != "main.cc" || s.Line < line || args[len(args)-1] != "-gline-tables-only" && s.Line != line) {
					t.Errorf("%s: wrong location %s:%d", s.Name, s.File, s.Line)
				}
			}
			if split := args[len(args)-1]; checked < 3 && split != "-gsplit-dwarf" && split != "-gline-tables-only" {
				t.Errorf("checked only %d functions", checked)
			}
		})
	}
}

// Rust's main is located in the program, not in the standard library that is inlined into it.
func TestRustDefinitions(t *testing.T) {
	rustc, err := exec.LookPath("rustc")
	if err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	source, path := filepath.Join(folder, "prog.rs"), filepath.Join(folder, "prog")
	const program = `use std::collections::HashMap;
#[inline(never)]
fn spin(n: u64) -> u64 { let mut s = 0; for i in 0..n { s = std::hint::black_box(s + i); } s }
fn main() {
    let names: Vec<String> = std::env::args().collect();
    let mut m = HashMap::new();
    for (i, n) in names.into_iter().enumerate() { m.insert(i as u64, n); }
    std::process::exit((spin(m.len() as u64) > 1_000_000) as i32);
}
`
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(rustc, "-O", "-g", "-Z", "instrument-xray=always", "-o", path, source)
	cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("rustc cannot instrument: %v: %s", err, out)
	}
	table := load(t, path)
	want := map[string]int{"prog::main": 4, "prog::spin": 3}
	for _, f := range table.Map().Functions {
		s, _ := table.Func(f.ID)
		if line := want[s.Name]; line != 0 {
			delete(want, s.Name)
			if filepath.Base(s.File) != "prog.rs" || s.Line != line {
				t.Errorf("%s: wrong location %s:%d", s.Name, s.File, s.Line)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing functions: %v", want)
	}
}
