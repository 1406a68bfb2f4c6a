package diff_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// What makes the calls of a function slower in B than in A. There should be several runs of each.
func Example() {
	comparison := diff.NewComparison(true, "kv::handle", nil)
	for side, file := range []string{"kvserver-fdr.xray", "kvserver-basic.xray"} {
		trace, names, clock, close := recorded.Named(file, "kvserver.yaml")
		defer close() // the report needs the names
		root := func(id reader.FuncID) bool { return strings.HasPrefix(symbolize.Label(names, id), "kv::handle(") }
		run, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true, Roots: root}, func() *diff.Analysis {
			return diff.NewAnalysis(diff.Options{Root: root})
		})
		if err != nil {
			log.Fatal(err)
		}
		if err := comparison.Add(diff.Side(side), run, diff.Run{Name: file, Clock: clock, Names: names}); err != nil {
			log.Fatal(err)
		}
	}
	report, err := comparison.Report(diff.ReportOptions{MinShare: 0.01})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range report.Changes[:2] {
		fmt.Printf("%+.0f ns: %v, %s\n", c.Amount, c.Kind, symbolize.Shorten(c.Function))
	}
	// Output:
	// +2357 ns: slower, kv::handle
	// +1775 ns: slower, kv::execute
}
