package calls

import (
	"math"

	"github.com/xray-tools/xray/reader"
)

// End says how a call ended. Every call that was opened ends exactly once.
type End uint8

const (
	Exited     End = iota // the function returned
	TailExited            // the function left through a tail call
	// Inferred: no exit of its own was recorded. The exit of a call further out
	// ended it: a tail call that was not recorded, an exception or a longjmp of which
	// the recorder knew nothing, or lost records. It is charged up to that exit.
	Inferred
	// Truncated: still open when its thread's records end. It is charged up to
	// the last record of the thread.
	Truncated
	// Left: an exception, a longjmp or the like left the call without a return, and the
	// recorder wrote down when.
	Left
	// Ends is how many ways to end there are.
	Ends = iota
)

// String names the end as reports do.
func (e End) String() string {
	return [...]string{"exited", "tail-exited", "inferred", "truncated", "left"}[e]
}

// Call is one matched entry and exit. Times are in ticks.
//
// Within a thread, time does not run backwards. Where a timestamp is smaller than
// the one before it, the step counts as no time at all, and from there on as much
// is added to the timestamps of the thread as the clock has gone back: calls that
// were open contain those made later, and durations add up.
type Call struct {
	Start    uint64 // TSC of the entry, and what the clock went back by before it
	Duration uint64 // from entry to exit
	Self     uint64 // Duration less the durations of the calls made directly
	Func     reader.FuncID
	Caller   reader.FuncID // the innermost open call at entry; 0 when there was none
	Path     PathID        // the call path, in Batch.Paths; 0 unless Options.Paths
	Depth    uint32        // number of calls that were open at entry
	End      End
	Nested   bool // a call of the same function was open at entry; only with Options.Nested
	Args     bool // Batch.Args has arguments of this call
}

// Batch is a run of calls of one thread, ordered by their ends. A sink must not
// retain it or what it refers to, Paths excepted.
type Batch struct {
	Thread reader.Thread
	Index  int // dense number of the thread, as in reader.Block
	Calls  []Call
	// Args holds the logged arguments of the calls that have Call.Args set, in
	// the order of Calls.
	Args []Arg
	// Events are the custom and typed events that were recorded since the batch
	// before, in order of time.
	Events []Event
	// Opens are the calls that were opened since the batch before, in order of
	// time; only with Options.Opens.
	Opens []Open
	Paths *Paths // nil unless Options.Paths
	// Last is set on the last batch of a thread.
	Last bool
}

// Open is the entry of a call, for sinks that write entries before what happens
// inside. The call itself comes with this batch or a later one.
type Open struct {
	// Call is how many of Batch.Calls ended before the entry.
	Call  int
	Start uint64 // as Call.Start
	Func  reader.FuncID
	Depth uint32
	// Arg is the first logged argument, when Args.
	Arg  uint64
	Args bool
}

// Replay goes through the batch in order: it calls enter for each of Opens, leave for
// each of Calls with its arguments, and event for each of Events. An event that has
// the time of an entry or an end comes before it.
func (b *Batch) Replay(enter func(*Open), leave func(*Call, []Arg), event func(*Event)) {
	opens, events, args := b.Opens, b.Events, b.Args
	eventsUpTo := func(tsc uint64) {
		for ; len(events) > 0 && events[0].TSC <= tsc; events = events[1:] {
			event(&events[0])
		}
	}
	for i := 0; ; i++ {
		for ; len(opens) > 0 && opens[0].Call <= i; opens = opens[1:] {
			eventsUpTo(opens[0].Start)
			enter(&opens[0])
		}
		if i == len(b.Calls) {
			break
		}
		c := &b.Calls[i]
		n := 0
		for n < len(args) && args[n].Call <= i {
			n++
		}
		eventsUpTo(c.Start + c.Duration)
		leave(c, args[:n])
		args = args[n:]
	}
	eventsUpTo(math.MaxUint64)
}

// Arg is one logged argument of a call.
type Arg struct {
	Call  int // index in Batch.Calls
	Value uint64
}

// Sink consumes calls. One sink is never called concurrently, and sees all
// batches of a thread, in order.
type Sink interface {
	Calls(*Batch) error
}

// Analysis is a sink whose results over disjoint sets of threads can be put
// together. Merge takes over what other holds; other must not be used again.
// Merging is commutative and associative in what reports show.
type Analysis[S any] interface {
	Sink
	Merge(other S)
}
