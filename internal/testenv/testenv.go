// Package testenv says what tests need from the machine they run on.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Need skips the test unless all the tools are on PATH, and says which is
// missing. With CI=true a missing tool fails the test, so that an incomplete
// machine cannot pass for a green one.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not on PATH; with CI=true every tool must be", tool)
		}
		t.Skipf("%s is not on PATH", tool)
	}
}
