package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/allocations"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// allocReport is one run of alloc.
type allocReport struct {
	inputs session.Inputs
	output session.Output
	short  time.Duration
	top    int
}

func (a *app) allocCommand() *cobra.Command {
	c := allocReport{inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true}, short: time.Millisecond, top: 10}
	return a.overTraces(command{
		use:   "alloc TRACE...",
		short: "Show allocations by call path: live, short-lived and copied memory",
		long: `Show memory allocation by call path: bytes allocated, live at the end of the trace, freed
soon after allocation, and copied because realloc moved a block. Also show which copy
constructors and copy assignments take how long, and how much memcpy copies in them.

alloc needs a trace from xray record --libcalls=alloc,copy, which records the C library's
allocation calls and memcpy.`,
		example: `  xray record --libcalls=alloc,copy -o server.xray -- ./server
  xray alloc server.xray
  xray alloc --churn 100us --format csv -o alloc.csv server.xray`,
		inputs: &c.inputs,
		output: &c.output,
		flags: func(f *pflag.FlagSet) {
			cli.AddDuration(f, &c.short, "churn", "treat blocks freed within `TIME` as short-lived")
			cli.AddTop(f, &c.top, "call paths of each table")
		},
		run: c.run,
	})
}

func (c *allocReport) run(s *session.Session) error {
	opts := allocations.Options{
		Role:   func(fn reader.FuncID) allocations.Role { return allocations.RoleOf(symbolize.Label(s.Names, fn)) },
		Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To,
		Short: s.Clock.Ticks(uint64(c.short)),
	}
	how := calls.Options{Shards: 1, Paths: true, Opens: true, Short: s.ShortTicks(), Memory: s.TableMemory}
	if s.MaxPaths > 0 {
		how.Budget = calls.NewPathBudget(s.MaxPaths)
	}
	var sink *allocations.Analysis
	run := &session.Run{}
	err := s.Pass(func(unmatched func(*calls.Unmatched) error) (err error) {
		how.Unmatched = unmatched
		sink, run.Stats, err = calls.Run(calls.InOrder(s.Trace, reader.TimeOrder), how, func() *allocations.Analysis { return allocations.New(opts) })
		return err
	})
	if err != nil {
		return err
	}
	found := sink.Report(s.Clock)
	return s.Report(&c.output, run, func(symbolize.Names) []report.Node { return found.Body(allocations.View{Top: c.top}) })
}
