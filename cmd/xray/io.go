package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// ioReport is one run of io.
type ioReport struct {
	inputs session.Inputs
	output session.Output
	top    int
}

func (a *app) ioCommand() *cobra.Command {
	c := ioReport{inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true}, top: 10}
	return a.overTraces(command{
		use:   "io TRACE...",
		short: "Show I/O by file, socket and call path",
		long: `Show bytes read and written and the time of I/O calls, by file, by socket and by call
path. A separate table shows waits for events and connections.

io needs a trace from xray record --libcalls, which records the C library's I/O calls.`,
		example: `  xray record --libcalls -o server.xray -- ./server
  xray io server.xray
  xray io --thread 4711 --format csv -o io.csv server.xray`,
		inputs: &c.inputs,
		output: &c.output,
		flags:  func(f *pflag.FlagSet) { cli.AddTop(f, &c.top, "files, and as many call paths and waits") },
		run:    c.run,
	})
}

func (c *ioReport) run(s *session.Session) error {
	names, _, err := session.Analyze(s, session.Scope{}, calls.Options{}, iocalls.NewNames)
	if err != nil {
		return err
	}
	names.Settle(s.Trace.Recording)
	opts := iocalls.Options{Names: names, OffCPU: s.OffCPU() != nil, Role: func(fn reader.FuncID) iocalls.Role { return iocalls.RoleOf(symbolize.Label(s.Names, fn)) }}
	sink, run, err := session.Analyze(s, s.Scope, calls.Options{Paths: true, OffCPU: s.OffCPU()}, func() *iocalls.Analysis { return iocalls.New(opts) })
	if err != nil {
		return err
	}
	found := sink.Report(s.Clock)
	return s.Report(&c.output, run, func(symbolize.Names) []report.Node { return found.Body(iocalls.View{Top: c.top}) })
}
