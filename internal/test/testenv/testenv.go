// Package testenv checks that the machine has what tests need.
package testenv

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Need skips the test unless all the tools are on PATH, and says which is missing. With CI=true a
// missing tool fails the test, so that an incomplete machine cannot pass.
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

// Fetched finds a file among what script/setup fetches besides packages, by a pattern of
// filepath.Match. If it is missing, Fetched skips or fails the test as Need does.
func Fetched(t testing.TB, pattern string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "xray-tests", filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return found[0]
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not in %s: script/setup fetches it; with CI=true everything must be there", pattern, cache)
	}
	t.Skipf("%s is not in %s: script/setup fetches it", pattern, cache)
	return ""
}

// Soak reports whether long tests run at full length.
func Soak() bool { return os.Getenv("XRAY_SOAK") == "1" }

// WriteFile writes a file in a directory of the test and returns its path.
func WriteFile(t testing.TB, name string, write func(io.Writer) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
