package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/symbolize"
)

func (a *app) extractCommand() *cobra.Command {
	var (
		symbols = true
		names   styleFlags
		debug   debugFlags
		format  = "yaml"
		output  string
	)
	cmd := &cobra.Command{
		Use:   "extract FILE",
		Short: "Extract the instrumentation map of a binary",
		Long: `extract writes the sleds of an ELF file: where a function is entered and left,
and by which id traces call it. As YAML, the map with its names stands in for
the binary wherever one is asked for (-m).`,
		Example: `  xray extract -o server.yaml ./server
  xray extract --format text ./server`,
		Args: operands("one FILE", 1, false),
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
				return a.writeOutput(output, func(w io.Writer) error { return write(w, m, nil) })
			}
			opts := debug.options(a)
			opts.Style = symbolize.Style(names.style)
			table, err := symbolize.Load(args[0], opts)
			if err != nil {
				return err
			}
			defer table.Close()
			a.warnOfRefused(table)
			return a.writeOutput(output, func(w io.Writer) error { return write(w, table.Map(), table) })
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&symbols, "symbolize", "s", true, "show names")
	names.add(f)
	names.addDemangle(f)
	debug.add(f)
	addChoice(f, &format, "format", "f", "what to write", "yaml", "json", "csv", "text")
	addOutput(f, &output)
	spellings(f, nil)
	return cmd
}
