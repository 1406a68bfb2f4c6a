package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) graphDiffCommand() *cobra.Command {
	var (
		flags traceFlags
		maps  [2][]string // of one trace alone
		g     graphFlags
		match matchFlags
		each  [2]matchFlags // of one trace alone
	)
	cmd := &cobra.Command{
		Use:   "graph-diff TRACE-A TRACE-B",
		Short: "Compare two call graphs",
		Long: `Join the call graphs of two traces by function name and show what changed. The traces
may be of different builds, each with its own map (-m1, -m2). Without a map,
functions with the same id count as the same.`,
		Example: `  xray graph-diff -m1 ./server.old -m2 ./server --format svg -o diff.svg old.xray new.xray
  xray graph-diff -m ./server --top 20 before.xray after.xray`,
		Args: operands("two traces", 2, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			view, err := g.view()
			if err != nil {
				return err
			}
			var sides [2]graph.Side
			var caveats sharedCaveats
			for i, path := range args {
				one := flags
				if len(maps[i]) > 0 {
					one.maps = maps[i]
				}
				policy := match.policy()
				if cmd.Flags().Changed(fmt.Sprintf("deduce-sibling-calls-%d", i+1)) {
					policy = each[i].policy()
				}
				s, err := a.open(cmd, &one, []string{path})
				if err != nil {
					return err
				}
				defer s.close() // when the report has its names
				sink, stats, err := g.collect(s, policy, &view)
				if err != nil {
					return err
				}
				s.summary(stats)
				caveats.add(s.caveats(stats))
				sides[i] = graph.Side{Analysis: sink, Clock: s.clock, Names: s.names}
			}
			diff := graph.Compare(sides[0], sides[1])
			if g.trims() {
				diff = diff.Trim(g.share, g.top)
			}
			if g.out.isReport() {
				name := func(s string) string { return s }
				if g.out.short(flags.style) {
					name = symbolize.Shorten
				}
				return a.writeDoc(&g.out, &report.Doc{
					Kind: cmd.Name(), Clock: diff.Clock(), Caveats: caveats.list(len(args)), Body: diff.Body(name, view),
				})
			}
			a.tellCaveats(caveats.list(len(args)))
			return a.writeOutput(g.out.output, func(w io.Writer) error {
				if g.out.format == "dot" {
					return diff.WriteDOT(w, view)
				}
				left, err := diff.WriteSVG(w, view)
				a.tellLeft(left)
				return err
			})
		},
	}
	f := cmd.Flags()
	flags.add(f)
	f.StringArrayVar(&maps[0], "instr-map-1", nil, "names of the first trace alone, from `FILE` (-m1)")
	f.StringArrayVar(&maps[1], "instr-map-2", nil, "names of the second trace alone, from `FILE` (-m2)")
	g.add(f)
	g.complete(cmd)
	match.add(f)
	for i := range each {
		name := fmt.Sprintf("deduce-sibling-calls-%d", i+1)
		f.BoolVar(&each[i].deduce, name, true, "")
		f.MarkHidden(name)
	}
	ignored(f, "keep-going-1", "")
	ignored(f, "keep-going-2", "")
	g.spellings(f, map[string]string{
		"m1": "instr-map-1", "m2": "instr-map-2", "k1": "keep-going-1", "k2": "keep-going-2",
		"d1": "deduce-sibling-calls-1", "d2": "deduce-sibling-calls-2",
		"vertex-label-trun": "name-limit",
	})
	return cmd
}
