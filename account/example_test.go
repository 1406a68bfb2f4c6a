package account_test

import (
	"os"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// calls.Run feeds an analysis. Here it gets the calls of one thread by hand: function 1 called
// function 2 twice.
func Example() {
	a := account.New(account.Options{})
	a.Calls(&calls.Batch{
		Thread: reader.Thread{Process: 10, Thread: 11},
		Calls: []calls.Call{
			{Func: 2, Caller: 1, Start: 1_000, Duration: 1_500, Self: 1_500, Depth: 1},
			{Func: 2, Caller: 1, Start: 4_000, Duration: 500, Self: 500, Depth: 1},
			{Func: 1, Start: 0, Duration: 10_000, Self: 8_000},
		},
	})
	r := a.Report(1_000_000_000)
	r.Sort(account.ByCount, true, nil)
	doc := report.Doc{Kind: "account", Clock: r.Clock, Body: r.Body(nil, account.View{})}
	doc.Write(os.Stdout, report.Style{})
	// Output:
	// 2 functions, 3 calls, 10.00us of self time.
	//
	// count     self  share    total      min      p50      p90      p99    p99.9      max  function
	//     2  2.000us  20.0%  2.000us    500ns  1.500us  1.500us  1.500us  1.500us  1.500us  #2
	//     1  8.000us  80.0%  10.00us  10.00us  10.00us  10.00us  10.00us  10.00us  10.00us  #1
}
