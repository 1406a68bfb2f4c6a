package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// If a trace has scheduler events, off-CPU times come from them and name other tasks.
func TestSpansOfSchedulerEvents(t *testing.T) {
	switched := func(tsc uint64, from, to uint32, state byte) reader.SchedEvent {
		return reader.SchedEvent{TSC: tsc, Task: from, Other: to, Kind: reader.Switched, State: state}
	}
	log := sched.New(&reader.Recording{Process: reader.Process{PID: 7}, Sched: reader.Sched{
		Tasks: []reader.Task{{PID: 7, TID: 7, Name: "prog"}, {PID: 20, TID: 20, Name: "hog"}, {PID: 30, TID: 31, Name: "cat"}, {PID: 7, TID: 8, Name: "prog"}},
		Parts: []reader.SchedPart{{From: 1, To: 900, Events: []reader.SchedEvent{
			switched(100, 1, 2, 'S'), {TSC: 150, Task: 3, Other: 1, Kind: reader.Waking}, switched(160, 2, 1, 'R'),
			switched(200, 1, 2, 'R'), switched(230, 2, 3, 'R'), switched(240, 3, 1, 'S'),
			switched(300, 1, 2, 'S'), {TSC: 350, Task: 2, Other: 1, Kind: reader.Waking, Flags: reader.WokenByInterrupt}, switched(360, 2, 1, 'R'),
			switched(400, 1, 2, 'S'), {TSC: 420, Task: 4, Other: 1, Kind: reader.Waking}, switched(430, 2, 1, 'R'),
			switched(600, 1, 2, 'S'),
		}}},
	}})
	opts := &Options{Sched: []*sched.Log{log}}
	thread := reader.Thread{Process: 7, Thread: 7}
	time := timeline{}
	gap := func(from, to uint64) *calls.Gap {
		return &calls.Gap{From: from, To: to, Off: calls.Off{Blocked: 30, Queued: 30}, Known: true, QueueKnown: true, Voluntary: 1, Involuntary: 2}
	}
	const switches = "1 voluntary, 2 involuntary"
	for _, c := range []struct {
		from, to uint64
		want     []offSpan
	}{
		{90, 250, []offSpan{
			{state: "blocked", start: 100, end: 150, switches: switches, by: "in state S, woken by cat (thread 31)"},
			{state: "in the run queue", start: 150, end: 160, by: "behind hog (thread 20)"},
			{state: "in the run queue", start: 200, end: 240, by: "behind hog (thread 20), cat (thread 31)"},
		}},
		{290, 370, []offSpan{
			{state: "blocked", start: 300, end: 350, switches: switches, by: "in state S, woken by an interrupt"},
			{state: "in the run queue", start: 350, end: 360, by: "behind hog (thread 20)"},
		}},
		{390, 440, []offSpan{
			{state: "blocked", start: 400, end: 420, switches: switches, by: "in state S, woken by prog (thread 8)"},
			{state: "in the run queue", start: 420, end: 430, by: "behind hog (thread 20)", waker: 8},
		}},
		// Where the events do not cover a gap, times are the same as without events.
		{590, 700, time.offSpans(gap(590, 700))},
		{161, 199, time.offSpans(gap(161, 199))},
		{120, 250, time.offSpans(gap(120, 250))},
	} {
		got := time.spansOf(opts, thread, gap(c.from, c.to))
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(offSpan{})); diff != "" {
			t.Errorf("from %d to %d:\n%s", c.from, c.to, diff)
		}
	}
	for _, o := range []*Options{{}, {Sched: []*sched.Log{nil}}} {
		if diff := cmp.Diff(time.offSpans(gap(90, 250)), time.spansOf(o, thread, gap(90, 250)), cmp.AllowUnexported(offSpan{})); diff != "" {
			t.Error(diff)
		}
	}
	// Before the trace begins.
	time.base = 130
	cut := time.spansOf(opts, thread, gap(90, 250))
	if cut[0].start != 130 || cut[0].end != 150 || cut[0].place != "began 30 ticks before the trace" || cut[1].place != "" {
		t.Errorf("before the trace: %+v", cut)
	}
}
