package convert

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// spansOf returns the spans of a gap, from scheduler events if they cover it. A thread may have been
// off CPU before the first record of the trace. Such spans begin with the trace and say so: viewers
// drop times before it.
func (t *timeline) spansOf(opts *Options, thread reader.Thread, g *calls.Gap) []offSpan {
	list := t.offTimes(opts, thread, g)
	for i := range list {
		if s := &list[i]; s.start < t.base {
			s.place = "began " + t.clock.Format(t.base-s.start) + " before the trace"
			s.start, s.end = t.base, max(s.end, t.base)
		}
	}
	return list
}

func (t *timeline) offTimes(opts *Options, thread reader.Thread, g *calls.Gap) []offSpan {
	known := t.offSpans(g)
	if len(known) == 0 || int(thread.File) >= len(opts.Sched) || opts.Sched[thread.File] == nil {
		return known
	}
	own := opts.Sched[thread.File].Thread(thread.Thread)
	var list []offSpan
	for _, o := range own.Off(g.From, g.To) {
		if o.Out < g.From || o.In == 0 || o.In > g.To || o.Doubtful || o.Ready() == 0 {
			return known
		}
		if !o.Runnable() {
			list = append(list, offSpan{state: "blocked", start: o.Out, end: o.Woken, by: wokenBy(&o)})
		}
		span := offSpan{state: "in the run queue", start: o.Ready(), end: o.In, by: ranInstead(own.Instead(&o, 0, o.In))}
		if o.Woken != 0 && !o.Interrupt && !o.SoftIRQ && opts.Sched[thread.File].Thread(o.Waker.TID) != nil {
			span.waker = o.Waker.TID
		}
		list = append(list, span)
	}
	if len(list) == 0 {
		return known
	}
	list[0].switches = known[0].switches
	return list
}

// wokenBy describes what ended a wait.
func wokenBy(o *sched.Off) string {
	state := "in state " + string(o.State) + ", woken "
	switch {
	case o.Interrupt:
		return state + "by an interrupt"
	case o.SoftIRQ:
		return state + "by an interrupt or by " + taskName(o.Waker)
	}
	return state + "by " + taskName(o.Waker)
}

func taskName(t reader.Task) string {
	if t.TID < 0 {
		return "an unknown task"
	}
	return fmt.Sprintf("%s (thread %d)", cmp.Or(t.Name, "unnamed"), t.TID)
}

// maxInstead is the maximum number of tasks that ranInstead names.
const maxInstead = 3

// ranInstead names the tasks that ran, longest first.
func ranInstead(runs []sched.Run) string {
	var tasks []sched.Run // To is the total time; From is 0
	for _, r := range runs {
		i := slices.IndexFunc(tasks, func(t sched.Run) bool { return t.Task == r.Task })
		if i < 0 {
			i, tasks = len(tasks), append(tasks, sched.Run{Task: r.Task})
		}
		tasks[i].To += r.To - r.From
	}
	slices.SortStableFunc(tasks, func(a, b sched.Run) int { return cmp.Compare(b.To, a.To) })
	var names []string
	for i, t := range tasks {
		if i == maxInstead {
			names = append(names, fmt.Sprintf("%d more", len(tasks)-i))
			break
		}
		names = append(names, taskName(t.Task))
	}
	if len(names) == 0 {
		return ""
	}
	return "behind " + strings.Join(names, ", ")
}

// wakeID identifies a wake-up of a thread among the flows of a trace.
func wakeID(woken reader.Thread, tsc uint64) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{uint64(woken.File), uint64(uint32(woken.Thread)), tsc})
	return max(1, h.Sum64())
}

// wakeUp is a moment at which a thread woke another thread of its process.
type wakeUp struct {
	tsc   uint64
	woken reader.Thread
}

// wake writes an instant where a thread woke another one, with a flow to the start of that thread's
// wait for a CPU. If the waker has no calls yet, wake keeps the wake-up for wakesBefore.
func (p *Perfetto) wake(waker reader.Thread, w wakeUp) {
	t := p.byThread[waker]
	if t == nil {
		p.pendingWakes[waker] = append(p.pendingWakes[waker], w)
		return
	}
	event := appendPresent(nil, eventType, instantEvent)
	event = appendPresent(event, eventName, t.name("wakes thread "+strconv.Itoa(int(w.woken.Thread))))
	p.outOfOrder(t, max(0, p.time.at(w.tsc)), appendFlow(event, wakeID(w.woken, w.tsc)))
}

// wakesBefore writes the wake-ups by a thread that were found before its first calls.
func (p *Perfetto) wakesBefore(t *perfettoThread) {
	p.byThread[t.thread] = t
	for _, w := range p.pendingWakes[t.thread] {
		p.wake(t.thread, w)
	}
	delete(p.pendingWakes, t.thread)
}

// appendFlow makes a track event part of a flow.
func appendFlow(event []byte, id uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(event, eventFlow, protowire.Fixed64Type), id)
}
