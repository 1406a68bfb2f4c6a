package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// Exit statuses of diff --gate.
const (
	exitGate         = cli.ExitStatus(3)
	exitUndecided    = cli.ExitStatus(4)
	exitInconclusive = cli.ExitStatus(5)
)

// diffing is one run of diff.
type diffing struct {
	*app
	inputs    session.Inputs
	output    session.Output
	maps      session.MapPair
	root      string
	gateTexts []string
	minShare  float64
	top       int
	seed      uint64
	caveats   survey.SharedCaveats
	memory    int64 // memory of the runs read so far, in bytes
}

func (a *app) diffCommand() *cobra.Command {
	d := diffing{
		app: a, minShare: 0.01, top: 10, seed: 1,
		inputs: session.Inputs{Scope: session.ByPlace, Templates: true, PathMemory: true, Summaries: true},
	}
	cmd := &cobra.Command{
		Use:   "diff A... -- B...",
		Short: "Compare runs and report regressions with confidence intervals",
		Long: `Compare two groups of runs, A and B. Each trace before -- is a run of A, and each trace
after it is a run of B. In a summary, each host is a run. diff reports which functions take
more or less time in B, and why. The parts add up to the whole difference. Each part has a
confidence interval. diff matches functions by name, so the builds can differ.

With --root, diff compares the outermost calls of the selected functions. Without it, diff
compares all functions separately.

--gate fails if a metric of B exceeds that of A by more than a limit and chance does not
explain it: p99:+5%, self:REGEXP:+3%. The exit status is 3 if a gate fails, 4 if there are
too few runs to decide, and 5 if the confidence interval includes the limit.`,
		Example: `  xray diff -m1 ./server.old -m2 ./server old.*.xray -- new.*.xray
  xray diff --root '^handleRequest' old.*.xray -- new.*.xray
  xray diff --root '^handleRequest' --gate p99:+5% --gate 'self:parse.*:+3%' old.*.xray -- new.*.xray`,
		Args: cli.Operands("the traces of A and B, with -- between them", 2, true),
		RunE: d.run,
	}
	f := cmd.Flags()
	d.inputs.AddFlags(f)
	d.maps.AddFlags(f)
	session.AddRoot(f, &d.root)
	f.StringArrayVar(&d.gateTexts, "gate", nil,
		"fail if a metric grows by more than a limit, `METRIC[:REGEXP]:+LIMIT%`; repeatable")
	cli.AddShare(f, &d.minShare, "min-share", "omit functions with less than `PERCENT` of the time in both A and B")
	cli.AddTop(f, &d.top, "rows of each table; JSON and CSV have all")
	cli.AddSeed(f, &d.seed)
	d.output.AddFlags(f)
	cli.AddKeepGoing(f)
	cli.Spellings(f, map[string]string{"m1": "instr-map-1", "m2": "instr-map-2", "func": "root"})
	return cmd
}

func (d *diffing) run(cmd *cobra.Command, args []string) error {
	at := cmd.ArgsLenAtDash()
	if at < 1 || at == len(args) {
		return cli.Usagef("pass the traces of A and B with -- between them: A... -- B...")
	}
	gates, err := d.gates()
	if err != nil {
		return err
	}
	comparison := diff.NewComparison(d.root != "", d.root, gates)
	var runs [2]int
	files := make([]*session.Repetitions, len(args))
	for i, path := range args {
		side := sideOf(i, at)
		if files[i], err = d.inputs.With(d.maps[side]).Repetitions(&d.Streams, path); err != nil {
			return err
		}
		runs[side] += files[i].Len()
	}
	blocks := diff.FewRuns(runs[diff.A], runs[diff.B])
	for i, file := range files {
		for n := range file.Len() {
			s, name, err := file.Open(&d.Streams, cmd.Name(), n)
			if err == nil {
				err = d.add(s, comparison, sideOf(i, at), name, blocks)
			}
			if err != nil {
				return err
			}
		}
	}
	found, err := comparison.Report(diff.ReportOptions{Seed: d.seed, MinShare: d.minShare})
	if err != nil {
		return err
	}
	view := diff.View{Top: d.top}
	if d.output.Short(d.inputs.Style) {
		view.Short = symbolize.Shorten
	}
	doc := &report.Doc{Kind: cmd.Name(), Clock: found.Clock, Caveats: d.caveats.List(runs[diff.A] + runs[diff.B]), Body: found.Body(view)}
	if err := session.WriteDoc(&d.Streams, &d.output, doc); err != nil {
		return err
	}
	return d.gateStatus(found)
}

