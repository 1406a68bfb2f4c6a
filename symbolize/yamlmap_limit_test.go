package symbolize

import (
	"runtime"
	"strings"
	"testing"
)

// hostileMaps are YAML maps meant to exhaust memory or time, or smaller ones of the same structure.
func hostileMaps(scale int) map[string]string {
	const sled = "- { id: 1, address: 0x10, function: 0x10, kind: function-enter, always-instrument: true"
	return map[string]string{
		"commas":     "- [" + strings.Repeat("a,", 3_000_000/scale) + "]\n",
		"few commas": "- [" + strings.Repeat("a,", 90_000/scale) + "]\n",
		"empty":      strings.Repeat("-\n", 3_000_000/scale),
		"nested":     strings.Repeat("- ", 3_000_000/scale) + "a\n",
		"keys":       sled + strings.Repeat(", x: 1", 1_000_000/scale) + " }\n",
		"many":       strings.Repeat(sled+", function-name: \"f\" }\n", 60_000/scale),
		"aliases":    "- &s { id: 1 }\n" + strings.Repeat("- *s\n", 1_000_000/scale),
	}
}

// Untrusted YAML maps take neither long nor much memory.
func TestHostileYAMLMaps(t *testing.T) {
	for name, text := range hostileMaps(1) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseYAMLMap([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc - uint64(len(text)); n > 250<<20 {
			t.Errorf("%s: got %d bytes allocated for a text of %d", name, n, len(text))
		}
	}
}
