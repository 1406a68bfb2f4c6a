package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// By says what ended a wait.
type By uint8

const (
	ByUnknown   By = iota // the scheduler events do not say
	ByThread              // a thread of the process
	ByProcess             // another process
	ByInterrupt           // an interrupt, for example a timer or a device
)

// Wake adds up the waits of a call path that ended in the same way.
type Wake struct {
	Path  calls.PathID // the blocked path
	By    By
	Waker calls.PathID // the waker's path, if By is Thread; 0 if it is unknown or no call was open
	Ticks uint64
}

// Logs are the scheduler events of the files of a trace.
type Logs struct {
	files []*log
}

// log has the wake-ups of a process.
type log struct {
	*Log
	process int32
	wakeups map[int32][]uint64 // by the waker's thread ID: TSCs, ascending
}

// NewLogs reads the events of a trace. It returns nil if there are none.
func NewLogs(t *reader.Trace) *Logs {
	l := &Logs{}
	found := false
	for i := range t.Files() {
		r := t.Recording(i)
		var of *log
		if r != nil {
			if events := New(r); events != nil {
				of, found = newLog(events, r), true
			}
		}
		l.files = append(l.files, of)
	}
	if !found {
		return nil
	}
	return l
}

func newLog(events *Log, r *reader.Recording) *log {
	l := &log{events, r.Process.PID, make(map[int32][]uint64)}
	for _, off := range events.All() {
		for i := range off {
			if o := &off[i]; l.by(o) == ByThread {
				l.wakeups[o.Waker.TID] = append(l.wakeups[o.Waker.TID], o.Woken)
			}
		}
	}
	for _, list := range l.wakeups {
		slices.Sort(list)
	}
	return l
}

// of returns the events of a thread's process, or nil.
func (l *Logs) of(t reader.Thread) *log {
	if l == nil || int(t.File) >= len(l.files) {
		return nil
	}
	if of := l.files[t.File]; of != nil && of.process == t.Process {
		return of
	}
	return nil
}

// Off returns the stretches in which a thread did not run that overlap [from, to), in the
// order of time. They are part of the logs. Nil logs have none.
func (l *Logs) Off(t reader.Thread, from, to uint64) []Off {
	if of := l.of(t); of != nil {
		return of.Thread(t.Thread).Off(from, to)
	}
	return nil
}

// Wakeups returns when a thread woke others of its process, in ascending TSCs. They are part
// of the logs.
func (l *Logs) Wakeups(t reader.Thread) []uint64 {
	if of := l.of(t); of != nil {
		return of.wakeups[t.Thread]
	}
	return nil
}

// Waker returns what ended a stretch of a thread, and which thread if By is Thread.
func (l *Logs) Waker(t reader.Thread, o *Off) (reader.Thread, By) {
	of := l.of(t)
	if of == nil {
		return reader.Thread{}, ByUnknown
	}
	by := of.by(o)
	if by != ByThread {
		return reader.Thread{}, by
	}
	t.Thread = o.Waker.TID
	return t, by
}

// by says what ended a stretch.
func (l *log) by(o *Off) By {
	switch {
	case o.Woken == 0 || o.Doubtful:
		return ByUnknown
	case l.Thread(o.Waker.TID) != nil && !o.Interrupt && !o.SoftIRQ:
		return ByThread
	case o.Interrupt || o.SoftIRQ || o.Waker.TID == 0: // the idle task only wakes in interrupts
		return ByInterrupt
	case o.Waker.TID < 0:
		return ByUnknown
	}
	return ByProcess
}

// Collector collects the wakes of one shard. It is a sink for calls.Options with Paths and
// OffCPU, without a filter except by thread. It takes 32 bytes for each time that a thread
// of the process ended.
type Collector struct {
	logs    *Logs
	threads []*thread // by Batch.Index
	waits   []wait    // ended by threads
	sums    map[Wake]uint64
}

// wait is a time in which a path was blocked, until a thread ended it.
type wait struct {
	path  calls.PathID
	ticks uint64
	waker reader.Thread
	woken uint64
}

