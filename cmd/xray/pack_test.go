package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// LLVM's tools skip packed metadata and read all records. Packed metadata come first, with the time
// of the first record: llvm-xray account reports an error for anything earlier.
func TestLLVMReadsPacked(t *testing.T) {
	t.Parallel()
	for _, trace := range []string{"kvserver-fdr", "kvserver-basic", "kvserver-recorded"} {
		packed := filepath.Join(t.TempDir(), "packed.xray")
		original := filepath.Join("..", "..", "testdata", trace+".xray")
		if out := runHere("xray", "pack", "-m", "0="+filepath.Join("..", "..", "testdata", "kvserver"), "-o", packed, original); out.status != 0 {
			t.Fatal(out)
		}
		want := strings.Count(runHere("xray", "convert", "-f", "yaml", original).stdout, "kind: function-")
		for _, llvm := range []string{"llvm-xray-14", "llvm-xray-19", "llvm-xray-22"} {
			t.Run(trace+"/"+llvm, func(t *testing.T) {
				testenv.Need(t, llvm)
				yaml, err := exec.Command(llvm, "convert", "-f", "yaml", packed).Output()
				if got := strings.Count(string(yaml), "kind: function-"); err != nil || got != want {
					t.Errorf("got %d function records, error %v; want %d", got, err, want)
				}
				csv, err := exec.Command(llvm, "account", "-d", "-f", "csv", packed).Output()
				ours := runHere("llvm-xray", "account", "-d", "-f", "csv", original)
				if got, want := counts(string(csv)), counts(ours.stdout); err != nil || got != want || got == "" {
					t.Errorf("account: error %v, got\n%s\nwant\n%s", err, got, want)
				}
			})
		}
	}
}

// counts returns the calls of each function in account's CSV.
func counts(csv string) string {
	var lines []string
	for line := range strings.Lines(csv) {
		if fields := strings.SplitN(line, ",", 3); len(fields) == 3 {
			lines = append(lines, fields[0]+" "+fields[1])
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
