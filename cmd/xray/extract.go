package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) extractCommand() *cobra.Command {
	var (
		symbols = true
		names   session.StyleFlags
		debug   session.DebugFlags
		format  = "yaml"
		output  string
	)
	cmd := &cobra.Command{
		Use:   "extract FILE",
		Short: "Extract the instrumentation map of a binary",
		Long: `Write the sleds of an ELF file: where each function is entered and left, and the ID by
which traces refer to it. The map as YAML has the names, too. Pass it with -m instead of
the binary.`,
		Example: `  xray extract -o server.yaml ./server
  xray extract --format text ./server`,
		Args: cli.Operands("one FILE", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := map[string]func(io.Writer, *symbolize.Map, symbolize.Names) error{
				"yaml": symbolize.WriteYAML, "json": symbolize.WriteJSON,
				"csv": symbolize.WriteCSV, "text": symbolize.WriteText,
			}[format]
			if !symbols {
				m, err := symbolize.LoadMap(args[0])
				if err != nil {
					return err
				}
				return a.WriteText(output, func(w io.Writer) error { return write(w, m, nil) })
			}
			opts := debug.Options(&a.Streams)
			opts.Style = symbolize.Style(names.Style)
			table, err := symbolize.Load(args[0], opts)
			if err != nil {
				return err
			}
			defer table.Close()
			session.WarnOfRefused(&a.Streams, table)
			return a.WriteText(output, func(w io.Writer) error { return write(w, table.Map(), table) })
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&symbols, "symbolize", "s", true, "show names")
	names.AddFlags(f)
	names.AddDemangle(f)
	debug.AddFlags(f)
	cli.AddChoice(f, &format, "format", "f", "output format", "yaml", "json", "csv", "text")
	cli.AddOutput(f, &output)
	cli.Spellings(f, nil)
	return cmd
}
