package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/slowest"
)

func (a *app) sliceCommand() *cobra.Command {
	c := slicing{app: a, format: "fdr"}
	cmd := &cobra.Command{
		Use:   "slice TRACE... -o FILE",
		Short: "Cut a smaller trace out of a trace",
		Long: `slice writes the part of a trace that was chosen by time, thread, function and
depth as a trace of its own, which xray and llvm-xray read. Every entry in it has
an exit: calls that are open where the slice begins are entered there, those that
are open where it ends leave there, and a custom event "xray:cut" says so.

--around takes the time of one call, or of the slowest ones, on all threads:

  --around 'handleRequest#4711'       the 4711th outermost call, as xray slowest names it
  --around 'handleRequest#slowest:3'  the three slowest`,
		Example: `  xray slice --from 1s --to 1.5s -o part.xray trace.xray
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
		"max-depth": "only calls made at most `N` deep; 1 are the outermost",
	} {
		f.Lookup(name).Usage = usage
	}
	f.MarkHidden("min-duration")
	f.BoolVar(&c.bare, "bare", false, "with --func: without the calls around those")
	f.StringVar(&c.around, "around", "", "only the time of these calls: `ROOT#N`, or ROOT#slowest:N; ROOT is a regular expression")
	f.StringVar(&c.margin, "margin", "", "with --around: and `TIME` before and after")
	addChoice(f, &c.format, "format", "f", "what to write", "fdr", "basic").synonyms = map[string]string{"raw": "basic"}
	addOutput(f, &c.output)
	spellings(f, nil)
	return cmd
}

// slicing is one run of slice.
type slicing struct {
	app            *app
	flags          traceFlags
	around, margin string
	bare           bool
	format, output string
}

// check refuses what makes no sense before any work is done.
func (c *slicing) check() error {
	f := &c.flags.filter
	switch {
	case f.minDuration != "":
		return usagef("--min-duration does not apply: the entry of a call is written before it is known how long the call takes")
	case c.around != "" && f.from+f.to != "":
		return usagef("--around says which time to keep: leave out --from and --to")
	case c.around == "" && c.margin != "":
		return usagef("--margin goes with --around")
	case c.bare && f.function == "":
		return usagef("--bare goes with --func")
	}
	return c.app.refuseTerminal(c.output, c.format)
}

func (c *slicing) run(s *session) error {
	opts := convert.SliceOptions{
		Filter: s.filter, Spans: []convert.Span{{From: s.filter.From, To: s.filter.To}}, Bare: c.bare, NoMarks: c.format == "basic",
	}
	if c.around != "" {
		s.filter = calls.Filter{}
		var err error
		if opts.Spans, err = c.spans(s); err != nil {
			return err
		}
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
	err = c.app.writeOutput(c.output, func(w io.Writer) error {
		if c.format == "basic" {
			out := tracewrite.NewBasic(w, header)
			err := c.write(s, slicer, out)
			return errors.Join(err, c.missing(s, out.Dropped, 0))
		}
		out := tracewrite.NewFDR(w, header, fdrOpts)
		err := c.write(s, slicer, out)
		return errors.Join(err, c.missing(s, out.Dropped, out.TruncatedIDs))
	})
	if err != nil {
		return err
	}
	s.summary(&calls.Stats{Calls: slicer.Events, Unmatched: slicer.Unmatched})
	return nil
}

// recording is what a slice of a single trace of xray's own recorder says about
// itself: all that the trace says but for calls that were only added up, which
// belong to the whole time.
func (c *slicing) recording(s *session) *reader.Recording {
	r := s.trace.Recording(0)
	if len(s.trace.Files()) > 1 || r == nil {
		return nil
	}
	part := *r
	part.Counters, part.Profiles = nil, nil
	return &part
}

func (c *slicing) write(s *session, slicer *convert.Slicer, out blockWriter) error {
	stop := c.app.progress(s.name, s.trace)
	defer stop()
	if err := s.trace.Each(1, func(_ int, b *reader.Block) error { return out.Block(slicer.Block(b)) }); err != nil {
		return err
	}
	if err := slicer.Finish(out.Block); err != nil {
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

// spans are the times that --around asks for.
func (c *slicing) spans(s *session) ([]convert.Span, error) {
	margin, err := parseTicks("margin", c.margin, s.clock)
	if err != nil {
		return nil, err
	}
	place := strings.LastIndexByte(c.around, '#')
	if place <= 0 {
		return nil, usagef("--around: %q names no call: write ROOT#N or ROOT#slowest:N", c.around)
	}
	re, err := regexp.Compile(c.around[:place])
	if err != nil {
		return nil, usagef("--around: %w", err)
	}
	which, slow := strings.CutPrefix(c.around[place+1:], "slowest:")
	n, err := strconv.ParseUint(which, 10, 31)
	if err != nil || n == 0 {
		return nil, usagef("--around: %q is no number of a call: write ROOT#N or ROOT#slowest:N, with N from 1 on", c.around[place+1:])
	}
	root := s.chooseFuncs("around", re)
	if !slow {
		start, duration, err := s.numbered(root, n)
		if err != nil {
			return nil, fmt.Errorf("--around %s: %w", c.around, err)
		}
		return []convert.Span{around(start, duration, margin)}, nil
	}
	found, _, err := s.searchSlowest(slowest.Options{Root: root, Top: int(n)})
	if err != nil {
		return nil, err
	}
	if len(found.Slowest) == 0 {
		return nil, fmt.Errorf("--around %s: there is no such call in the trace", c.around)
	}
	var spans []convert.Span
	for _, v := range found.Slowest {
		spans = append(spans, around(v.Start, v.Duration, margin))
	}
	return joined(spans), nil
}

// around is the time of a call with a margin. The exit belongs to it.
func around(start, duration, margin uint64) convert.Span {
	to := saturatingAdd(saturatingAdd(start, duration), saturatingAdd(margin, 1))
	if to == math.MaxUint64 {
		to = 0
	}
	return convert.Span{From: start - min(start, margin), To: to}
}

// joined puts spans in order and joins those that overlap.
func joined(spans []convert.Span) []convert.Span {
	slices.SortFunc(spans, func(a, b convert.Span) int { return cmp.Compare(a.From, b.From) })
	out := spans[:1]
	for _, span := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.To != 0 && span.From > last.To:
			out = append(out, span)
		case last.To != 0 && (span.To == 0 || span.To > last.To):
			last.To = span.To
		}
	}
	return out
}