// gates reads --gate. It also checks --root.
func (d *diffing) gates() ([]diff.Gate, error) {
	if _, err := session.Regexp("root", d.root); err != nil {
		return nil, err
	}
	var gates []diff.Gate
	for _, text := range d.gateTexts {
		g, err := diff.ParseGate(text, d.root != "")
		if err != nil {
			return nil, cli.Usagef("--gate: %w", err)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// sideOf returns the side of an argument. Side B begins at index b.
func sideOf(arg, b int) diff.Side {
	if arg >= b {
		return diff.B
	}
	return diff.A
}

// add reads a run and closes its session.
func (d *diffing) add(s *session.Session, to *diff.Comparison, side diff.Side, name string, blocks bool) error {
	defer s.Close()
	name = remote.Name(name)
	if sums := s.NoCalls(); sums != nil {
		return fmt.Errorf("%s: %w", name, sums)
	}
	var err error
	options, scope := diff.Options{}, s.Scope
	if blocks {
		span, err := s.Span()
		if err != nil {
			return err
		}
		options.Blocks = diff.Cut(max(span.First, scope.From), span.Last, s.Clock)
	}
	if s.Alias == nil {
		options.Values = s.Expressions()
	}
	if d.root != "" {
		if options.Root, err = s.ChooseFuncs("root", d.root); err != nil {
			return err
		}
		options.Thread, options.From, options.To = scope.Thread, scope.From, scope.To
		scope = session.Scope{}
	}
	how := calls.Options{Paths: d.root != "", Roots: options.Root, Nested: d.root == ""}
	all := s.TableMemory
	s.TableMemory = max(all-d.memory, 1)
	sink, run, err := session.Analyze(s, scope, how, func() *diff.Analysis { return diff.NewAnalysis(options) })
	if over := new(calls.MemoryError); errors.As(err, &over) {
		over.Limit = all // the limit for all runs
	}
	if err != nil {
		return err
	}
	d.memory += sink.Memory()
	s.Summary(run.Stats)
	caveats := s.Caveats(run)
	if s.Summed() {
		caveats = append(caveats, fmt.Sprintf("Percentiles of summaries may be off by up to %.1f%%.", 100*quantile.RelativeError))
	}
	d.caveats.Add(caveats)
	return to.Add(side, sink, diff.Run{Name: name, Clock: s.Clock, Names: s.Names})
}

// gateStatus reports the gates that did not pass, and returns the exit status.
func (a *app) gateStatus(r *diff.Report) error {
	var fails, undecided, inconclusive error
	for _, g := range r.Gates {
		switch g.Verdict {
		case diff.Fail:
			fmt.Fprintf(a.Stderr, "xray: gate %s failed\n", g.Gate)
			fails = exitGate
		case diff.Undecided:
			fmt.Fprintf(a.Stderr, "xray: gate %s is undecided: too few runs\n", g.Gate)
			undecided = exitUndecided
		case diff.Inconclusive:
			fmt.Fprintf(a.Stderr, "xray: gate %s is inconclusive: the confidence interval includes the limit. Pass more runs, or raise the limit\n", g.Gate)
			inconclusive = exitInconclusive
		}
	}
	return cmp.Or(fails, undecided, inconclusive)
}
