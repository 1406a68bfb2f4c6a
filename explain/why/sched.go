package why

import (
	"cmp"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Instead is a task that ran while slow calls waited for a processor, or an interrupt that ran in
// them.
type Instead struct {
	Task  reader.Task
	Share float64 // of the time in the run queue for which the running task is known, or of interrupts
}

// scheduled returns the scheduler's data about a thread, or nil.
func (e *explainer) scheduled(t reader.Thread) *sched.Thread {
	if int(t.File) >= len(e.opts.Sched) || e.opts.Sched[t.File] == nil {
		return nil
	}
	return e.opts.Sched[t.File].Thread(t.Thread)
}

// instead returns the tasks that ran while slow calls were in the run queue, the longest
// first.
func (e *explainer) instead(slow []rootCall) []Instead {
	ran := make(map[reader.Task]uint64)
	for i := range slow {
		v := &slow[i]
		t := e.scheduled(v.id)
		for _, o := range t.Off(v.start, v.start+v.duration) {
			if o.Doubtful {
				continue
			}
			for _, r := range t.Instead(&o, v.start, v.start+v.duration) {
				if r.Task.TID > 0 {
					ran[r.Task] += r.To - r.From
				}
			}
		}
	}
	return shares(ran)
}

// interruptedBy returns the interrupts that ran in slow calls, the longest first.
func (e *explainer) interruptedBy(slow []rootCall) []Instead {
	ran := make(map[reader.Task]uint64)
	for i := range slow {
		v := &slow[i]
		from, to := v.start, v.start+v.duration
		for _, in := range e.scheduled(v.id).Interrupts(from, to) {
			if in.From >= from && in.To <= to {
				ran[in.Source] += in.Self
			}
		}
	}
	return shares(ran)
}

// shares orders tasks by their time, and omits all but the first maxInstead.
func shares(ran map[reader.Task]uint64) (list []Instead) {
	all := uint64(0)
	for _, ticks := range ran {
		all += ticks
	}
	for task, ticks := range ran {
		list = append(list, Instead{task, float64(ticks) / float64(max(1, all))})
	}
	slices.SortFunc(list, func(a, b Instead) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Task.PID, b.Task.PID),
			cmp.Compare(a.Task.TID, b.Task.TID), cmp.Compare(a.Task.Name, b.Task.Name))
	})
	return list[:min(len(list), maxInstead)]
}

// maxInstead is the maximum number of tasks in a report.
const maxInstead = 10

// wakeUp is a gap that ended because another thread of the process woke the waiting thread, and the thread that
// the waiting thread waited for: the one that woke it, or if that one had been blocked itself for most of the
// time, the one that woke that, and so on.
type wakeUp struct {
	gap      int // index in the gaps
	from, to uint64
	thread   int32
	file     int32
	// waker is the thread that woke the waiting thread, and woken when.
	waker int32
	woken uint64
	// blocked and queued are the ticks between from and to in which the thread was blocked, and waited for a CPU.
	blocked, queued uint64
}

// wakers is the pass that finds what threads did that others waited for.
type wakers struct {
	list    []wakeUp // by file, thread and time
	longest uint64   // time until a wake-up
	did     []didFor // by index in list
	role    func(reader.FuncID) Role
}

func newWakers(list []wakeUp, role func(reader.FuncID) Role) *wakers {
	w := &wakers{list: list, did: make([]didFor, len(list)), role: role}
	for i := range list {
		w.longest = max(w.longest, list[i].to-list[i].from)
	}
	return w
}

// didFor is what a thread did until a wake-up.
type didFor struct {
	last         reader.FuncID // the innermost function with the role Runs that was open at the wake-up
	depth        uint32        // of last
	self, around reader.FuncID // the innermost such call that was open for most of the time, and the next one around it
	inner, outer uint32        // their depths
}

// wakeUps finds the gaps that end because another thread of the process woke the thread.
func (e *explainer) wakeUps(gaps []gap, ids map[int]reader.Thread) (list []wakeUp) {
	for i, g := range gaps {
		id := ids[g.thread]
		t := e.scheduled(id)
		if t == nil {
			continue
		}
		for _, o := range t.Off(g.start, g.end) {
			if o.Woken <= g.end+(g.end-g.start)/10 && e.wakerOf(id.File, &o, g.start) {
				list = append(list, e.chain(wakeUp{gap: i, from: g.start, to: o.Woken, thread: o.Waker.TID, waker: o.Waker.TID, woken: o.Woken, file: id.File}))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b wakeUp) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.thread, b.thread), cmp.Compare(a.to, b.to))
	})
	return list
}

// wakerOf reports whether a thread of the program woke the thread after from.
func (e *explainer) wakerOf(file int32, o *sched.Off, from uint64) bool {
	return !o.Doubtful && !o.Interrupt && !o.SoftIRQ && o.Woken > from && o.Waker.TID > 0 &&
		e.opts.Sched[file].Thread(o.Waker.TID) != nil
}

// longestChain is the maximum number of threads that wait for each other.
const longestChain = 8

