package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func (a *app) sliceCommand() *cobra.Command {
	c := slicing{app: a, format: "fdr"}
	cmd := &cobra.Command{
		Use:   "slice TRACE... -o FILE",
		Short: "Cut a part out of a trace",
		Long: `slice writes the part of a trace that was chosen by time, thread, function and
depth as a trace of its own, which xray and llvm-xray read. Every entry in it has
an exit: calls that are open where the slice begins are entered there, those that
are open where it ends leave there, and a custom event "xray:cut" says so.

--around takes the time of one call, or of the slowest ones, on all threads:

  --around 'handleRequest#4711'       the 4711th outermost call, as xray slowest names it
  --around 'handleRequest#slowest:3'  the three slowest`,
		Example: `  xray slice --from 1s --to 1.5s -o part.xray trace.xray
  xray slice --last 50ms -o end.xray trace.xray
  xray slice -m ./server --around 'handleRequest#slowest:1' --margin 1ms -o slow.xray trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			s, err := a.open(cmd, &c.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			return c.run(s)
		},
	}
	f := cmd.Flags()
	c.flags.nameFlags.add(f)
	c.flags.addStrict(f)
	c.flags.filter.add(f)
	for name, usage := range map[string]string{
		"thread":    "only this `THREAD`: an id, or PROCESS/THREAD; repeatable",
		"func":      "only calls of functions whose name matches `REGEXP`, and the calls around them",
		"from":      "cut off what is before `TIME` since the trace's start: 1.5s, 200ms, 1000ticks",
		"to":        "cut off what is at `TIME` or later",
		"last":      "only the last `TIME` of the trace",
		"around":    "only the time of these calls: `ROOT#N`, or ROOT#slowest:N; ROOT is a regular expression",
		"max-depth": "only calls made at most `N` deep; 1 are the outermost",
	} {
		f.Lookup(name).Usage = usage
	}
	f.MarkHidden("min-duration")
	c.flags.filter.apart = true
	f.BoolVar(&c.bare, "bare", false, "with --func: without the calls around those")
	addChoice(f, &c.format, "format", "f", "what to write", "fdr", "basic").synonyms = map[string]string{"raw": "basic"}
	addOutput(f, &c.output)
	spellings(f, nil)
	return cmd
}

// slicing is one run of slice.
type slicing struct {
	app            *app
	flags          traceFlags
	bare           bool
	format, output string
}

// check refuses what makes no sense before any work is done.
func (c *slicing) check() error {
	f := &c.flags.filter
	switch {
	case f.minDuration != "":
		return usagef("--min-duration does not apply: the entry of a call is written before it is known how long the call takes")
	case c.bare && f.function == "":
		return usagef("--bare goes with --func")
	}
	return c.app.refuseTerminal(c.output, c.format)
}

func (c *slicing) run(s *session) error {
	opts := convert.SliceOptions{
		Filter: s.filter, Spans: s.spans, Bare: c.bare, NoMarks: c.format == "basic",
	}
	start, err := s.start()
	if err != nil {
		return err
	}
	opts.Spans[0].From = max(opts.Spans[0].From, start)
	header := s.trace.Header(0)
	header.CycleFrequency = s.clock.Frequency
	fdrOpts := tracewrite.Options{Recording: c.recording(s), First: start}
	slicer := convert.NewSlicer(opts)
	err = c.app.writeData(c.output, func(w io.Writer) error {
		if c.format == "basic" {
			out := tracewrite.NewBasic(w, header)
			err := c.write(s, slicer, out, func() error {
				return out.Sorted(s.trace, runtime.GOMAXPROCS(0), slicer.Edit)
			})
			return errors.Join(err, c.missing(s, out.Dropped, 0))
		}
		out := tracewrite.NewFDR(w, header, fdrOpts)
		err := c.write(s, slicer, out, func() error {
			err := s.trace.Each(1, func(_ int, b *reader.Block) error { return out.Block(slicer.Block(b)) })
			if err != nil {
				return err
			}
			return slicer.Finish(out.Block)
		})
		return errors.Join(err, c.missing(s, out.Dropped, out.TruncatedIDs))
	})
	if err != nil {
		return err
	}
	s.summary(&calls.Stats{Calls: slicer.Events, Unmatched: slicer.Unmatched})
	if c.format == "basic" || fdrOpts.Recording == nil { // which the slice has too
		c.app.tellCaveats(s.caveats(nil))
	}
	return nil
}

// recording is what a slice of a single trace of xray's own recorder says about
// itself: all that the trace says but for calls that were only added up, and CPU times,
// which belong to the whole time.
func (c *slicing) recording(s *session) *reader.Recording {
	r := s.trace.Recording(0)
	if len(s.trace.Files()) > 1 || r == nil {
		return nil
	}
	part := *r
	part.Counters, part.Profiles, part.Pruned = nil, nil, reader.Pruned{}
	part.Process.CPUNS, part.Process.CPUFrom, part.Process.CPUTo = 0, 0, 0
	return &part
}

// write has pass write all of the slice to out, and closes that.
func (c *slicing) write(s *session, slicer *convert.Slicer, out blockWriter, pass func() error) error {
	stop := c.app.progress(s.name, s.trace)
	err := pass()
	stop()
	if err != nil {
		return err
	}
	if slicer.Kept == 0 {
		s.summary(&calls.Stats{Calls: slicer.Events})
		return fmt.Errorf("%s: the slice would be empty", strings.Join(s.trace.Files(), " "))
	}
	if err := s.checkStrict(&firstUnmatched{}); err != nil {
		return err
	}
	if n := int64(slicer.Unmatched); s.strict && n > 0 {
		return fmt.Errorf("%s without an entry", plural(n, "exit", "exits"))
	}
	return out.Close()
}

// missing tells what of the trace the format cannot hold. Under --strict that is
// an error.
func (c *slicing) missing(s *session, dropped, truncatedIDs int64) error {
	lines := missing(c.format, dropped, truncatedIDs)
	if s.strict && len(lines) > 0 {
		return errors.New(strings.Join(lines, "; "))
	}
	for _, line := range lines {
		fmt.Fprintf(c.app.stderr, "xray: %s\n", line)
	}
	return nil
}
