//go:build linux && amd64

package args

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// wantedOf returns the expressions in the comments of a source file by the names of functions: those that
// follow a mark.
func wantedOf(t *testing.T, source, mark string) map[string][]*Expression {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]*Expression{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			s, err := Parse(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			list[s.Pattern] = s.Expressions
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no expressions", source)
	}
	return list
}

// sourceName returns the name of a function in the source.
func sourceName(symbol string) string {
	name, _, _ := strings.Cut(strings.Replace(demangle.Name(symbol), "<types::Request>", "types::Request", 1), "(")
	name, _, _ = strings.Cut(name, "[") // [abi:cxx11]
	name, _, _ = strings.Cut(name, "<")
	name, _, _ = strings.Cut(name, ".")
	return name
}

// runMarked runs a program with the expressions in its source, and compares the values with what it prints.
func runMarked(t *testing.T, source, path string) (equal, missing int) {
	t.Helper()
	entry, exit := wantedOf(t, source, "//@"), map[string][]*Expression{}
	if text, err := os.ReadFile(source); err == nil && strings.Contains(string(text), "\n//~") {
		exit = wantedOf(t, source, "//~")
	}
	p := open(t, path, func(symbol string) bool {
		name := sourceName(symbol)
		return !strings.HasSuffix(symbol, ".cold") && (entry[name] != nil || exit[name] != nil)
	})
	lines, refused, printed := p.values(t,
		func(symbol string) []*Expression { return entry[sourceName(symbol)] },
		func(symbol string) []*Expression { return exit[sourceName(symbol)] })
	for i, line := range lines {
		symbol, rest, _ := strings.Cut(line, " ")
		mark := ""
		if strings.HasPrefix(symbol, "~") {
			mark, symbol = "~", symbol[1:]
		}
		lines[i] = mark + sourceName(symbol) + " " + rest
	}
	// Addresses of objects that the program does not print.
	pointer := regexp.MustCompile(`=0x[0-9a-f]+`)
	want := strings.Split(printed, "\n")
	for i := range want {
		if strings.Contains(want[i], "=POINTER") && i < len(lines) {
			lines[i] = pointer.ReplaceAllString(lines[i], "=POINTER")
			want[i] = pointer.ReplaceAllString(want[i], "=POINTER")
		}
	}
	equal, missing = check(t, lines, refused, strings.Join(want, "\n"))
	for _, r := range refused {
		t.Logf("refused: %s", r)
	}
	return equal, missing
}

// Values of the standard libraries' types are what the program prints.
func TestLibrary(t *testing.T) {
	for _, build := range []struct{ compiler, flags string }{
		{"clang++-22", "-O0"}, {"clang++-22", "-O2"}, {"clang++-19", "-O1 -gdwarf-4"}, {"clang++-14", "-O0"}, {"clang++-14", "-O2"},
		{"clang++-22", "-O0 -D_GLIBCXX_USE_CXX11_ABI=0"}, {"clang++-19", "-O0 -fno-standalone-debug"},
		{"g++", "-O0"}, {"g++", "-O2"}, {"g++", "-O3 -D_GLIBCXX_USE_CXX11_ABI=0"}, {"clang++-22", "-O0 -fdebug-types-section"}, {"clang++-14", "-O1 -fdebug-types-section -gdwarf-4"}, {"g++", "-O0 -fdebug-types-section -gz"}, {"clang++-19", "-O0 -stdlib=libc++"}, {"clang++-19", "-O2 -stdlib=libc++"},
	} {
		t.Run(fmt.Sprintf("%s %s", build.compiler, build.flags), func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, build.compiler)
			source := absolute(t, "testdata/library.cc")
			args := append([]string{"-g", "-w", "-std=c++20", source}, strings.Fields(build.flags)...)
			if strings.HasPrefix(build.compiler, "clang") {
				args = append(args, "-fxray-instrument", "-fxray-instruction-threshold=1")
			}
			if strings.Contains(build.flags, "libc++") {
				args = append(args, libcxx(t)...)
			}
			equal, missing := runMarked(t, source, elftest.Build(t, build.compiler, "program", args...))
			if strings.Contains(build.flags, "CXX11_ABI=0") {
				missing-- // its lists have no size
			}
			if build.compiler == "g++" && !strings.Contains(build.flags, "-O0") {
				missing -= 6 // a std::optional<int>, of which the debug information has a part
			}
			if missing > 0 || equal < 100 {
				t.Errorf("%d values, %d missing", equal, missing)
			}
		})
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// libcxx returns flags for libc++.
func libcxx(t *testing.T) []string {
	const root = "/usr/lib/llvm-19"
	if _, err := os.Stat(filepath.Join(root, "include/c++/v1/vector")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("libc++ is not installed")
	}
	return []string{"-nostdinc++", "-isystem", filepath.Join(root, "include/c++/v1"), "-L" + filepath.Join(root, "lib"), "-Wl,-rpath," + filepath.Join(root, "lib")}
}
