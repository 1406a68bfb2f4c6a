//go:build linux && amd64

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Exceptions and longjmp leave calls. The binary shows that for traces that do not record it.
func TestLeftCalls(t *testing.T) {
	const path = "step;request;dive;dive;dive"
	want := map[string]string{
		"step": "1000", "step;request": "1000", "step;request;handle": "1000", "step;request;order": "1000", "step;request;work": "800",
		"step;request;dive": "1000", "step;request;dive;dive": "1000", path: "1000", path + ";parse": "1000", path + ";parse;work": "800",
		path + ";parse;check": "1000", path + ";parse;check;work": "1000", "step;complain": "200",
	}
	for _, clang := range []string{"clang++-14", "clang++-19", "clang++-22"} {
		t.Run(clang, func(t *testing.T) {
			t.Parallel()
			program := buildInstrumented(t, clang, "lefts.cc")
			for _, mode := range []string{"basic", "fdr", "ours"} {
				trace := recordedProgram(t, program, mode)
				if diff := cmp.Diff(want, foldedPaths(t, program, trace)); diff != "" {
					t.Errorf("%s: calls by path (-want +got):\n%s", mode, diff)
				}
				// Each exception and each longjmp leaves 6 calls.
				if said := xrayOutput(t, "account", "-m", program, trace); !strings.Contains(said, "1,200 calls were ended by an exception or longjmp.") || strings.Contains(said, "no exit record") {
					t.Errorf("%s:\n%s", mode, said)
				}
				if said := xrayOutput(t, "why", "--root", "^request$", "--all", "-m", program, trace); !strings.Contains(said, "request: 1,000 calls on 1 thread") {
					t.Errorf("%s: why:\n%s", mode, said)
				}
			}
		})
	}
}
