package calls

import (
	"runtime"

	"github.com/xray-tools/xray/reader"
)

// Source is the input for calls. *[reader.Trace] is a Source. One that changes the blocks of another Source has a method
// Below that returns it, so that stacks which threads switch between are told apart.
type Source interface {
	// Each decodes on up to n goroutines. See reader.Trace.Each.
	Each(n int, fn func(shard int, b *reader.Block) error) error
}

// packedSource is a Source whose blocks may have packed records, like reader.Trace.
type packedSource interface {
	EachPacked(n int, fn func(shard int, b *reader.Block) error) error
}

// InOrder returns t as a Source on one goroutine, in the given order.
func InOrder(t *reader.Trace, order reader.Order) Source { return inOrder{t, order} }

type inOrder struct {
	trace *reader.Trace
	order reader.Order
}

func (s inOrder) Each(_ int, fn func(int, *reader.Block) error) error {
	for b, err := range s.trace.Blocks(s.order) {
		if err == nil {
			err = fn(0, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Abreast returns t as a Source on one goroutine whose threads advance together. After each block,
// reached is called with a time, which no later call begins or ends before. See
// [reader.Trace.EachAbreast].
func Abreast(t *reader.Trace, reached func(tsc uint64)) Source { return abreast{t, reached} }

type abreast struct {
	trace   *reader.Trace
	reached func(uint64)
}

func (s abreast) Each(_ int, fn func(int, *reader.Block) error) error {
	return s.trace.EachAbreast(func(b *reader.Block) error { return fn(0, b) }, s.reached)
}

// Code has information about calls from the machine code of a program. The zero value has none.
type Code struct {
	// Continue, if not nil, reports whether a function may end with a tail call of another one
	// that is recorded. If that is entered next, it is inside the call that it continues, which
	// ends with it. Otherwise a tail exit ends its call. Functions are those before Alias.
	// Continue is called concurrently unless Shards is 1.
	Continue func(from, to reader.FuncID) bool
	// CanCall, if not nil, reports whether a call of one function can be entered while a call of
	// another is innermost. If it cannot, an exception or longjmp that the recorder did not note
	// left all calls inside the innermost one that can make the entry. They end as Left at that
	// entry. Functions are those before Alias. CanCall is called concurrently unless Shards is 1.
	CanCall func(from, to reader.FuncID) bool
	// CanReach, if not nil, reports whether a call of one function can be entered while a call of
	// another is open, through calls that the trace does not have. If that holds for no open call,
	// all were left, and the entry is in a call that began before the trace.
	CanReach func(from, to reader.FuncID) bool
}

// Options of [Run]. The zero value is usable.
type Options struct {
	// Shards is the number of goroutines that share the threads of the trace. 0 means
	// GOMAXPROCS. No result depends on it.
	Shards int
	// Paths keeps the tree of call paths and sets Call.Path.
	Paths bool
	// Roots, if not nil, says where call paths begin: a call outside of all calls of these
	// functions has path 0. It is called once for each function and shard, concurrently.
	Roots func(reader.FuncID) bool
	// RootDepth makes paths begin at the RootDepth'th of nested calls of Roots instead of at the
	// outermost. 0 counts as 1, and EveryRoot makes them begin at each call of Roots, also inside others.
	RootDepth int
	// Budget limits the tree of call paths. nil is no limit.
	Budget *PathBudget
	// Memory limits the memory of a run in bytes: what all sinks that implement [MemoryUser] hold, and
	// the stacks of open calls. Beyond it, Run returns a [*MemoryError]. 0 means no limit.
	Memory int64
	// Nested sets Call.Nested.
	Nested bool
	// Opens sets Batch.Opens. Filter.MinDuration must be 0 then, because the duration of a
	// call is unknown at its entry.
	Opens bool
	// Unopened has functions, by ID, whose entries may be missing in Batch.Opens. An entry is never
	// missing after a call that ended by its tail exit, if no other call ends between. It must not change.
	Unopened []bool
	// OffCPU, if not nil, sets Batch.Waits and Batch.Gaps. It is the clock of the trace,
	// which converts the kernel's times.
	OffCPU *reader.Clock
	// Interrupts, if not nil, returns when interrupts ran on the CPU of a thread, in its
	// place. Stretches are disjoint, in the order of time, and must not change. With OffCPU, they
	// are in Batch.Waits. It is called concurrently unless Shards is 1.
	Interrupts func(reader.Thread) []Stretch
	// Alias, if not nil, replaces each function before entries and exits are matched. It is
	// called concurrently unless Shards is 1.
	Alias func(reader.FuncID) reader.FuncID
	Code
	// Short is a duration in ticks. Stats.Short reports whether any call is shorter.
	Short uint64
	// Filter drops calls before they reach the sinks.
	Filter Filter
	// Policy is for unmatched exits.
	Policy Policy
	// Unmatched, if not nil, is called for every exit that matches no open call. An error
	// ends the run. It is called concurrently unless Shards is 1.
	Unmatched func(*Unmatched) error

	// anyOrder allows threads to end when they have no more records, before others. Without
	// it, the last batches of all threads come at the end.
	anyOrder bool
	// fiber is that of the source, or nil.
	fiber func(reader.Thread, uint32) (reader.Thread, int, error)
	// cuts are the moments at which the recorder gave up open calls of functions, by file, or nil.
	cuts cutsByFile
}

// EveryRoot is an [Options.RootDepth].
const EveryRoot = -1

// Policy is the effect of an exit that is not of the innermost open call.
type Policy uint8

const (
	// Deduce searches the open calls from the innermost outwards for the function that
	// exits. The calls inside it end as Inferred. If there is no such call, the exit is
	// unmatched, and changes nothing.
	Deduce Policy = iota
	// Exact takes every exit that is not of the innermost open call as unmatched. This is
	// what llvm-xray does without -d.
	Exact
	// DeduceOrClear is Deduce, but an unmatched exit ends all open calls as Inferred. This
	// is what `llvm-xray stack` does.
	DeduceOrClear
)

// Unmatched is an exit that matches no open call. It is valid until the function that it
// was passed to returns.
type Unmatched struct {
	Thread reader.Thread
	Event  reader.Event
	stack  *stack
}

// Open returns the functions of the open calls, the outermost first.
func (u *Unmatched) Open() []reader.FuncID {
	open := make([]reader.FuncID, u.stack.depth)
	for i := range open {
		open[i] = u.stack.at(i + 1).fn()
	}
	return open
}

// Stats counts the events and calls of a run. Every event is an entry, an exit or another
// event. Every entry became one call.
type Stats struct {
	Events    uint64 // records with a time, of all kinds
	Entries   uint64
	Exits     uint64 // of which Unmatched and Before matched no open call
	Custom    uint64 // custom and typed events
	Args      uint64 // logged arguments
	Calls     uint64 // that ended, independent of the filter
	Inferred  uint64 // of Calls
	Truncated uint64 // of Calls
	Left      uint64 // of Calls
	Unmatched uint64
	// Cut is how many of Truncated were open when a window of the recording, or the time of the filter,
	// ended. Before counts
	// exits of calls that were open when one began, which are not Unmatched.
	Cut, Before uint64
	// Earlier is how many of Calls began before the trace or before the time of the filter.
	Earlier uint64
	// ClockSteps is how often the clock of a thread went backwards, and ClockBack by how
	// many ticks in total.
	ClockSteps uint64
	ClockBack  uint64
	// Short reports that a call with an exit record was shorter than Options.Short,
	// independent of the filter.
	Short bool
	// Folded is the number of calls selected by the filter that have folded paths (see
	// [PathBudget]), and FoldedSelf their self time. FoldedInProfile is the number of those
	// whose paths the recorder folded.
	Folded          uint64
	FoldedSelf      uint64
	FoldedInProfile uint64
	// Stacks counts the events that say that a thread switches to another stack. Calls of the stacks of a
	// thread are mixed then: some have the wrong callers, and end too early or too late.
	Stacks   uint64
	MaxDepth uint32
	// Pile and OpenPile are the largest sets of nested calls of one function without exit
	// records: those that one exit ended as Inferred, and those that were Truncated at the
	// end of a thread. Without exit records, deep recursion looks the same as calls that
	// were left without the recorder seeing it.
	Pile, OpenPile Pile
	// Off sums up the off-CPU times, if Options.OffCPU is set.
	Off OffStats
	// First and Last are the smallest and largest timestamps, if Events is not 0.
	First, Last uint64
	Threads     int
}

// span extends First and Last.
func (s *Stats) span(tsc uint64) {
	s.First, s.Last = min(s.First, tsc), max(s.Last, tsc)
}

func (s *Stats) merge(o *Stats) {
	if o.Events > 0 {
		if s.Events == 0 {
			s.First, s.Last = o.First, o.Last
		}
		s.First, s.Last = min(s.First, o.First), max(s.Last, o.Last)
	}
	s.Events += o.Events
	s.Entries += o.Entries
	s.Exits += o.Exits
	s.Custom += o.Custom
	s.Args += o.Args
	s.Calls += o.Calls
	s.Inferred += o.Inferred
	s.Truncated += o.Truncated
	s.Left += o.Left
	s.Unmatched += o.Unmatched
	s.Cut += o.Cut
	s.Before += o.Before
	s.Earlier += o.Earlier
	s.ClockSteps += o.ClockSteps
	s.ClockBack += o.ClockBack
	s.Short = s.Short || o.Short
	s.Folded += o.Folded
	s.FoldedInProfile += o.FoldedInProfile
	s.Stacks += o.Stacks
	s.FoldedSelf = addSaturating(s.FoldedSelf, o.FoldedSelf)
	s.MaxDepth = max(s.MaxDepth, o.MaxDepth)
	s.Pile.take(o.Pile)
	s.OpenPile.take(o.OpenPile)
	s.Threads += o.Threads
	s.Off.merge(&o.Off)
}

// Run rebuilds the calls of src and feeds them to one sink per shard. newSink makes the
// sinks before the pass begins, and is not called concurrently. Run returns the sinks
// merged into the first. With Shards = 1, calls arrive in the order of Source.Each on one
// goroutine. Otherwise, only the order within a thread is defined.
//
// With a budget or a limit of memory, Run may read the source several times, and make sinks
// again.
func Run[S Analysis[S]](src Source, opts Options, newSink func() S) (S, *Stats, error) {
	if opts.Shards <= 0 {
		opts.Shards, opts.anyOrder = runtime.GOMAXPROCS(0), true
	}
	opts.fiber = fibersOf(src)
	if opts.cuts = cutsOf(src); opts.cuts != nil {
		opts.Code = Code{Continue: opts.Continue}
	}
	if opts.Paths && opts.Budget != nil {
		return runBudget(src, opts, newSink)
	}
	return runLimited(src, opts, 0, newSink)
}

// pass is one pass of Run. It ends with errPathBudget if there are more paths, unless paths is
// 0, and with a MemoryError if the shards hold more than Options.Memory.
func pass[S Analysis[S]](src Source, opts *Options, paths int, newSink func() S) (S, *Stats, error) {
	limit := &limits{paths: share{most: int64(paths)}, memory: share{most: opts.Memory}}
	sinks := make([]S, opts.Shards)
	shards := make([]*shard, opts.Shards)
	for i := range shards {
		sinks[i] = newSink()
		shards[i] = newShard(opts, limit, sinks[i])
	}
	err := each(src)(opts.Shards, func(i int, b *reader.Block) error {
		if err := shards[i].block(b); err != nil {
			return err
		}
		return limit.check(shards[i])
	})
	if err == nil {
		err = limit.err()
	}
	if err != nil {
		return sinks[0], nil, err
	}
	stats := &Stats{}
	for i, sh := range shards {
		if err := sh.finish(); err != nil {
			return sinks[0], nil, err
		}
		stats.merge(&sh.stats)
		if i > 0 {
			sinks[0].Merge(sinks[i])
		}
	}
	return sinks[0], stats, nil
}

// each returns the fastest way to read a source.
func each(src Source) func(int, func(int, *reader.Block) error) error {
	if p, ok := src.(packedSource); ok {
		return p.EachPacked
	}
	return src.Each
}