// thread finds the calls in which a thread woke others.
type thread struct {
	id      reader.Thread
	wakeups []uint64       // TSCs, ascending
	paths   []calls.PathID // of the calls in which they were
	pending []int          // wake-ups up to the end of the latest call that are in no call that ended
	next    int            // the first one after
}

// NewCollector returns an empty collector.
func NewCollector(logs *Logs) *Collector { return &Collector{logs: logs, sums: make(map[Wake]uint64)} }

func (c *Collector) thread(b *calls.Batch) *thread {
	for len(c.threads) <= b.Index {
		c.threads = append(c.threads, nil)
	}
	t := c.threads[b.Index]
	if t == nil {
		t = &thread{id: b.Thread, wakeups: c.logs.Wakeups(b.Thread)}
		t.paths = make([]calls.PathID, len(t.wakeups))
		c.threads[b.Index] = t
	}
	return t
}

// Calls adds a batch.
func (c *Collector) Calls(b *calls.Batch) error {
	t := c.thread(b)
	if t.next < len(t.wakeups) || len(t.pending) > 0 {
		for i := range b.Calls {
			t.call(&b.Calls[i])
		}
	}
	for i := range b.Gaps {
		c.gap(t, &b.Gaps[i])
	}
	return nil
}

// call assigns the wake-ups in a call to it when it ends. Calls inside it have ended before.
func (t *thread) call(c *calls.Call) {
	end := c.Start + c.Duration
	for ; t.next < len(t.wakeups) && t.wakeups[t.next] <= end; t.next++ {
		t.pending = append(t.pending, t.next)
	}
	n := len(t.pending)
	for ; n > 0 && t.wakeups[t.pending[n-1]] >= c.Start; n-- {
		t.paths[t.pending[n-1]] = c.Path
	}
	t.pending = t.pending[:n]
}

// gap divides the blocked time of a gap by what ended it.
func (c *Collector) gap(t *thread, g *calls.Gap) {
	left := g.Blocked
	if left > 0 {
		list := c.logs.Off(t.id, g.From, g.To)
		for i := range list {
			o := &list[i]
			if o.Runnable() || o.Woken <= o.Out {
				continue
			}
			ticks := min(left, o.Woken-o.Out)
			left -= ticks
			waker, by := c.logs.Waker(t.id, o)
			if by != ByThread {
				c.sums[Wake{Path: g.Path, By: by}] += ticks
				continue
			}
			c.waits = append(c.waits, wait{g.Path, ticks, waker, o.Woken})
		}
	}
	if left > 0 {
		c.sums[Wake{Path: g.Path}] += left
	}
}

// Merge adds what other has collected. ids are the paths of other here, or nil if they are
// the same.
func (c *Collector) Merge(other *Collector, ids []calls.PathID) {
	here := func(id calls.PathID) calls.PathID {
		if ids == nil {
			return id
		}
		return ids[id]
	}
	for _, w := range other.waits {
		w.path = here(w.path)
		c.waits = append(c.waits, w)
	}
	for w, ticks := range other.sums {
		w.Path = here(w.Path)
		c.sums[w] += ticks
	}
	for i, t := range other.threads {
		if t == nil {
			continue
		}
		for k := range t.paths {
			t.paths[k] = here(t.paths[k])
		}
		for len(c.threads) <= i {
			c.threads = append(c.threads, nil)
		}
		c.threads[i] = t
	}
}

// Wakes returns the sums, ordered by path, by what ended the wait, and by the waker's path.
func (c *Collector) Wakes() []Wake {
	of := make(map[reader.Thread]*thread)
	for _, t := range c.threads {
		if t != nil {
			of[t.id] = t
		}
	}
	for _, w := range c.waits {
		wake := Wake{Path: w.path, By: ByThread}
		if t := of[w.waker]; t != nil {
			i := sort.Search(len(t.wakeups), func(i int) bool { return t.wakeups[i] >= w.woken })
			if i < len(t.wakeups) && t.wakeups[i] == w.woken {
				wake.Waker = t.paths[i]
			}
		}
		c.sums[wake] += w.ticks
	}
	c.waits = nil
	list := make([]Wake, 0, len(c.sums))
	for w, ticks := range c.sums {
		w.Ticks = ticks
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b Wake) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.By, b.By), cmp.Compare(a.Waker, b.Waker))
	})
	return list
}
