// Package session is one run of a subcommand over a trace: the trace, the names of its
// functions, its clock, the [Scope] from the command line, and the caveats of every report.
//
// A command declares its [Inputs], opens a Session, runs analyses with [Analyze], and hands
// its report to [Session.Report]:
//
//	inputs := session.Inputs{Scope: session.ByCall}
//	inputs.AddFlags(cmd.Flags())
//	...
//	s, err := inputs.Open(streams, "account", paths)
//	sink, run, err := session.Analyze(s, s.Scope, calls.Options{}, account.New)
//	err = s.Report(&output, run, body)
package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/machines"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// Session is one run over a trace. Its exported fields do not change once it is open. It is not
// safe for concurrent use.
type Session struct {
	*cli.Streams
	Command string        // the name of the subcommand
	Trace   *reader.Trace // nil if a command has names alone
	Names   symbolize.Names
	Clock   reader.Clock
	Scope   Scope // what the command line chose
	// Strict makes losses and unmatched exits errors.
	Strict bool
	// MaxPaths limits the call paths of a tree. 0 is no limit.
	MaxPaths int
	// TableMemory is what analyses may hold, in bytes, beside call paths; see
	// calls.Options.Memory.
	TableMemory int64
	// Alias maps each function to the one that it counts as. nil changes nothing.
	Alias func(reader.FuncID) reader.FuncID
	// Code is information about calls that comes from the binaries.
	Code calls.Code

	traces   TraceFlags
	named    []string        // the traces as the user named them
	style    string          // of names; "" unless it was given
	packed   bool            // names are from the trace itself
	machines *machines.Trace // nil unless the traces are of several machines or builds, and joined
	tables   []*symbolize.Table
	trusted  []*symbolize.Table  // whose debug information may name files to be read
	missing  []symbolize.Missing // objects of the trace that Names has no file of
	notes    []func() string
	tails    func() *symbolize.TailCalls // nil if no binary shows them
	span     *reader.Extent              // nil until it is known
	sched    []*sched.Log                // nil until it is read
	replaced calls.Source                // instead of Trace, or nil
	summed   *summed                     // nil unless calls are from summaries
	closers  []func() error
	quiet    bool // shows no progress
}

// New makes a session over an open trace, with the clock from the header of the trace. The
// session closes the trace.
func New(streams *cli.Streams, command string, t *reader.Trace, names symbolize.Names) *Session {
	return &Session{
		Streams: streams, Command: command, Trace: t, Names: names,
		Clock: reader.Clock{Frequency: t.Header(0).CycleFrequency},
	}
}

// Operands are the traces as the user named them, for command lines, without secrets in URLs.
// They may be folders.
func (s *Session) Operands() []string {
	if s.named == nil {
		return s.Trace.Files()
	}
	names := make([]string, len(s.named))
	for i, path := range s.named {
		names[i] = remote.Name(path)
	}
	return names
}

// Close closes the trace and the sources of names.
func (s *Session) Close() error {
	var err error
	if s.Trace != nil {
		err = s.Trace.Close()
	}
	for _, c := range s.closers {
		err = errors.Join(err, c())
	}
	return err
}

// Packed reports whether the names come from the trace itself.
func (s *Session) Packed() bool { return s.packed }

// Missing returns the objects of the trace whose functions have no names, or possibly wrong
// ones.
func (s *Session) Missing() []symbolize.Missing { return s.missing }

// TailCalls returns the tail calls in the binaries, or nil if there are none.
func (s *Session) TailCalls() *symbolize.TailCalls {
	if s.tails == nil {
		return nil
	}
	return s.tails()
}

// Table returns the names of the functions of an object, or nil if there is no file for it.
func (s *Session) Table(object int) *symbolize.Table {
	if object >= len(s.tables) {
		return nil
	}
	return s.tables[object]
}

// Silence ends the display of progress, for commands that show something else on the terminal.
func (s *Session) Silence() { s.quiet = true }

// Progress shows the progress of passes over the trace on a terminal, until the returned function
// is called.
func (s *Session) Progress() (stop func()) {
	if s.quiet {
		return func() {}
	}
	return s.Streams.Progress(s.Command, s.Trace)
}

// Run describes the calls behind a report: those that an analysis saw, and sums that were added
// to them.
type Run struct {
	*calls.Stats
	// PrunedFiles is the number of files whose sums of pruned calls are in the report. PrunedIn
	// names the numbers that include them. "" means count and total.
	PrunedFiles int
	PrunedIn    string
	// Limited says that counts and estimates of what recordings within a budget left out are in the report.
	Limited bool
	Caveats []string // the command's own, before those of all commands
	// Start is the origin of moments in the report. 0 is the start of the trace.
	Start uint64
}

// Analyze runs an analysis over the calls in scope. It sets the filter, aliases, code,
// duration of short calls and limit of memory in opts.
func Analyze[S calls.Analysis[S]](s *Session, scope Scope, opts calls.Options, newSink func() S) (sink S, run *Run, err error) {
	run = &Run{}
	opts.Filter, opts.Alias, opts.Code, opts.Short = scope.Filter, s.Alias, s.Code, s.ShortTicks()
	opts.Memory = s.TableMemory
	if s.MaxPaths > 0 && opts.Budget == nil {
		opts.Budget = calls.NewPathBudget(s.MaxPaths)
	}
	err = s.Pass(func(unmatched func(*calls.Unmatched) error) (err error) {
		if opts.Unmatched == nil {
			opts.Unmatched = unmatched
		}
		sink, run.Stats, err = calls.Run(s.calls(), opts, newSink)
		if err != nil {
			return err
		}
		if s.summed != nil {
			return s.summed.feed(scope, sink, run.Stats)
		}
		if to, ok := any(sink).(calls.SumSink); ok {
			return calls.RunSums(s.Trace, opts, to, run.Stats)
		}
		return nil
	})
	if err == nil {
		err = s.feed(scope, run, sink)
	}
	return sink, run, err
}

