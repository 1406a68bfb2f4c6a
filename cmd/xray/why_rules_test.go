package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// nested is a trace of calls of function 2, of which every 25th takes 50 ms in function 3 and the
// others 1 ms. Each is in outer calls of function 2 if outer is not 0.
func nested(outer, n int) string {
	var text strings.Builder
	text.WriteString("xray fdr\nthread 1 pid=7 tsc=1000\nenter 1 +0\n")
	text.WriteString(strings.Repeat("enter 2 +10\n", outer))
	for i := range n {
		fmt.Fprintf(&text, "enter 2 +100\n")
		if i%25 == 7 {
			text.WriteString("enter 3 +100\nexit 3 +49000000\n")
		}
		fmt.Fprintf(&text, "exit 2 +%d\n", 1_000_000+i%10*1000)
	}
	text.WriteString(strings.Repeat("exit 2 +10\n", outer) + "exit 1 +0\n")
	return text.String()
}

// The slow calls are those beyond a gap in the durations, if there is one.
func TestSlowBeyondGap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trace string
		args  []string
		want  string
	}{
		{nested(0, 500), nil, "The 20 slow calls (no call takes between 1.009ms and 50.00ms) take"},
		{nested(0, 500), []string{"--slow", "p99"}, "The 10 slow calls (p99) take"},
		{nested(0, 500), []string{"--slow", "p90"}, "slow calls (p90) take"},
		// Without a gap, there are at least 20 slow calls, or a tenth.
		{strings.ReplaceAll(nested(0, 500), "+49000000", "+900000"), nil, "The 20 slow calls (p96) take"},
		{strings.ReplaceAll(nested(0, 100), "+49000000", "+900000"), nil, "slow calls (p90) take"},
		// What is not rare is not slow.
		{strings.ReplaceAll(nested(0, 500), "enter 2 +100\nexit 2", "enter 2 +100\nenter 3 +1\nexit 3 +3\nexit 2"), nil, "The 20 slow calls (no call takes"},
		// Nested calls of the root.
		{nested(2, 500), []string{"--root-depth", "3"}, "The 20 slow calls (no call takes between 1.009ms and 50.00ms) take"},
		{nested(2, 500), []string{"--root-depth", "3"}, "xray slice --from "},
		{nested(2, 500), []string{"--root-depth", "all"}, "Calls of the root inside others count, too, so their times overlap."},
		{nested(2, 500), []string{"--root-depth", "all"}, "#2: 502 calls on"},
		{nested(2, 500), []string{"--root-depth", "all"}, "xray slice --from "},
		{nested(2, 500), nil, "#2: 1 call on"},
		{nested(2, 500), []string{"--root-depth", "2"}, "#2: 1 call on"},
	} {
		args := append([]string{"xray", "why", "--all", "--root", "#2$", textTrace(t, c.trace)}, c.args...)
		var stdout, stderr bytes.Buffer
		status := run(args, strings.NewReader(""), &stdout, &stderr)
		if text := strings.Join(strings.Fields(stdout.String()), " "); status != 0 || !strings.Contains(text, c.want) {
			t.Errorf("%v: want %q; got status %d\n%s%s", c.args, c.want, status, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	for _, command := range []string{"slowest", "shapes"} {
		run([]string{"xray", command, "--root", "#2$", "--root-depth", "3", textTrace(t, nested(2, 500))}, strings.NewReader(""), &stdout, &stderr)
		if !strings.Contains(stdout.String(), "\n500 calls on 1 thread") {
			t.Errorf("%s: got\n%s", command, stdout.String())
		}
		stdout.Reset()
	}
}
