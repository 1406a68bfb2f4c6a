package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

func (a *app) sliceCommand() *cobra.Command {
	c := slicing{format: "fdr", seed: 1, app: a, inputs: session.Inputs{Scope: session.ByCall, Apart: true}}
	return a.overTraces(command{
		use:   "slice TRACE... -o FILE",
		short: "Extract part of a trace",
		long: `Write part of a trace, selected by time, thread, function and depth, as a trace that xray
and llvm-xray read. Every entry in the slice has an exit: a call that is open at the start
of the slice is entered there, and a call that is open at its end is exited there. Events
mark these calls, so that xray does not take their durations for whole ones. A wait that
crosses an end of the slice is divided.

--around selects the time of one call, or of the slowest calls, on all threads:

  --around 'handleRequest#4711'       the call with this number in xray slowest
  --around 'handleRequest#slowest:3'  the three slowest calls

--root keeps only whole calls of a function and everything inside them: the slow calls
with --slow, and a random sample of the others with --sample. Such slices are small, so
you can collect them from many machines and analyze them together with xray why.`,
		example: `  xray slice --from 1s --to 1.5s -o part.xray trace.xray
  xray slice --last 50ms -o end.xray trace.xray
  xray slice -m ./server --around 'handleRequest#slowest:1' --margin 1ms -o slow.xray trace.xray
  xray slice --root '^handleRequest' --slow '>5ms' --sample 20 -o calls.xray trace.xray`,
		inputs: &c.inputs,
		flags:  c.addFlags,
		check:  c.check,
		run:    c.run,
	})
}

func (c *slicing) addFlags(f *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"thread":    "only this `THREAD`: an ID, or PROCESS/THREAD; repeatable",
		"func":      "only calls of functions that match `REGEXP`, and their callers",
		"around":    "only the time of these calls: `ROOT#N`, or ROOT#slowest:N; ROOT is a regular expression",
		"max-depth": "only calls at most `N` deep; 1 is the outermost",
	} {
		f.Lookup(name).Usage = usage
	}
	// The only error is that there is no such flag.
	_ = f.MarkHidden("min-duration")
	f.BoolVar(&c.bare, "bare", false, "with --func: omit the callers of the selected calls")
	session.AddRoot(f, &c.root)
	f.Lookup("root").Usage = "only whole outermost calls of functions that match `REGEXP`, chosen by --slow and --sample"
	f.StringVar(&c.slow, "slow", "", "with --root: keep calls that `RULE` selects: >5ms, or top:3 for the 3 slowest")
	cli.AddCount(f, &c.sample, "sample", "", 1, "with --root: keep `N` random calls that are not slow")
	cli.AddSeed(f, &c.seed)
	cli.AddChoice(f, &c.format, "format", "f", "output `FORMAT`", "fdr", "basic").Synonyms = map[string]string{"raw": "basic"}
	cli.AddOutput(f, &c.output)
}

// slicing is one run of slice.
type slicing struct {
	*app
	inputs         session.Inputs
	bare           bool
	root, slow     string
	top            int // number of slow calls, or 0
	sample         int
	seed           uint64
	format, output string
}

// check rejects flags that make no sense before any work is done.
func (c *slicing) check() error {
	function, minDuration := c.inputs.Chooses()
	switch {
	case minDuration:
		return cli.Usagef("--min-duration does not apply: slice writes the entry of a call before its duration is known")
	case c.bare && !function:
		return cli.Usagef("--bare requires --func")
	case c.root == "" && (c.slow != "" || c.sample > 0):
		return cli.Usagef("--slow and --sample require --root")
	case c.root != "" && c.slow == "" && c.sample == 0:
		return cli.Usagef("--root requires --slow or --sample")
	case c.root != "" && (function || c.inputs.LimitsDepth()):
		return cli.Usagef("--root keeps whole calls: it cannot be used with --func and --max-depth")
	case c.slow != "" && !strings.HasPrefix(c.slow, ">"):
		text, ok := strings.CutPrefix(c.slow, "top:")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 1 || n > maxSlowCalls {
			return cli.Usagef("--slow: %q is neither a time nor a number of calls: write >5ms, or top:3 for the 3 slowest, up to top:%d", c.slow, maxSlowCalls)
		}
		c.top = n
	}
	return c.RefuseTerminal(c.output, c.format)
}

