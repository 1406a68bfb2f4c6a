//go:build linux && amd64

package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
)

// TestExclude prints how the predictions of exclude compare with measurements, for the table in
// docs/dev/analyses.md. It asserts nothing about time. Recordings take turns.
func TestExclude(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	table.WriteString("| program | predicted | range | with a baseline | measured | list: predicted | measured | list with a baseline: predicted | measured |\n")
	table.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var times strings.Builder
	times.WriteString("| program | recorded | unrecorded: predicted | measured | list: predicted | measured | list with a baseline: predicted | measured |\n")
	times.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|\n")
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		if p.name == "memcached" {
			t.Skip("its CPU time varies by a factor of two, so there is nothing to compare with")
		}
		src := p.build(t, instrumented)
		limit := []string{"--limit", "4G"}
		counts, traces := t.TempDir(), t.TempDir()
		recordedCPU(t, l, run{src: src, record: []string{"--count"}, kept: counts})
		now := []float64{recordedCPU(t, l, run{src: src, record: limit, kept: traces})}
		var baseline []string
		for _, trace := range tracesIn(t, counts) {
			baseline = append(baseline, "--baseline", trace)
		}
		estimate, better := predict(t, traces), predict(t, traces, baseline...)
		lists := [2]list{choose(t, traces), choose(t, traces, baseline...)}
		os.RemoveAll(traces)
		var base []float64
		var after [2][]float64
		for i := range *costRounds {
			for range 2 { // runs are short and determine all results
				base = append(base, measure(t, l, run{src: src}).seconds)
			}
			if i > 0 {
				now = append(now, recordedCPU(t, l, run{src: src, record: limit}))
			}
			for k, list := range lists {
				flags := limit
				if list.expression != "" {
					flags = append([]string{"--exclude", list.expression}, limit...)
				}
				after[k] = append(after[k], recordedCPU(t, l, run{src: src, record: flags}))
			}
		}
		measured := func(seconds []float64) string { return share(median(seconds)/median(base) - 1) }
		row := fmt.Sprintf("| %s | %s | %s to %s | %s | %s | %s | %s | %s | %s |\n", p.name,
			share(estimate.Present.Overhead), share(estimate.Present.Least), share(estimate.Present.Most), share(better.Present.Overhead), measured(now),
			lists[0].promise, measured(after[0]), lists[1].promise, measured(after[1]))
		table.WriteString(row)
		fmt.Fprintf(&times, "| %s | %.2f s | %.2f s | %.2f s | %.2f s | %.2f s | %.2f s | %.2f s |\n", p.name, median(now),
			estimate.Time/1e9, median(base), lists[0].cpu, median(after[0]), lists[1].cpu, median(after[1]))
		t.Logf("%sCPU seconds: %v unpatched, %v recorded, %v with lists of budgets %s and %s", row, base, now, after, lists[0].budget, lists[1].budget)
	})
	fmt.Print(table.String(), "\n", times.String())
}

func share(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

// A prediction is what exclude reports about a recording.
type prediction struct {
	Time    float64 `json:"time_ns"` // CPU time without recording
	Present struct {
		Overhead float64
		Least    float64 `json:"overhead_low"`
		Most     float64 `json:"overhead_high"`
	}
	Predicted struct {
		CPU float64 `json:"cpu_ns"`
	}
}

// A list is a list of functions to exclude.
type list struct {
	budget, expression string
	promise            string  // the overhead without them
	cpu                float64 // the CPU time without them, in seconds
}

// recordedCPU runs a load and returns the CPU time in its traces, in seconds. xray record starts
// the program directly, so that --exclude applies to it.
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
		sum += cpuOf(t, path)
	}
	return sum
}

// cpuOf returns the CPU time that a trace states, in seconds.
func cpuOf(t *testing.T, path string) float64 {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	if r := trace.Recording(0); r != nil {
		return float64(r.Process.CPUNS) / 1e9
	}
	return 0
}

func tracesIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.xray*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return list
}

var promised = regexp.MustCompile(`recording(?: all [0-9,]+ functions?)? costs ([0-9.]+)%`)

// choose finds the smallest budget from 20% up whose list fits on a command line.
func choose(t *testing.T, traces string, flags ...string) list {
	t.Helper()
	for percent := 20; ; percent *= 2 {
		budget := fmt.Sprintf("%d%%", percent)
		args := append([]string{"exclude", "--budget", budget, "--write", "regexp"}, flags...)
		cmd := exec.Command(elftest.Xray(t), append(args, tracesIn(t, traces)...)...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		promise := promised.FindStringSubmatch(said.String())
		if err != nil || promise == nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
		}
		if len(out) < 100<<10 {
			cpu := predict(t, traces, append([]string{"--budget", budget}, flags...)...).Predicted.CPU / 1e9
			return list{budget, strings.TrimSpace(string(out)), promise[1] + " %", cpu}
		}
	}
}

// predict runs exclude on the traces of a directory.
func predict(t *testing.T, traces string, flags ...string) prediction {
	t.Helper()
	var p prediction
	args := append(append([]string{"exclude", "--format", "json"}, flags...), tracesIn(t, traces)...)
	out, err := exec.Command(elftest.Xray(t), args...).Output()
	if err := errors.Join(err, json.Unmarshal(out, &p)); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return p
}
