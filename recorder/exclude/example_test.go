package exclude_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/exclude"
	"github.com/xray-tools/xray/symbolize"
)

// The functions to leave out if recording a call costs 40 to 60 ticks and may take 0.1 % of the CPU time.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	a, _, err := calls.Run(calls.Source(trace), calls.Options{}, exclude.New)
	if err != nil {
		log.Fatal(err)
	}
	opts := exclude.Options{Budget: 0.001, Clock: clock, Cost: calls.ProbeCost{Low: 40_000, High: 60_000}}
	opts.Measured(trace)
	for _, f := range a.Plan(opts).Functions {
		fmt.Println(symbolize.Label(names, f.ID))
	}
	// Output:
	// free
	// malloc
	// formatKey
	// calloc
	// addRecord
	// write
}
