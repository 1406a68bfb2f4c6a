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

// added is what the summary of xray record says about its cost.
var added = regexp.MustCompile(`recording (?:added at least (\d+)%|took most)`)

// TestEstimates prints how the estimates of record and exclude compare with measurements, for the table
// in docs/dev/recorder.md. It asserts nothing about time. Recordings take turns.
func TestEstimates(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	table.WriteString("| program | recording added | `record` says | `exclude` says | cost of a call in probes |\n|---|--:|--:|--:|--:|\n")
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		limit := []string{"--limit", "4G"}
		var base, recorded, spent, probes []float64
		var said, predicted []string
		for range *costRounds {
			base = append(base, measure(t, l, run{src: src}).seconds)
			kept := t.TempDir()
			timed := filepath.Join(t.TempDir(), "timed")
			s := runLoad(t, l, run{src: src, record: limit, timed: timed, kept: kept, times: 10, tells: true})
			recorded = append(recorded, secondsIn(t, timed))
			switch found := added.FindStringSubmatch(s.said()); {
			case found == nil:
				said = append(said, "-")
			case found[1] == "":
				said = append(said, "most")
			default:
				said = append(said, "at least "+found[1]+" %")
			}
			estimate := predict(t, kept)
			predicted = append(predicted, share(estimate.Present.Least)+" to "+share(estimate.Present.Most))
			other, probe := costOf(t, kept)
			spent, probes = append(spent, other), append(probes, probe)
			os.RemoveAll(kept)
		}
		cost := median(recorded) - median(base)
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %.2f |\n", p.name, share(cost/median(base)), strings.Join(said, ", "), strings.Join(predicted, ", "),
			(cost-median(spent))/median(probes))
		t.Logf("CPU seconds: %v unrecorded, %v recorded", base, recorded)
	})
	fmt.Print(table.String())
}

// secondsIn sums up the CPU times in a file of testdata/timed.
func secondsIn(t *testing.T, file string) (sum float64) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var user, system float64
		if _, err := fmt.Sscan(line, &user, &system); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		sum += user + system
	}
	return sum
}

// costOf returns what the processes of traces spent on recording besides probes, and the time of two
// probes for each of their calls, both in seconds.
func costOf(t *testing.T, traces string) (spent, probes float64) {
	t.Helper()
	for _, path := range tracesIn(t, traces) {
		trace, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(elftest.Xray(t), "info", "--format", "json", path).Output()
		var info struct{ Calls float64 }
		if err := errors.Join(err, json.Unmarshal(out, &info)); err != nil {
			t.Fatalf("info %s: %v", path, err)
		}
		if r := trace.Recording(0); r != nil && r.Clock.Frequency > 0 {
			spent += float64(r.Process.ChunksNS+r.Process.LandingsNS) / 1e9
			probes += info.Calls * float64(r.Process.Probe) / 1000 / float64(r.Clock.Frequency)
		}
		trace.Close()
	}
	return spent, probes
}
