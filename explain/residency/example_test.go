package residency_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// The functions that threads were in: if they are nested, the outermost.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	const first, last = 101274655862117, 101274667556969 // the times of the first and the last record
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true}, func() *residency.Analysis {
		return residency.New(residency.Options{From: first, To: last, Gap: clock.Frequency / 10_000, Cells: 40, Top: 3})
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range a.Report(clock).Funcs {
		fmt.Printf("%s: %.3f ms\n", symbolize.Label(names, f.Func), 1e3*float64(f.Ticks)/float64(clock.Frequency))
	}
	// Output:
	// main: 4.505 ms
	// answer: 1.580 ms
	// free: 0.000 ms
}
