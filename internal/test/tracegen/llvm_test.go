package tracegen

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// TestLLVMXray lets llvm-xray read each format, without --keep-going, and count the calls. The FDR
// trace has enough blocks of one thread that llvm-xray sorts them incorrectly unless their wall
// clocks are as it expects.
func TestLLVMXray(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	for _, opts := range []Options{
		{Records: 2_000_000},
		{Records: 300_000, Format: Basic},
		{Records: 20_000, Format: YAML},
	} {
		t.Run("format="+string(opts.Format), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "trace.xray")
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			truth, err := Generate(f, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("llvm-xray-22", "account", "-f", "csv", name)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("llvm-xray account: %v\n%s", err, &stderr)
			}
			rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]int64, len(truth.Calls))
			for _, row := range rows[1:] {
				id, err := strconv.Atoi(row[0])
				if err != nil {
					t.Fatal(err)
				}
				if got[id], err = strconv.ParseInt(row[1], 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			for id, want := range truth.Calls {
				if got[id] != want {
					t.Errorf("function %d: got %d calls in llvm-xray, want %d", id, got[id], want)
				}
			}
		})
	}
}
