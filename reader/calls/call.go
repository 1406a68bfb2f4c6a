package calls

import (
	"github.com/xray-tools/xray/reader"
)

// End says how a call ended. Every call that was opened ends exactly once.
type End uint8

const (
	Exited End = iota // the function returned
	// TailExited: the function ended in a tail call, which is not part of the call. Or the tail
	// call is part of it, and itself ended in a tail call that is not.
	TailExited
	// Continued: the function ended in a tail call, which is part of the call. The two end
	// together. See Options.Continue.
	Continued
	// Inferred: the call has no exit record. The exit of an outer call ended it, because of
	// an unrecorded tail call, an exception or a longjmp that the recorder did not note, or
	// lost records. It lasts until that exit.
	Inferred
	// Truncated: still open at the end of its thread's records, of a window of the recording, or of the
	// time that the filter selects, or given up by a recorder with a budget. Its duration is a lower
	// bound.
	Truncated
	// Left: an exception, a longjmp or similar left the call without returning. The recorder
	// noted the time, or the call lasts until the entry of a call that it cannot have made. See
	// Options.CanCall.
	Left
	// Ends is the number of ways to end.
	Ends = iota
)

// Endings is the number of results of [Call.Ending].
const Endings = 2 * Ends

// Ending returns End, or a larger number for a call that began earlier.
func (c *Call) Ending() End {
	if c.Earlier {
		return c.End + Ends
	}
	return c.End
}

// String returns the name of the end, or of a result of [Call.Ending], in reports.
func (e End) String() string {
	if e >= Ends {
		return "earlier " + (e - Ends).String()
	}
	return [...]string{"exited", "tail-exited", "continued", "inferred", "truncated", "left"}[e]
}

// Call is one matched entry and exit. Times are in ticks.
//
// Within a thread, time does not run backwards. If a timestamp is smaller than the previous
// one, the step counts as no time, and all later timestamps of the thread increase by its
// size. So open calls contain those made later, and durations add up.
type Call struct {
	Start    uint64 // TSC of the entry, plus the clock steps before it
	Duration uint64 // from entry to exit
	Self     uint64 // Duration without the durations of the calls made directly
	Func     reader.FuncID
	Caller   reader.FuncID // the innermost open call at entry; 0 if there was none
	Path     PathID        // the call path, in Batch.Paths; 0 unless Options.Paths
	Depth    uint32        // number of calls that were open at entry
	End      End
	Nested   bool // a call of the same function was open at entry; only with Options.Nested
	Args     bool // Batch.Args has arguments of this call
	// Earlier is set if the call began before the trace, or before the time that the filter selects.
	// Start is where that begins.
	Earlier bool
}

// Partial reports whether the call began before what was selected, or went on after it. Its duration
// is a lower bound.
func (c *Call) Partial() bool { return c.Earlier || c.End == Truncated }

// Batch is a run of calls of one thread, ordered by their ends. A sink must not retain it
// or what it refers to, except Paths.
type Batch struct {
	Thread reader.Thread
	Index  int // index of the thread, as in reader.Block
	Calls  []Call
	// Args has the logged arguments of the calls with Call.Args, in the order of Calls.
	Args []Arg
	// Results has the recorded results of calls, in the order of Calls, and Values the arguments and results
	// that are not numbers, or more than one result. Few calls have them.
	Results []Arg
	Values  []Value
	// Events are the custom and typed events that were recorded since the previous batch,
	// in time order.
	Events []Event
	// Opens are the calls that were opened since the previous batch, in time order; only
	// with Options.Opens, and without those of Options.Unopened.
	Opens []Open
	// Waits are the off-CPU times of those of Calls that have any, in the order of
	// Calls, and Gaps the single times since the previous batch, in time order; only with
	// Options.OffCPU. The waits of open calls come in a later batch.
	Waits []Wait
	Gaps  []Gap
	Paths *Paths // nil unless Options.Paths
	// Last is set in the last batch of a thread.
	Last bool
}

// OpenWords says how a number of calls are partial, of which some began earlier. Reports put "call" or
// "calls" and the number before it.
func OpenWords(open, earlier uint64) string {
	verb := "were"
	if open == 1 {
		verb = "was"
	}
	switch {
	case earlier == 0:
		return verb + " still open at the end."
	case earlier == open:
		return "began earlier."
	}
	return "began earlier or " + verb + " still open at the end."
}

// Open is the entry of a call, for sinks that write entries before what happens inside. The
// call itself comes with this batch or a later one.
type Open struct {
	// Call is the number of Batch.Calls that ended before the entry.
	Call  int
	Start uint64 // see Call.Start
	Func  reader.FuncID
	Depth uint32
	// Arg is the first logged argument, if Args is set.
	Arg     uint64
	Args    bool
	Earlier bool // see Call.Earlier
}

// Replay calls enter for each of Opens, leave for each of Calls with its arguments, and
// event for each of Events, in the order in which the thread recorded them.
func (b *Batch) Replay(enter func(*Open), leave func(*Call, []Arg), event func(*Event)) {
	opens, events, args := b.Opens, b.Events, b.Args
	for i := 0; ; i++ {
		for ; len(opens) > 0 && opens[0].Call <= i; opens = opens[1:] {
			for ; len(events) > 0 && events[0].before(i, opens[0].Depth); events = events[1:] {
				event(&events[0])
			}
			enter(&opens[0])
		}
		for ; len(events) > 0 && (events[0].Call <= i || i == len(b.Calls)); events = events[1:] {
			event(&events[0])
		}
		if i == len(b.Calls) {
			return
		}
		n := 0
		for n < len(args) && args[n].Call <= i {
			n++
		}
		leave(&b.Calls[i], args[:n])
		args = args[n:]
	}
}

// before reports whether the event is before the entry of a call of that depth, which is the next
// after a number of calls have ended.
func (e *Event) before(ended int, depth uint32) bool {
	return e.Call < ended || e.Call == ended && e.Depth <= depth
}

// Arg is one logged argument of a call, or its result.
type Arg struct {
	Call  int // index in Batch.Calls
	Value uint64
}

// Value is an argument of a call, or a result, that an event describes.
type Value struct {
	Call int // index in Batch.Calls
	reader.Value
}

// Sink consumes calls. A sink is never called concurrently, and gets all batches of a
// thread, in order.
type Sink interface {
	Calls(*Batch) error
}

// Analysis is a sink whose results over disjoint sets of threads can be merged. Merge adds
// what other has; other must not be used afterwards. In what reports show, merging is
// commutative and associative.
type Analysis[S any] interface {
	Sink
	Merge(other S)
}
