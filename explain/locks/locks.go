// Package locks analyzes the calls of lock functions: which threads waited for which lock,
// which threads held it at that time, and in which order locks are taken.
//
// [Analyze] makes two passes over a trace: the first finds the functions in its records, the second
// visits the calls of all threads in time order. If there are more call paths than the limit, two
// more passes decide which paths to keep, and visit the calls again.
//
// # Terms
//
// A lock is an address, in one process, that lock functions log as their first argument. If they log
// none, all calls of a lock function in a process count as one lock.
//
// A wait is a call of a lock function. If lock functions call each other, the innermost one
// that logs its argument counts. If none does, the outermost counts. A lock function that
// leaves through a tail call waits until the next event of its thread. If that is the call of a
// function that logs its argument, that one counts.
//
// A lock function whose recorded result is not 0 did not take the lock.
//
// A hold lasts from the end of a wait to the end of the call that releases the lock. If no
// unlock function of the same class is ever called, it lasts to the end of the function
// that called the lock function; constructors are skipped. While a thread waits for a
// condition, it does not hold the lock that it took last. A recorder with a budget may leave out
// the call that releases a lock. So holds are unknown while calls of the class may be missing.
//
// A convoy is a time in which at least two threads wait for a lock.
package locks

import (
	"maps"
	"runtime"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Role is the effect of a function on locks.
type Role uint8

const (
	None      Role = iota
	Lock           // waits for a lock, and has it when it returns
	TryLock        // may have a lock when it returns
	Unlock         // releases a lock
	Condition      // releases a lock while it waits, and has it again when it returns
)

// Function describes a function.
type Function struct {
	Role   Role
	Shared bool // Lock and TryLock: several holders may share the lock
	// Class is the same for all functions of the same locks, such as the methods of a class.
	Class string
	// Constructor says that a hold continues after the function returns.
	Constructor bool
	// OfLock says that the first logged argument of a Condition function is the lock that it
	// releases. Otherwise it releases the lock that the thread took last.
	OfLock bool
	// Libc says that it is a function of the C library. If one is called in a function whose name
	// only looks like a Condition, that one counts.
	Libc bool
	// Unheld says that no thread holds what a Lock function waits for, for example a semaphore.
	Unheld bool
}

// Options of [Analyze].
type Options struct {
	// Function describes functions. It is called once for each.
	Function func(reader.FuncID) Function
	// Thread, and From and To if it is not 0, select waits, holds and convoys by thread and
	// by start, in ticks. Other threads still count as holders. Thread is called once for
	// each thread. nil selects all threads.
	Thread   func(reader.Thread) bool
	From, To uint64
	Clock    reader.Clock
	// Processes has for each file the number of the first file of the same process. nil means that
	// each file is of another process.
	Processes []int
	// Short is calls.Options.Short.
	Short uint64
	// Shards is the number of goroutines that decode. 0 means GOMAXPROCS. No result depends
	// on it.
	Shards int
	// Limit is the maximum number of locks that are kept apart. 0 means DefaultLimit. All
	// other locks of a function count as one.
	Limit int
	// MaxPaths limits the call paths, see calls.PathBudget. 0 means no limit. The locks and
	// times of calls do not depend on it.
	MaxPaths int
	// Memory, Unmatched and Code are as in calls.Options.
	Memory    int64
	Unmatched func(*calls.Unmatched) error
	calls.Code
	// Wakers are the scheduler events of the trace. With them, the thread that ended the sleep
	// of a waiter counts as the holder if no hold is recorded. May be nil.
	Wakers *sched.Logs
	// Waited, if not nil, is called for each selected wait when it ends. The report then lacks
	// holds and the order of locks. If call paths have to be folded, all waits come once more.
	// Begin, if not nil, is called before they come.
	Waited func(*Wait)
	Begin  func()
	// Alone says that the trace has a single thread. Then no other one holds a lock, so with Waited, only waits that
	// begin when Matters says so are followed.
	Alone   bool
	Matters func(tsc uint64) bool
	// Found, if not nil, are the functions of the trace.
	Found *Finder
}

// defaultLimit is the default of Options.Limit.
const defaultLimit = 10_000

// Analyze analyzes the locks of a trace. Memory grows with locks, call paths to them, and
// open calls, not with the trace's length. Errors are those of reading the trace.
func Analyze(t *reader.Trace, opts Options) (*Report, *calls.Stats, error) {
	if opts.Shards <= 0 {
		opts.Shards = runtime.GOMAXPROCS(0)
	}
	if opts.Limit <= 0 {
		opts.Limit = defaultLimit
	}
	found := opts.Found
	if found == nil {
		var err error
		if found, err = find(t, opts.Shards); err != nil {
			return nil, nil, err
		}
	}
	functions := make(map[reader.FuncID]Function)
	for fn := range found.all() {
		functions[fn] = opts.Function(fn)
	}
	opts.Function = func(fn reader.FuncID) Function { return functions[fn] }
	// If call paths have to be folded, the last pass runs again.
	var r *recognizer
	begin := func() *recognizer {
		s := newSweep(&opts, found)
		s.findHoles(t)
		r = &recognizer{sweep: s}
		s.woke = r.wokeIn
		if opts.Begin != nil {
			opts.Begin()
		}
		return r
	}
	run := calls.Options{Shards: opts.Shards, Unmatched: opts.Unmatched, Code: opts.Code, Short: opts.Short, Memory: opts.Memory}
	if begin(); !r.any(Lock, TryLock) {
		_, stats, err := calls.Run(calls.Source(t), run, calls.NewDiscard)
		if err != nil {
			return nil, nil, err
		}
		r.first = stats.First
		return r.report(), stats, nil
	}
	run.Shards, run.Paths, run.Opens, run.Unopened = 1, true, true, r.unopened()
	if opts.MaxPaths > 0 {
		run.Budget = calls.NewPathBudget(opts.MaxPaths)
	}
	_, stats, err := calls.Run(calls.Abreast(t, func(tsc uint64) { r.sweepTo(tsc) }), run, begin)
	if err != nil {
		return nil, nil, err
	}
	r.first, r.last = stats.First, stats.Last
	r.finish()
	r.end()
	return r.report(), stats, nil
}

// find collects the functions that are entered, which takes a fraction of the time of matching calls.
func find(t *reader.Trace, shards int) (*Finder, error) {
	found := make([]*Finder, shards)
	for i := range found {
		found[i] = NewFinder()
	}
	err := t.EachPacked(shards, func(i int, b *reader.Block) error {
		b.Functions(found[i].seen[:], found[i].add)
		return nil
	})
	for _, f := range found[1:] {
		found[0].Merge(f)
	}
	return found[0], err
}

// Finder collects the functions that are called.
type Finder struct {
	seen  [smallIDs]bool         // those with small IDs
	funcs map[reader.FuncID]bool // others
}

// NewFinder returns an empty Finder.
func NewFinder() *Finder { return &Finder{funcs: make(map[reader.FuncID]bool)} }

// Calls implements calls.Sink.
func (f *Finder) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		fn := b.Calls[i].Func
		if uint32(fn) < uint32(len(f.seen)) {
			f.seen[fn] = true
		} else {
			f.add(fn)
		}
	}
	return nil
}

func (f *Finder) add(fn reader.FuncID) { f.funcs[fn] = true }

// all returns all functions.
func (f *Finder) all() map[reader.FuncID]bool {
	for fn, seen := range f.seen {
		if seen {
			f.add(reader.FuncID(fn))
		}
	}
	return f.funcs
}

// Merge implements calls.Analysis.
func (f *Finder) Merge(o *Finder) { maps.Copy(f.funcs, o.all()) }
