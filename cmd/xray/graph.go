package main

import (
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// graphFlags are shared by graph and graph-diff.
type graphFlags struct {
	edgeLabel, edgeColor     string
	vertexLabel, vertexColor string
	nameLimit                int
	minShare                 float64
	top                      int
	exact                    bool
	output                   session.Output
	set                      *pflag.FlagSet
}

func (g *graphFlags) add(f *pflag.FlagSet) {
	g.set = f
	columns := " (" + strings.Join(columnNames(), ", ") + ")"
	f.StringVarP(&g.edgeLabel, "edge-label", "e", "", "label edges with `COLUMNS`, separated by commas"+columns)
	f.StringVarP(&g.vertexLabel, "vertex-label", "v", "", "label functions with `COLUMNS`")
	f.StringVarP(&g.edgeColor, "edge-color", "c", "", "color edges by `COLUMN`")
	f.StringVarP(&g.vertexColor, "vertex-color", "b", "", "color functions by `COLUMN`")
	cli.AddCount(f, &g.nameLimit, "name-limit", "t", 0, "truncate names in labels to `N` bytes")
	cli.AddShare(f, &g.minShare, "min-share", "omit functions and edges below `PERCENT` of the total time")
	cli.AddTop(f, &g.top, "functions by self time, and the paths to them")
	cli.AddExact(f, &g.exact)
}

// graphFormats are the formats of graphs besides those of all reports. The first is the default.
var graphFormats = []string{"dot", "svg"}

// graphColumn finds a column by its name in graph or in account.
func graphColumn(name string) (graph.Column, error) {
	if name == "p99.9" {
		return graph.P999, nil
	}
	return graph.ParseColumn(name)
}

// complete lets shells complete the columns of cmd.
func (g *graphFlags) complete(cmd *cobra.Command) {
	for flag, lists := range map[string]bool{"edge-label": true, "vertex-label": true, "edge-color": false, "vertex-color": false} {
		cli.CompleteColumns(cmd, flag, columnNames(), lists)
	}
}

func columnNames() []string {
	var names []string
	for c := graph.None; c <= graph.Max; c++ {
		names = append(names, c.String())
	}
	return names
}

// view returns the default view, changed by the flags that are set. It checks all flags.
func (g *graphFlags) view() (graph.View, error) {
	v := graph.DefaultView()
	v.NameLimit = g.nameLimit
	v.Screen = !g.set.Changed("top") && !g.set.Changed("min-share")
	for _, list := range []struct {
		flag string
		text string
		to   *[]graph.Column
	}{{"edge-label", g.edgeLabel, &v.EdgeLabels}, {"vertex-label", g.vertexLabel, &v.FunctionLabels}} {
		if list.text == "" {
			continue
		}
		*list.to = nil
		for name := range strings.SplitSeq(list.text, ",") {
			c, err := graphColumn(name)
			if err != nil {
				return v, cli.Usagef("--%s: %w", list.flag, err)
			}
			if c != graph.None {
				*list.to = append(*list.to, c)
			}
		}
	}
	for _, one := range []struct {
		flag string
		text string
		to   *graph.Column
	}{{"edge-color", g.edgeColor, &v.EdgeColor}, {"vertex-color", g.vertexColor, &v.FunctionColor}} {
		if one.text == "" {
			continue
		}
		c, err := graphColumn(one.text)
		if err != nil {
			return v, cli.Usagef("--%s: %w", one.flag, err)
		}
		*one.to = c
	}
	return v, nil
}

// options keeps quantiles only if they are shown, because they take half the time.
func (g *graphFlags) options(v *graph.View) graph.Options {
	quantiles := g.output.IsReport() || v.EdgeColor.IsQuantile() || v.FunctionColor.IsQuantile()
	for _, list := range [][]graph.Column{v.EdgeLabels, v.FunctionLabels} {
		for _, c := range list {
			quantiles = quantiles || c.IsQuantile()
		}
	}
	return graph.Options{Quantiles: quantiles, Exact: g.exact}
}

// trims reports whether the view leaves something out.
func (g *graphFlags) trims() bool { return g.minShare > 0 || g.top > 0 }

// collect builds the part of the call graph of a trace that view shows.
func (g *graphFlags) collect(s *session.Session, policy calls.Policy, view *graph.View) (*graph.Analysis, *session.Run, error) {
	return session.Analyze(s, s.Scope, calls.Options{Policy: policy}, func() *graph.Analysis {
		return graph.New(g.options(view))
	})
}

// reportLeftOutEdges reports how many edges a picture does not show.
func reportLeftOutEdges(streams *cli.Streams, edges int) {
	if edges > 0 {
		streams.Say("the graph is too large to draw in full: %s omitted; "+
			"select what to draw with --top and --min-share (--top 0 draws up to 1,000 edges), or write everything with --format dot", label.Count(uint64(edges), "edge", "edges"))
	}
}

// graphAlias maps flags of llvm-xray to those of xray.
func graphAlias(others map[string]string) map[string]string {
	alias := map[string]string{"color-edges": "edge-color", "color-vertices": "vertex-color"}
	maps.Copy(alias, others)
	return alias
}

// graphing is one run of graph.
type graphing struct {
	inputs session.Inputs
	graphFlags
}

func (a *app) graphCommand() *cobra.Command {
	c := graphing{inputs: session.Inputs{Scope: session.ByCall, Templates: true, Summaries: true, Siblings: true}}
	c.output.Format = graphFormats[0]
	cmd := a.overTraces(command{
		use:   "graph TRACE...",
		short: "Show the call graph with counts and costs",
		long: `Write the call graph as an SVG picture, as input for Graphviz, or as tables of edges and
functions.

By default, the color of a function shows its self time. The color of an edge shows the
total time of its calls. Use --min-share and --top to keep large graphs readable.`,
		example: `  xray graph -m ./server --min-share 1% --format svg -o graph.svg trace.xray
  xray graph -m ./server --min-share 1% trace.xray | dot -Tpng > graph.png
  xray graph -m ./server -v self,p99 -b p99 --top 20 trace.xray`,
		inputs:  &c.inputs,
		output:  &c.output,
		formats: graphFormats,
		alias:   graphAlias(nil),
		flags:   c.add,
		check: func() error {
			_, err := c.view()
			return err
		},
		run: c.run,
	})
	c.complete(cmd)
	return cmd
}

func (c *graphing) run(s *session.Session) error {
	view, err := c.view()
	if err != nil {
		return err
	}
	sink, run, err := c.collect(s, c.inputs.Policy(), &view)
	if err != nil {
		return err
	}
	found := sink.Report(s.Clock)
	if c.trims() {
		found = found.Trim(c.minShare, c.top)
	}
	if c.output.IsReport() {
		return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
	}
	view.Notes = s.Caveats(run)
	return s.WriteForm(c.output.Path, run, func(w io.Writer) error {
		if c.output.Format == "dot" {
			return found.WriteDOT(w, symbolize.WithOthers(s.FullNames()), view)
		}
		left, err := found.WriteSVG(w, symbolize.WithOthers(s.FullNames()), view)
		reportLeftOutEdges(s.Streams, left)
		return err
	})
}
