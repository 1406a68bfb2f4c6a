package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/internal/dump"
	"github.com/xray-tools/xray/reader"
)

// fromYAML reports whether the trace is trace YAML, whose blocks have no place in
// the file.
func (s *session) fromYAML() bool {
	for b, err := range s.trace.Blocks(reader.FileOrder) {
		return err == nil && b.Offset < 0
	}
	return false
}

func (a *app) fdrDumpCommand() *cobra.Command {
	var (
		flags  traceFlags
		verify bool
		output string
	)
	cmd := &cobra.Command{
		Use:     "fdr-dump TRACE",
		Aliases: []string{"dump"},
		Short:   "Show the records of a trace with offset, bytes and meaning",
		Long: `fdr-dump shows a trace record by record, as the file has them, with the thread,
CPU and time that follow from the records before. Damage is shown where it is.
Basic logs have fewer kinds of records and can be dumped too.`,
		Example: `  xray fdr-dump -m ./server trace.xray | less
  xray fdr-dump --verify trace.xray`,
		Args: operands("one TRACE", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			header := s.trace.Header(0)
			if s.fromYAML() {
				return fmt.Errorf("%s: trace YAML has no records on disk to show: `xray convert` makes a log of it", args[0])
			}
			var sum dump.Summary
			err = a.writeOutput(output, func(w io.Writer) (err error) {
				sum, err = dump.Annotate(w, &header, s.trace.Records(0), dump.Options{Names: s.names, Verify: verify})
				return err
			})
			if err == nil && verify && (sum.Violations > 0 || sum.Damaged > 0) {
				err = fmt.Errorf("%s: %s, %s", args[0],
					plural(sum.Violations, "record out of place", "records out of place"),
					plural(sum.Damaged, "byte damaged", "bytes damaged"))
			}
			return err
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	f.BoolVar(&verify, "verify", false, "check the order of records, and fail when anything is wrong")
	addOutput(f, &output)
	spellings(f, nil)
	return cmd
}
