// Package sched answers questions from a trace's scheduler events: when and why a thread was
// off CPU, what ran instead, what woke it, and in which calls the wakers were.
//
// Package kernel below it collects the events from the kernel.
package sched

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Log is the scheduler events of one process, in the order of time. It must not be changed.
// All methods are safe for concurrent use.
type Log struct {
	PID     int32 // of the process
	sched   *reader.Sched
	events  []reader.SchedEvent
	threads map[int32]*Thread
	cpus    [][]uint32  // switches of each CPU: positions in events
	lossy   [][2]uint64 // stretches with lost events, disjoint, in the order of time
}

// Thread is a thread of the process.
type Thread struct {
	TID int32
	log *Log
	off []Off
	// interrupts are in the order of time, the outer ones first.
	interrupts []Interrupt
	open       []int // of interrupts, the outermost first
}

// Off is a stretch in which a thread did not run. Times are TSCs.
type Off struct {
	// Out is when the thread was switched out.
	Out uint64
	// Woken is when something made the blocked thread runnable again, or 0 if it was runnable all
	// the time, or if the wakeup is unknown.
	Woken uint64
	// In is when the thread was switched in again, or 0 if the events end before. If
	// Unreported is set, the kernel did not say when, and In is the earliest possible time.
	In         uint64
	Unreported bool
	// Next ran after the thread on the same CPU. Previous ran before it on the CPU that the thread
	// ran on afterwards. An unknown task has a negative TID.
	Next, Previous reader.Task
	// Waker is the task that was running where the thread was woken. If Interrupt is set, an
	// interrupt woke the thread, and not this task. If SoftIRQ is set, the deferred part of an
	// interrupt did, perhaps on behalf of this task.
	Waker              reader.Task
	Interrupt, SoftIRQ bool
	OutCPU, InCPU      uint16
	// State is the state that the thread was switched out in: R runnable, S sleeping, D
	// uninterruptible, and others as in ps.
	State byte
	// Doubtful says that events were lost in this stretch: it may be several.
	Doubtful bool
}

// Runnable reports whether the thread was switched out although it could have run on.
func (o *Off) Runnable() bool { return o.State == 'R' }

// Ready is when the thread began to wait for a CPU: it was switched out while runnable, or
// woken. It is 0 if that is not known.
func (o *Off) Ready() uint64 {
	if o.Runnable() {
		return o.Out
	}
	return o.Woken
}

// Interrupt is a stretch in which an interrupt ran on the CPU of a thread, in its place. Times are
// TSCs.
type Interrupt struct {
	Source   reader.Task // see reader.Task.Interrupt
	From, To uint64
	// Self is the time without that of other interrupts in this one.
	Self uint64
	// Nested says that it interrupted another interrupt.
	Nested bool
}

// Run is a stretch in which a task ran on a CPU, in TSCs. A task with a negative TID is
// unknown.
type Run struct {
	Task     reader.Task
	From, To uint64
}

// New orders the events of a recording. Log is nil if there are none. It takes as much memory as
// the events themselves.
func New(r *reader.Recording) *Log {
	s := &r.Sched
	n := s.Events()
	if n == 0 {
		return nil
	}
	l := &Log{PID: r.Process.PID, sched: s, events: make([]reader.SchedEvent, 0, n), threads: make(map[int32]*Thread)}
	for i := range s.Parts {
		p := &s.Parts[i]
		l.events = append(l.events, p.Events...)
		if p.Lost > 0 {
			l.lossy = append(l.lossy, [2]uint64{p.From, p.To})
		}
	}
	l.lossy = disjoint(l.lossy)
	byTime := func(a, b reader.SchedEvent) int { return cmp.Compare(a.TSC, b.TSC) }
	if !slices.IsSortedFunc(l.events, byTime) {
		slices.SortStableFunc(l.events, byTime)
	}
	for i := range r.Threads {
		l.own(r.Threads[i].TID)
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.PID == r.Process.PID && t.PID != 0 && t.TID > 0 {
			l.own(t.TID)
		}
	}
	for i := range l.events {
		l.add(uint32(i))
	}
	for _, t := range l.threads {
		t.dropOpen()
	}
	return l
}

func (l *Log) own(tid int32) {
	if tid > 0 && l.threads[tid] == nil {
		l.threads[tid] = &Thread{TID: tid, log: l}
	}
}

// thread returns the process's thread for a task, or nil.
func (l *Log) thread(task uint32) *Thread { return l.threads[l.sched.Task(task).TID] }

