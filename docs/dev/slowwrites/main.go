// Slowwrites lists the requests of a key-value server that wrote longest:
//
//	slowwrites TRACE BINARY
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// request is one call of kv::handle. Times are in ticks.
type request struct {
	thread         reader.Thread
	id             uint64 // its argument
	writing, total uint64
}

// writes is an analysis. It gets calls as they end, callees before their callers.
type writes struct {
	names symbolize.Names
	open  map[int]request // what threads wrote since their last request, by Batch.Index
	done  []request
}

func (w *writes) Calls(b *calls.Batch) error {
	r := w.open[b.Index]
	for i, c := range b.Calls {
		name := symbolize.Label(w.names, c.Func)
		switch {
		case strings.HasPrefix(name, "kv::Store::put("):
			r.writing += c.Duration
		case strings.HasPrefix(name, "kv::handle("):
			for _, arg := range b.ArgsOf(i) {
				r.id = arg.Value
			}
			r.thread, r.total = b.Thread, c.Duration
			w.done, r = append(w.done, r), request{}
		}
	}
	w.open[b.Index] = r
	return nil
}

// Merge adds what another goroutine found in its threads.
func (w *writes) Merge(o *writes) { w.done = append(w.done, o.done...) }

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: slowwrites TRACE BINARY")
	}
	trace, err := reader.Open(reader.Options{}, os.Args[1])
	check(err)
	names, err := symbolize.Open(trace, map[int]string{0: os.Args[2]}, symbolize.Search{})
	check(err)
	clock, err := trace.Clock()
	check(err)
	found, stats, err := calls.Run(trace, calls.Options{}, func() *writes {
		return &writes{names: names.Names, open: make(map[int]request)}
	})
	check(err)
	slices.SortFunc(found.done, func(a, b request) int {
		return cmp.Or(cmp.Compare(b.writing, a.writing), cmp.Compare(a.id, b.id))
	})
	fmt.Printf("%d requests in %d calls\n", len(found.done), stats.Calls)
	for _, r := range found.done[:min(5, len(found.done))] {
		fmt.Printf("request %d on thread %d wrote for %s of its %s\n",
			r.id, r.thread.Thread, clock.Format(r.writing), clock.Format(r.total))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
