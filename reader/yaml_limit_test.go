package reader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// numbered repeats a text with a running number.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostileYAML are texts of up to 6 MB that took the YAML library seconds or gigabytes, or smaller
// ones of the same structure.
func hostileYAML(scale int) map[string]string {
	const head = "---\nheader:\n  version: 3\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: 1\n"
	return map[string]string{
		"keys":       "---\nheader:\n" + numbered("  k%d: 1\n", 40_000/scale),
		"flow keys":  "header: {" + numbered("k%d: 1, ", 40_000/scale) + "}\n",
		"anchors":    head + "records:\n" + numbered("  - &a%d x\n", 200_000/scale),
		"commas":     "header: [" + strings.Repeat("a,", 3_000_000/scale) + "]\n",
		"mappings":   "header: [" + strings.Repeat("{},", 2_000_000/scale) + "]\n",
		"questions":  "header: {" + strings.Repeat("?,", 3_000_000/scale) + "}\n",
		"nested":     "header: " + strings.Repeat("[", 3_000_000/scale),
		"directives": numbered("%%TAG !a%d! tag:x\n", 50_000/scale) + "---\n" + head,
		"aliases":    "header: &h {a: 1}\nrecords: [" + strings.Repeat("*h,", 2_000_000/scale) + "]\n",
		"arguments":  head + "records:\n  - { type: 0, func-id: 1, args: [ " + strings.Repeat("1,", 3_000_000/scale) + " ], cpu: 0, kind: function-enter, tsc: 1 }\n",
		"lines":      "header:\n" + strings.Repeat("\n", 6_000_000/scale),
		"few commas": "header: [" + strings.Repeat("a,", 90_000/scale) + "]\n",
		"few braces": "header: [" + strings.Repeat("{},", 45_000/scale) + "]\n",
		"few keys":   "header: {" + numbered("k%d: 1, ", 45_000/scale) + "}\n",
		"quoted":     "header: \"" + strings.Repeat("\\x41", 1_500_000/scale) + "\"\n",
	}
}

// Untrusted trace YAML takes neither long nor much memory.
func TestHostileYAML(t *testing.T) {
	for name, text := range hostileYAML(1) {
		var err error
		n := allocated(func() { _, err = reader.OpenReaderAt(strings.NewReader(text), int64(len(text)), name) })
		if err == nil && name != "arguments" { // a truncated line is a loss
			t.Errorf("%s: no error", name)
		}
		if most := uint64(250 << 20); n > most {
			t.Errorf("%s: got %d bytes allocated for a text of %d", name, n, len(text))
		}
	}
}
