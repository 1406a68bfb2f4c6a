package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Report describes the locks of a trace. Times are in ticks.
type Report struct {
	Clock reader.Clock
	First uint64 // TSC to which times are relative
	// Locks are ordered by the time spent waiting for them, the longest first.
	Locks []LockReport
	// Edges are ordered by frequency, the most frequent first.
	Edges []Edge
	// Cycles are locks that were taken in an order that can deadlock.
	Cycles []Cycle
	// Stuck are the threads that wait at the end of the trace, by time.
	Stuck []Open

	NoFunctions bool   // no lock function is called
	Dropped     bool   // there are more locks than Options.Limit
	Gaps        uint64 // holds without a recorded end: they end when the lock is taken again, or do not count
	Orphans     uint64 // calls of unlock functions for locks without a recorded holder
	Handed      uint64 // locks released by a thread other than the one that took them

	// Wakers says that the trace has scheduler events. Woken counts the waits with time
	// charged to the thread that woke the waiter, and that time. This happens if no hold of
	// another thread is recorded, or if the record is wrong.
	Wakers bool
	Woken  struct{ Count, Ticks uint64 }
}

// LockReport describes one lock.
type LockReport struct {
	Address uint64 // 0 unless Logged
	Logged  bool   // the lock is identified by its address
	// First is the call path of the first function that took it, or nil.
	First []reader.FuncID
	// Process is the process, in its first file.
	Process reader.Thread
	Func    reader.FuncID // the lock function that took it first
	Waits   Times         // one for each acquisition by a lock function
	// Queuing is the part of the waits in which the thread could run and waited for a
	// processor; only if Report.Wakers.
	Queuing quantile.Sum
	Tries   uint64 // acquisitions by TryLock functions, as far as unlocks show them
	Holds   Times
	// Contended is the number of waits that took more than a microsecond and more than 5 times
	// the median wait for a free lock.
	Contended uint64
	// WaitPaths and HoldPaths are the call paths that wanted the lock, the longest sums
	// first.
	WaitPaths, HoldPaths []PathReport
	// Longest is the longest hold; only if Holds.Count is not 0.
	Longest Stay
	// Convoys are the longest ones of at least a microsecond. Queued is their number and
	// total duration.
	Convoys []Convoy
	Queued  struct{ Count, Ticks uint64 }
	// Blame is the waits by the path that waited and the path that held, the longest first.
	Blame []Blame
}

// Free is the time that threads waited without a recorded holder.
func (l *LockReport) Free() quantile.Sum {
	free := l.Waits.Sum
	for _, b := range l.Blame {
		free = free.Minus(quantile.NewSum(b.Ticks))
	}
	return free
}

// Times are durations.
type Times struct {
	Count         uint64
	Sum           quantile.Sum
	P50, P99, Max uint64
	Approximate   bool // P50 and P99 are off by at most quantile.RelativeError
}

// PathReport describes the waits or holds of one call path.
type PathReport struct {
	Path                  []reader.FuncID // from the outermost call on; empty outside of all calls
	Count, Ticks, Longest uint64
	// Self is the time of holds spent in functions called during the hold, the longest first. The rest was spent in the last function of Path. If there are more than 64,
	// reader.Folded stands for the others.
	Self []SelfReport
}

// SelfReport is time in a function itself.
type SelfReport struct {
	Func  reader.FuncID
	Ticks uint64
}

// Stay is a hold.
type Stay struct {
	Thread       reader.Thread
	Start, Ticks uint64
	Path         []reader.FuncID

	path calls.PathID
}

// Convoy is a time in which at least two threads wait.
type Convoy struct {
	Start, Ticks uint64
	Waits        int // that were part of it
	Most         int // at a time
	// First is the thread that was waiting when it began, and Holder the thread that it
	// waited for, if Held.
	First, Holder reader.Thread
	Held          bool
	Path          []reader.FuncID // of the hold

	holder calls.PathID
}

// Blame is the time that a path waited while another path held the lock.
type Blame struct {
	Waiter, Holder []reader.FuncID
	Ticks          uint64
	ByWaker        uint64 // part of Ticks for which the holder is known only because it woke the waiter
}

// Open is a wait that lasts until the end of the trace.
type Open struct {
	Thread reader.Thread
	Start  uint64
	Lock   int // place in Report.Locks
	Path   []reader.FuncID
	// Holder has the lock at the end of the trace, if Held.
	Holder     reader.Thread
	Held       bool
	HolderPath []reader.FuncID

	lock         *lock
	path, holder calls.PathID
}

