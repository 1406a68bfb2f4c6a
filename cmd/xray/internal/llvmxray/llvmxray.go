// Package llvmxray implements the program under the name llvm-xray: the same analyses with
// LLVM's command lines, output and rules. An exit that matches no entry ends the run unless
// --keep-going is given, and sibling calls are deduced only on request. If llvm-xray gives a
// wrong result, this package prints the right one in the same format. docs/dev/llvm-xray.md lists
// all differences.
package llvmxray

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// tool is one run of the program.
type tool struct{ *cli.Streams }

// Run runs a command line and returns the exit status. The first word is the name of the
// program.
func Run(streams *cli.Streams, args []string, version string) int {
	t := &tool{streams}
	program := &llvmargs.Tool{
		Program:  filepath.Base(args[0]),
		Overview: "XRay Tools\n\n  This program consolidates multiple XRay trace processing tools for convenient access.",
		Version:  "xray " + version + ", in place of llvm-xray",
	}
	run := map[*llvmargs.Command]func([]string) error{}
	for _, c := range []func() (*llvmargs.Command, func([]string) error){
		t.account, t.convert, t.extract, t.fdrDump, t.graph, t.graphDiff, t.stack,
	} {
		command, f := c()
		program.Commands = append(program.Commands, command)
		run[command] = f
	}
	command, operands, outcome := program.Parse(args[1:], t.Stdout, t.Stderr)
	switch outcome {
	case llvmargs.Failed:
		return 1
	case llvmargs.Shown:
		return 0
	}
	err := run[command](operands)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	fmt.Fprintf(t.Stderr, "llvm-xray: %v\n", err)
	return 1
}

// Options that several subcommands have.
const (
	keepGoingHelp = "Keep going on errors encountered"
	deduceHelp    = "Deduce sibling calls when unrolling function call stacks"
	outputHelp    = "output file; use '-' for stdout"
	mapValue      = "binary with xray_instr_map"
	mapHelp       = "binary with the instrumentation map, or a separate instrumentation map"
)

// statistics lists the columns for sorting functions and for coloring graphs.
var statistics = []llvmargs.Choice{
	{Name: "count", Help: "function call counts"},
	{Name: "min", Help: "minimum function durations"},
	{Name: "med", Help: "median function durations"},
	{Name: "90p", Help: "90th percentile durations"},
	{Name: "99p", Help: "99th percentile durations"},
	{Name: "max", Help: "maximum function durations"},
	{Name: "sum", Help: "sum of call durations"},
}

// stages returns an error that says what llvm-xray was doing and, on a separate line, the
// cause.
func stages(cause error, format string, args ...any) error {
	return fmt.Errorf("%s\n%w", fmt.Sprintf(format, args...), systemError{cause})
}

// systemError formats a system error as LLVM does: without the operation and the path, and with
// a capital letter.
type systemError struct{ error }

func (c systemError) Unwrap() error { return c.error }

func (c systemError) Error() string {
	var number syscall.Errno
	if !errors.As(c.error, &number) {
		return c.error.Error()
	}
	text := number.Error()
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// writeText calls f to write text as the output of llvm-xray. It opens the file before it calls
// f.
func (t *tool) writeText(path string, f func(io.Writer) error) error {
	return writeOutput(t.WriteText, path, f)
}

// writeData is writeText for binary data.
func (t *tool) writeData(path string, f func(io.Writer) error) error {
	return writeOutput(t.WriteData, path, f)
}

func writeOutput(write func(string, func(io.Writer) error) error, path string, f func(io.Writer) error) error {
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

// loadMap loads the map of an option, if it was given.
func loadMap(path string, opts symbolize.Options) (symbolize.Names, func() error, error) {
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

// open opens traces after their names were loaded.
func (t *tool) open(names symbolize.Names, paths ...string) (*session.Session, error) {
	trace, err := reader.Open(reader.Options{Stdin: t.Stdin}, paths...)
	if many := (*reader.TooManyThreadsError)(nil); errors.As(err, &many) {
		return nil, fmt.Errorf("%w; llvm-xray has no such flag, xray has", err)
	}
	if err != nil {
		return nil, err
	}
	for i := range trace.Files() {
		if trace.Header(i).Type == reader.Profiling {
			return nil, errors.Join(fmt.Errorf("%s: this is a file of XRay's profiling mode, which llvm-xray does not read: use xray account, stack or convert", paths[i]), trace.Close())
		}
	}
	return session.New(t.Streams, "llvm-xray", trace, names), nil
}

// warn reports losses in the trace. llvm-xray rejects such traces.
func warn(s *session.Session) {
	for _, loss := range s.Trace.Losses().Samples() {
		fmt.Fprintf(s.Stderr, "llvm-xray: warning: %v\n", loss)
	}
}

// analyze runs an analysis by llvm-xray's rules. Unless keepGoing is set, an exit that matches no
// entry ends the run with the error that unmatched returns.
//
// The first pass uses all processors. If it finds unmatched exits, a second pass reports them in
// the order in which llvm-xray finds them.
func analyze[S calls.Analysis[S]](s *session.Session, opts calls.Options, order reader.Order, keepGoing bool,
	unmatched func(*calls.Unmatched) error, newSink func() S) (S, error) {
	stop := s.Progress()
	sink, stats, err := calls.Run(calls.Source(s.Trace), opts, newSink)
	stop()
	if err != nil {
		return sink, err
	}
	warn(s)
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
	_, _, err = calls.Run(calls.InOrder(s.Trace, order), opts, calls.NewDiscard)
	return sink, err
}

// recordOrder returns the order in which llvm-xray reads records: file order, or thread by thread
// in an FDR log.
func recordOrder(s *session.Session) reader.Order {
	if s.Trace.Header(0).Type == reader.FDR {
		return reader.ThreadOrder
	}
	return reader.FileOrder
}

// openStack formats the open calls of a thread, the innermost first.
func openStack(names symbolize.Names, u *calls.Unmatched, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Thread ID: %d\n", u.Thread.Thread)
	open := u.Open()
	for i := len(open) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "%s#%d\t%s\n", indent, i+1, symbolize.Label(names, open[i]))
	}
	return b.String()
}

// policy returns the policy that --deduce-sibling-calls selects.
func policy(deduce bool) calls.Policy {
	if deduce {
		return calls.Deduce
	}
	return calls.Exact
}
