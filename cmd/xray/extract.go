package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/coverage"
	"github.com/xray-tools/xray/symbolize/demangle"
)

func (a *app) extractCommand() *cobra.Command {
	var (
		symbols = true
		names   session.StyleFlags
		debug   session.DebugFlags
		format  = "yaml"
		output  string
		stats   bool
		top     = 20
	)
	cmd := &cobra.Command{
		Use:   "extract FILE",
		Short: "Extract the instrumentation map of a binary",
		Long: `Write the instrumentation map of an ELF file: the sleds, which are the instrumentation
points at function entries and exits, and the function IDs that traces use. As YAML, the
map includes names, and you can pass it with -m instead of the binary.

With --stats, show which functions have sleds, which have none and why, how much space the
sleds take, and the effect of other values of -fxray-instruction-threshold.`,
		Example: `  xray extract -o server.yaml ./server
  xray extract --format text ./server
  xray extract --stats ./server`,
		Args: cli.Operands("one FILE", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := debug.Options(&a.Streams)
			opts.Style = symbolize.Style(names.Style)
			if stats {
				return a.coverage(args[0], opts, &session.Output{Format: format, Path: output}, top)
			}
			if format == "markdown" || format == "html" {
				return cli.Usagef("--format %s requires --stats", format)
			}
			write := map[string]func(io.Writer, *symbolize.Map, symbolize.Names) error{
				"yaml": symbolize.WriteYAML, "json": symbolize.WriteJSON,
				"csv": symbolize.WriteCSV, "text": symbolize.WriteText,
			}[format]
			if !symbols {
				m, err := symbolize.LoadMap(args[0])
				if err != nil {
					return err
				}
				a.warnOfMoved(args[0], m)
				return a.WriteText(output, func(w io.Writer) error { return write(w, m, nil) })
			}
			table, err := symbolize.Load(args[0], opts)
			if err != nil {
				return err
			}
			defer table.Close()
			session.WarnOfRefused(&a.Streams, table)
			a.warnOfMoved(args[0], table.Map())
			return a.WriteText(output, func(w io.Writer) error { return write(w, table.Map(), table) })
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&symbols, "symbolize", "s", true, "show names")
	names.AddFlags(f)
	names.AddDemangle(f)
	debug.AddFlags(f)
	cli.AddChoice(f, &format, "format", "f", "output `FORMAT`; with --stats, yaml means text", "yaml", "json", "csv", "text", "markdown", "html")
	f.BoolVar(&stats, "stats", false, "show which functions have no sleds and why, and how much space sleds take")
	cli.AddTop(f, &top, "functions without sleds")
	cli.AddOutput(f, &output)
	cli.Spellings(f, nil)
	return cmd
}

// warnOfMoved warns if BOLT has rewritten a binary: it copies functions without their sleds.
func (a *app) warnOfMoved(path string, m *symbolize.Map) {
	if moved := coverage.Moved(path, m); moved > 0 {
		a.Say("warning: %s: BOLT has moved %d of %s away from their sleds, which never run: use a build without BOLT", path, moved, label.Count(uint64(len(m.Functions)), "function", "functions"))
	}
}

// coverage shows which functions of a binary have sleds.
func (a *app) coverage(path string, opts symbolize.Options, output *session.Output, top int) error {
	if output.Format == "yaml" {
		output.Format = string(report.Text)
	}
	table, err := symbolize.Load(path, opts)
	if err != nil {
		return err
	}
	defer table.Close()
	a.warnOfMoved(path, table.Map())
	if table.Binary() == nil {
		return fmt.Errorf("%s: coverage needs the binary itself, not a map", path)
	}
	name := demangle.Name
	if opts.Style == symbolize.Mangled {
		name = func(linkage string) string { return linkage }
	}
	found, err := coverage.Read(table.Binary(), table.Map().Sleds, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if output.Format != string(report.Text) && output.Format != string(report.Markdown) && output.Format != string(report.HTML) {
		top = 0
	}
	return session.WriteDoc(&a.Streams, output, &report.Doc{Kind: "extract", Body: found.Body(top)})
}
