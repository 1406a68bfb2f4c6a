package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
)

func (a *app) convertCommand() *cobra.Command {
	c := conversion{
		app: a, format: "raw",
		inputs: session.Inputs{Scope: session.ByCall, Templates: true, PathMemory: true},
	}
	return a.overTraces(command{
		use:   "convert TRACE...",
		short: "Convert a trace to another format",
		long: "Convert the records or the calls of a trace to another format.\n\nRecord formats:\n" +
			listFormats(isOfRecords) + "\n\nCall formats:\n" + listFormats(isOfCalls),
		example: `  xray convert -f chrome -m ./server -o trace.json trace.xray
  xray convert -f pprof -m ./server -o profile.pb.gz trace.xray
  xray convert -f yaml trace.xray | less
  xray convert -f parquet -m ./server -o tables *.xray`,
		inputs: &c.inputs,
		alias:  map[string]string{"output-format": "format", "sort": "merge-threads"},
		flags:  c.addFlags,
		check:  c.check,
		apart:  func() bool { return c.spec.tables != nil },
		run: func(s *session.Session) error {
			if !c.symbols {
				s.Names = nil
			}
			return c.run(s)
		},
	})
}

func (c *conversion) addFlags(f *pflag.FlagSet) {
	cli.AddChoice(f, &c.format, "format", "f", "output `FORMAT`", traceFormatNames(nil)...)
	cli.AddMaxCalls(f, &c.most, strings.Join(traceFormatNames(isTimeline), ", ")+": ")
	cli.AddSize(f, &c.size, "max-size", "show as many of the longest calls as fit into `SIZE` (for example 20M)")
	c.source.AddFlags(f, strings.Join(traceFormatNames(hasSources), ", ")+": include the source code of functions if the source files are on this machine")
	cli.AddPerThread(f, &c.perThread, "pprof, folded: ")
	f.BoolVar(&c.inlines, "inlines", false, "pprof: show inlined callers and the line numbers of calls")
	f.StringVar(&c.traceName, "trace-name", "", "parquet: use `NAME` for the trace in the tables instead of its file name")
	f.BoolVar(&c.absolute, "absolute", false, "csv, json: write times since the Unix epoch, if the trace has wall-clock times")
	f.BoolVar(&c.merge, "merge-threads", true, "raw, yaml, trace_event: merge threads by time; =false writes one thread after another")
	f.BoolVarP(&c.symbols, "symbolize", "y", true, "show names if there is a map")
	c.inputs.AddDemangle(f)
	cli.AddOutput(f, &c.output)
}

// conversion is one run of convert.
type conversion struct {
	*app
	inputs    session.Inputs
	source    session.SourceFlags
	sources   *session.Sources // nil if none are wanted
	format    string
	spec      *traceFormat // of the format
	output    string
	merge     bool
	symbols   bool
	perThread bool
	inlines   bool
	absolute  bool
	traceName string
	most      int   // 0 for all calls
	size      int64 // 0 for all calls

	scope   session.Scope // the calls to write
	caveats []string      // known when all calls were read
}

// check rejects flags that make no sense before any work is done.
func (c *conversion) check() error {
	c.spec = traceFormatNamed(c.format)
	format := c.spec
	c.inputs.Summaries = format.kind == ofSums
	if format.binary {
		if err := c.RefuseTerminal(c.output, c.format); err != nil {
			return err
		}
	}
	if format.tables != nil && (c.output == "" || c.output == "-") {
		return cli.Usagef("-f %s writes a directory: pass its name with -o DIR", c.format)
	}
	if c.traceName != "" && format.tables == nil {
		return cli.Usagef("--trace-name is for -f parquet")
	}
	_, minDuration := c.inputs.Chooses()
	if (c.most > 0 || c.size > 0) && format.kind != ofTimeline {
		return cli.Usagef("--max-calls and --max-size are for the timelines: -f %s", strings.Join(traceFormatNames(isTimeline), ", "))
	}
	if c.inlines && (!format.inlines || c.inputs.Groups()) {
		return cli.Usagef("--inlines is for -f pprof, without --group-templates")
	}
	if err := c.source.Check(); err != nil {
		return err
	}
	if c.source.Source && !format.sources {
		return cli.Usagef("--source is for -f %s", strings.Join(traceFormatNames(hasSources), ", "))
	}
	if format.kind == ofRecords && c.inputs.Groups() {
		return cli.Usagef("--group-templates does not apply to -f %s, which writes records as they are", c.format)
	}
	if format.kind == ofRecords && minDuration {
		return cli.Usagef("--min-duration does not apply to -f %s, which writes the records of a call before its duration is known", c.format)
	}
	return nil
}

