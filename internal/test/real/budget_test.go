//go:build linux && amd64

package real

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

var budgets = []string{"3%", "5%"}

// budgetTimes makes loads last some seconds. Starting the recorder is a large
// part of the cost of a program that lives for a moment, and no budget can change that.
var budgetTimes = flag.Int("times", 60, "scale the loads of the tests of budgets by this; 60 makes most of them last some seconds")

// TestBudgetCost prints how much recording with a budget adds to the CPU time of each program.
// Like TestCost, it needs -cost.
func TestBudgetCost(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| program | load | unpatched | %s |\n|---|---|--:|--:|--:|\n", strings.Join(budgets, " | "))
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		seconds := map[string][]float64{}
		for range *costRounds {
			seconds[""] = append(seconds[""], measure(t, l, run{src: src, times: *budgetTimes}).seconds)
			for _, b := range budgets {
				seconds[b] = append(seconds[b], measure(t, l, run{src: src, times: *budgetTimes, record: []string{"--budget", b}}).seconds)
			}
		}
		base := median(seconds[""])
		fmt.Fprintf(&table, "| %s | %s | %.2f s |", p.name, l.name, base)
		for _, b := range budgets {
			fmt.Fprintf(&table, " %.2f |", median(seconds[b])/base)
		}
		table.WriteString("\n")
		t.Logf("CPU seconds: %v", seconds)
	})
	fmt.Print(table.String())
}

// TestBudgetEstimates compares the numbers of calls that recordings with a budget estimate with
// those that --count counts in another run, for functions with more than 0.1 % of all calls. Set
// -cost to run it, and -times to choose the length of the loads.
func TestBudgetEstimates(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	table.WriteString("| program | budget | CPU time | functions | within 10 % | within 25 % | within the margin | all calls |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		counted, _, _ := estimates(t, l, run{src: src, times: *budgetTimes, record: []string{"--count"}})
		var all float64
		for _, e := range counted {
			all += e.calls
		}
		for _, budget := range slices.Repeat(budgets, *costRounds) {
			found, sum, seconds := estimates(t, l, run{src: src, times: *budgetTimes, record: []string{"--budget", budget}})
			var functions, within10, within25, within int
			for name, c := range counted {
				if c.calls <= all/1000 {
					continue
				}
				functions++
				e := found[name]
				off := math.Abs(e.calls - c.calls)
				for _, count := range []struct {
					n     *int
					limit float64
				}{{&within10, c.calls / 10}, {&within25, c.calls / 4}, {&within, math.Sqrt(e.variance)}} {
					if off <= count.limit {
						*count.n++
					}
				}
			}
			fmt.Fprintf(&table, "| %s | %s | %.1f s | %d | %d | %d | %d | %.3f |\n", p.name, budget, seconds, functions, within10, within25, within, sum/all)
		}
	})
	fmt.Print(table.String())
}

// An estimate is the number of calls of a function, and the square of its margin.
type estimate struct{ calls, variance float64 }

// estimates runs a load, and returns from its traces the calls of each function, the calls of all
// functions, and the CPU time in seconds.
func estimates(t *testing.T, l load, r run) (by map[string]estimate, all, seconds float64) {
	t.Helper()
	r.kept = t.TempDir()
	defer os.RemoveAll(r.kept)
	s := runLoad(t, l, r)
	by = map[string]estimate{}
	for _, trace := range s.traceFiles(t) {
		seconds += cpuOf(t, trace)
		eachRow(t, trace, func(function string, value func(string) float64) {
			e := estimate{value("count") + value("open"), 0}
			if r.record[0] == "--budget" {
				margin := value("margin")
				e = estimate{value("all_calls"), margin * margin}
			}
			by[function] = estimate{by[function].calls + e.calls, by[function].variance + e.variance}
			all += e.calls
		})
	}
	return by, all, seconds
}
