package main

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// Exit statuses of diff --gate.
const (
	exitGate         = exitStatus(3)
	exitUndecided    = exitStatus(4)
	exitInconclusive = exitStatus(5)
)

func (a *app) diffCommand() *cobra.Command {
	d := diffFlags{seed: 1, minShare: "1%", top: 10}
	var out reportFlags
	cmd := &cobra.Command{
		Use:   "diff A... -- B...",
		Short: "Compare runs and report regressions with confidence intervals",
		Long: `diff compares the runs of two sides. Each trace before -- is a run of side A, and each
trace after it a run of side B. diff reports which functions take more or less time in
B, and why. The parts add up to the whole difference, each with its confidence
interval. Runs of different builds are matched by the names of functions.

With --root, diff compares the outermost calls of these functions. Without it, diff
compares all functions separately.

--gate fails if a metric of B exceeds that of A by more than a limit, beyond chance:
p99:+5%, self:REGEXP:+3%. The exit status is 3 if a gate fails, 4 if there are too few
runs to decide on a gate, and 5 if an interval reaches across its limit.`,
		Example: `  xray diff -m1 ./server.old -m2 ./server old.*.xray -- new.*.xray
  xray diff --root '^handleRequest' old.*.xray -- new.*.xray
  xray diff --root '^handleRequest' --gate p99:+5% --gate 'self:parse.*:+3%' old.*.xray -- new.*.xray`,
		Args: operands("traces of both sides, with -- between them", 2, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 1 || at == len(args) {
				return usagef("give traces of both sides, with -- between them: A... -- B...")
			}
			options, err := d.parse()
			if err != nil {
				return err
			}
			comparison := diff.NewComparison(d.root != nil, d.rootText, d.gates)
			blocks := diff.FewRuns(at, len(args)-at)
			for i, path := range args {
				side := diff.A
				if i >= at {
					side = diff.B
				}
				if err := d.add(a, cmd, comparison, side, path, blocks); err != nil {
					return err
				}
			}
			found, err := comparison.Report(options)
			if err != nil {
				return err
			}
			view := diff.View{Top: d.top}
			if out.short(d.flags.style) {
				view.Short = symbolize.Shorten
			}
			doc := &report.Doc{
				Kind: cmd.Name(), Clock: found.Clock, Caveats: d.caveats.list(len(args)),
				Body: found.Body(view),
			}
			if err := a.writeDoc(&out, doc); err != nil {
				return err
			}
			return a.gateStatus(found)
		},
	}
	f := cmd.Flags()
	d.flags.nameFlags.add(f)
	f.StringArrayVar(&d.maps[diff.A], "instr-map-1", nil, "names of side A alone, from `FILE` (-m1)")
	f.StringArrayVar(&d.maps[diff.B], "instr-map-2", nil, "names of side B alone, from `FILE` (-m2)")
	d.flags.addGroup(f)
	d.flags.addStrict(f)
	d.flags.filter.addPlace(f)
	d.flags.paths.add(f)
	f.StringVar(&d.rootText, "root", "", "compare the outermost calls of functions that match `REGEXP`")
	f.StringArrayVar(&d.gateTexts, "gate", nil,
		"fail if a metric grows by more than a limit: `METRIC[:REGEXP]:+LIMIT%`; repeatable")
	f.StringVar(&d.minShare, "min-share", d.minShare, "leave out functions with less than `PERCENT` of the time on both sides")
	addCount(f, &d.top, "top", "n", 0, "show the first `N` rows of each table; 0 shows all; JSON and CSV have all")
	f.Uint64Var(&d.seed, "seed", d.seed, "random seed")
	out.add(f)
	addKeepGoing(f)
	spellings(f, map[string]string{"m1": "instr-map-1", "m2": "instr-map-2", "func": "root"})
	return cmd
}

// diffFlags are the flags of diff.
type diffFlags struct {
	flags     traceFlags
	maps      [2][]string // of one side alone
	rootText  string
	root      *regexp.Regexp // nil without --root
	gateTexts []string
	gates     []diff.Gate
	minShare  string
	top       int
	seed      uint64
	caveats   sharedCaveats
}

// parse reads what flags say, but for the times, which need a clock.
func (d *diffFlags) parse() (diff.ReportOptions, error) {
	options := diff.ReportOptions{Seed: d.seed}
	var err error
	if options.MinShare, err = parseShare("min-share", d.minShare); err != nil {
		return options, err
	}
	if d.rootText != "" {
		if d.root, err = regexp.Compile(d.rootText); err != nil {
			return options, usagef("--root: %w", err)
		}
	}
	for _, text := range d.gateTexts {
		g, err := diff.ParseGate(text, d.root != nil)
		if err != nil {
			return options, usagef("--gate: %w", err)
		}
		d.gates = append(d.gates, g)
	}
	return options, nil
}

// add reads a run.
func (d *diffFlags) add(a *app, cmd *cobra.Command, to *diff.Comparison, side diff.Side, path string,
	blocks bool) error {
	flags := d.flags
	if len(d.maps[side]) > 0 {
		flags.maps = d.maps[side]
	}
	s, err := a.open(cmd, &flags, []string{path})
	if err != nil {
		return err
	}
	defer s.close()
	options := diff.Options{}
	if blocks {
		first, err := s.start()
		if err != nil {
			return err
		}
		options.Blocks = diff.Cut(max(first, s.filter.From), s.last, s.clock)
	}
	if d.root != nil {
		options.Root, options.Thread = s.chooseFuncs("root", d.root), s.filter.Thread
		options.From, options.To = s.filter.From, s.filter.To
		s.filter = calls.Filter{}
	}
	sink, stats, err := analyse(s, calls.Options{Paths: d.root != nil, Roots: options.Root, Nested: d.root == nil},
		func() *diff.Analysis { return diff.NewAnalysis(options) })
	if err != nil {
		return err
	}
	if sums := s.sums(); stats.Calls == 0 && sums != "" {
		return fmt.Errorf("%s: %s: there are no single calls to compare: record the calls themselves", path, sums)
	}
	s.summary(stats)
	d.caveats.add(s.caveats(stats))
	return to.Add(side, sink, diff.Run{Name: path, Clock: s.clock, Names: s.names})
}

// gateStatus tells which gates did not pass, and what they make of the exit status.
func (a *app) gateStatus(r *diff.Report) error {
	var fails, undecided, inconclusive error
	for _, g := range r.Gates {
		switch g.Verdict {
		case diff.Fail:
			fmt.Fprintf(a.stderr, "xray: the gate %s fails\n", g.Gate)
			fails = exitGate
		case diff.Undecided:
			fmt.Fprintf(a.stderr, "xray: too few runs to decide on the gate %s\n", g.Gate)
			undecided = exitUndecided
		case diff.Inconclusive:
			fmt.Fprintf(a.stderr, "xray: the interval reaches across the limit of the gate %s: give more runs, or raise the limit\n", g.Gate)
			inconclusive = exitInconclusive
		}
	}
	return cmp.Or(fails, undecided, inconclusive)
}
