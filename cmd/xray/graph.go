package main

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// graphFlags are shared by graph and graph-diff.
type graphFlags struct {
	edgeLabel, edgeColor     string
	vertexLabel, vertexColor string
	nameLimit                int
	minShare                 string
	share                    float64 // what minShare says, once it was read
	top                      int
	exact                    bool
	out                      reportFlags
}

func (g *graphFlags) add(f *pflag.FlagSet) {
	g.out.format = "dot"
	columns := " (" + strings.Join(columnNames(), ", ") + ")"
	f.StringVarP(&g.edgeLabel, "edge-label", "e", "", "`COLUMNS` that edges show, with commas between"+columns)
	f.StringVarP(&g.vertexLabel, "vertex-label", "v", "", "`COLUMNS` that functions show")
	f.StringVarP(&g.edgeColor, "edge-color", "c", "", "`COLUMN` that colours edges")
	f.StringVarP(&g.vertexColor, "vertex-color", "b", "", "`COLUMN` that colours functions")
	addCount(f, &g.nameLimit, "name-limit", "t", 0, "cut names in labels after `N` bytes")
	f.StringVar(&g.minShare, "min-share", "", "leave out what is below `PERCENT` of the time of the trace")
	addCount(f, &g.top, "top", "", 0, "keep only the top `N` functions by self time, and the ways to them")
	f.BoolVar(&g.exact, "exact", false, "never approximate quantiles, whatever memory that takes")
	g.out.add(f, "dot", "svg")
	addKeepGoing(f)
}

// graphColumn finds a column by its name here, or by that of account.
func graphColumn(name string) (graph.Column, error) {
	if name == "p99.9" {
		return graph.P999, nil
	}
	return graph.ParseColumn(name)
}

// complete lets shells complete the columns of cmd.
func (g *graphFlags) complete(cmd *cobra.Command) {
	for flag, lists := range map[string]bool{"edge-label": true, "vertex-label": true, "edge-color": false, "vertex-color": false} {
		completeColumns(cmd, flag, columnNames(), lists)
	}
}

func columnNames() []string {
	var names []string
	for c := graph.None; c <= graph.Max; c++ {
		names = append(names, c.String())
	}
	return names
}

// view starts from a default, from which a flag takes over when it is set. It
// checks all flags.
func (g *graphFlags) view() (graph.View, error) {
	v := graph.DefaultView()
	if err := g.parseShare(); err != nil {
		return v, err
	}
	v.NameLimit = g.nameLimit
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
				return v, usagef("--%s: %w", list.flag, err)
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
			return v, usagef("--%s: %w", one.flag, err)
		}
		*one.to = c
	}
	return v, nil
}

// options keeps quantiles only where they are shown: they cost half the time.
func (g *graphFlags) options(v *graph.View) graph.Options {
	quantiles := g.out.isReport() || v.EdgeColor.IsQuantile() || v.FunctionColor.IsQuantile()
	for _, list := range [][]graph.Column{v.EdgeLabels, v.FunctionLabels} {
		for _, c := range list {
			quantiles = quantiles || c.IsQuantile()
		}
	}
	return graph.Options{Quantiles: quantiles, Exact: g.exact}
}

// parseShare reads --min-share as a fraction.
func (g *graphFlags) parseShare() error {
	if g.minShare == "" {
		return nil
	}
	p, err := strconv.ParseFloat(strings.TrimSuffix(g.minShare, "%"), 64)
	if err != nil || !(p >= 0 && p <= 100) {
		return usagef("--min-share: %q is no percentage", g.minShare)
	}
	g.share = p / 100
	return nil
}

// trims reports whether something is to be left out.
func (g *graphFlags) trims() bool { return g.share > 0 || g.top > 0 }

// collect builds the call graph of a trace, as far as view shows it.
func (g *graphFlags) collect(s *session, policy calls.Policy, view *graph.View) (*graph.Analysis, *calls.Stats, error) {
	return analyse(s, calls.Options{Policy: policy}, func() *graph.Analysis {
		return graph.New(g.options(view))
	})
}

// tellLeft says how many edges a picture does not show.
func (a *app) tellLeft(edges int) {
	if edges > 0 {
		fmt.Fprintf(a.stderr, "xray: too large to draw all: %d edges left out of the picture; "+
			"--top and --min-share choose what is drawn, and --format dot has all\n", edges)
	}
}

// spellings makes the options known by the names of llvm-xray, and by others.
func (g *graphFlags) spellings(f *pflag.FlagSet, others map[string]string) {
	alias := map[string]string{"color-edges": "edge-color", "color-vertices": "vertex-color"}
	maps.Copy(alias, others)
	spellings(f, alias)
}

func (a *app) graphCommand() *cobra.Command {
	var (
		flags traceFlags
		g     graphFlags
		match matchFlags
	)
	cmd := &cobra.Command{
		Use:   "graph TRACE...",
		Short: "Show the call graph with counts and costs",
		Long: `Write the call graph as a picture, for Graphviz, or as tables of edges and functions.

By default, functions are coloured by self time and edges by the time of the calls
along them. --min-share and --top keep big graphs readable.`,
		Example: `  xray graph -m ./server --min-share 1 --format svg -o graph.svg trace.xray
  xray graph -m ./server --min-share 1 trace.xray | dot -Tpng > graph.png
  xray graph -m ./server -v self,p99 -b p99 --top 20 trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			view, err := g.view()
			if err != nil {
				return err
			}
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			sink, stats, err := g.collect(s, match.policy(), &view)
			if err != nil {
				return err
			}
			found := sink.Report(s.clock)
			if g.trims() {
				found = found.Trim(g.share, g.top)
			}
			if g.out.isReport() {
				err = s.writeDoc(&g.out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			} else {
				err = s.writeFile(g.out.output, stats, func(w io.Writer) error {
					if g.out.format == "dot" {
						return found.WriteDOT(w, s.names, view)
					}
					left, err := found.WriteSVG(w, s.names, view)
					a.tellLeft(left)
					return err
				})
			}
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	g.add(f)
	g.complete(cmd)
	match.add(f)
	g.spellings(f, nil)
	return cmd
}
