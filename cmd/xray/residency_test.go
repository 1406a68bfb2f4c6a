package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// With very many threads, residency uses fewer cells than wanted and text shows only some threads.
// The report says so in both cases.
func TestResidencyOfManyThreads(t *testing.T) {
	const threads = 3000
	text := new(strings.Builder)
	text.WriteString("xray basic\n")
	for i := range 2 * threads {
		kind := [2]string{"enter", "exit"}[i/threads]
		fmt.Fprintf(text, "%s 1 tsc=%d tid=%d pid=1\n", kind, 1000+i/threads*1_000_000+i%threads, 1+i%threads)
	}
	trace := textTrace(t, text.String())
	output := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if status := run(append(append([]string{"xray", "residency"}, args...), trace), strings.NewReader(""), &stdout, &stderr); status != exitOK {
			t.Fatalf("%s: status %d: %s", args, status, stderr.String())
		}
		return stdout.String()
	}
	drawn := output("--cells", "10")
	if n := strings.Count(drawn, "|~~~~~~~~~~|"); n != 1000 || !strings.Contains(drawn, "(and 2,000 shorter-lived threads; ") ||
		strings.Contains(drawn, "The time is divided") {
		t.Errorf("drew %d threads: %.300s", n, drawn)
	}
	if few := output("--cells", "2000", "--thread", "5"); strings.Contains(few, "The time is divided") {
		t.Errorf("few threads: %.300s", few)
	}
	if many := output("--cells", "2000"); !strings.Contains(many, " cells instead of 2,000 because there are too many threads.") {
		t.Errorf("many threads: %.300s", many)
	}
}
