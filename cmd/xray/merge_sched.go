package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/sched/kernel"
)

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
			if clock != "" && !slices.Contains(sched.Clocks, clock) {
				return cli.Usagef("--clock: %q is not one of %s", clock, strings.Join(sched.Clocks, ", "))
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
	part, tasks, err := sched.Merge(t, events, clock)
	if errors.Is(err, sched.ErrNeedsClock) {
		return cli.Usagef("%s: pass the clock of TEXT with --clock", text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
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
