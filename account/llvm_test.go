package account

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// randomTrace returns trace YAML of three threads that call six functions. With damage, some
// entries or exits are missing.
func randomTrace(r *rand.Rand, frequency uint64, damage bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nheader:\n  version: 1\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: %d\nrecords:\n", frequency)
	tsc := uint64(1_000_000 + r.IntN(1000))
	var stacks [3][]int
	record := func(thread, fn int, kind string) {
		if damage && r.IntN(20) == 0 {
			return
		}
		fmt.Fprintf(&b, "  - { type: 0, func-id: %d, cpu: 0, thread: %d, kind: function-%s, tsc: %d }\n", fn, 10+thread, kind, tsc)
	}
	record(0, 1, "enter")
	record(0, 1, "exit")
	for range 3000 {
		tsc += 1 + uint64(r.ExpFloat64()*float64(int(1)<<r.IntN(16)))
		thread := r.IntN(3)
		s := &stacks[thread]
		if n := len(*s); n > 0 && r.IntN(2+n) > 1 {
			kind := "exit"
			if r.IntN(8) == 0 {
				kind = "tail-exit"
			}
			record(thread, (*s)[n-1], kind)
			*s = (*s)[:n-1]
			continue
		}
		fn := 1 + r.IntN(6)
		record(thread, fn, "enter")
		*s = append(*s, fn)
	}
	return b.String()
}

// TestLLVM compares with llvm-xray account on the same traces. Sorting by name makes the order
// definite.
func TestLLVM(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	path := filepath.Join(t.TempDir(), "trace.yaml")
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 9))
		frequency := []uint64{0, 1_000_000_000, 2_994_373_000}[seed%3]
		damage := seed%4 == 3
		if err := os.WriteFile(path, []byte(randomTrace(r, frequency, damage)), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			args       []string
			opts       Options
			policy     calls.Policy
			by         Column
			descending bool
			top        int
			write      func(*Report, io.Writer, symbolize.Names) error
		}{
			{nil, Options{}, calls.Exact, ByID, false, 0, (*Report).WriteLLVMText},
			{[]string{"-f", "csv"}, Options{}, calls.Exact, ByID, false, 0, (*Report).WriteLLVMCSV},
			{[]string{"-s", "sum", "-r", "dsc", "-p", "4"}, Options{}, calls.Exact, BySum, true, 4, (*Report).WriteLLVMText},
			{[]string{"-s", "90p", "-f", "csv"}, Options{}, calls.Exact, ByP90, false, 0, (*Report).WriteLLVMCSV},
			{[]string{"-d"}, Options{}, calls.Deduce, ByID, false, 0, (*Report).WriteLLVMText},
			{[]string{"--recursive-calls-only"}, Options{RecursiveOnly: true}, calls.Exact, ByID, false, 0, (*Report).WriteLLVMText},
		} {
			c.opts.Exact = true
			args := append([]string{"account", "-k"}, c.args...)
			cmd := exec.Command("llvm-xray-22", append(args, path)...)
			want, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %v", cmd, err)
			}
			trace, err := reader.Open(reader.Options{}, path)
			if err != nil {
				t.Fatal(err)
			}
			a, _, err := calls.Run(trace, calls.Options{Nested: true, Policy: c.policy}, func() *Analysis { return New(c.opts) })
			if err != nil {
				t.Fatal(err)
			}
			report := a.Report(trace.Header(0).CycleFrequency)
			report.Ended()
			report.Sort(c.by, c.descending, nil)
			report.Top(c.top)
			var got bytes.Buffer
			if err := c.write(report, &got, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("seed %d, %s (-llvm-xray +xray):\n%s", seed, strings.Join(args, " "), diff)
			}
			if err := trace.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
