package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Trees of calls that nest thousands deep are cut at a depth that people and JSON parsers can
// handle. The deepest shown level includes what is below it.
func TestDeepTrees(t *testing.T) {
	t.Parallel()
	const deep, invocations = 6000, 45
	var text strings.Builder
	fmt.Fprintf(&text, "xray fdr version=5 frequency=1000000000 buffer=%d\nthread 11 pid=7 wall=1.000020 cpu=0 tsc=1000\n", 16*deep*invocations+1024)
	for n := range invocations {
		for fn := 1; fn <= deep; fn++ {
			fmt.Fprintf(&text, "enter %d +1\n", fn)
		}
		leaf := 1
		if n%9 == 4 {
			leaf = 100_000
		}
		fmt.Fprintf(&text, "exit %d +%d\n", deep, leaf)
		for fn := deep - 1; fn > 0; fn-- {
			fmt.Fprintf(&text, "exit %d +1\n", fn)
		}
	}
	text.WriteString("end-of-buffer\nzeros auto\n")
	file := textTrace(t, text.String())
	type row struct {
		Function string
		Total    uint64 `json:"total_ns"`
		Self     uint64 `json:"self_ns"`
		Calls    uint64
		Children []row
	}
	var report struct {
		Slowest []struct {
			Duration uint64 `json:"duration_ns"`
			Tree     []row
		}
	}
	if err := json.Unmarshal([]byte(produce(t, "slowest", "--root", "#1$", "--top", "2", "--format", "json", file)), &report); err != nil {
		t.Fatal(err)
	}
	depth, self, at := 0, uint64(0), report.Slowest[0].Tree[0]
	for ; len(at.Children) == 1; depth++ {
		self += at.Self
		at = at.Children[0]
	}
	if self+at.Self != report.Slowest[0].Duration || depth != 1000 || at.Function != "(folded)" || at.Calls != deep-1000 || at.Total != at.Self {
		t.Errorf("depth %d: got %+v; self times up to it sum to %d of %d", depth, at, self+at.Self, report.Slowest[0].Duration)
	}
	for command, wants := range map[string][]string{
		"slowest": {"(folded)"},
		"why":     {"#6000 itself is slower"},
		"shapes":  {"45  100.0%"},
	} {
		got := produce(t, command, "--root", "#1$", file)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %.2000s", command, want, got)
			}
		}
		if len(got) > 20<<20 {
			t.Errorf("%s: got %d bytes", command, len(got))
		}
	}
}