// calls is the trace for analyses of calls.
func (s *Session) calls() calls.Source {
	if s.replaced != nil {
		return s.replaced
	}
	return s.Trace
}

// Replace makes src the source of calls instead of the trace. It has other functions and threads. So nothing is
// known about which functions can call which.
func (s *Session) Replace(src calls.Source) {
	s.replaced = src
	s.Code.CanCall, s.Code.CanReach = nil, nil
}

// Replaced reports whether Replace was called.
func (s *Session) Replaced() bool { return s.replaced != nil }

// Pass calls f, which passes over the trace. With --strict, f must call unmatched for each exit
// without an entry, perhaps concurrently, and losses are errors. Otherwise, unmatched is nil.
func (s *Session) Pass(f func(unmatched func(*calls.Unmatched) error) error) error {
	var first firstUnmatched
	var unmatched func(*calls.Unmatched) error
	if s.Strict {
		unmatched = first.see
	}
	stop := s.Progress()
	err := f(unmatched)
	stop()
	if err != nil || !s.Strict {
		return err
	}
	losses := s.Trace.Losses()
	if loss, ok := losses.First(); ok {
		return fmt.Errorf("%v (%s in all)", loss, label.Grouped(uint64(losses.Count())))
	}
	if n := first.count; n > 0 {
		return fmt.Errorf("%s: thread %d/%d: exit of %s at %d ticks has no entry (%s in all)",
			s.Trace.Files()[first.thread.File], first.thread.Process, first.thread.Thread,
			symbolize.Label(s.Names, first.event.Func), first.event.TSC, label.Grouped(n))
	}
	return nil
}

// firstUnmatched finds the unmatched exit to report. It must not depend on how the trace was
// divided among goroutines.
type firstUnmatched struct {
	mu     sync.Mutex
	count  uint64
	thread reader.Thread
	event  reader.Event
}

func (f *firstUnmatched) see(u *calls.Unmatched) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.count == 1 || u.Event.TSC < f.event.TSC {
		f.thread, f.event = u.Thread, u.Event
	}
	return nil
}

// Note makes [Session.Summary] write what note returns at that time, unless it is "".
func (s *Session) Note(note func() string) { s.notes = append(s.notes, note) }

// Summary writes the notes to standard error, and then a line about what the report does not
// cover. stats is nil if no calls were rebuilt.
func (s *Session) Summary(stats *calls.Stats) {
	for _, note := range s.notes {
		if text := note(); text != "" {
			fmt.Fprintf(s.Stderr, "xray: %s\n", text)
		}
	}
	var parts []string
	losses := s.Trace.Losses()
	if n := losses.Count(); n > 0 {
		var causes []string
		for c, total := range losses.Total {
			if total.Losses > 0 {
				causes = append(causes, fmt.Sprintf("%s %v", label.Grouped(uint64(total.Losses)), reader.Cause(c)))
			}
		}
		parts = append(parts, fmt.Sprintf("%s: %s", label.Count(uint64(n), "loss", "losses"), strings.Join(causes, ", ")))
	}
	if stats != nil && stats.Calls == 0 {
		if sums := survey.OnlySums(s.Trace); sums != "" {
			parts = append(parts, sums)
		}
	}
	// The traces of watch, and of processes that were running, begin amid calls.
	if stats != nil && stats.Unmatched > 0 && s.Trace.Watched() == nil && !s.Trace.Whole() {
		parts = append(parts, label.Count(stats.Unmatched, "exit", "exits")+" without an entry")
	}
	if len(parts) > 0 {
		s.Say("%s; run xray info %s for details", strings.Join(parts, "; "), strings.Join(s.Operands(), " "))
	}
}

// NoCalls returns an error if the recorder recorded sums instead of calls, and nil otherwise.
func (s *Session) NoCalls() error {
	if sums := survey.OnlySums(s.Trace); sums != "" {
		return fmt.Errorf("%s, so there are no individual calls to compare: record the calls themselves", sums)
	}
	return nil
}

// SingleRecording returns the recording of the trace. It returns nil for several files, and for
// traces of other recorders.
func (s *Session) SingleRecording() *reader.Recording {
	if len(s.Trace.Files()) > 1 {
		return nil
	}
	return s.Trace.Recording(0)
}

// ThreadNames returns the names of threads in reports.
func (s *Session) ThreadNames() label.Threads {
	return label.Threads{Name: s.Trace.ThreadName, Files: s.Trace.Files()}
}

// Span finds the first and the last record of the trace. The first call makes a pass.
func (s *Session) Span() (span reader.Extent, err error) {
	if s.span == nil {
		stop := s.Progress()
		defer stop()
		span, err = s.Trace.Extent()
		s.span = &span
	}
	return *s.span, err
}

// Start returns the time of the first record. See [Session.Span].
func (s *Session) Start() (uint64, error) {
	span, err := s.Span()
	return span.First, err
}
