//go:build linux && amd64

package real

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

// budgetTimes makes the loads of [TestBudgetCost] last some seconds. Starting the recorder is a large
// part of the cost of a program that lives for a moment, and no budget can change that.
var budgetTimes = flag.Int("times", 60, "scale the loads of TestBudgetCost by this; 60 makes most of them last some seconds")

// TestBudgetCost prints what recording within a budget adds to the CPU time of each program, set by
// -cost as TestCost.
func TestBudgetCost(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	budgets := []string{"3%", "5%"}
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
