//go:build linux && amd64

package main

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// The benchmark compiles against the headers of the runtime and measures each of its modes.
func TestRun(t *testing.T) {
	testenv.Need(t, "cc", "ar", "clang-22", "clang++-22")
	t.Chdir("../../..")
	var out strings.Builder
	if err := run([]string{"-clang", "clang-22", "-n", "1", "-rounds", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| count | ", "| **record**, rings of 1 MB | ", "| record to a file that `xray record` writes | ", "| prune, 5 µs | ", "| profile | "} {
		if n := strings.Count(out.String(), row); n != 5 {
			t.Errorf("%d rows %q, want one of each workload", n, row)
		}
	}
}