// add adds an event to the stretches of its threads.
func (l *Log) add(at uint32) {
	e := &l.events[at]
	switch e.Kind {
	case reader.Waking:
		if t := l.thread(e.Other); t != nil {
			t.woken(e)
		}
		return
	case reader.Interrupted, reader.Resumed:
		if t := l.thread(e.Task); t != nil {
			t.interrupt(e)
		}
		return
	}
	for len(l.cpus) <= int(e.CPU) {
		l.cpus = append(l.cpus, nil)
	}
	l.cpus[e.CPU] = append(l.cpus[e.CPU], at)
	if t := l.thread(e.Task); t != nil {
		t.off = append(t.off, Off{Out: e.TSC, OutCPU: e.CPU, State: e.State, Next: l.sched.Task(e.Other),
			Previous: unknown, Waker: unknown, Doubtful: l.lostAt(e.TSC)})
	}
	if t := l.thread(e.Other); t != nil {
		t.in(e)
	}
}

var unknown = reader.Task{TID: -1}

// pending is the stretch that a thread is in, or nil.
func (t *Thread) pending() *Off {
	if n := len(t.off); n > 0 && t.off[n-1].In == 0 && t.off[n-1].State != 'Z' && t.off[n-1].State != 'X' {
		return &t.off[n-1]
	}
	return nil
}

// interrupt begins or ends an interrupt. The end of an interrupt drops open interrupts inside it:
// the events of their ends are lost.
func (t *Thread) interrupt(e *reader.SchedEvent) {
	source := t.log.sched.Task(e.Other)
	if e.Kind == reader.Interrupted {
		t.interrupts = append(t.interrupts, Interrupt{Source: source, From: e.TSC, Nested: len(t.open) > 0})
		t.open = append(t.open, len(t.interrupts)-1)
		return
	}
	at := len(t.open) - 1
	for at >= 0 && t.interrupts[t.open[at]].Source.TID != source.TID {
		at--
	}
	if at < 0 {
		return // its beginning is lost
	}
	i := &t.interrupts[t.open[at]]
	t.open = t.open[:at]
	i.To = e.TSC
	if t.log.lostBetween(i.From, i.To) {
		i.To = 0 // another one may have ended
		return
	}
	i.Self += i.To - i.From
	if at > 0 {
		// Unsigned numbers wrap around until the outer one ends, and its time is added.
		t.interrupts[t.open[at-1]].Self -= i.To - i.From
	}
}

// dropOpen removes the interrupts without an end.
func (t *Thread) dropOpen() {
	t.open = nil
	t.interrupts = slices.DeleteFunc(t.interrupts, func(i Interrupt) bool { return i.To == 0 })
}

// Interrupts returns the interrupts of the thread that overlap [from, to), with all interrupts
// inside them, ordered by From, the outer ones first. They are part of the log. A nil thread has
// none.
func (t *Thread) Interrupts(from, to uint64) []Interrupt {
	if t == nil {
		return nil
	}
	list := t.interrupts
	end := sort.Search(len(list), func(i int) bool { return list[i].From >= to })
	start := sort.Search(end, func(i int) bool { return list[i].From >= from })
	outer := start - 1
	for outer > 0 && list[outer].Nested {
		outer--
	}
	if outer >= 0 && list[outer].To > from {
		start = outer
	}
	return list[start:end]
}

// Interrupted returns when the thread was interrupted, for calls.Options, in the order of time. An interrupt
// in another one belongs to that.
func (t *Thread) Interrupted() (list []calls.Stretch) {
	for _, i := range t.Interrupts(0, math.MaxUint64) {
		if n := len(list); n > 0 && i.From < list[n-1].To {
			list[n-1].To = max(list[n-1].To, i.To)
			continue
		}
		list = append(list, calls.Stretch{From: i.From, To: i.To})
	}
	return list
}

func (t *Thread) woken(e *reader.SchedEvent) {
	o := t.pending()
	if o == nil || o.Woken != 0 || o.Runnable() {
		return // it was about to block
	}
	o.Woken, o.Waker = e.TSC, t.log.sched.Task(e.Task)
	o.Interrupt, o.SoftIRQ = e.Flags&reader.WokenByInterrupt != 0, e.Flags&reader.WokenBySoftIRQ != 0
}

func (t *Thread) in(e *reader.SchedEvent) {
	o := t.pending()
	if o == nil {
		return // its first time, or what came before is lost
	}
	o.In, o.InCPU, o.Previous = e.TSC, e.CPU, t.log.sched.Task(e.Task)
	o.Unreported = e.Flags&reader.Unreported != 0
	o.Doubtful = o.Doubtful || t.log.lostBetween(o.Out, o.In)
}

