//go:build linux && amd64

package args

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// build compiles a source file of testdata.
func build(t *testing.T, compiler, source, flags string) (path, program string) {
	t.Helper()
	testenv.Need(t, compiler)
	path = absolute(t, "testdata/"+source)
	args := append([]string{"-g", "-w", "-std=c++20", path}, strings.Fields(flags)...)
	if strings.HasPrefix(compiler, "clang") {
		args = append(args, "-fxray-instrument", "-fxray-instruction-threshold=1")
	}
	return path, elftest.Build(t, compiler, "program", args...)
}

// Results are what the program prints. Those in registers of the x87 are refused, and so are those of local
// functions of compilers that may have removed them.
func TestResults(t *testing.T) {
	for _, b := range []struct {
		compiler, flags string
		missing         int
	}{
		{"clang++-22", "-O0", 0}, {"clang++-22", "-O2", 3}, {"clang++-19", "-O3", 3}, {"clang++-14", "-O0", 1}, {"clang++-14", "-O2", 4},
		{"g++", "-O0", 0}, {"g++", "-O2", 0},
	} {
		t.Run(b.compiler+b.flags, func(t *testing.T) {
			t.Parallel()
			source, program := build(t, b.compiler, "results.cc", b.flags)
			equal, missing := runMarked(t, source, program)
			if missing != b.missing || equal < 24 {
				t.Errorf("%d values, %d missing, want %d", equal, missing, b.missing)
			}
		})
	}
}

// No value is shown for a parameter or a result that an optimizer removed, and the others are right.
func TestOptimized(t *testing.T) {
	for _, compiler := range []string{"clang++-22", "clang++-19", "clang++-14", "g++"} {
		for _, flags := range []string{"-O1", "-O2", "-O3", "-O2 -flto", "-O2 -gdwarf-4", "-O2 -fno-plt -fcf-protection"} {
			t.Run(fmt.Sprint(compiler, flags), func(t *testing.T) {
				t.Parallel()
				if strings.Contains(flags, "-flto") && compiler != "g++" {
					flags += " -fuse-ld=lld-22" // it reads what older versions of clang write
					testenv.Need(t, "ld.lld-22")
				}
				source, program := build(t, compiler, "optimized.cc", flags)
				if equal, _ := runMarked(t, source, program); equal < 9 {
					t.Errorf("%d values", equal)
				}
			})
		}
	}
}
