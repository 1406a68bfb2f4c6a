package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
)

// ticketReport is one run of report.
type ticketReport struct {
	inputs session.Inputs
	output session.Output
	root   string
	slow   string
	top    int
}

func (a *app) reportCommand() *cobra.Command {
	c := ticketReport{
		inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true},
		output: session.Output{ByName: true},
		slow:   autoSlow, top: 20,
	}
	return a.overTraces(command{
		use:   "report TRACE...",
		short: "Write a one-page report about a trace",
		long: `Write one document with the results of info, account, stack, why and slowest: what was
recorded and what is missing, the functions with the most self time, a flame graph (in
HTML) or the heaviest call paths, why the slow calls of a function were slow, and the
slowest of them.

Without --root, report chooses the function whose slow calls lose the most time, as xray
why does.

Without --format, the name of the output file selects the format: HTML for .html, and
Markdown for .md.`,
		example: `  xray report -m ./server -o report.html trace.xray
  xray report -m ./server -f markdown trace.xray | xclip`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"func": "root"},
		flags: func(f *pflag.FlagSet) {
			session.AddRoot(f, &c.root)
			addAutoSlow(f, &c.slow)
			cli.AddTop(f, &c.top, "functions")
		},
		run: c.run,
	})
}

func (c *ticketReport) run(s *session.Session) error {
	names := s.ShownNames(&c.output)
	if _, err := s.Span(); err != nil {
		return err
	}
	var body []report.Node
	add := func(key, title string, nodes ...report.Node) {
		body = append(body, &report.Section{Key: key, Title: title, Body: nodes})
	}
	var found *survey.Report
	err := s.Pass(func(func(*calls.Unmatched) error) (err error) {
		found, err = survey.Run(s.Trace, calls.Options{Code: s.Code})
		return err
	})
	if err != nil {
		return err
	}
	add("info", "Trace", describe(s, found)...)

	explained, list := newExplaining(), newSlowest()
	explained.root, explained.slow, explained.slowest = c.root, c.slow, list.keep(s)
	var choice why.Options
	chooses := false
	if c.root == "" {
		// The same pass chooses the root, if it has the calls that why wants.
		var err error
		if choice, err = explained.options(s); err != nil {
			return err
		}
		chooses = choice.Calls.Interrupts == nil && s.Scope.Filter.All() && s.Alias == nil
	}
	off := s.OffCPU()
	sink, run, err := session.Analyze(s, s.Scope, calls.Options{Nested: true, Paths: true, OffCPU: off}, func() *overview {
		o := &overview{
			Analysis: account.New(account.Options{OffCPU: off != nil}),
			paths:    stack.New(stack.Options{OffCPU: off != nil, ThreadName: s.Trace.ThreadName}),
		}
		if chooses {
			o.roots = why.NewRootFinder(choice)
		}
		return o
	})
	if err != nil {
		return err
	}
	explained.finder, explained.finderStats = sink.roots, run.Stats
	functions := sink.Analysis.Report(s.Clock.Frequency)
	functions.Limited = run.Limited
	functions.Sort(account.BySelf, true, s.Names)
	functions.Top(c.top)
	add("account", "Functions", functions.Body(names, account.View{})...)

	add("stack", "Call paths", sink.paths.Report(s.Clock).Body(names, stack.View{Top: shownStacks})...)
	slow, err := c.slowCalls(s, names, &explained, list)
	if err != nil {
		return err
	}
	return s.Report(&c.output, run, func(symbolize.Names) []report.Node { return append(body, slow...) })
}

// overview is account and stack in one pass, and what chooses the root for why. Sums of calls that were not recorded
// are for functions alone.
type overview struct {
	*account.Analysis
	paths *stack.Analysis
	roots *why.RootFinder // or nil
}

// Memory implements [calls.MemoryUser].
func (o *overview) Memory() int64 {
	held := o.Analysis.Memory() + o.paths.Memory()
	if o.roots != nil {
		held += o.roots.Memory()
	}
	return held
}

// Calls implements [calls.Sink].
func (o *overview) Calls(b *calls.Batch) error {
	if o.roots != nil {
		if err := o.roots.Calls(b); err != nil {
			return err
		}
	}
	return cmp.Or(o.Analysis.Calls(b), o.paths.Calls(b))
}

// Sums implements [calls.SumSink].
func (o *overview) Sums(sums *calls.Sums) error {
	return cmp.Or(o.Analysis.Sums(sums), o.paths.Sums(sums))
}

// Merge implements [calls.Analysis].
func (o *overview) Merge(other *overview) {
	o.Analysis.Merge(other.Analysis)
	o.paths.Merge(other.paths)
	if o.roots != nil {
		o.roots.Merge(other.roots)
	}
}

// shownStacks is the number of stacks shown.
const shownStacks = 5

// slowCalls returns the parts about slow calls, or the reason why there are none.
func (c *ticketReport) slowCalls(s *session.Session, names symbolize.Names, explained *explaining, list slowestRun) ([]report.Node, error) {
	part := func(key, title string, body ...report.Node) *report.Section {
		return &report.Section{Key: key, Title: title, Body: body}
	}
	because, run, err := explained.explain(s)
	if err != nil {
		if run == nil {
			return nil, err // the flags are invalid
		}
		text := err.Error()
		return []report.Node{part("why", "Slow calls", report.Notes{strings.ToUpper(text[:1]) + text[1:] + "."})}, nil
	}
	root := func(fn reader.FuncID) bool { return fn == because.Root }
	if c.root != "" {
		if root, err = s.ChooseFuncs("root", c.root); err != nil {
			return nil, err
		}
	}
	title := "Why slow calls were slow"
	if because.Root != 0 {
		title = fmt.Sprintf("Why slow calls of %s were slow", symbolize.Label(names, because.Root))
	}
	view := explained.view(s) // without examples: the slowest calls follow
	slowest, _, err := list.find(s, root, because.Slowest)
	if err != nil {
		return nil, err
	}
	return []report.Node{
		part("why", title, because.Body(names, view)...),
		part("slowest_calls", "Slowest calls", slowest.Body(names, list.view())...),
	}, nil
}
