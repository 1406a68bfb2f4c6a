package main

import (
	"strings"
	"testing"
)

// Timelines use the room that --max-size gives, and no more.
func TestMaxSize(t *testing.T) {
	const trace = "../../testdata/kvserver-fdr.xray"
	for _, format := range traceFormatNames(isTimeline) {
		for text, size := range map[string]int{"16K": 16 << 10, "100K": 100 << 10, "1G": 1 << 30} {
			out := runHere("xray", "convert", "-f", format, "--max-size", text, trace)
			said := strings.Contains(out.stderr, "omitted, with") && strings.Contains(out.stderr, "raise --max-size")
			switch {
			case out.status != exitOK:
				t.Errorf("%s, %s: %v", format, text, out)
			case size == 1<<30:
				if all := runHere("xray", "convert", "-f", format, trace); out.stdout != all.stdout || out.stderr != all.stderr {
					t.Errorf("%s: output differs although --max-size has room for all calls", format)
				}
			case len(out.stdout) > size || len(out.stdout) < size/2 || !said:
				t.Errorf("%s, %s: got %d bytes, warning %q", format, text, len(out.stdout), out.stderr)
			}
		}
	}
}

func TestAdviceOnSize(t *testing.T) {
	for i := range traceFormats {
		f := &traceFormats[i]
		if advice := adviseOnSize(f, f.mostBytes); advice != "" {
			t.Errorf("unexpected advice at the limit: %s", advice)
		}
		if advice := adviseOnSize(f, 1<<40); strings.Contains(advice, "--max-size") != (f.kind == ofTimeline) {
			t.Errorf("%s: wrong advice %q", f.name, advice)
		}
	}
}
