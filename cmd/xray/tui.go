package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/browse"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/reader"
)

// insteadOfTUI says what to do without a terminal.
const insteadOfTUI = "use xray account, stack and slowest to write text"

func (a *app) tuiCommand() *cobra.Command {
	inputs := session.Inputs{Scope: session.ByPlace, PathMemory: true, Templates: true}
	source := session.SourceFlags{Source: true}
	sort := "self"
	cmd := a.overTraces(command{
		use:   "tui TRACE...",
		short: "Browse a trace in the terminal",
		long: `Browse a trace in the terminal: a sortable, searchable table of functions with callers,
callees and histograms, the call tree, the threads, the slowest calls of a function with
their call trees, and source code. Press ? for the keys.`,
		example: `  xray tui -m ./server trace.xray`,
		inputs:  &inputs,
		flags: func(f *pflag.FlagSet) {
			addBrowserSort(f, &sort)
			source.AddRoots(f)
		},
		check: func() error {
			return errors.Join(checkBrowserSort(sort), browse.NeedTerminal(&a.Streams, "xray account and xray stack write text"))
		},
		run: func(s *session.Session) error {
			names := s.ShownNames(&session.Output{Format: "text"})
			d, run, err := browse.Collect(s, names, nil)
			if err != nil {
				return err
			}
			sources, err := s.Sources(&source)
			if err != nil {
				return err
			}
			d.Notes = s.Caveats(run)
			s.Silence()
			d.Slowest = func(fn reader.FuncID, width int) ([]string, error) {
				return browse.Slowest(s, names, fn, width)
			}
			d.Source = func(fn reader.FuncID, _ int) ([]string, error) { return browse.Source(sources, names, fn) }
			return browse.Show(context.Background(), tui.New(d, sort), nil, insteadOfTUI)
		},
	})
	cli.CompleteColumns(cmd, "sort", tui.Columns(), false)
	return cmd
}

func addBrowserSort(f *pflag.FlagSet, sort *string) {
	f.StringVarP(sort, "sort", "s", *sort, "sort functions by `COLUMN`: "+strings.Join(tui.Columns(), ", "))
}

func checkBrowserSort(sort string) error {
	if err := tui.Sort(nil, sort, false); err != nil {
		return cli.Usagef("--sort: %w", err)
	}
	return nil
}
