package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/sched/kernel"
)

// tscClock is the name of the TSC in the kernel's tracer.
const tscClock = "x86-tsc"

var systemClocks = map[string]reader.SystemClock{
	"monotonic": reader.Monotonic, "monotonic_raw": reader.MonotonicRaw, "realtime": reader.Realtime,
}

func (a *app) mergeSchedCommand() *cobra.Command {
	var output, clock string
	var flags session.TraceFlags
	cmd := &cobra.Command{
		Use:   "merge-sched TRACE TEXT",
		Short: "Add scheduler events from perf or ftrace to a trace",
		Long: `Write a copy of a trace with scheduler events added. TEXT is the output of perf script or
the contents of ftrace's trace_pipe, and may include interrupts. Record the events for the
whole machine, at the same time as the trace, using a clock that the trace supports. If
you can use xray record --sched, you do not need merge-sched.

The trace must come from xray's recorder. xray checks that the two clocks agree: a thread
must be running whenever it writes a record.`,
		Example: `  perf record -a -k CLOCK_MONOTONIC -e sched:sched_switch,sched:sched_waking -o perf.data &
  xray record -o trace.xray ./server; kill %1; wait
  perf script --ns -i perf.data >perf.txt
  xray merge-sched trace.xray perf.txt --clock monotonic -o merged.xray`,
		Args: cli.Operands("a TRACE and a TEXT", 2, false),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, known := systemClocks[clock]; clock != "" && clock != tscClock && !known {
				return cli.Usagef("--clock: %q is not one of monotonic, monotonic_raw, realtime, x86-tsc", clock)
			}
			if output == "" {
				return cli.Usagef("pass the output FILE with -o")
			}
			return a.mergeSched(&flags, args[0], args[1], clock, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&clock, "clock", "", "`CLOCK` of TEXT: monotonic, monotonic_raw or realtime, as in perf record -k, or x86-tsc")
	flags.AddFlags(f)
	cli.AddOutput(f, &output)
	cli.Spellings(f, nil)
	return cmd
}

func (a *app) mergeSched(flags *session.TraceFlags, trace, text, clock, output string) error {
	if err := a.RefuseTerminal(output, "a trace"); err != nil {
		return err
	}
	t, err := flags.OpenTrace(&a.Streams, trace)
	if err != nil {
		return err
	}
	defer t.Close()
	r := t.Recording(0)
	if r == nil || r.Foreign() {
		return fmt.Errorf("%s: not a trace from xray's recorder: it does not say how its clock relates to other clocks", t.Files()[0])
	}
	events, err := readSchedText(text)
	if err != nil {
		return err
	}
	if err := toTicks(r, events, clock); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	part, tasks, err := chooseSched(r, events)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if err := sameClock(t, r, part, tasks, events); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	for i := range part.Events {
		e := &part.Events[i]
		for _, n := range []*uint32{&e.Task, &e.Other} {
			if *n > 0 {
				*n += uint32(len(r.Sched.Tasks))
			}
		}
	}
	block := tracewrite.AppendSched(nil, uint32(len(r.Sched.Tasks))+1, tasks, part, r.Clock.Anchors[0].TSC)
	err = a.WriteData(output, func(w io.Writer) error {
		bytes := t.Bytes(0)
		_, err := io.Copy(w, io.NewSectionReader(bytes, 0, bytes.Size()))
		if err == nil {
			_, err = w.Write(block)
		}
		return err
	})
	if err == nil {
		fmt.Fprintf(a.Stderr, "xray: %s of %s added\n", label.Count(uint64(len(part.Events)), "scheduler event", "scheduler events"),
			label.Count(uint64(len(tasks)), "task", "tasks"))
	}
	return err
}

func readSchedText(path string) (*kernel.Events, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	events, err := kernel.ParseText(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(events.List) == 0:
		return nil, fmt.Errorf("%s: no scheduler events in %s: pass the output of perf script or trace_pipe", path, label.Count(uint64(events.Other), "line", "lines"))
	case events.Damaged > 0:
		return nil, fmt.Errorf("%s: line %d: cannot parse this scheduler event", path, events.FirstDamaged)
	}
	return events, nil
}

// toTicks converts the times of events to ticks of the trace.
func toTicks(r *reader.Recording, events *kernel.Events, clock string) error {
	switch {
	case events.Ticks && clock != "" && clock != tscClock:
		return fmt.Errorf("its times are ticks, not times of the clock %s", clock)
	case events.Ticks:
		return nil
	case clock == tscClock:
		return errors.New("its times are seconds, not ticks of the TSC")
	case clock == "":
		return cli.Usagef("pass the clock of TEXT with --clock")
	}
	for i := range events.List {
		e := &events.List[i]
		tsc, ok := r.Clock.TSC(systemClocks[clock], e.Time)
		if !ok {
			if !slices.ContainsFunc(r.Clock.Anchors, func(a reader.Anchor) bool { return clock != "monotonic" || a.Mono != 0 }) {
				return fmt.Errorf("the trace does not say how its clock relates to %s", clock)
			}
			return fmt.Errorf("according to the clock %s, its times are far from those of the trace: was it recorded at the same time and with this clock?", clock)
		}
		e.Time = tsc
	}
	return nil
}

// chooseSched returns the events that belong in the trace of a process.
func chooseSched(r *reader.Recording, events *kernel.Events) (*reader.SchedPart, []reader.Task, error) {
	list := events.List
	from, to := list[0].Time, list[len(list)-1].Time
	first, last := ^uint64(0), uint64(0)
	for _, t := range r.Threads {
		if t.Last > 0 {
			first, last = min(first, t.First), max(last, t.Last)
		}
	}
	if from > last || to < first {
		return nil, nil, fmt.Errorf("its events are at ticks %d to %d, and those of the trace at ticks %d to %d: was it recorded at the same time and with this clock?",
			from, to, first, last)
	}
	t := kernel.NewTracker(from)
	pid := r.Process.PID
	own := make(map[int32]bool)
	for _, info := range r.Threads {
		own[info.TID] = true
	}
	t.ProcessOf = func(tid int32) int32 {
		if own[tid] {
			return pid
		}
		return 0
	}
	t.Most = len(list) + 1
	for tid := range own {
		t.Follow(pid, tid)
	}
	t.Claim(pid)
	for i := range list {
		t.Add(&list[i])
	}
	t.Lose(events.Missing)
	taken := t.Take(pid, to, 0)
	if taken == nil || len(taken.Part.Events) == 0 {
		return nil, nil, errors.New("it has no events for the threads of the trace")
	}
	outs, others := 0, 0
	for i := range list {
		if e := &list[i]; e.Kind == kernel.Switch {
			if own[e.Task] {
				outs++
			} else {
				others++
			}
		}
	}
	if outs > 10 && others < outs/10 {
		return nil, nil, errors.New("only threads of the trace are switched out: record the whole machine (perf record -a)")
	}
	taken.Part.Origin = reader.SchedMerged
	return &taken.Part, taken.Tasks, nil
}

// sameClock checks that both clocks are the same: no thread can record anything while it does not
// run.
func sameClock(t *reader.Trace, r *reader.Recording, part *reader.SchedPart, tasks []reader.Task, events *kernel.Events) error {
	merged := *r
	merged.Sched = reader.Sched{Parts: []reader.SchedPart{*part}, Tasks: tasks}
	log := sched.New(&merged)
	// Times of the text are rounded, and a switch takes some time.
	slack := max(1, (events.Step+1000)*r.Clock.Frequency/1e9)
	var records, asleep uint64
	for b, err := range t.Blocks(reader.ThreadOrder) {
		if err != nil {
			return err
		}
		thread := log.Thread(b.Thread.Thread)
		if thread == nil {
			continue
		}
		for i := range b.Events {
			tsc := b.Events[i].TSC
			if tsc < part.From || tsc > part.To {
				continue
			}
			records++
			for _, o := range thread.Off(tsc, tsc+1) {
				if o.In != 0 && o.Out+slack < tsc && tsc+slack < o.In {
					asleep++
				}
			}
		}
	}
	const most = 50 // one record in
	if asleep > 2 && asleep > records/most {
		return fmt.Errorf("%d of %d records belong to threads that were not running: was it recorded with another clock, or not for the whole machine?", asleep, records)
	}
	return nil
}
