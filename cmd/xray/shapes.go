package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/shapes"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// shaping is one run of shapes.
type shaping struct {
	inputs    session.Inputs
	output    session.Output
	root      string
	rootDepth int
	rare      float64
	opts      shapes.Options
	top       int
}

func (a *app) shapesCommand() *cobra.Command {
	c := shaping{
		inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true},
		rare:   1, opts: shapes.Options{Limit: shapes.DefaultLimit}, top: 20,
	}
	return a.overTraces(command{
		use:   "shapes TRACE...",
		short: "Group calls of a function by what they called, and find rare ones",
		long: `Group the outermost calls of the functions that --root selects by their shape, that is,
by what they called. List rare shapes first. Each shape is described by how it differs
from the most common one: "+ f" also calls f, "- f" does not call f, and "f 8x (1x)" calls
f at least 8 times instead of once.

Calls have the same shape if they took the same call paths about equally often. Call
counts are rounded down to powers of two unless you pass --exact-counts.`,
		example: `  xray shapes -m ./server --root '^handleRequest' trace.xray
  xray shapes -m ./server --root '^handleRequest' --rare 0.1% --top 0 trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"func": "root"},
		flags:  c.addFlags,
		run:    c.run,
	})
}

func (c *shaping) addFlags(f *pflag.FlagSet) {
	session.AddRoot(f, &c.root)
	session.AddRootDepth(f, &c.rootDepth)
	cli.AddShare(f, &c.rare, "rare", "show only the most common shape and shapes with at most `PERCENT` of the calls")
	f.BoolVar(&c.opts.ExactCounts, "exact-counts", false, "compare exact call counts")
	cli.AddCount(f, &c.opts.Limit, "max-shapes", "", 1, "distinguish at most `N` shapes")
	cli.AddTop(f, &c.top, "shapes")
}

func (c *shaping) run(s *session.Session) error {
	root, _, chosen, err := chooseRoot(s, c.root, 0)
	if err != nil {
		return err
	}
	if _, err := s.Span(); err != nil {
		return err
	}
	opts := c.opts
	opts.Root, opts.RootDepth, opts.Thread, opts.From, opts.To = root, c.rootDepth, s.Scope.Thread, s.Scope.From, s.Scope.To
	opts.Values = s.Expressions()
	how := calls.Options{Paths: true, Roots: root, RootDepth: c.rootDepth}
	newSink := func() *shapes.Analysis { return shapes.New(opts) }
	sink, run, err := session.Analyze(s, session.Scope{}, how, newSink)
	if err == nil && sink.Full() {
		how.Shards, opts.Replace = 1, true
		sink, run, err = session.Analyze(s, session.Scope{}, how, newSink)
	}
	if err != nil {
		return err
	}
	found := sink.Report(s.Clock)
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node {
		return append(chosen(names), found.Body(names, shapes.View{Top: c.top, Rare: c.rare})...)
	})
}
