package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func (a *app) convertCommand() *cobra.Command {
	c := conversion{app: a, format: "raw"}
	cmd := &cobra.Command{
		Use:   "convert TRACE...",
		Short: "Convert a trace to another format",
		Long: "convert writes the records of a trace, or its calls, in another format.\n\nFormats of records:\n" +
			listFormats(isOfRecords) + "\n\nFormats of calls:\n" + listFormats(isOfCalls),
		Example: `  xray convert -f chrome -m ./server -o trace.json trace.xray
  xray convert -f pprof -m ./server -o profile.pb.gz trace.xray
  xray convert -f yaml trace.xray | less`,
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
			if !c.symbols {
				s.names = nil
			}
			return c.run(s)
		},
	}
	f := cmd.Flags()
	c.flags.add(f)
	c.flags.paths.add(f)
	addChoice(f, &c.format, "format", "f", "output format", traceFormatNames(nil)...)
	addCount(f, &c.most, "max-calls", "", 1, strings.Join(traceFormatNames(isTimeline), ", ")+": keep the `N` longest calls at most")
	addSize(f, &c.size, "max-size", "like --max-calls, but so many that the output has at most `SIZE` bytes, as 20M")
	c.sourceFlags.add(f, strings.Join(traceFormatNames(hasSources), ", ")+": with the source code of functions, where its files are on this machine")
	f.BoolVar(&c.perThread, "per-thread", false, "pprof, folded: keep threads apart")
	f.BoolVar(&c.inlines, "inlines", false, "pprof: show the inlined functions that calls were made from, and the lines of calls")
	f.BoolVar(&c.absolute, "absolute", false, "csv, json: times since 1970, where the trace tells them")
	f.BoolVarP(&c.sort, "sort", "s", true, "raw, yaml, trace_event: merge threads by time; =false writes one after the other")
	f.BoolVarP(&c.symbols, "symbolize", "y", true, "show names, when there is a map")
	c.flags.addDemangle(f)
	addOutput(f, &c.output)
	spellings(f, map[string]string{"output-format": "format"})
	return cmd
}

// conversion is one run of convert.
type conversion struct {
	app   *app
	flags traceFlags
	sourceFlags
	sources   *sources // nil where none are wanted
	format    string
	output    string
	sort      bool
	symbols   bool
	perThread bool
	inlines   bool
	absolute  bool
	most      int   // 0 for all calls
	size      int64 // 0 for all calls
}

// check refuses what makes no sense before any work is done.
func (c *conversion) check() error {
	format := traceFormatNamed(c.format)
	if format.binary {
		if err := c.app.refuseTerminal(c.output, c.format); err != nil {
			return err
		}
	}
	f := &c.flags.filter
	if (c.most > 0 || c.size > 0) && format.kind != ofTimeline {
		return usagef("--max-calls and --max-size are for the timelines: -f %s", strings.Join(traceFormatNames(isTimeline), ", "))
	}
	if c.inlines && (c.format != "pprof" || c.flags.group) {
		return usagef("--inlines is for -f pprof, without --group-templates")
	}
	if err := c.sourceFlags.check(); err != nil {
		return err
	}
	if c.source && !format.sources {
		return usagef("--source is for -f %s", strings.Join(traceFormatNames(hasSources), ", "))
	}
	if format.kind == ofRecords && c.flags.group {
		return usagef("-f %s writes records as they are: --group-templates does not apply", c.format)
	}
	if format.kind == ofRecords && f.minDuration != "" {
		return usagef("-f %s writes the records of a call before it knows how long the call takes: --min-duration does not apply", c.format)
	}
	return nil
}

func (c *conversion) run(s *session) error {
	if c.source {
		var err error
		if c.sources, err = s.sources(&c.sourceFlags); err != nil {
			return err
		}
		defer c.sources.tell()
	}
	opts, err := c.options(s)
	if err != nil {
		return err
	}
	write := c.writeText
	if c.format == "pprof" { // which is compressed
		write = func(f func(io.Writer) error) error { return c.app.writeData(c.output, f) }
	}
	return write(func(w io.Writer) error { return c.write(s, opts, w) })
}

// write writes the trace, and says what there is to say of it.
func (c *conversion) write(s *session, opts convert.Options, w io.Writer) error {
	format := traceFormatNamed(c.format)
	var written counter
	stats, err := format.write(c, s, opts, io.MultiWriter(&written, w))
	if err != nil || format.kind == ofRecords {
		return err
	}
	s.summary(stats)
	c.app.tellCaveats(s.caveats(stats))
	if advice := adviseOnSize(format, int64(written)); advice != "" {
		fmt.Fprintf(c.app.stderr, "xray: %s\n", advice)
	}
	return nil
}

