//go:build linux && amd64

package args

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// Arguments and results of Rust are what the program prints. The place of some is not known without
// optimization.
func TestRust(t *testing.T) {
	for _, b := range []struct {
		flags          string
		equal, missing int
	}{{"", 93, 9}, {"-O", 48, 54}, {"-O -Cdwarf-version=5", 48, 54}} {
		t.Run(b.flags, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, "rustc")
			source := absolute(t, "testdata/types.rs")
			args := append([]string{"-g", "-Csymbol-mangling-version=v0", "--crate-name=types", source}, strings.Fields(b.flags)...)
			equal, missing := runMarked(t, source, elftest.Build(t, "rustc", "program", args...))
			if equal < b.equal || missing > b.missing {
				t.Errorf("%d values, %d missing", equal, missing)
			}
		})
	}
}
