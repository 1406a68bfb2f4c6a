package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert/fdrdump"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
)

// fromYAML reports whether the trace is trace YAML, whose blocks have no position in the file.
func fromYAML(s *session.Session) bool {
	for b, err := range s.Trace.Blocks(reader.FileOrder) {
		return err == nil && b.Offset < 0
	}
	return false
}

// fdrDump is one run of fdr-dump.
type fdrDump struct {
	*app
	inputs         session.Inputs
	verify         bool
	text, fromText bool
	output         string
}

func (a *app) fdrDumpCommand() *cobra.Command {
	d := fdrDump{app: a, inputs: session.Inputs{Lenient: true}}
	cmd := &cobra.Command{
		Use:     "fdr-dump TRACE",
		Aliases: []string{"dump"},
		Short:   "Show the records of a trace with their offset, bytes and meaning",
		Long: `Show the records of an FDR log or a basic log in file order. For each record, show the
thread, CPU and time, which follow from the records before it. Damage is shown where it
occurs.

To edit a trace, write it as text with --text and convert it back with --from-text. If
you change nothing, the result is identical byte for byte.`,
		Example: `  xray fdr-dump -m ./server trace.xray | less
  xray fdr-dump --verify trace.xray
  xray fdr-dump --text -o trace.txt trace.xray
  xray fdr-dump --from-text -o edited.xray trace.txt`,
		Args: cli.Operands("one TRACE", 1, false),
		RunE: d.run,
	}
	f := cmd.Flags()
	d.inputs.AddFlags(f)
	f.BoolVar(&d.verify, "verify", false, "check the order of records and fail if any is out of place")
	f.BoolVar(&d.text, "text", false, "write editable text, which --from-text converts back to the same bytes")
	f.BoolVar(&d.fromText, "from-text", false, "read the output of --text and write the trace that it describes")
	cli.AddOutput(f, &d.output)
	cli.Spellings(f, nil)
	return cmd
}

func (d *fdrDump) run(cmd *cobra.Command, args []string) error {
	annotates := d.verify || len(d.inputs.Words()) > 0
	switch {
	case d.text && d.fromText:
		return cli.Usagef("use only one of --text and --from-text")
	case d.fromText && annotates:
		return cli.Usagef("--from-text writes a trace: -m and --verify do not apply")
	case d.fromText:
		return d.assemble(args[0])
	case d.text && annotates:
		return cli.Usagef("--text shows records as they are: -m and --verify do not apply")
	}
	s, err := d.inputs.Open(&d.Streams, cmd.Name(), args...)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Trace.Header(0).Type == reader.Profiling {
		return fmt.Errorf("%s: a profile has no individual records: view it with xray stack", s.Trace.Files()[0])
	}
	if fromYAML(s) {
		return fmt.Errorf("%s: trace YAML has no records on disk to show: convert it with xray convert first", s.Trace.Files()[0])
	}
	if d.text {
		return d.WriteText(d.output, func(w io.Writer) error {
			b := s.Trace.Bytes(0)
			return tracetext.Format(w, b, b.Size())
		})
	}
	return d.annotate(s, s.Trace.Files()[0])
}

// annotate shows the records of a trace with their bytes.
func (d *fdrDump) annotate(s *session.Session, path string) error {
	header := s.Trace.Header(0)
	var sum fdrdump.Summary
	err := d.WriteText(d.output, func(w io.Writer) (err error) {
		sum, err = fdrdump.Annotate(w, &header, s.Trace.Records(0), fdrdump.Options{Names: s.Names, Verify: d.verify})
		return err
	})
	if err == nil && d.verify && (sum.Violations > 0 || sum.Damaged > 0) {
		err = fmt.Errorf("%s: %s, %s", path,
			label.Count(uint64(sum.Violations), "record out of place", "records out of place"),
			label.Count(uint64(sum.Damaged), "byte damaged", "bytes damaged"))
	}
	return err
}

// assemble writes the trace that a text describes.
func (d *fdrDump) assemble(path string) error {
	if err := d.RefuseTerminal(d.output, "a trace"); err != nil {
		return err
	}
	in := d.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	err := d.WriteData(d.output, func(w io.Writer) error { return tracetext.Assemble(w, in) })
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}
