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

// wakeUp is the end of a gap at which another thread of the process woke the waiting thread.
type wakeUp struct {
	gap    int // index in the gaps
	tsc    uint64
	thread int32
	file   int32
}

// wakers is the pass that finds which functions threads had open when they woke others.
type wakers struct {
	list []wakeUp // by file, thread and time
	open []openAt // by index in list
	role func(reader.FuncID) Role
}

// openAt is the innermost function with the role Runs that was open at a wake-up.
type openAt struct {
	fn    reader.FuncID
	depth uint32
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
			woken := !o.Doubtful && !o.Interrupt && !o.SoftIRQ && o.Woken > g.start && o.Waker.TID > 0
			if woken && o.Woken <= g.end+(g.end-g.start)/10 && e.opts.Sched[id.File].Thread(o.Waker.TID) != nil {
				list = append(list, wakeUp{i, o.Woken, o.Waker.TID, id.File})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b wakeUp) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.thread, b.thread), cmp.Compare(a.tsc, b.tsc))
	})
	return list
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
		at := sort.Search(len(mine), func(i int) bool { return mine[i].tsc >= c.Start })
		for ; at < len(mine) && mine[at].tsc <= c.Start+c.Duration; at++ {
			if o := &w.open[from+at]; (o.fn == 0 || c.Depth > o.depth) && w.role(c.Func) == Runs {
				*o = openAt{c.Func, c.Depth}
			}
		}
	}
	return nil
}

func (w *wakers) Merge(other *wakers) {
	for i, o := range other.open {
		if mine := &w.open[i]; mine.fn == 0 || o.fn != 0 && o.depth > mine.depth {
			*mine = o
		}
	}
}

// holder returns the function whose wake-ups ended most of the time that a cause lost. It
// returns nil if that is less than 30 %.
func (w *wakers) holder(cause int, gaps []gap) *Holder {
	var total uint64
	for _, g := range gaps {
		if g.cause == cause && g.copy == 0 {
			total += g.end - g.start
		}
	}
	ended := make(map[reader.FuncID]uint64)
	for i, o := range w.open {
		if g := &gaps[w.list[i].gap]; g.cause == cause && g.copy == 0 && o.fn != 0 {
			ended[o.fn] += g.end - g.start
		}
	}
	best, most := longest(ended)
	if most == 0 || 10*most < 3*total {
		return nil
	}
	return &Holder{Evidence: ByWaking, Self: best, Scope: best, Covered: min(1, float64(most)/float64(total)), Ends: true}
}
