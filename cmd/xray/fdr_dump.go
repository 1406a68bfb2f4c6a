package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/internal/dump"
	"github.com/xray-tools/xray/internal/tracetext"
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

// fdrDump is what fdr-dump is asked for.
type fdrDump struct {
	flags          traceFlags
	verify         bool
	text, fromText bool
	output         string
}

func (a *app) fdrDumpCommand() *cobra.Command {
	var d fdrDump
	cmd := &cobra.Command{
		Use:     "fdr-dump TRACE",
		Aliases: []string{"dump"},
		Short:   "Show the records of a trace with offset, bytes and meaning",
		Long: `Show a trace record by record, as the file has them, with the thread, CPU and
time that follow from the records before. Damage is shown where it is. Basic logs
have fewer kinds of records and can be dumped too.

--text writes a form that can be edited, and --from-text turns it back into a
trace with the same bytes.`,
		Example: `  xray fdr-dump -m ./server trace.xray | less
  xray fdr-dump --verify trace.xray
  xray fdr-dump --text -o trace.txt trace.xray
  xray fdr-dump --from-text -o edited.xray trace.txt`,
		Args: operands("one TRACE", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case d.text && d.fromText:
				return usagef("choose one of --text and --from-text")
			case d.fromText:
				return a.assembleText(&d, args[0])
			case d.text && (d.verify || len(d.flags.maps) > 0):
				return usagef("--text shows records as they are: -m and --verify do not apply")
			}
			s, err := a.open(cmd, &d.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			if s.fromYAML() {
				return fmt.Errorf("%s: trace YAML has no records on disk to show: `xray convert` makes a log of it", args[0])
			}
			if d.text {
				return a.writeOutput(d.output, func(w io.Writer) error {
					b := s.trace.Bytes(0)
					return tracetext.Format(w, b, b.Size())
				})
			}
			return a.annotate(s, &d, args[0])
		},
	}
	f := cmd.Flags()
	d.flags.nameFlags.add(f)
	f.BoolVar(&d.verify, "verify", false, "check the order of records, and fail when anything is wrong")
	f.BoolVar(&d.text, "text", false, "write the text form, which --from-text turns back into the same bytes")
	f.BoolVar(&d.fromText, "from-text", false, "read the text form, and write the trace that it describes")
	addOutput(f, &d.output)
	spellings(f, nil)
	return cmd
}

// annotate shows the records of a trace with their bytes.
func (a *app) annotate(s *session, d *fdrDump, path string) error {
	header := s.trace.Header(0)
	var sum dump.Summary
	err := a.writeOutput(d.output, func(w io.Writer) (err error) {
		sum, err = dump.Annotate(w, &header, s.trace.Records(0), dump.Options{Names: s.names, Verify: d.verify})
		return err
	})
	if err == nil && d.verify && (sum.Violations > 0 || sum.Damaged > 0) {
		err = fmt.Errorf("%s: %s, %s", path,
			plural(sum.Violations, "record out of place", "records out of place"),
			plural(sum.Damaged, "byte damaged", "bytes damaged"))
	}
	return err
}

// assembleText writes the trace of a text.
func (a *app) assembleText(d *fdrDump, path string) error {
	if d.verify || len(d.flags.maps) > 0 {
		return usagef("--from-text writes a trace: -m and --verify do not apply")
	}
	if err := a.refuseTerminal(d.output, "a trace"); err != nil {
		return err
	}
	in := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	err := a.writeData(d.output, func(w io.Writer) error { return tracetext.Assemble(w, in) })
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}
