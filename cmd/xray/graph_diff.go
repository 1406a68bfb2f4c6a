package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) graphDiffCommand() *cobra.Command {
	c := graphDiffing{app: a, inputs: session.Inputs{Scope: session.ByCall, Templates: true, Summaries: true, Siblings: true}}
	c.output.Format = graphFormats[0]
	cmd := &cobra.Command{
		Use:   "graph-diff TRACE-A TRACE-B",
		Short: "Compare two call graphs",
		Long: `Compare the call graphs of two traces and show what changed. xray matches functions by
name, so the traces can come from different builds, each with its own map (-m1, -m2).
Without a map, xray matches functions by ID.`,
		Example: `  xray graph-diff -m1 ./server.old -m2 ./server --format svg -o diff.svg old.xray new.xray
  xray graph-diff -m ./server --top 20 before.xray after.xray`,
		Args: cli.Operands("two traces", 2, false),
		RunE: c.run,
	}
	f := cmd.Flags()
	c.inputs.AddFlags(f)
	c.maps.AddFlags(f)
	c.add(f)
	c.complete(cmd)
	c.output.AddFlags(f, graphFormats...)
	cli.AddKeepGoing(f)
	for i := range c.siblings {
		name := siblingsFlag(i)
		f.BoolVar(&c.siblings[i], name, true, "")
		// The only error is that there is no such flag.
		_ = f.MarkHidden(name)
		cli.Ignored(f, fmt.Sprintf("keep-going-%d", i+1), "")
	}
	cli.Spellings(f, graphAlias(map[string]string{
		"m1": "instr-map-1", "m2": "instr-map-2", "k1": "keep-going-1", "k2": "keep-going-2",
		"d1": "deduce-sibling-calls-1", "d2": "deduce-sibling-calls-2",
		"vertex-label-trun": "name-limit",
	}))
	return cmd
}

// graphDiffing is one run of graph-diff.
type graphDiffing struct {
	*app
	inputs   session.Inputs
	maps     session.MapPair
	siblings [2]bool // of one trace only
	graphFlags
}

// siblingsFlag is the hidden flag for trace i of llvm-xray graph-diff.
func siblingsFlag(i int) string { return fmt.Sprintf("deduce-sibling-calls-%d", i+1) }

func (c *graphDiffing) run(cmd *cobra.Command, args []string) error {
	view, err := c.view()
	if err != nil {
		return err
	}
	var sides [2]graph.Side
	var caveats survey.SharedCaveats
	for i, path := range args {
		policy := c.inputs.Policy()
		if cmd.Flags().Changed(siblingsFlag(i)) {
			policy = session.PolicyOf(c.siblings[i])
		}
		s, err := c.inputs.With(c.maps[i]).Open(&c.Streams, cmd.Name(), path)
		if err != nil {
			return err
		}
		defer s.Close() // when the report has its names
		sink, run, err := c.collect(s, policy, &view)
		if err != nil {
			return err
		}
		s.Summary(run.Stats)
		caveats.Add(s.Caveats(run))
		sides[i] = graph.Side{Analysis: sink, Clock: s.Clock, Names: s.Names}
	}
	diff := graph.Compare(sides[0], sides[1])
	if c.trims() {
		diff = diff.Trim(c.minShare, c.top)
	}
	doc := &report.Doc{Kind: cmd.Name(), Clock: diff.Clock(), Caveats: caveats.List(len(args))}
	if c.output.IsReport() {
		name := func(s string) string { return s }
		if c.output.Short(c.inputs.Style) {
			name = symbolize.Shorten
		}
		doc.Body = diff.Body(name, view)
		return session.WriteDoc(&c.Streams, &c.output, doc)
	}
	session.TellCaveats(&c.Streams, "", doc.Caveats)
	view.Notes = doc.Caveats
	return c.WriteText(c.output.Path, func(w io.Writer) error {
		if c.output.Format == "dot" {
			return diff.WriteDOT(w, view)
		}
		left, err := diff.WriteSVG(w, view)
		reportLeftOutEdges(&c.Streams, left)
		return err
	})
}
