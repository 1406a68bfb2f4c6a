package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/xray-tools/xray/internal/llvmargs"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// This file and those called llvm_* are what the program is when it is called
// llvm-xray: the same work behind LLVM's command lines, output and rules. An
// exit that matches no entry ends the run unless --keep-going is given, and
// sibling calls are deduced only on request. Where llvm-xray gets an answer
// wrong, the right one is printed in its shape. docs/llvm-xray.md lists all
// differences.

// llvm runs the program as llvm-xray.
func (a *app) llvm(args []string) int {
	tool := &llvmargs.Tool{
		Program:  filepath.Base(args[0]),
		Overview: "XRay Tools\n\n  This program consolidates multiple XRay trace processing tools for convenient access.",
		Version:  "xray " + version() + ", in the place of llvm-xray",
	}
	run := map[*llvmargs.Command]func([]string) error{}
	for _, c := range []func() (*llvmargs.Command, func([]string) error){
		a.llvmAccount, a.llvmConvert, a.llvmExtract, a.llvmFDRDump, a.llvmGraph, a.llvmGraphDiff, a.llvmStack,
	} {
		command, f := c()
		tool.Commands = append(tool.Commands, command)
		run[command] = f
	}
	command, operands, outcome := tool.Parse(args[1:], a.stdout, a.stderr)
	switch outcome {
	case llvmargs.Failed:
		return exitFailed
	case llvmargs.Shown:
		return exitOK
	}
	err := run[command](operands)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return exitOK
	}
	fmt.Fprintf(a.stderr, "llvm-xray: %v\n", err)
	return exitFailed
}

// Options that several subcommands have.
const (
	llvmKeepGoingHelp = "Keep going on errors encountered"
	llvmDeduceHelp    = "Deduce sibling calls when unrolling function call stacks"
	llvmOutputHelp    = "output file; use '-' for stdout"
	llvmMapValue      = "binary with xray_instr_map"
	llvmMapHelp       = "binary with the instrumentation map, or a separate instrumentation map"
)

// llvmStatistics are what functions can be sorted by, and graphs coloured.
var llvmStatistics = []llvmargs.Choice{
	{Name: "count", Help: "function call counts"},
	{Name: "min", Help: "minimum function durations"},
	{Name: "med", Help: "median function durations"},
	{Name: "90p", Help: "90th percentile durations"},
	{Name: "99p", Help: "99th percentile durations"},
	{Name: "max", Help: "maximum function durations"},
	{Name: "sum", Help: "sum of call durations"},
}

// stages makes an error of what llvm-xray was about and, on a line of its own,
// of the cause.
func stages(cause error, format string, args ...any) error {
	return fmt.Errorf("%s\n%w", fmt.Sprintf(format, args...), llvmCause{cause})
}

// llvmCause words an error of the system as LLVM does: without what it was
// about, and with a capital letter.
type llvmCause struct{ error }

func (c llvmCause) Unwrap() error { return c.error }

func (c llvmCause) Error() string {
	var number syscall.Errno
	if !errors.As(c.error, &number) {
		return c.error.Error()
	}
	text := number.Error()
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// llvmOutput has f write text as the output of llvm-xray. The file is opened before f
// is called.
func (a *app) llvmOutput(path string, f func(io.Writer) error) error {
	return llvmOutput(a.writeOutput, path, f)
}

// llvmData is llvmOutput for what is no text.
func (a *app) llvmData(path string, f func(io.Writer) error) error {
	return llvmOutput(a.writeData, path, f)
}

func llvmOutput(write func(string, func(io.Writer) error) error, path string, f func(io.Writer) error) error {
	opened := false
	err := write(path, func(w io.Writer) error {
		opened = true
		return f(w)
	})
	if err != nil && !opened {
		return fmt.Errorf("Cannot open file '%s' for writing.", path)
	}
	return err
}

// llvmMap loads the map of an option, if it was given.
func llvmMap(path string, opts symbolize.Options) (symbolize.Names, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	opts.Code = true
	table, err := symbolize.Load(path, opts)
	if err != nil {
		return nil, nil, err
	}
	return table, table.Close, nil
}

// llvmSession opens traces that names were loaded for. Losses are told at the
// end, by close.
func (a *app) llvmSession(names symbolize.Names, paths ...string) (*session, error) {
	s := &session{app: a, name: "llvm-xray", names: names}
	var err error
	if s.trace, err = reader.Open(reader.Options{Stdin: a.stdin}, paths...); err != nil {
		return nil, err
	}
	s.clock = reader.Clock{Frequency: s.trace.Header(0).CycleFrequency}
	return s, nil
}

// warn tells what of the trace was not used: llvm-xray refuses such traces.
func (s *session) warn() {
	for _, loss := range s.trace.Losses().Samples() {
		fmt.Fprintf(s.app.stderr, "llvm-xray: warning: %v\n", loss)
	}
}

// llvmAnalyse runs an analysis by llvm-xray's rules. unmatched words the error of
// an exit that matches no entry; it ends the run unless keepGoing.
//
// The calls are rebuilt on all processors. Only when there are unmatched exits,
// a second pass finds them in the order in which llvm-xray comes upon them.
func llvmAnalyse[S calls.Analysis[S]](s *session, opts calls.Options, order reader.Order, keepGoing bool,
	unmatched func(*calls.Unmatched) error, newSink func() S) (S, error) {
	stop := s.app.progress(s.name, s.trace)
	sink, stats, err := calls.Run(calls.Source(s.trace), opts, newSink)
	stop()
	if err != nil {
		return sink, err
	}
	s.warn()
	if stats.Unmatched == 0 {
		return sink, nil
	}
	opts.Shards = 1
	opts.Unmatched = func(u *calls.Unmatched) error {
		if err := unmatched(u); err != nil && !keepGoing {
			return err
		}
		return nil
	}
	_, _, err = calls.Run(calls.InOrder(s.trace, order), opts, func() streamed { return streamed{discard{}} })
	return sink, err
}

// recordOrder is the order in which llvm-xray takes records: that of the file,
// or of the threads of an FDR log.
func (s *session) recordOrder() reader.Order {
	if s.trace.Header(0).Type == reader.FDR {
		return reader.ThreadOrder
	}
	return reader.FileOrder
}

// discard is a sink that looks at nothing.
type discard struct{}

func (discard) Calls(*calls.Batch) error { return nil }

// openStack words the open calls of a thread, the innermost first.
func openStack(names symbolize.Names, u *calls.Unmatched, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Thread ID: %d\n", u.Thread.Thread)
	open := u.Open()
	for i := len(open) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "%s#%d\t%s\n", indent, i+1, symbolize.Label(names, open[i]))
	}
	return b.String()
}

// llvmPolicy is what --deduce-sibling-calls asks for.
func llvmPolicy(deduce bool) calls.Policy {
	if deduce {
		return calls.Deduce
	}
	return calls.Exact
}