// chain follows a wake-up to the thread that was not itself woken by another thread of the program after it had
// been blocked for most of the time.
func (e *explainer) chain(w wakeUp) wakeUp {
	for range longestChain {
		next := w
		w.blocked, w.queued = 0, 0
		for _, o := range e.opts.Sched[w.file].Thread(w.thread).Off(w.from, w.to) {
			out, in := max(o.Out, w.from), o.In
			if in == 0 || in > w.to {
				in = w.to
			}
			ready := min(max(out, o.Ready()), in)
			if o.Ready() == 0 {
				ready = in
			}
			w.blocked += ready - out
			w.queued += in - ready
			if 2*(ready-out) > w.to-w.from && e.wakerOf(w.file, &o, w.from) && o.Waker.TID != w.thread {
				next.thread, next.to = o.Waker.TID, min(o.Woken, w.to)
			}
		}
		if next.thread == w.thread {
			return w
		}
		w = next
	}
	return w
}

func (w *wakers) Calls(b *calls.Batch) error {
	of := func(x *wakeUp) int {
		return cmp.Or(cmp.Compare(x.file, b.Thread.File), cmp.Compare(x.thread, b.Thread.Thread))
	}
	from := sort.Search(len(w.list), func(i int) bool { return of(&w.list[i]) >= 0 })
	to := from + sort.Search(len(w.list)-from, func(i int) bool { return of(&w.list[from+i]) > 0 })
	if from == to {
		return nil
	}
	mine := w.list[from:to]
	for i := range b.Calls {
		c := &b.Calls[i]
		end := c.Start + c.Duration
		at := sort.Search(len(mine), func(i int) bool { return mine[i].to >= c.Start })
		for ; at < len(mine) && mine[at].to-min(mine[at].to, end) <= w.longest; at++ {
			if x := &mine[at]; x.from <= end && w.role(c.Func) == Runs {
				w.did[from+at].note(c, x)
			}
		}
	}
	return nil
}

// note takes a call that overlaps the time until a wake-up.
func (d *didFor) note(c *calls.Call, w *wakeUp) {
	end := c.Start + c.Duration
	if end >= w.to && (d.last == 0 || c.Depth > d.depth) {
		d.last, d.depth = c.Func, c.Depth
	}
	// A call that lasts much longer, such as a thread's main loop, says nothing.
	whole := w.to - w.from
	if overlap := min(end, w.to) - min(max(c.Start, w.from), min(end, w.to)); 2*overlap <= whole || c.Duration > 10*whole {
		return
	}
	switch {
	case d.self == 0 || c.Depth > d.inner:
		d.around, d.outer = d.self, d.inner
		d.self, d.inner = c.Func, c.Depth
	case d.around == 0 || c.Depth > d.outer:
		d.around, d.outer = c.Func, c.Depth
	}
}

// Merge adds what other found. All calls of a thread are in one of them.
func (w *wakers) Merge(other *wakers) {
	for i, d := range other.did {
		if d.last != 0 || d.self != 0 {
			w.did[i] = d
		}
	}
}

// holder returns what threads did whose wake-ups ended most of the time that a cause lost. It
// returns nil if that is less than 30 %. A function in which threads wait for the cause counts only if a thread
// was in it for most of the time: no thread of the program kept that one waiting, see chain.
func (w *wakers) holder(cause int, gaps []gap, waits map[reader.FuncID]bool) *Holder {
	var total uint64
	for _, g := range gaps {
		if g.cause == cause && g.copy == 0 {
			total += g.end - g.start
		}
	}
	type scope struct{ self, around reader.FuncID }
	ended := make(map[scope]uint64)
	sums := make(map[scope]*[3]uint64) // the time until wake-ups, and how much of it the thread was blocked and queued
	for i := range w.did {
		d, x := &w.did[i], &w.list[i]
		g := &gaps[x.gap]
		s := scope{d.self, d.around}
		switch {
		case d.self == 0 && waits[d.last]:
			continue
		case d.self == 0:
			s = scope{d.last, d.last}
		case d.around == 0 || waits[d.self]:
			s.around = d.self
		}
		if g.cause != cause || g.copy != 0 || s.self == 0 {
			continue
		}
		ended[s] += g.end - g.start
		if sums[s] == nil {
			sums[s] = new([3]uint64)
		}
		sums[s][0] += x.to - x.from
		sums[s][1] += x.blocked
		sums[s][2] += x.queued
	}
	var best scope
	var most uint64
	for s, ticks := range ended {
		if ticks > most || ticks == most && cmp.Or(cmp.Compare(s.self, best.self), cmp.Compare(s.around, best.around)) < 0 {
			best, most = s, ticks
		}
	}
	if most == 0 || 10*most < 3*total {
		return nil
	}
	of := float64(max(1, sums[best][0]))
	return &Holder{
		Evidence: ByWaking, Self: best.self, Scope: best.around, Covered: min(1, float64(most)/float64(total)), Ends: true,
		Blocked: min(1, float64(sums[best][1])/of), Queued: min(1, float64(sums[best][2])/of),
	}
}
