package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/symbolize/lookup"
)

func (a *app) symbolizeCommand() *cobra.Command {
	var (
		flags   session.NameFlags
		trace   string
		inlines bool
		format  = "text"
		output  string
	)
	cmd := &cobra.Command{
		Use:   "symbolize [ID | 0xADDRESS]...",
		Short: "Translate function IDs and addresses to names",
		Long: `Print the name and source location of each ID or address, one per line in input order.
Without arguments, read them from standard input, one per line.

A decimal number is a function ID, as in traces, and refers to the binary or map of -m or
to --trace. The top 8 bits of an ID are the number of the shared object. A number that
starts with 0x is a link-time address. To select a shared object, put its number before
the ID or address, as in 2:17 or 2:0x4010.`,
		Example: `  xray symbolize -m ./server 17 18 0x4a10
  xray symbolize -m ./server --inlines --format json < ids.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			queries, err := lookup.Read(args, a.Stdin)
			if err != nil {
				return usageOfQuery(err)
			}
			s, err := flags.OpenNames(&a.Streams, cmd.Name(), trace)
			if err != nil {
				return err
			}
			defer s.Close()
			if s.Names == nil {
				return cli.Usagef("symbolize needs a map (-m) or a trace from xray's recorder (--trace)")
			}
			answers, err := lookup.Answer(queries, lookup.Options{
				Names: s.Names, Table: s.Table, Load: flags.Search(&a.Streams).Options, Inlines: inlines,
			})
			if err != nil {
				return usageOfQuery(err)
			}
			write := lookup.WriteText
			if format == "json" {
				write = lookup.WriteJSON
			}
			return a.WriteText(output, func(w io.Writer) error { return write(w, answers) })
		},
	}
	f := cmd.Flags()
	flags.AddFlags(f)
	f.StringVar(&trace, "trace", "", "interpret IDs as in `TRACE`")
	f.BoolVar(&inlines, "inlines", false, "also show inlined functions")
	cli.AddChoice(f, &format, "format", "f", "output `FORMAT`", "text", "json")
	cli.AddOutput(f, &output)
	cli.Spellings(f, nil)
	return cmd
}

// usageOfQuery makes an error in a query one of usage.
func usageOfQuery(err error) error {
	if errors.As(err, new(*lookup.Error)) {
		return cli.Usage(err)
	}
	return err
}
