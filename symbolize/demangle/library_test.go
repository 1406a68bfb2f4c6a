package demangle

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// byLLVM demangles names with llvm-cxxfilt.
func byLLVM(t *testing.T, names []string) []string {
	t.Helper()
	testenv.Need(t, "llvm-cxxfilt-22")
	cmd := exec.Command("llvm-cxxfilt-22")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(list) != len(names) {
		t.Fatalf("got %[2]d results for %[1]d names", len(names), len(list))
	}
	return list
}

// The list of the library's errors is up to date. Delete an entry when the library is fixed.
func TestLibraryDifferences(t *testing.T) {
	text, err := os.ReadFile("testdata/library.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for entry := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(entry, "\n")
		if !strings.HasPrefix(entry, "_") || len(lines) != 3 {
			continue // a reason
		}
		found++
		name, want, wrong := lines[0], lines[1], lines[2]
		if got := Name(name); got != wrong {
			t.Errorf("%s: library: got\n%s\nwant\n%s", name, got, wrong)
		}
		if got := byLLVM(t, []string{name})[0]; got != want {
			t.Errorf("%s: LLVM: got\n%s\nwant\n%s", name, got, want)
		}
	}
	if found < 8 {
		t.Errorf("got %d differences", found)
	}
}

// D's names are like those of GNU's demangler, which knows no "return scope" parameters.
func TestLikeGNU(t *testing.T) {
	testenv.Need(t, "c++filt")
	files, _ := filepath.Glob("/usr/lib/*/lib*-ldc-shared.so.*.*")
	var names []string
	for _, file := range files {
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range symbols {
			if strings.HasPrefix(s.Name, "_D") && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				names = append(names, s.Name)
			}
		}
		f.Close()
	}
	if len(names) < 1000 {
		t.Skip("LDC's libraries are not installed")
	}
	cmd := exec.Command("c++filt", "-s", "dlang")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for i, want := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		got := Name(names[i])
		if got != want && want != names[i] {
			t.Errorf("%s:\ngot %s\nGNU %s", names[i], got, want)
		}
		if got == names[i] {
			left++
		}
	}
	if left > len(names)/20 {
		t.Errorf("%d of %d names are not demangled", left, len(names))
	}
}

// rustNames returns function names of Rust's compiler.
func rustNames(t *testing.T) []string {
	t.Helper()
	testenv.Need(t, "rustc")
	root, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "lib", "librustc_driver-*.so"))
	if len(paths) == 0 {
		t.Skip("no compiler in " + string(root))
	}
	f, err := elf.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, s := range symbols {
		if strings.HasPrefix(s.Name, "_R") && i%3 == 0 { // a third is enough
			names = append(names, s.Name)
		}
	}
	if len(names) < 1000 {
		t.Skipf("%s is stripped or uses legacy mangling", paths[0])
	}
	return names
}

// BenchmarkLibraries demangles all names of a library in each iteration.
func BenchmarkLibraries(b *testing.B) {
	for _, file := range []string{"libLLVM.so.22.1", "libclang-cpp.so.14"} {
		names := libraryNames(b, file)
		b.Run("of="+file, func(b *testing.B) {
			for b.Loop() {
				for _, n := range names {
					Name(n)
				}
			}
			b.ReportMetric(float64(len(names)), "names/op")
		})
	}
}
