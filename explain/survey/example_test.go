package survey_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// What a trace contains, and the warnings to read before other reports.
func Example() {
	trace, err := reader.Open(reader.Options{}, "../../testdata/pipeline-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	r, err := survey.Run(trace, calls.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Stats.Calls, "calls on", len(r.Threads), "threads")
	for _, f := range r.Findings(trace, nil) {
		fmt.Println(f.Text, f.Remedy)
	}
	// Output:
	// 1533 calls on 4 threads
	// The trace uses the wall clock, not the TSC, as is common in virtual machines. Each read costs tens of nanoseconds, so durations below about 100 ns are unreliable. If the kernel reports the frequency of the TSC, the recorder uses the TSC.
	// Functions are shown by ID. Pass the traced binary, or a map from `xray extract`, with -m.
}
