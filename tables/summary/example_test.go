package summary_test

import (
	"bytes"
	"cmp"
	"fmt"
	"log"

	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables/summary"
)

// The summary of a trace is written to a file. Files of several traces are merged.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true, Nested: true}, func() *summary.Analysis {
		return summary.NewAnalysis(summary.Options{Clock: clock})
	})
	if err != nil {
		log.Fatal(err)
	}
	key := summary.Key{Program: "journal", Labels: summary.NoLabels, Unit: summary.Nanoseconds}
	var file bytes.Buffer
	w := summary.NewWriter(&file)
	err = w.Group(a.Group(key, func(id reader.FuncID) summary.Function {
		return summary.Function{Name: symbolize.Label(names, id)}
	}))
	if err = cmp.Or(err, w.Close()); err != nil {
		log.Fatal(err)
	}

	day1, err := summary.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "day1.parquet")
	if err != nil {
		log.Fatal(err)
	}
	day2, err := summary.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "day2.parquet")
	if err != nil {
		log.Fatal(err)
	}
	err = summary.Merge([]summary.Source{day1, day2}, 0, func(g *summary.Group) error {
		fmt.Println(g.Key.Program, "has", g.Len(), "call paths")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// journal has 32 call paths
}