// writeText writes what is not compressed by itself; it is, if the name of the file
// says so.
func (c *conversion) writeText(f func(io.Writer) error) error {
	return c.app.writeData(c.output, func(w io.Writer) error {
		if !strings.HasSuffix(c.output, ".gz") {
			return f(w)
		}
		z := gzip.NewWriter(w)
		return errors.Join(f(z), z.Close())
	})
}

// options are those of the trace. They take passes over it.
func (c *conversion) options(s *session) (convert.Options, error) {
	opts := convert.Options{
		Header: s.trace.Header(0), Names: s.names, Files: s.trace.Files(), Threads: c.perThread, Inlines: c.inlines, Absolute: c.absolute,
		ThreadName: s.trace.ThreadName, ProcessName: s.trace.ProcessName,
	}
	opts.Header.CycleFrequency = s.clock.Frequency
	opts.Lost = func() int64 { return s.trace.Losses().Records() }
	if c.sources != nil {
		opts.Source = c.sources.text
	}
	var err error
	kind := traceFormatNamed(c.format).kind
	if kind == ofTimeline || kind == ofCalls {
		if opts.Base, err = s.start(); err != nil {
			return opts, err
		}
		if r := s.trace.Recording(0); r != nil {
			opts.Epoch, _ = r.Clock.Realtime(opts.Base)
		}
		if opts.Absolute && opts.Epoch == 0 {
			return opts, fmt.Errorf("--absolute: %s does not say what time it was: only traces of xray's own recorder do", opts.Files[0])
		}
	}
	if kind == ofTimeline {
		opts, err = c.chooseCalls(s, opts)
	}
	return opts, err
}

// records is for formats of records, which are written as they are.
func records(newWriter recordWriter) formatWriter {
	return func(c *conversion, s *session, opts convert.Options, w io.Writer) (*calls.Stats, error) {
		out, left, err := newWriter(s, opts, w)
		if err != nil {
			return nil, err
		}
		stop := c.app.progress(s.name, s.trace)
		err = s.write(out, c.order())
		stop()
		if err != nil {
			return nil, err
		}
		if err := s.checkStrict(&firstUnmatched{}); err != nil {
			return nil, err
		}
		lines := left()
		if s.strict && len(lines) > 0 {
			return nil, errors.New(strings.Join(lines, "; "))
		}
		s.summary(nil)
		if c.format != "fdr" || s.onlyRecording() == nil { // else the output has it too
			c.app.tellCaveats(s.caveats(nil))
		}
		for _, line := range lines {
			fmt.Fprintf(c.app.stderr, "xray: %s\n", line)
		}
		return nil, nil
	}
}

// missing says what of the trace a format of records could not hold.
func missing(format string, dropped, truncatedIDs int64) []string {
	var lines []string
	if dropped > 0 {
		lines = append(lines, fmt.Sprintf("%s of the trace left out, which the format %s cannot hold",
			plural(dropped, "event or argument", "events and arguments"), format))
	}
	if truncatedIDs > 0 {
		lines = append(lines, plural(truncatedIDs, "record has an id", "records have ids")+" of more than 28 bits, which FDR logs cut off: "+
			"functions of shared objects from the 16th on look like those of others; -f raw keeps ids whole")
	}
	return lines
}

func (c *conversion) order() reader.Order {
	// Each thread of an FDR log has its own blocks, so that merging them would
	// be in vain.
	if c.sort && c.format != "fdr" {
		return reader.TimeOrder
	}
	return reader.ThreadOrder
}

// blockWriter is a writer of records.
type blockWriter interface {
	Block(*reader.Block) error
	Close() error
}

// sortedWriter is one that can put all of a trace in order by itself.
type sortedWriter interface {
	blockWriter
	Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error
}

// write writes the records that the command line chose.
func (s *session) write(w blockWriter, order reader.Order) error {
	edit := convert.ChooseRecords(s.filter)
	if sorted, ok := w.(sortedWriter); ok && order == reader.TimeOrder {
		if err := sorted.Sorted(s.trace, runtime.GOMAXPROCS(0), edit); err != nil {
			return err
		}
		return w.Close()
	}
	for b, err := range s.trace.Blocks(order) {
		if err == nil {
			if edit != nil {
				b = edit(b)
			}
			err = w.Block(b)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}
