package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert/pack"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) packCommand() *cobra.Command {
	var p packing
	return a.overTraces(command{
		use:   "pack TRACE -o FILE",
		short: "Add names and source code to a trace",
		long: `Write a self-contained copy of a trace that you can analyze on another machine or years
later. The copy includes the name, file and line of each function in the trace, the build
IDs of the binaries, and with --source, the current source code of these functions. All
commands use the packed names unless you pass -m.`,
		example: `  xray pack -m ./server -o packed.xray trace.xray
  xray pack -m ./server --source -o packed.xray trace.xray`,
		args:   cli.Operands("one TRACE", 1, false),
		inputs: &p.inputs,
		flags: func(f *pflag.FlagSet) {
			// The only error is that there is no such flag.
			_ = f.MarkHidden("names")
			p.source.AddFlags(f, "include the source code of functions if the source files are on this machine and unchanged")
			cli.AddOutput(f, &p.output)
		},
		check: func() error {
			p.inputs.Style = string(symbolize.Mangled)
			return errors.Join(a.RefuseTerminal(p.output, "fdr"), p.source.Check())
		},
		run: p.run,
	})
}

// packing is one run of pack.
type packing struct {
	inputs session.Inputs
	source session.SourceFlags
	output string
}

func (p *packing) run(s *session.Session) error {
	recording, err := p.recording(s)
	if err != nil {
		return err
	}
	start, err := s.Start()
	if err != nil {
		return err
	}
	header := s.Trace.Header(0)
	header.CycleFrequency = s.Clock.Frequency
	return s.WriteData(p.output, func(w io.Writer) error {
		out := tracewrite.NewFDR(w, header, tracewrite.Options{Recording: recording, First: start})
		if err := s.WriteRecords(out, session.Scope{}, reader.ThreadOrder, true); err != nil {
			return err
		}
		if err := s.TellMissing(missing("fdr", out.Dropped, out.TruncatedIDs)); err != nil {
			return err
		}
		s.Summary(nil)
		return nil
	})
}

// recording returns the recording of the trace, with the names that were found.
func (p *packing) recording(s *session.Session) (*reader.Recording, error) {
	if s.Names == nil {
		return nil, cli.Usagef("the trace does not identify its program: " +
			"pass the traced binary, or its map from `xray extract`, with -m")
	}
	stop := s.Progress()
	ids, err := pack.Occurring(s.Trace, runtime.GOMAXPROCS(0))
	stop()
	if err != nil {
		return nil, err
	}
	var r reader.Recording
	if old := s.Trace.Recording(0); old != nil {
		r = *old
	}
	r.Functions = pack.Functions(s.Names, s.TailCalls(), ids)
	if len(r.Functions) == 0 {
		return nil, fmt.Errorf("%s: nothing to pack: no function of the trace has a name", s.Trace.Files()[0])
	}
	if n := len(ids) - len(r.Functions); n > 0 {
		s.Say("no names for %d of %s", n, label.Count(uint64(len(ids)), "function", "functions"))
	}
	if !s.Packed() {
		r.Sources = nil // they may belong to other names
	}
	if p.source.Source && len(r.Sources) == 0 {
		sources, err := s.Sources(&p.source)
		if err != nil {
			return nil, err
		}
		packed := pack.NewSources(r.Functions, sources.Read)
		r.Sources = packed.Texts
		sources.Tell()
		if len(packed.Large) > 0 {
			s.Say("no source of %s: the total exceeds 8 MB", cli.ShortList(packed.Large, 4))
		}
	}
	return &r, nil
}
