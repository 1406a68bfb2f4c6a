package slowest_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// The first pass finds the slowest calls of a function. The second one finds what these called.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	root := func(id reader.FuncID) bool { return symbolize.Label(names, id) == "appendRecord" }
	opts := slowest.Options{Root: root, Top: 2}
	how := calls.Options{Paths: true, Roots: root}
	search, _, err := calls.Run(calls.Source(trace), how, func() *slowest.Search { return slowest.NewSearch(opts) })
	if err != nil {
		log.Fatal(err)
	}
	found := search.Found()
	trees, _, err := calls.Run(calls.Source(trace), how, func() *slowest.Trees { return slowest.NewTrees(found) })
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range trees.Report(clock).Slowest {
		fmt.Printf("call %d of %s called", s.Number, symbolize.Label(names, s.Root))
		for _, row := range s.Rows[1:] {
			fmt.Printf(" %s", symbolize.Label(names, row.Func))
		}
		fmt.Println()
	}
	// Output:
	// call 1 of appendRecord called write
	// call 19 of appendRecord called write
}
