package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// LLVM's recorders drop short and deep calls by default. Reports warn of that unless the trace has
// a call that shows otherwise.
func TestCaveatsOfOtherRecorders(t *testing.T) {
	for _, test := range []struct {
		format     string
		calls      int
		ticks      int
		depth      int
		want, deny []string
	}{
		{"basic", 200, 5000, 1, []string{"none is shorter than 5us", "XRAY_BASIC_OPTIONS"}, []string{"deep"}},
		{"basic", 200, 4999, 1, nil, []string{"Calls seem"}},
		{"basic", 50, 5000, 1, nil, []string{"Calls seem"}},
		{"basic", 4, 4000, 64, []string{"none is more than 64 deep"}, []string{"shorter"}},
		{"basic", 4, 4000, 65, nil, []string{"Calls seem"}},
		{"fdr", 200, 5000, 1, []string{"none is shorter than 5us", "XRAY_FDR_OPTIONS"}, nil},
	} {
		text := new(strings.Builder)
		text.WriteString("xray " + test.format + "\n")
		now, at := 0, func(word string, fn, ticks, now int) string {
			if test.format == "fdr" {
				return fmt.Sprintf("%s %d +%d\n", word, fn, ticks)
			}
			return fmt.Sprintf("%s %d tsc=%d tid=1 pid=1\n", word, fn, now)
		}
		if test.format == "fdr" {
			text.WriteString("thread 1\n")
		}
		for range test.calls {
			for range test.depth {
				text.WriteString(at("enter", 1, 0, now))
			}
			now += test.ticks
			text.WriteString(at("exit", 1, test.ticks, now))
			for range test.depth - 1 {
				text.WriteString(at("exit", 1, 0, now))
			}
		}
		trace := textTrace(t, text.String())
		for _, command := range [][]string{{"account", trace}, {"stack", trace}, {"why", "--root", ".", trace}, {"locks", trace}} {
			var stdout, stderr bytes.Buffer
			if status := run(append([]string{"xray"}, command...), strings.NewReader(""), &stdout, &stderr); status != exitOK {
				t.Fatalf("%s: status %d: %s", command, status, stderr.String())
			}
			head, _, _ := strings.Cut(stdout.String(), "\n\n")
			for _, want := range test.want {
				if !strings.Contains(head, want) {
					t.Errorf("%v: %s: no %q at the top:\n%s", test, command, want, head)
				}
			}
			for _, deny := range test.deny {
				if strings.Contains(stdout.String(), deny) && command[0] != "why" {
					t.Errorf("%v: %s: unexpected %q in:\n%s", test, command, deny, stdout.String())
				}
			}
		}
	}
}

// locks and requests bound the memory for call paths, too, and warn when they reach the bound.
func TestFoldedPathsOfLocksAndRequests(t *testing.T) {
	text := new(strings.Builder)
	text.WriteString("xray fdr\nthread 1\n")
	for i := range 5000 {
		fmt.Fprintf(text, "enter-arg 1 +1\narg %d\nenter %d +1\nenter-arg 2 +1\narg 77\nexit 2 +%d\nexit %d +10\nexit 1 +1\n", i%50, 100+i, 1+i%7, 100+i)
	}
	trace := textTrace(t, text.String())
	for _, args := range [][]string{
		{"locks", "--lock", "#2$", "--top", "100"},
		{"requests", "--id-func", "#1$", "--pause", "1s", "--rows", "0", "--min-share", "0"},
	} {
		output := func(memory string) string {
			var stdout, stderr bytes.Buffer
			all := append(append([]string{"xray"}, args...), "--path-memory", memory, trace)
			if status := run(all, strings.NewReader(""), &stdout, &stderr); status != exitOK {
				t.Fatalf("%s: status %d: %s", args, status, stderr.String())
			}
			return stdout.String()
		}
		const says = "The trace has more call paths than fit into --path-memory."
		if text := output("256K"); !strings.HasPrefix(text, says) || !strings.Contains(text, "(folded)\n") {
			t.Errorf("%s: wrong warning or folded paths:\n%.3000s", args, text)
		}
		if text := output("100M"); strings.Contains(text, says) || strings.Contains(text, "(folded)\n") {
			t.Errorf("%s: wrong warning or folded paths:\n%.3000s", args, text)
		}
	}
}

// Reports warn about folded paths at the top of the text and among the caveats of JSON.
func TestFoldedPaths(t *testing.T) {
	text := new(strings.Builder)
	text.WriteString("xray fdr\nthread 1\n")
	for i := range 2000 {
		fmt.Fprintf(text, "enter %d +1\nenter %d +1\nexit %d +10\nexit %d +1\n", 1+i, 1+i, 1+i, 1+i)
	}
	trace := textTrace(t, text.String())
	output := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if status := run(append(append([]string{"xray"}, args...), "--path-memory", "256K", trace), strings.NewReader(""), &stdout, &stderr); status != exitOK {
			t.Fatalf("%s: status %d: %s", args, status, stderr.String())
		}
		return stdout.String()
	}
	if text := output("stack"); !strings.HasPrefix(text, "The trace has more call paths than fit into --path-memory.") ||
		!strings.Contains(text, "(folded)") {
		t.Error(text)
	}
	var got struct {
		Caveats []string
		Stacks  []struct {
			Function      string
			Parent, Count int
			Total         int `json:"total_ns"`
			Self          int `json:"self_ns"`
		}
	}
	if err := json.Unmarshal([]byte(output("stack", "--format", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Caveats) != 1 {
		t.Errorf("got caveats %q, want one", got.Caveats)
	}
	calls, self, outermost, folded := 0, 0, 0, 0
	for _, s := range got.Stacks {
		if s.Function == "(folded)" {
			folded++
		}
		calls += s.Count
		self += s.Self
		if s.Parent == 0 {
			outermost += s.Total
		}
	}
	if folded == 0 || calls != 4000 || self != 24_000 || outermost != 24_000 {
		t.Errorf("got %d folded paths, %d calls, %d ns of self time, %d ns of outermost calls; want some, 4000, 24000 and 24000", folded, calls, self, outermost)
	}
	for _, want := range []string{"(folded) "} {
		if text := output("convert", "-f", "folded"); !strings.Contains(text, want) {
			t.Error(text)
		}
	}
}
