//go:build linux && amd64

package real

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

var costRounds = flag.Int("cost", 0, "measure what recording costs, by medians of so many runs in each mode, and print the table of docs/recorder.md")

// TestCost prints how much recording adds to the CPU time of each program. Modes take turns, so a
// machine that gets busier slows all of them alike.
func TestCost(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	table.WriteString("| program | load | million calls a second |")
	for _, m := range modes {
		fmt.Fprintf(&table, " %s |", m.name)
	}
	fmt.Fprintf(&table, " bytes a call |\n|---|---|--:|%s--:|\n", strings.Repeat("--:|", len(modes)))
	measured := func(l load) bool { return l.cost }
	eachLoad(t, measured, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		seconds := map[string][]float64{}
		var calls, bytes float64
		for range *costRounds {
			seconds["unpatched"] = append(seconds["unpatched"], measure(t, l, run{src: src}).seconds)
			for _, m := range modes {
				flags := m.flags
				if m.name == "ring" {
					flags = []string{"--ring", "1M"}
				}
				c := measure(t, l, run{src: src, record: flags})
				seconds[m.name] = append(seconds[m.name], c.seconds)
				if m.name == "file" {
					calls, bytes = c.calls, c.bytes
				}
			}
		}
		base := median(seconds["unpatched"])
		fmt.Fprintf(&table, "| %s | %s | %.1f |", p.name, l.name, calls/base/1e6)
		for _, m := range modes {
			fmt.Fprintf(&table, " %.2f |", median(seconds[m.name])/base)
		}
		fmt.Fprintf(&table, " %.1f |\n", bytes/calls)
		t.Logf("CPU seconds: %v", seconds)
	})
	fmt.Print(table.String())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// A cost is the CPU time of a run and the number of calls in its traces.
type cost struct{ seconds, calls, bytes float64 }

// measure runs a load and deletes its traces.
func measure(t *testing.T, l load, r run) cost {
	t.Helper()
	r.timed, r.times = filepath.Join(t.TempDir(), "timed"), max(r.times, 10)
	s := runLoad(t, l, r)
	var c cost
	data, err := os.ReadFile(r.timed)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.said())
	}
	for line := range strings.Lines(string(data)) { // one of each program that the load runs
		var user, system float64
		if _, err := fmt.Sscan(line, &user, &system); err != nil {
			t.Fatalf("%q: %v\n%s", data, err, s.said())
		}
		c.seconds += user + system
	}
	if r.record == nil {
		return c
	}
	for _, trace := range s.traceFiles(t) {
		out, err := exec.Command(elftest.Xray(t), "info", "--format", "json", trace).Output()
		var info struct {
			Files []struct {
				Bytes float64 `json:"size_bytes"`
			}
			Calls float64
		}
		if err := errors.Join(err, json.Unmarshal(out, &info)); err != nil {
			t.Fatalf("info %s: %v", trace, err)
		}
		c.calls += info.Calls
		c.bytes += info.Files[0].Bytes
		os.Remove(trace)
	}
	return c
}

// runLoad runs a load to its end.
func runLoad(t *testing.T, l load, r run) *session {
	t.Helper()
	s := startSession(t, l, r)
	if l.drive != nil {
		if _, err := l.drive(s); err != nil {
			t.Fatalf("%v\n%s", err, s.said())
		}
		if err := endings[0].end(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	return s
}
