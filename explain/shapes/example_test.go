package shapes_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/xray-tools/xray/explain/shapes"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// The shapes of the call trees of a function, and how they differ.
func Example() {
	trace, names, clock, close := recorded.Named("kvserver-fdr.xray", "kvserver.yaml")
	defer close()
	root := func(id reader.FuncID) bool { return strings.HasPrefix(symbolize.Label(names, id), "kv::handle(") }
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true, Roots: root}, func() *shapes.Analysis {
		return shapes.New(shapes.Options{Root: root})
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range a.Report(clock).Shapes[:3] {
		fmt.Println(s.Count, "calls")
		for _, d := range s.Differences {
			fmt.Println("  differs in", symbolize.Shorten(symbolize.Label(names, d.Path[len(d.Path)-1])))
		}
	}
	// Output:
	// 271 calls
	// 12 calls
	//   differs in kv::sumNested
	//   differs in kv::Store::get
	//   differs in kv::reply
	// 38 calls
	//   differs in kv::sumNested
	//   differs in kv::Store::get
	//   differs in kv::reply
}
