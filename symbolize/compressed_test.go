package symbolize

import (
	"debug/elf"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Debug information of very similar functions compresses well. Its unpacked size must still be
// within the limit for a file of this size.
func TestCompressedDebugInfo(t *testing.T) {
	const functions, members = 100, 300
	var source, list strings.Builder
	for i := range members {
		fmt.Fprintf(&list, "int m%d; ", i)
	}
	for i := range functions {
		fmt.Fprintf(&source, "struct S%d { %s}; [[clang::xray_always_instrument]] int f%[1]d(S%[1]d *s) { return s->m0; }\n", i, list.String())
	}
	source.WriteString("int main() { return 0; }\n")
	for _, format := range []string{"zlib", "zstd"} {
		t.Run(format, func(t *testing.T) {
			path := elftest.Compile(t, source.String(), "-g", "-gz="+format)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			s := file.Section(".debug_info")
			if s == nil || s.Flags&elf.SHF_COMPRESSED == 0 || s.Size < 4*s.FileSize {
				t.Fatalf("the section is not compressed well: %+v", s.SectionHeader)
			}
			t.Setenv(debuginfo.UnpackLimitVariable, strconv.Itoa(8*int(info.Size())))
			table := load(t, path)
			if err := table.locate(); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, f := range table.Map().Functions {
				got, _ := table.Func(f.ID)
				if n, ok := strings.CutPrefix(got.Name, "f"); ok {
					n, _, _ = strings.Cut(n, "(")
					if i, err := strconv.Atoi(n); err == nil && got.Line == i+1 && strings.HasSuffix(got.File, "/main.cc") {
						found++
					}
				}
			}
			if found != functions {
				t.Errorf("got lines for %d of %d functions", found, functions)
			}
		})
	}
}
