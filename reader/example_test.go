package reader_test

import (
	"fmt"
	"log"
	"runtime"

	"github.com/xray-tools/xray/reader"
)

// Open detects the format of each file. Several files make one trace.
func ExampleOpen() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-fdr.xray", "../testdata/fork-basic.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	for i, name := range trace.Files() {
		h := trace.Header(i)
		fmt.Printf("%s: %v log, version %d, %d ticks a second\n", name, h.Type, h.Version, h.CycleFrequency)
	}
	// Output:
	// ../testdata/kvserver-fdr.xray: fdr log, version 5, 1000000000 ticks a second
	// ../testdata/fork-basic.xray: basic log, version 3, 1000000000 ticks a second
}

// Each decodes on several goroutines. Collect results by shard and combine them at the end.
func ExampleTrace_Each() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	n := runtime.GOMAXPROCS(0)
	entries := make([]int, n)
	err = trace.Each(n, func(shard int, b *reader.Block) error {
		for i := range b.Events {
			if b.Events[i].Kind.IsEnter() {
				entries[shard]++
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	sum := 0
	for _, n := range entries {
		sum += n
	}
	fmt.Println(sum, "entries")
	// Output:
	// 10344 entries
}

// In order of time, a block ends where an event of another thread comes first.
func ExampleTrace_Blocks() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	printed := 0
	for b, err := range trace.Blocks(reader.TimeOrder) {
		if err != nil {
			log.Fatal(err)
		}
		for _, a := range b.Args {
			e := b.Events[a.Event]
			fmt.Printf("thread %d enters function %d with argument %d\n", b.Thread.Thread, e.Func, a.Value)
			printed++
		}
		if printed >= 3 {
			break
		}
	}
	// Output:
	// thread 15750 enters function 16 with argument 0
	// thread 15751 enters function 16 with argument 0
	// thread 15751 enters function 3 with argument 1
	// thread 15751 enters function 16 with argument 1
	// thread 15751 enters function 3 with argument 76
}

// Read all events in order of time on several goroutines: work formats the text of a window, and
// done prints the texts in order.
func ExampleTrace_EachByTime() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	work := func(_ int, w *reader.Window) {
		for _, i := range w.Order {
			if w.Events[i].Kind == reader.Custom {
				w.Out = fmt.Appendf(w.Out, "thread %d: %s\n", w.Threads[w.Owners[i]].Thread, w.PayloadOf(i).Data)
			}
		}
	}
	events := 0
	done := func(w *reader.Window) error {
		events += len(w.Order)
		fmt.Printf("%s", w.Out)
		return nil
	}
	if err := trace.EachByTime(2, nil, work, done); err != nil {
		log.Fatal(err)
	}
	fmt.Println(events, "events")
	// Output:
	// thread 2407: request 15 key 35
	// thread 2408: request 31 key 93
	// 1413 events
}

// Unusable parts of a trace are not errors. They are counted after a pass.
func ExampleTrace_Losses() {
	trace, err := reader.Open(reader.Options{}, "../testdata/typed-event-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	if err := trace.Each(1, func(int, *reader.Block) error { return nil }); err != nil {
		log.Fatal(err)
	}
	losses := trace.Losses()
	fmt.Println("losses:", losses.Count())
	for _, l := range losses.Samples() {
		fmt.Println(l)
		fmt.Println(l.Cause.Remedy())
	}
	// Output:
	// losses: 1
	// ../testdata/typed-event-fdr.xray: offset 0x132: the last record of a block is truncated: Function record: need 8 bytes, have 6
	// LLVM's recorder miscounts blocks with typed events. In a log without typed events, this is damage. Nothing else is affected
}

// Records returns the records of a file as they are.
func ExampleTrace_Records() {
	trace, err := reader.Open(reader.Options{}, "../testdata/typed-event-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	for r, err := range trace.Records(0) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%#x: %v, %d bytes\n", r.Offset, r.Kind, r.Size)
		if r.Kind == reader.TypedEvent {
			break
		}
	}
	// Output:
	// 0x20: BufferExtents, 16 bytes
	// 0x30: NewBuffer, 16 bytes
	// 0x40: WallClock, 16 bytes
	// 0x50: PID, 16 bytes
	// 0x60: NewCPUId, 16 bytes
	// 0x70: Function, 8 bytes
	// 0x78: Function, 8 bytes
	// 0x80: Function, 8 bytes
	// 0x88: TypedEvent, 30 bytes
}

// This project's recorder describes what it recorded.
func ExampleTrace_Recording() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	r := trace.Recording(0)
	fmt.Println(r.Process.Argv)
	for _, o := range r.Objects {
		if o.Count > 0 {
			fmt.Printf("functions %d to %d are of %s\n", o.First, uint32(o.First)+o.Count-1, o.Path)
		}
	}
	// Output:
	// [./kvserver basic 40 kvserver-recorded.counts]
	// functions 1 to 55 are of /tmp/xray-testdata/kvserver
}

// Ticks stay integers until they are printed.
func ExampleClock() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	clock, err := trace.Clock()
	if err != nil {
		log.Fatal(err)
	}
	const ticks = 1_000_000
	fmt.Println(clock.Format(ticks), clock.Nanos(ticks), clock.Unit())
	fmt.Println(reader.Clock{}.Format(ticks), reader.Clock{}.Nanos(ticks), reader.Clock{}.Unit())
	// Output:
	// 408.9us 408926 ns
	// 1000000 ticks 1000000 ticks
}
