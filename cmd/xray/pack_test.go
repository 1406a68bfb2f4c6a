package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/testenv"
)

// LLVM's tools pass over what was packed, and read all records.
func TestLLVMReadsPacked(t *testing.T) {
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
					t.Errorf("%d function records, %v; want %d", got, err, want)
				}
				if out, err := exec.Command(llvm, "account", "-k", packed).Output(); err != nil {
					t.Errorf("account: %v\n%s", err, out)
				}
			})
		}
	}
}