// microsecond returns a microsecond in ticks, or 1000 if the frequency is unknown.
func (o *Options) microsecond() uint64 {
	if !o.Clock.Known() {
		return 1000
	}
	return max(1, o.Clock.Frequency/1_000_000)
}

// report makes the report.
func (s *sweep) report() *Report {
	r := &Report{
		Clock: s.opts.Clock, First: s.first, Dropped: s.dropped, Gaps: s.gaps, Orphans: s.orphan, Handed: s.handed,
		NoFunctions: !s.any(Lock, TryLock), Wakers: s.opts.Wakers != nil,
	}
	r.Woken.Count, r.Woken.Ticks = s.byWaker.count, s.byWaker.ticks
	list := slices.DeleteFunc(s.list, func(l *lock) bool { return !l.used })
	sums := make(map[*lock]quantile.Sum)
	for _, l := range list {
		sums[l] = l.waits.Sum()
	}
	slices.SortStableFunc(list, func(a, b *lock) int {
		return cmp.Or(sums[b].Compare(sums[a]), cmp.Compare(b.waits.Count(), a.waits.Count()), cmp.Compare(a.process.file, b.process.file), cmp.Compare(a.process.id, b.process.id), cmp.Compare(a.addr, b.addr), cmp.Compare(a.fn, b.fn))
	})
	for i, l := range list {
		l.number = i
		r.Locks = append(r.Locks, s.lockReport(l))
	}
	for i := range s.stuck {
		o := &s.stuck[i]
		o.Lock, o.Path, o.HolderPath = o.lock.number, s.frames(o.path), s.frames(o.holder)
	}
	r.Stuck = s.stuck
	slices.SortStableFunc(r.Stuck, func(a, b Open) int { return cmp.Compare(a.Start, b.Start) })
	r.Edges = s.edgeList()
	r.Cycles = cycles(r.Edges, len(r.Locks))
	return r
}

func (s *sweep) lockReport(l *lock) LockReport {
	out := LockReport{
		Address: l.addr, Logged: l.logged, First: s.frames(l.first), Process: reader.Thread{File: l.process.file, Process: l.process.id}, Func: l.fn, Tries: l.tries, Waits: times(&l.waits), Holds: times(&l.holds),
		Contended: s.contended(l), WaitPaths: s.pathReports(l.waitPaths), HoldPaths: s.pathReports(l.holdPaths),
		Longest: l.longest, Convoys: l.convoys, Queuing: l.queuing,
	}
	out.Queued.Count, out.Queued.Ticks = l.queued.count, l.queued.ticks
	out.Longest.Path = s.frames(l.longest.path)
	for i := range out.Convoys {
		out.Convoys[i].Path = s.frames(out.Convoys[i].holder)
	}
	for p, c := range l.blame {
		out.Blame = append(out.Blame, Blame{s.frames(p.waiter), s.frames(p.holder), c.ticks, c.byWaker})
	}
	slices.SortFunc(out.Blame, func(a, b Blame) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), slices.Compare(a.Waiter, b.Waiter), slices.Compare(a.Holder, b.Holder))
	})
	return out
}

// contended counts the waits that were longer than an uncontended lock takes.
func (s *sweep) contended(l *lock) (n uint64) {
	least := s.opts.microsecond()
	if free := s.free[l.fn]; free != nil {
		least = max(least, 5*free.Quantile(0.5))
	}
	for v, count := range l.waits.All() {
		if v > least {
			n += count
		}
	}
	return n
}

func times(sample *quantile.Sample) Times {
	t := Times{Count: sample.Count(), Sum: sample.Sum()}
	if t.Count > 0 {
		t.P50, t.P99, t.Max, t.Approximate = sample.Quantile(0.5), sample.Quantile(0.99), sample.Max(), sample.Approximate()
	}
	return t
}

func (s *sweep) frames(path calls.PathID) []reader.FuncID {
	if path == 0 {
		return nil
	}
	return s.paths.Frames(nil, path)
}

func (s *sweep) pathReports(sums map[calls.PathID]*pathSum) []PathReport {
	var list []PathReport
	for path, sum := range sums {
		p := PathReport{Path: s.frames(path), Count: sum.count, Ticks: sum.ticks, Longest: sum.longest}
		for _, s := range sum.self {
			p.Self = append(p.Self, SelfReport{s.fn, s.ticks})
		}
		slices.SortStableFunc(p.Self, func(a, b SelfReport) int { return cmp.Compare(b.Ticks, a.Ticks) })
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b PathReport) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(b.Count, a.Count), slices.Compare(a.Path, b.Path))
	})
	return list
}
