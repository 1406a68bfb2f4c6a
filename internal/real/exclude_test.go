//go:build linux && amd64

package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// TestExclude prints how the predictions of exclude compare with what is measured. It
// asserts nothing about time. Modes take turns.
func TestExclude(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("measures only with -cost N")
	}
	var table strings.Builder
	table.WriteString("| program | mode | now: estimate | from a baseline | measured | with the list: estimate | from a baseline | measured |\n")
	table.WriteString("|---|---|--:|--:|--:|--:|--:|--:|\n")
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		for _, m := range modes {
			if m.name != "file" && m.name != "prune" {
				continue
			}
			var base, now, after []float64
			counts, traces := t.TempDir(), t.TempDir()
			recordedCPU(t, l, run{src: src, record: []string{"--count"}, kept: counts})
			now = append(now, recordedCPU(t, l, run{src: src, record: m.flags, kept: traces}))
			var baseline []string
			for _, trace := range tracesIn(t, counts) {
				baseline = append(baseline, "--baseline", trace)
			}
			list, known := predict(t, traces), predict(t, traces, baseline...)
			flags := append([]string{"--exclude", list.expression}, m.flags...)
			for i := range *costRounds {
				base = append(base, measure(t, l, run{src: src}).seconds)
				if i > 0 {
					now = append(now, recordedCPU(t, l, run{src: src, record: m.flags}))
				}
				after = append(after, recordedCPU(t, l, run{src: src, record: flags}))
			}
			measured := func(seconds []float64) float64 { return median(seconds)/median(base) - 1 }
			t.Logf("estimate %v, with the list %v; from a baseline %v, with the list %v", list.Before, list.After, known.Before, known.After)
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", p.name, m.name, list.Before, known.Before,
				share(measured(now)), list.After, known.After, share(measured(after)))
			t.Logf("CPU seconds: %v unpatched, %v recorded, %v with the list", base, now, after)
		}
	})
	fmt.Print(table.String())
}

// recordedCPU runs a load and returns the CPU time that its traces have, in seconds. The
// program follows xray record at once, so that --exclude is about it.
func recordedCPU(t *testing.T, l load, r run) float64 {
	t.Helper()
	if r.kept == "" {
		r.kept = t.TempDir()
		defer os.RemoveAll(r.kept)
	}
	r.times = 10
	runLoad(t, l, r)
	var sum float64
	for _, path := range tracesIn(t, r.kept) {
		trace, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		if r := trace.Recording(0); r != nil {
			sum += float64(r.Process.CPUNS) / 1e9
		}
		trace.Close()
	}
	return sum
}

func share(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// A prediction is what exclude says of the overhead.
type prediction struct {
	Before, After overhead
	expression    string // of the functions to leave out
}

type overhead struct {
	Overhead, Least, Most float64
}

func (o overhead) String() string {
	if o.Least == o.Most {
		return share(o.Overhead)
	}
	return fmt.Sprintf("%s (%s to %s)", share(o.Overhead), share(o.Least), share(o.Most))
}

func tracesIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.xray*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return list
}

// predict asks exclude about the traces of a directory.
func predict(t *testing.T, traces string, flags ...string) prediction {
	t.Helper()
	var p prediction
	args := append([]string{"exclude", "--budget", "20%"}, flags...)
	args = append(args, tracesIn(t, traces)...)
	out, err := exec.Command(xray(t), append(args, "--format", "json")...).Output()
	if err := errors.Join(err, json.Unmarshal(out, &p)); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	out, err = exec.Command(xray(t), append(args, "--write", "regexp")...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	p.expression = strings.TrimSpace(string(out))
	return p
}
