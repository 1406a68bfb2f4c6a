package main

import (
	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/shapes"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) shapesCommand() *cobra.Command {
	var (
		flags rootFlags
		exact bool
		limit = shapes.DefaultLimit
		rare  = "100%"
		top   = 20
		all   bool
		out   reportFlags
	)
	cmd := &cobra.Command{
		Use:   "shapes TRACE... --root REGEXP",
		Short: "Group the calls of a function by what they called; find the rare ones",
		Long: `shapes sorts the outermost calls of the functions that --root names by what they
called, and lists the rare shapes first, with how they differ from the commonest:
"+ f" calls f in addition, "- f" does not, and "f 8x (1x)" calls it 8 times or more
instead of once.

Calls have the same shape when they took the same paths, each about as often: the
numbers of calls count by powers of two, unless --exact-counts is given.`,
		Example: `  xray shapes -m ./server --root '^handleRequest' trace.xray
  xray shapes -m ./server --root '^handleRequest' --rare 0.1% --all-shapes trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			view := shapes.View{Top: top}
			var err error
			if view.Rare, err = parseShare("rare", rare); err != nil {
				return err
			}
			s, roots, err := flags.open(a, cmd, args)
			if err != nil {
				return err
			}
			defer s.close()
			if _, err = s.start(); err != nil {
				return err
			}
			opts := shapes.Options{Root: roots.Root, Thread: roots.Thread, From: roots.From, To: roots.To, ExactCounts: exact, Limit: limit}
			run := calls.Options{Paths: true, Roots: roots.Root}
			sink, stats, err := analyse(s, run, func() *shapes.Analysis { return shapes.New(opts) })
			if err == nil && sink.Full() {
				run.Shards, opts.Replace = 1, true
				sink, stats, err = analyse(s, run, func() *shapes.Analysis { return shapes.New(opts) })
			}
			if err != nil {
				return err
			}
			if all {
				view.Top = 0
			}
			found := sink.Report(s.clock)
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	flags.paths.add(f)
	f.StringVar(&rare, "rare", rare, "only shapes of at most `PERCENT` of the calls, and the commonest")
	f.BoolVar(&exact, "exact-counts", false, "keep shapes apart that differ in the number of any calls")
	addCount(f, &limit, "limit", "", 1, "keep at most `N` shapes apart")
	addCount(f, &top, "top", "n", 1, "how many shapes to show")
	f.BoolVar(&all, "all-shapes", false, "show all shapes")
	out.add(f)
	spellings(f, map[string]string{"func": "root", "all": "all-shapes"})
	return cmd
}
