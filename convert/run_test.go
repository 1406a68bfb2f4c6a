package convert

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func TestWriteCalls(t *testing.T) {
	var out strings.Builder
	opts := Options{Header: oneGHz, Names: names{1: "main", 2: "work", 3: "leaf"}, Base: 1000}
	stats, err := WriteCalls(onOneGoroutine{t, twoThreads()}, calls.Options{Shards: 4}, NewCSV(&out, opts))
	if err != nil {
		t.Fatal(err)
	}
	if stats.Calls != 7 || stats.Truncated != 2 {
		t.Errorf("got %d calls, %d truncated; want 7 and 2", stats.Calls, stats.Truncated)
	}
	for i, want := range []string{
		"process,thread,function_id,function,depth,caller_id,caller,start_ns,duration_ns,self_ns,end,args",
		"7,8,3,leaf,2,2,work,150,10,10,exited,",
		"7,8,2,work,1,1,main,100,100,90,exited,",
		"7,8,2,work,1,1,main,300,50,50,tail-exited,",
		"7,8,1,main,0,,,0,1000,850,exited,",
		"7,6,2,work,0,,,0,4000,4000,exited,",
		"7,6,2,work,1,1,main,5000,0,0,truncated,",
		"7,6,1,main,0,,,4000,1000,1000,truncated,",
	} {
		if lines := strings.Split(out.String(), "\n"); i >= len(lines) || lines[i] != want {
			t.Errorf("line %d: want %q in\n%s", i+1, want, out.String())
		}
	}
}

// onOneGoroutine is a source that must be read on one goroutine.
type onOneGoroutine struct {
	t *testing.T
	trace
}

func (s onOneGoroutine) Each(n int, fn func(int, *reader.Block) error) error {
	if n != 1 {
		s.t.Errorf("the trace was read on %d goroutines, want 1", n)
	}
	return s.trace.Each(n, fn)
}

func TestWriteCallsReturnsErrors(t *testing.T) {
	if _, err := WriteCalls(twoThreads(), calls.Options{}, NewCSV(&full{}, Options{})); !errors.Is(err, errFull) {
		t.Errorf("got error %v, want that of the writer", err)
	}
}

// Example reads a trace and writes its calls.
func Example() {
	trace := trace{{Thread: reader.Thread{Process: 7, Thread: 8}, Events: []reader.Event{
		{TSC: 5_000_000, Func: 1},
		{TSC: 5_001_500, Func: 2},
		{TSC: 5_003_000, Func: 2, Kind: reader.Exit},
		{TSC: 5_009_000, Func: 1, Kind: reader.Exit},
	}}}
	opts := Options{Header: reader.Header{Version: 3, CycleFrequency: 1_000_000_000}, Base: 5_000_000}
	if _, err := WriteCalls(trace, calls.Options{}, NewJSONLines(os.Stdout, opts)); err != nil {
		panic(err)
	}
	// Output:
	// {"process":7,"thread":8,"function_id":2,"function":"#2","depth":1,"caller_id":1,"caller":"#1","start_ns":1500,"duration_ns":1500,"self_ns":1500,"end":"exited"}
	// {"process":7,"thread":8,"function_id":1,"function":"#1","depth":0,"start_ns":0,"duration_ns":9000,"self_ns":7500,"end":"exited"}
}