func (l *Log) lostAt(tsc uint64) bool { return l.lostBetween(tsc, tsc) }

func (l *Log) lostBetween(from, to uint64) bool {
	i := sort.Search(len(l.lossy), func(i int) bool { return l.lossy[i][1] >= from })
	return i < len(l.lossy) && l.lossy[i][0] <= to
}

// disjoint orders stretches, and merges those that overlap.
func disjoint(list [][2]uint64) [][2]uint64 {
	slices.SortFunc(list, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	var kept [][2]uint64
	for _, s := range list {
		if n := len(kept); n > 0 && s[0] <= kept[n-1][1] {
			kept[n-1][1] = max(kept[n-1][1], s[1])
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// Covers reports whether the log has all events of the process's threads from one TSC to
// another.
func (l *Log) Covers(from, to uint64) bool {
	first, last := l.sched.Span()
	return first <= from && to <= last && !l.lostBetween(from, to)
}

// Thread returns a thread of the process by its ID, or nil if the log has none. The kernel
// reuses IDs: a thread may be several, one after the other.
func (l *Log) Thread(tid int32) *Thread {
	if l == nil {
		return nil
	}
	return l.threads[tid]
}

// Off returns the stretches in which the thread did not run that overlap [from, to), in the
// order of time. They are part of the log. A nil thread has none.
func (t *Thread) Off(from, to uint64) []Off {
	if t == nil {
		return nil
	}
	// Stretches do not overlap, but those without an end would.
	i := sort.Search(len(t.off), func(i int) bool { return t.off[i].Out >= from })
	for i > 0 && (t.off[i-1].In > from || t.off[i-1].In == 0 && i == len(t.off)) {
		i--
	}
	j := i + sort.Search(len(t.off)-i, func(j int) bool { return t.off[i+j].Out >= to })
	return t.off[i:j]
}

// All yields the threads of the process by ID, in no order, and the stretches in which they
// did not run, in the order of time. They are part of the log.
func (l *Log) All() iter.Seq2[int32, []Off] {
	return func(yield func(int32, []Off) bool) {
		for tid, t := range l.threads {
			if !yield(tid, t.off) {
				return
			}
		}
	}
}

// Ran returns what ran on a CPU in [from, to), in the order of time. It has an unknown task
// where the log does not say. The recorder keeps other tasks only where a thread of the process
// waited for a CPU.
func (l *Log) Ran(cpu uint16, from, to uint64) []Run { return l.ran(cpu, from, to, false) }

// ran is Ran. With complete, the log is known to have all switches of the CPU in [from, to).
func (l *Log) ran(cpu uint16, from, to uint64, complete bool) []Run {
	var runs []Run
	add := func(t reader.Task, a, b uint64) {
		a, b = max(a, from), min(b, to)
		if a >= b {
			return
		}
		if n := len(runs); n > 0 && runs[n-1].Task == t && runs[n-1].To == a {
			runs[n-1].To = b
			return
		}
		runs = append(runs, Run{t, a, b})
	}
	var list []uint32
	if int(cpu) < len(l.cpus) {
		list = l.cpus[cpu]
	}
	i := sort.Search(len(list), func(i int) bool { return l.events[list[i]].TSC > from })
	at := from // everything before it is in runs
	for ; at < to; i++ {
		before, after := unknown, unknown
		start, end := uint64(0), ^uint64(0)
		if i > 0 {
			e := &l.events[list[i-1]]
			before, start = l.sched.Task(e.Other), e.TSC
		}
		if i < len(list) {
			e := &l.events[list[i]]
			after, end = l.sched.Task(e.Task), e.TSC
		}
		if before.TID != after.TID && !(complete && start < from) || l.lostBetween(max(start, from), min(end, to)) {
			after = unknown
		}
		add(after, start, end)
		at = end
		if i >= len(list) {
			break
		}
	}
	return runs
}

// Instead returns what ran while the thread waited for a CPU in [from, to): on the CPU that
// it was switched out on if it was runnable then, or else on the CPU that it ran on next.
func (t *Thread) Instead(o *Off, from, to uint64) []Run {
	if o.Ready() == 0 || o.In == 0 {
		return nil
	}
	from, to = max(from, o.Ready()), min(to, o.In)
	if from >= to {
		return nil
	}
	return t.log.ran(o.waitedFor(), from, to, true)
}

// waitedFor returns the CPU whose switches the log has while the thread waited for a CPU.
func (o *Off) waitedFor() uint16 {
	if o.Runnable() {
		return o.OutCPU
	}
	return o.InCPU
}
