package instrument

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]invocation{
		"-c a.c -o a.o":                                     {sources: []string{"a.c"}, output: "a.o"},
		"-g -O2 -I src -c src/a.cc -oa.o":                   {sources: []string{"src/a.cc"}, output: "a.o", debug: true},
		"a.c b.s c.S d.f90 e.o -lm":                         {sources: []string{"a.c"}, assembly: []string{"b.s", "c.S"}, other: []string{"d.f90"}, links: true},
		"a.o b.o -o prog":                                   {output: "prog", links: true},
		"-x c -c - -o a.o":                                  {sources: []string{"-"}, output: "a.o"},
		"-x assembler-with-cpp -c a.c":                      {assembly: []string{"a.c"}},
		"-xc++ -c a.c -x none b.s":                          {sources: []string{"a.c"}, assembly: []string{"b.s"}},
		"-c -include config.h -MF a.d a.c":                  {sources: []string{"a.c"}},
		"-c -MD -MT a.c -MF b.c x.c":                        {sources: []string{"x.c"}},
		"-c -g3 -g0 a.c":                                    {sources: []string{"a.c"}},
		"-c -gsplit-dwarf -gz a.c":                          {sources: []string{"a.c"}},
		"-c -gdwarf-4 a.c":                                  {sources: []string{"a.c"}, debug: true},
		"-c -gno-column-info a.c":                           {sources: []string{"a.c"}},
		"-c -m32 a.c":                                       {sources: []string{"a.c"}, target: []string{"-m32"}},
		"-c -target wasm32 a.c":                             {sources: []string{"a.c"}, target: []string{"-target", "wasm32"}},
		"-c --target=riscv64 a.c":                           {sources: []string{"a.c"}, target: []string{"--target=riscv64"}},
		"-c -ffreestanding a.c":                             {sources: []string{"a.c"}, bare: true},
		"-c -fno-xray-instrument a.c":                       {sources: []string{"a.c"}, own: "-fno-xray-instrument"},
		"-c -pg a.c":                                        {sources: []string{"a.c"}, own: "-pg"},
		"-c -finstrument-functions-exclude-file-list=x a.c": {sources: []string{"a.c"}},
		"-o prog -- a.c":                                    {sources: []string{"a.c"}, output: "prog", links: true},
		"-S a.c":                                            {sources: []string{"a.c"}},
		"-c all.h -o all.h.gch":                             {sources: []string{"all.h"}, output: "all.h.gch"},
		"-shared a.o -Wl,-z,now":                            {links: true},
		"-Xclang -c a.c":                                    {sources: []string{"a.c"}, links: true},
	} {
		if got, ok := parse(strings.Fields(line)); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"--version", "-v", "-E a.c", "-M a.c", "-MM a.c", "-### -c a.c", "-fsyntax-only a.c", "-dumpversion", "-dumpmachine", "-print-search-dirs", "", "-cc1 a.c"} {
		if got, ok := parse(strings.Fields(line)); ok {
			t.Errorf("%s: %+v, want nothing to do", line, got)
		}
	}
}

func TestResponseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rsp")
	if err := os.WriteFile(path, []byte("-c \"a b.c\" -DX='1 2'\\ 3\n-o\tc\\ d.o \"\" "), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"-O2", "-c", "a b.c", "-DX=1 2 3", "-o", "c d.o", "", "x.c"}
	if got := expand([]string{"-O2", "@" + path, "x.c"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := expand([]string{"@" + path + ".absent"}); got[0] != "@"+path+".absent" {
		t.Errorf("a file that is absent: %q", got)
	}
}

func TestIsNamed(t *testing.T) {
	for program, tool := range map[string]string{"cargo": "cargo", "cargo-1.80": "cargo", "rustc": "rustc", "x-y-gcc-14.2": "gcc", "ccache": "ccache"} {
		if !isNamed(program, tool) {
			t.Errorf("%s is no %s", program, tool)
		}
	}
	for program, tool := range map[string]string{"cargo-clippy": "cargo", "gcc-ar": "gcc", "mycargo": "cargo", "cargo-": "rustc"} {
		if isNamed(program, tool) {
			t.Errorf("%s is a %s", program, tool)
		}
	}
}
