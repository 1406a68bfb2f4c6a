package symbolize

import (
	"runtime"
	"strings"
	"testing"
)

// Maps of strangers take neither long nor much memory, however they are made.
func TestHostileYAMLMaps(t *testing.T) {
	const sled = "- { id: 1, address: 0x10, function: 0x10, kind: function-enter, always-instrument: true"
	for name, text := range map[string]string{
		"commas":     "- [" + strings.Repeat("a,", 3_000_000) + "]\n",
		"few commas": "- [" + strings.Repeat("a,", 90_000) + "]\n",
		"empty":      strings.Repeat("-\n", 3_000_000),
		"nested":     strings.Repeat("- ", 3_000_000) + "a\n",
		"keys":       sled + strings.Repeat(", x: 1", 1_000_000) + " }\n",
		"many":       strings.Repeat(sled+", function-name: \"f\" }\n", 60_000),
		"aliases":    "- &s { id: 1 }\n" + strings.Repeat("- *s\n", 1_000_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseYAMLMap([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc - uint64(len(text)); n > 250<<20 {
			t.Errorf("%s: %d bytes for a text of %d", name, n, len(text))
		}
	}
}
