package requests_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Requests across threads. The first argument of functions is the key of the request.
func Example() {
	trace, err := reader.Open(reader.Options{}, "../../testdata/pipeline-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	a, _, err := calls.Run(calls.Source(trace), calls.Options{}, func() *requests.Collector {
		return requests.NewCollector(requests.Options{IDFunc: func(reader.FuncID) bool { return true }})
	})
	if err != nil {
		log.Fatal(err)
	}
	set := a.Requests(requests.Choice{})
	r := set.Requests[0]
	fmt.Printf("%d requests on %d threads; request %s has %d segments on %d threads\n", len(set.Requests), set.Threads, r.Key, len(r.Segments), r.Threads())
	// Output:
	// 300 requests on 4 threads; request 1 has 3 segments on 3 threads
}
