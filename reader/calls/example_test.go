package calls_test

import (
	"cmp"
	"fmt"
	"log"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func openExample(path string) *reader.Trace {
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		log.Fatal(err)
	}
	return trace
}

// totals is an analysis that sums the calls of every function. Each goroutine has its own, and
// Merge combines them.
type totals map[reader.FuncID]spent

type spent struct{ calls, self uint64 }

func (t totals) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		sum := t[c.Func]
		t[c.Func] = spent{sum.calls + 1, sum.self + c.Self}
	}
	return nil
}

func (t totals) Merge(o totals) {
	for fn, sum := range o {
		t[fn] = spent{t[fn].calls + sum.calls, t[fn].self + sum.self}
	}
}

// Run an analysis over all calls of a trace, on as many goroutines as there are processors.
func ExampleRun() {
	trace := openExample("../../testdata/kvserver-fdr.xray")
	defer trace.Close()
	sums, stats, err := calls.Run(trace, calls.Options{}, func() totals { return make(totals) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d calls on %d threads, %d without an exit of their own\n", stats.Calls, stats.Threads, stats.Inferred)
	funcs := slices.SortedFunc(maps.Keys(sums), func(a, b reader.FuncID) int {
		return cmp.Or(cmp.Compare(sums[b].self, sums[a].self), cmp.Compare(a, b))
	})
	for _, fn := range funcs[:3] {
		fmt.Printf("function %d: %d calls, %d ticks\n", fn, sums[fn].calls, sums[fn].self)
	}
	// Output:
	// 10344 calls on 7 threads, 60 without an exit of their own
	// function 18: 804 calls, 20410209 ticks
	// function 17: 800 calls, 5178950 ticks
	// function 4: 994 calls, 1031213 ticks
}

// The result does not depend on the number of goroutines.
func ExampleOptions_shards() {
	trace := openExample("../../testdata/kvserver-fdr.xray")
	defer trace.Close()
	var results []totals
	for _, shards := range []int{1, 4} {
		sums, _, err := calls.Run(trace, calls.Options{Shards: shards}, func() totals { return make(totals) })
		if err != nil {
			log.Fatal(err)
		}
		results = append(results, sums)
	}
	fmt.Println(maps.Equal(results[0], results[1]))
	// Output: true
}

// deepest keeps the call with the longest path.
type deepest struct{ path []reader.FuncID }

func (d *deepest) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		if c := &b.Calls[i]; int(c.Depth) >= len(d.path)-1 {
			d.take(b.Paths.Frames(nil, c.Path))
		}
	}
	return nil
}

// take orders paths of equal length by their functions, so that it does not matter which comes
// first.
func (d *deepest) take(path []reader.FuncID) {
	if cmp.Or(cmp.Compare(len(path), len(d.path)), slices.Compare(path, d.path)) > 0 {
		d.path = path
	}
}

func (d *deepest) Merge(o *deepest) { d.take(o.path) }

// With Options.Paths, every call has the path of its callers.
func ExamplePaths() {
	trace := openExample("../../testdata/kvserver-fdr.xray")
	defer trace.Close()
	d, _, err := calls.Run(trace, calls.Options{Paths: true}, func() *deepest { return new(deepest) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.path)
	// Output:
	// [19 16 14 2 2 2 2]
}

// logged prints the arguments and events of calls.
type logged struct{ calls.Sink }

func (logged) Calls(b *calls.Batch) error {
	for i, c := range b.Calls {
		for _, a := range b.ArgsOf(i) {
			fmt.Printf("function %d was called with %d\n", c.Func, a.Value)
		}
	}
	for _, e := range b.Events {
		fmt.Printf("%q was logged in function %d, %d deep\n", e.Data, e.Func, e.Depth)
	}
	return nil
}

func (logged) Merge(logged) {}

// Calls come with their logged arguments, and custom and typed events with the call that logged
// them. Here, a filter selects a time and functions.
func ExampleBatch_ArgsOf() {
	trace := openExample("../../testdata/kvserver-fdr.xray")
	defer trace.Close()
	filter := calls.Filter{
		From: 1795225060307735000, To: 1795225060307754000,
		Func: func(fn reader.FuncID) bool { return fn == 16 },
	}
	_, _, err := calls.Run(trace, calls.Options{Shards: 1, Filter: filter}, func() logged { return logged{} })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// function 16 was called with 3
	// function 16 was called with 4
	// "request 15 key 35" was logged in function 11, 3 deep
}

// ends records the threads in the order in which their calls ended.
type ends struct{ threads []int32 }

func (e *ends) Calls(b *calls.Batch) error {
	if n := len(e.threads); len(b.Calls) > 0 && (n == 0 || e.threads[n-1] != b.Thread.Thread) {
		e.threads = append(e.threads, b.Thread.Thread)
	}
	return nil
}

func (e *ends) Merge(*ends) {}

// In order of time, batches of different threads take turns.
func ExampleInOrder() {
	trace := openExample("../../testdata/kvserver-recorded.xray")
	defer trace.Close()
	e, _, err := calls.Run(calls.InOrder(trace, reader.TimeOrder), calls.Options{}, func() *ends { return new(ends) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.threads[:8])
	// Output:
	// [2402 2404 2406 2407 2404 2408 2404 2409]
}
