package why_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Explain reads the trace several times. Here it explains the slowest 3 % of the calls of a function.
func ExampleExplain() {
	trace, names, _, close := recorded.Named("kvserver-fdr.xray", "kvserver")
	defer close()
	r, _, err := why.Explain(calls.Source(trace), why.Options{
		Root: func(id reader.FuncID) bool { return strings.HasPrefix(symbolize.Label(names, id), "kv::handle(") },
		Slow: why.Rule{Quantile: 0.97},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d calls are slow and lose %.0f ns each\n", r.Slow.Count, r.Invocations, r.Excess)
	for _, c := range r.Causes {
		fmt.Printf("%s: %.0f%% of the time, in %d calls\n", symbolize.Label(names, c.Func), 100*c.Share, c.Dominates)
	}
	// Output:
	// 24 of 800 calls are slow and lose 26931 ns each
	// kv::checksum(std::basic_string_view<char, std::char_traits<char>>): 56% of the time, in 17 calls
}