func (c *conversion) run(s *session.Session) error {
	for i, file := range s.Trace.Files() {
		if c.spec.kind == ofRecords && s.Trace.Header(i).Type == reader.Profiling {
			return fmt.Errorf("%s: a profile has no individual records: use -f pprof, callgrind or folded", file)
		}
	}
	var err error
	if c.sources, err = s.Sources(&c.source); err != nil {
		return err
	}
	defer c.sources.Tell()
	opts, err := c.options(s)
	if err != nil {
		return err
	}
	if c.spec.tables != nil {
		run, err := c.spec.tables(c, s, opts)
		if err != nil {
			return err
		}
		s.Summary(run.Stats)
		session.TellCaveats(s.Streams, "", c.caveats)
		return nil
	}
	return c.WriteData(c.output, func(w io.Writer) error {
		if c.spec.compressed || !strings.HasSuffix(c.output, ".gz") {
			return c.write(s, opts, w)
		}
		z := gzip.NewWriter(w)
		return errors.Join(c.write(s, opts, z), z.Close())
	})
}

// write writes the trace and reports what the output lacks.
func (c *conversion) write(s *session.Session, opts convert.Options, w io.Writer) error {
	format := c.spec
	var written counter
	run, err := format.write(c, s, opts, io.MultiWriter(&written, w))
	if err != nil || format.kind == ofRecords {
		return err
	}
	s.Summary(run.Stats)
	session.TellCaveats(s.Streams, "", c.caveats)
	if advice := adviseOnSize(format, int64(written)); advice != "" {
		s.Say("%s", advice)
	}
	return nil
}

// options returns the options for the trace. It makes passes over the trace.
func (c *conversion) options(s *session.Session) (convert.Options, error) {
	opts := convert.Options{
		Header: s.Header(), Names: s.Names, Files: s.Trace.Files(), Threads: c.perThread, Inlines: c.inlines, Absolute: c.absolute,
		ThreadName: s.Trace.ThreadName, ProcessName: s.Trace.ProcessName,
	}
	opts.Header.CycleFrequency = s.Clock.Frequency
	if s.Alias == nil {
		opts.Values = s.Expressions()
	}
	for i := range opts.Files {
		var windows []reader.RecordedWindow
		if r := s.Trace.Recording(i); r != nil {
			windows = r.Windows
		}
		opts.Windows = append(opts.Windows, windows)
	}
	opts.OffCPU = s.OffCPU()
	if c.spec.kind == ofTimeline {
		opts.Sched = s.Sched()
	}
	opts.Caveats = func() []string { return c.caveats }
	c.scope = s.Scope
	opts.From, opts.To = c.scope.From, c.scope.To
	opts.Lost = func() int64 { return s.Trace.Losses().Records() }
	if c.sources != nil {
		opts.Source = c.sources.Text
	}
	var err error
	kind := c.spec.kind
	if kind == ofTimeline || kind == ofCalls {
		if opts.Base, err = s.Start(); err != nil {
			return opts, err
		}
		if r := s.Trace.Recording(0); r != nil {
			opts.Epoch, _ = r.Clock.Realtime(opts.Base)
		}
		if opts.Absolute && opts.Epoch == 0 {
			return opts, fmt.Errorf("--absolute: %s has no wall-clock times; only traces from xray's recorder do", opts.Files[0])
		}
	}
	if kind == ofTimeline {
		opts, err = c.chooseCalls(s, opts)
	}
	return opts, err
}

// records writes the formats that contain records instead of calls.
func records(newWriter recordWriter) formatWriter {
	return func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error) {
		out, left, err := newWriter(s, opts, w)
		if err != nil {
			return nil, err
		}
		err = s.WriteRecords(out, c.scope, c.order(), c.format != "raw")
		if err == nil {
			err = s.TellMissing(left())
		}
		if err != nil {
			return nil, err
		}
		s.Summary(nil)
		if !c.spec.caveats || s.SingleRecording() == nil {
			s.TellCaveats("", &session.Run{})
		}
		return nil, nil
	}
}

// missing reports what a format of records could not hold.
func missing(format string, dropped, truncatedIDs int64) []string {
	var lines []string
	if dropped > 0 {
		lines = append(lines, fmt.Sprintf("%s omitted: format %s does not support them",
			label.Count(uint64(dropped), "event or argument", "events and arguments"), format))
	}
	if truncatedIDs > 0 {
		lines = append(lines, label.Count(uint64(truncatedIDs), "record has an ID", "records have IDs")+" of more than 28 bits, which FDR logs truncate: "+
			"functions of the 16th shared object and later look like those of others; -f raw keeps all bits")
	}
	return lines
}

func (c *conversion) order() reader.Order {
	if c.merge && !c.spec.byThread {
		return reader.TimeOrder
	}
	return reader.ThreadOrder
}
