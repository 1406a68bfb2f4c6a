package llvmargs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTokenize expects the results of LLVM 22.
func TestTokenize(t *testing.T) {
	for text, want := range map[string][]string{
		"":                               nil,
		" \t\r\n":                        nil,
		"-k log\n":                       {"-k", "log"},
		`a'b c'd "e\"f" g\ h 'i\'j' ''k`: {"ab cd", `e"f`, "g h", "i'j", "k"},
		`'' ""`:                          nil,
		`\\x end\`:                       {`\x`, `end\`},
		`"open \`:                        {`open \`},
		"zero\x00gone next":              {"zero", "next"},
	} {
		if diff := cmp.Diff(want, tokenize(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// Expanding response files that include each other ends.
func TestResponseFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	last := write("0", strings.Repeat("x", 1000))
	for i := 1; i < 40; i++ {
		last = write(strings.Repeat("+", i), "@"+last+" @"+last)
	}
	for _, path := range []string{last, write("big", strings.Repeat("x ", maxResponseBytes))} {
		if _, err := expand([]string{"@" + path}); err == nil || !strings.Contains(err.Error(), "more than 16 MB") {
			t.Errorf("got error %v", err)
		}
	}
	if got, err := expand([]string{"@" + write("once", "-k @"+filepath.Join(dir, "0"))}); err != nil || len(got) != 2 || len(got[1]) != 1000 {
		t.Errorf("got %q, error %v", got, err)
	}
}
