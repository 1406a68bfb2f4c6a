package llvmxray

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
)

func (t *tool) stack() (*llvmargs.Command, func([]string) error) {
	var (
		instrMap            string
		keepGoing           bool
		view                stack.LLVMView
		format, aggregation = "human", "time"
	)
	c := &llvmargs.Command{Name: "stack", Short: "Call stack accounting", Operands: "<xray trace>", Min: 1}
	c.Bool(&view.AggregateThreads, "aggregate-threads", "Aggregate stack times across threads")
	c.Choice(&aggregation, "aggregation-type", "The type of aggregation to do on call stacks.", []llvmargs.Choice{
		{Name: "time", Help: "Capture the total time spent in an all invocations of a stack."},
		{Name: "count", Help: "Capture the number of times a stack was invoked. In flamegraph mode, this count also includes invocations of all callees."},
	})
	c.Bool(&view.AllStacks, "all-stacks", "Dump sum of timings for all stacks. By default separates stacks per-thread.", "all")
	c.String(&instrMap, "instr_map", "string",
		"instrumentation map used to identify function ids. Currently supports elf file instrumentation maps.", "m")
	c.Bool(&keepGoing, "keep-going", keepGoingHelp, "k")
	c.Bool(&view.PerThreadStacks, "per-thread-stacks", "Report top stacks within each thread id")
	c.Choice(&format, "stack-format", "The format that output stacks should be output in. Only applies with all-stacks.", []llvmargs.Choice{
		{Name: "human", Help: "Human readable output. Only valid without -all-stacks."},
		{Name: "flame", Help: "Format consumable by Brendan Gregg's FlameGraph tool. Only valid with -all-stacks."},
	})
	return c, func(args []string) error {
		view.Flame = format == "flame"
		if aggregation == "count" {
			view.AggregationType = stack.Count
		}
		// llvm-xray loads the map between the checks of the options.
		if err := view.Check(); errors.Is(err, stack.ErrThreadOptions) {
			return err
		}
		names, closeMap, err := loadMap(instrMap, symbolize.Options{})
		if err != nil {
			return stages(err, "Cannot open instrumentation map: %s", instrMap)
		}
		defer closeMap()
		if err := view.Check(); err != nil {
			return err
		}
		s, err := t.openStackTraces(names, args, keepGoing)
		if err != nil {
			return err
		}
		defer s.Close()
		sink, err := analyze(s, calls.Options{Paths: true, Policy: calls.DeduceOrClear}, recordOrder(s), keepGoing, func(u *calls.Unmatched) error {
			err := fmt.Errorf("Found record {FuncId: \"%s\", ThreadId: \"%d\", RecordType: \"Fn Exit\"} with no matching function entry\n",
				symbolize.Label(names, u.Event.Func), u.Thread.Thread)
			if keepGoing {
				fmt.Fprint(t.Stderr, err)
			}
			return err
		}, func() *stack.Analysis { return stack.New(view.Options()) })
		if err != nil {
			return err
		}
		return t.writeText("-", func(w io.Writer) error {
			return sink.Report(s.Clock).WriteLLVM(w, names, view)
		})
	}
}

// openStackTraces opens the traces. With keepGoing, it skips those that cannot be read.
func (t *tool) openStackTraces(names symbolize.Names, paths []string, keepGoing bool) (*session.Session, error) {
	for {
		s, err := t.open(names, paths...)
		if err == nil {
			return s, nil
		}
		bad := unreadable(err, paths[0])
		if !keepGoing {
			return nil, stages(err, "Failed loading input file '%s'", bad)
		}
		fmt.Fprintf(t.Stderr, "%v\n", systemError{err})
		if paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == bad }); len(paths) == 0 {
			return nil, stack.ErrNoCalls
		}
	}
}

// unreadable returns the trace that err names, or first if it names none.
func unreadable(err error, first string) string {
	var format *reader.FormatError
	var path *fs.PathError
	switch {
	case errors.As(err, &format):
		return format.File
	case errors.As(err, &path):
		return path.Path
	}
	return first
}
