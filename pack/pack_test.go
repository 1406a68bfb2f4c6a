package pack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/pack"
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
		"-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := symbolize.Load(binary, symbolize.Options{Style: symbolize.Mangled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return source, table, pack.Functions(table, []reader.FuncID{-5, 1, 2, 3, 900, 1 << 28})
}

func TestFunctions(t *testing.T) {
	source, _, functions := build(t, "-gdwarf-5")
	if len(functions) != 3 {
		t.Fatalf("%d functions, want 3: %+v", len(functions), functions)
	}
	if f := functions[1]; f.ID != 2 || f.Name != "_Z5outeri" || f.File != source || f.Line != 8 || filepath.Base(f.Object) != "prog" {
		t.Errorf("outer is %+v", f)
	}
}

// The source is that of the functions, and that which was compiled, as far as the
// debug information can tell.
func TestSources(t *testing.T) {
	for _, dwarf := range []string{"-gdwarf-5", "-gdwarf-4"} {
		t.Run(dwarf, func(t *testing.T) {
			file, names, functions := build(t, dwarf)
			lines := strings.Split(program, "\n")
			s := pack.NewSources(names, functions, os.ReadFile)
			if len(s.Texts) != 2 || len(s.Changed)+len(s.Unread)+len(s.Large) != 0 {
				t.Fatalf("%+v", s)
			}
			for i, want := range []string{strings.Join(lines[:10], "\n"), strings.Join(lines[14:20], "\n")} {
				got := s.Texts[i]
				if got.File != file || got.Text != want || (got.MD5 != "") != (dwarf == "-gdwarf-5") {
					t.Errorf("passage %d is %+v, want\n%s", i, got, want)
				}
			}
			if err := os.WriteFile(file, []byte("// New.\n"+program), 0o666); err != nil {
				t.Fatal(err)
			}
			s = pack.NewSources(names, functions, os.ReadFile)
			if changed := len(s.Changed) == 1 && len(s.Texts) == 0; changed != (dwarf == "-gdwarf-5") {
				t.Errorf("the file has changed: %+v", s)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if s = pack.NewSources(names, functions, os.ReadFile); len(s.Unread) != 1 || len(s.Texts) != 0 {
				t.Errorf("the file is gone: %+v", s)
			}
		})
	}
}
