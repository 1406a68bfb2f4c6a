package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAddresses checks that reports have arguments that are addresses in hexadecimal, in each format.
func TestAddresses(t *testing.T) {
	t.Parallel()
	const request, lock = uint64(0x55df4cbd6bf8), uint64(0x7f12345678a0)
	var text strings.Builder
	text.WriteString("xray fdr\n")
	for thread := range 2 {
		fmt.Fprintf(&text, "thread %d pid=7 tsc=%d\n", thread+1, 1000*thread+1000)
		for i := range 3000 {
			slow, argument := 1000, request+uint64(i)*64
			if i%25 == 24 {
				slow, argument = 200000, request
			}
			fmt.Fprintf(&text, "enter-arg 1 +100\narg %d\nenter-arg 2 +10\narg %d\nexit 2 +10\n", argument, lock)
			fmt.Fprintf(&text, "enter-arg 3 +10\narg %d\nexit 3 +20\nenter-arg 4 +10\narg %d\nexit 4 +%d\nexit 1 +10\n", lock, argument, slow)
		}
	}
	trace := textTrace(t, text.String())
	args := map[string][]string{
		"why":       {"--root", "#1"},
		"requests":  {"--id-func", "#1"},
		"locks":     {"--lock", "#2", "--unlock", "#3"},
		"slowest":   {"--root", "#1", "--lock", "#2", "--unlock", "#3"},
		"residency": {"--gap", "1us"},
		"shapes":    {"--root", "#1"},
		"exclude":   {"--budget", "1%"},
	}
	found := map[string]bool{}
	// The columns of SQL are numbers, and graph-diff takes two traces.
	others := map[string]bool{"sql": true, "graph-diff": true}
	for _, cmd := range new(app).root().Commands() {
		if f := cmd.Flags().Lookup("format"); f == nil || !strings.Contains(f.Usage, "markdown") || !takesTrace(cmd) || others[cmd.Name()] {
			continue
		}
		for _, format := range []string{"text", "markdown", "csv", "json", "html"} {
			o := runHere(append([]string{"xray", cmd.Name(), "--format", format, trace}, args[cmd.Name()]...)...)
			if o.status != 0 {
				t.Errorf("%s --format %s: %v", cmd.Name(), format, o)
			}
			for _, address := range []uint64{request, lock} {
				if strings.Contains(o.stdout, fmt.Sprint(address)) {
					t.Errorf("%s --format %s has the address %#x in decimal:\n%s", cmd.Name(), format, address, o.stdout)
				}
				if strings.Contains(o.stdout, fmt.Sprintf("%#x", address)) {
					found[cmd.Name()] = true
				}
			}
		}
	}
	// Records (YAML, raw) and CSV have numbers as they were logged.
	for _, format := range []string{"chrome", "viztracer", "firefox", "speedscope"} {
		o := runHere("xray", "convert", "-f", format, "-o", "-", trace)
		if o.status != 0 {
			t.Errorf("convert -f %s: %v", format, o)
		}
		for _, address := range []uint64{request, lock} {
			if strings.Contains(o.stdout, fmt.Sprint(address)) {
				t.Errorf("convert -f %s has the address %#x in decimal", format, address)
			}
			if (format == "chrome" || format == "firefox") && !strings.Contains(o.stdout, fmt.Sprintf("%#x", address)) {
				t.Errorf("convert -f %s lacks the address %#x", format, address)
			}
		}
	}
	decimal := runHere("xray", "requests", "--id-func", "#1", "--request", fmt.Sprint(request), trace)
	hexadecimal := runHere("xray", "requests", "--id-func", "#1", "--request", fmt.Sprintf("%#x", request), trace)
	if decimal != hexadecimal || !strings.Contains(decimal.stdout, fmt.Sprintf("%#x", request)) {
		t.Errorf("a request by its decimal address gives\n%v\nand by its hexadecimal one\n%v", decimal, hexadecimal)
	}
	for _, name := range []string{"why", "requests", "locks"} {
		if !found[name] {
			t.Errorf("%s shows no address", name)
		}
	}
}

// takesTrace reports whether a command makes a report of one trace.
func takesTrace(cmd *cobra.Command) bool {
	return strings.HasPrefix(cmd.Use, cmd.Name()+" TRACE")
}
