package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/convert/pack"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) packCommand() *cobra.Command {
	p := packing{app: a}
	cmd := &cobra.Command{
		Use:   "pack TRACE -o FILE",
		Short: "Add names and source code to a trace",
		Long: `pack writes the same trace with what is needed to read it on another machine, years
later: names, files and lines of the functions that occur in it, the build ids of
what they are of, and with --source the code of these functions as it is now. All
subcommands take names from there, unless -m says otherwise.`,
		Example: `  xray pack -m ./server -o packed.xray trace.xray
  xray pack -m ./server --source -o packed.xray trace.xray`,
		Args: operands("a TRACE", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.refuseTerminal(p.output, "fdr"); err != nil {
				return err
			}
			if err := p.sourceFlags.check(); err != nil {
				return err
			}
			p.flags.style = string(symbolize.Mangled)
			s, err := a.open(cmd, &p.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			return p.run(s)
		},
	}
	f := cmd.Flags()
	p.flags.nameFlags.add(f)
	f.MarkHidden("names")
	p.flags.addStrict(f)
	p.sourceFlags.add(f, "with the source code of the functions, where its files are on this machine as they were compiled")
	addOutput(f, &p.output)
	spellings(f, nil)
	return cmd
}

// packing is one run of pack.
type packing struct {
	app   *app
	flags traceFlags
	sourceFlags
	output string
}

func (p *packing) run(s *session) error {
	recording, err := p.recording(s)
	if err != nil {
		return err
	}
	start, err := s.start()
	if err != nil {
		return err
	}
	header := s.trace.Header(0)
	header.CycleFrequency = s.clock.Frequency
	return p.app.writeData(p.output, func(w io.Writer) error {
		out := tracewrite.NewFDR(w, header, tracewrite.Options{Recording: recording, First: start})
		stop := p.app.progress(s.name, s.trace)
		err := s.write(ownProcess{out}, reader.ThreadOrder)
		stop()
		if err != nil {
			return err
		}
		if err := s.checkStrict(&firstUnmatched{}); err != nil {
			return err
		}
		lines := missing("fdr", out.Dropped, out.TruncatedIDs)
		if s.strict && len(lines) > 0 {
			return errors.New(strings.Join(lines, "; "))
		}
		s.summary(nil)
		for _, line := range lines {
			p.app.say("%s", line)
		}
		return nil
	})
}

// recording is what the trace says about itself, and the names that were found.
func (p *packing) recording(s *session) (*reader.Recording, error) {
	if s.names == nil {
		return nil, usagef("the trace does not say which program it is of: " +
			"give the traced binary, or the map that `xray extract` made of it, with -m")
	}
	stop := p.app.progress(s.name, s.trace)
	ids, err := pack.Occurring(s.trace, runtime.GOMAXPROCS(0))
	stop()
	if err != nil {
		return nil, err
	}
	var r reader.Recording
	if old := s.trace.Recording(0); old != nil {
		r = *old
	}
	r.Functions = pack.Functions(s.names, ids)
	if len(r.Functions) == 0 {
		return nil, fmt.Errorf("%s: no function of the trace has a name: what would be packed is nothing", s.trace.Files()[0])
	}
	if n := len(ids) - len(r.Functions); n > 0 {
		p.app.say("%s of %d without a name", plural(int64(n), "function", "functions"), len(ids))
	}
	if !s.packed {
		r.Sources = nil // they may be those of other names
	}
	if p.source && len(r.Sources) == 0 {
		sources, err := s.sources(&p.sourceFlags)
		if err != nil {
			return nil, err
		}
		packed := pack.NewSources(r.Functions, sources.read)
		r.Sources = packed.Texts
		sources.tell()
		if len(packed.Large) > 0 {
			p.app.say("no source of %s: more than 8 MB in all", shortList(packed.Large, 4))
		}
	}
	return &r, nil
}

// ownProcess gives threads without a process one that none has: process 0 is where
// metadata is.
type ownProcess struct{ *tracewrite.FDR }

// noProcess is beyond the ids that Linux gives to processes.
const noProcess = 1 << 22

func (w ownProcess) Block(b *reader.Block) error {
	if b.Thread.Process != 0 {
		return w.FDR.Block(b)
	}
	moved := *b
	moved.Thread.Process = noProcess
	return w.FDR.Block(&moved)
}