func (c *slicing) run(s *session.Session) error {
	opts := convert.SliceOptions{
		Filter: s.Scope.Filter, Spans: slices.Clone(s.Scope.Spans), Bare: c.bare, NoMarks: c.format == "basic",
	}
	start, err := s.Start()
	if err != nil {
		return err
	}
	if c.root != "" {
		if opts.Whole, err = c.choose(s); err != nil {
			return err
		}
	}
	opts.Spans[0].From = max(opts.Spans[0].From, start)
	header := s.Trace.Header(0)
	header.CycleFrequency = s.Clock.Frequency
	fdrOpts := tracewrite.Options{First: start, Processes: new(tracewrite.Processes)}
	if fdrOpts.Recording, err = convert.CutRecording(s.Trace, fdrOpts.Processes); err != nil {
		return err
	}
	slicer := convert.NewSlicer(opts)
	err = c.WriteData(c.output, func(w io.Writer) error {
		if c.format == "basic" {
			out := tracewrite.NewBasic(w, header)
			err := writeSlice(s, slicer, out, func() error {
				return out.Sorted(s.Trace, runtime.GOMAXPROCS(0), slicer.Edit)
			})
			return errors.Join(err, s.TellMissing(missing(c.format, out.Dropped, 0)))
		}
		out := tracewrite.NewFDR(w, header, fdrOpts)
		err := writeSlice(s, slicer, out, func() error {
			err := s.Trace.Each(1, func(_ int, b *reader.Block) error {
				return errors.Join(out.Block(slicer.Block(b)), calls.CheckMemory(slicer, s.TableMemory))
			})
			if err != nil {
				return err
			}
			return slicer.Finish(out.Block)
		})
		return errors.Join(err, s.TellMissing(missing(c.format, out.Dropped, out.TruncatedIDs)))
	})
	if err != nil {
		return err
	}
	s.Summary(&calls.Stats{Calls: slicer.Events, Unmatched: slicer.Unmatched})
	if c.format == "basic" || fdrOpts.Recording == nil { // otherwise the slice carries the caveats
		s.TellCaveats("", &session.Run{})
	}
	return nil
}

// maxSlowCalls limits the slow calls of a slice. If there are more, it has the slowest.
const maxSlowCalls = 10_000

// choose finds the calls of the root for the slice.
func (c *slicing) choose(s *session.Session) (func(int, uint64, reader.FuncID) bool, error) {
	root, err := s.ChooseFuncs("root", c.root)
	if err != nil {
		return nil, err
	}
	opts := slowest.ChoiceOptions{
		Options: slowest.Options{Root: root, Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Top: maxSlowCalls},
		Sample:  c.sample, Seed: c.seed,
	}
	switch {
	case c.top > 0:
		opts.Top = c.top
		found, _, err := s.SearchSlowest(opts.Options)
		if err != nil {
			return nil, err
		}
		for _, v := range found.Slowest {
			opts.Slow = max(v.Duration, 1) // the last one is the shortest
		}
	case c.slow != "":
		if opts.Slow, err = s.ParseTicks("slow", c.slow[1:]); err != nil {
			return nil, err
		}
		opts.Slow = max(opts.Slow, 1)
	}
	slow, others, found, err := s.Choose(opts)
	if err != nil {
		return nil, err
	}
	if len(slow)+len(others) == 0 {
		return nil, fmt.Errorf("%s: --slow and --sample select no calls of --root %s", strings.Join(s.Trace.Files(), " "), c.root)
	}
	if c.top == 0 && uint64(len(slow)) < found {
		s.Say("the slice contains the slowest %s of %s slow calls", label.Grouped(uint64(len(slow))), label.Grouped(found))
	}
	keep := make(map[invocation.Key]bool)
	for _, k := range slices.Concat(slow, others) {
		keep[k] = true
	}
	return func(index int, start uint64, fn reader.FuncID) bool {
		return keep[invocation.Key{Start: start, Index: index}] && root(fn)
	}, nil
}

// writeSlice calls pass to write the slice to out, and closes out.
func writeSlice(s *session.Session, slicer *convert.Slicer, out convert.RecordWriter, pass func() error) error {
	err := s.Pass(func(func(*calls.Unmatched) error) error {
		if err := pass(); err != nil || slicer.Kept > 0 {
			return err
		}
		s.Summary(&calls.Stats{Calls: slicer.Events})
		return fmt.Errorf("%s: the slice would be empty", strings.Join(s.Trace.Files(), " "))
	})
	if err != nil {
		return err
	}
	if n := slicer.Unmatched; s.Strict && n > 0 {
		return fmt.Errorf("%s without an entry", label.Count(n, "exit", "exits"))
	}
	return out.Close()
}
