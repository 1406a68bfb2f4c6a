package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/reader/sched"
)

// spansOf returns the spans of a gap, from the scheduler's events if the trace has them there.
func (t *timeline) spansOf(opts *Options, thread reader.Thread, g *calls.Gap) []offSpan {
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
		list = append(list, offSpan{state: "in the run queue", start: o.Ready(), end: o.In, by: ranInstead(own.Instead(&o, 0, o.In))})
	}
	if len(list) == 0 {
		return known
	}
	list[0].switches = known[0].switches
	return list
}

// wokenBy says what ended a wait.
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

// maxInstead limits the tasks that are named.
const maxInstead = 3

// ranInstead names what ran, the longest first.
func ranInstead(runs []sched.Run) string {
	var tasks []sched.Run // with From as 0
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
