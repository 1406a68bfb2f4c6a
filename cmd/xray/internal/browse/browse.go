// Package browse collects what package tui shows of a trace, by the analyses of other commands.
package browse

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/source"
)

// sums are the analyses of one pass. With a window, ended has the whole calls that ended in it, and
// the others have only the times in the window. They take no estimates of calls that a budget left out:
// the view leads from functions to calls, and its notes say how many are missing.
type sums struct {
	clip    *clipper // nil without a window
	ended   *account.Analysis
	within  *account.Analysis // same as ended without a window
	threads *account.Analysis
	paths   *stack.Analysis
}

// Memory implements [calls.MemoryUser].
func (s *sums) Memory() int64 {
	return s.ended.Memory() + s.within.Memory() + s.threads.Memory() + s.paths.Memory()
}

// Calls implements [calls.Sink].
func (s *sums) Calls(b *calls.Batch) error {
	if s.clip != nil {
		whole, part := s.clip.clip(b)
		b = part
		if err := s.ended.Calls(whole); err != nil {
			return err
		}
	}
	return errors.Join(s.within.Calls(b), s.threads.Calls(b), s.paths.Calls(b))
}

// Sums implements [calls.SumSink].
func (s *sums) Sums(p *calls.Sums) error {
	return errors.Join(s.within.Sums(p), s.threads.Sums(p), s.paths.Sums(p))
}

// OnlyCalls says that sums of calls outside the window are not wanted: see [session.Analyze].
func (s *sums) OnlyCalls() bool { return s.clip != nil }

// Count implements [calls.CountSink].
func (s *sums) Count(th reader.Thread, index int, fn reader.FuncID, calls uint64) {
	if s.clip == nil { // it is not known which of them were in a window
		s.within.Count(th, index, fn, calls)
	}
}

// Pruned implements [calls.PrunedSink].
func (s *sums) Pruned(th reader.Thread, index int, fn reader.FuncID, calls, ticks uint64) {
	s.within.Pruned(th, index, fn, calls, ticks)
}

// Merge implements [calls.Analysis].
func (s *sums) Merge(o *sums) {
	if s.clip != nil {
		s.ended.Merge(o.ended)
	}
	s.within.Merge(o.within)
	s.threads.Merge(o.threads)
	s.paths.Merge(o.paths)
}

// Collect makes a pass over a trace. Without a window, it collects the calls in the session's scope.
// names are the names to show.
func Collect(s *session.Session, names symbolize.Names, w *Window) (*tui.Data, *session.Run, error) {
	opts := calls.Options{Nested: true, Paths: true, OffCPU: s.OffCPU()}
	off := opts.OffCPU != nil
	var missing atomic.Uint64
	if w != nil {
		opts.Unmatched = func(u *calls.Unmatched) error {
			if u.Event.TSC >= w.From && u.Event.TSC <= w.To {
				missing.Add(1)
			}
			return nil
		}
	}
	found, run, err := session.Analyze(s, s.Scope, opts, func() *sums {
		all := &sums{
			within: account.New(account.Options{OffCPU: off}), threads: account.New(account.Options{OffCPU: off, PerThread: true}),
			paths: stack.New(stack.Options{OffCPU: off}),
		}
		if all.ended = all.within; w != nil {
			all.clip = &clipper{Window: w, offCPU: off, threads: make(map[int]*clippedThread)}
			all.ended = account.New(account.Options{})
		}
		return all
	})
	if err != nil {
		return nil, nil, err
	}
	d := &tui.Data{Clock: s.Clock, OffCPU: off, Title: strings.Join(s.Operands(), " "), Missing: missing.Load()}
	d.Functions = functions(found, s.Clock, names)
	d.Threads = threads(found.threads.Report(s.Clock.Frequency), s.ThreadNames())
	for tree := range found.paths.Report(s.Clock).Trees() {
		for _, f := range tree.Frames {
			d.Frames = append(d.Frames, tui.Frame{Func: f.Func, Parent: f.Parent, Calls: f.Count, Self: f.Self + f.OpenSelf, Total: f.Total + f.OpenTotal})
		}
	}
	if w != nil && w.To > w.From {
		d.Observed = w.To - w.From
	}
	return d, run, nil
}

// functions joins the times in the window with the durations of whole calls.
func functions(found *sums, clock reader.Clock, names symbolize.Names) []tui.Function {
	within := found.within.Report(clock.Frequency)
	ended := within
	if found.clip != nil {
		ended = found.ended.Report(clock.Frequency)
	}
	durations := make(map[reader.FuncID]*account.Row, len(ended.Rows))
	for i := range ended.Rows {
		durations[ended.Rows[i].Func] = &ended.Rows[i]
	}
	list := make([]tui.Function, 0, len(within.Rows))
	for i := range within.Rows {
		row := &within.Rows[i]
		f := tui.Function{
			ID: row.Func, Name: symbolize.Label(names, row.Func), Location: location(names, row.Func),
			Open: row.Open, Self: clampSum(row.Self), Total: clampSum(row.Total),
			CPU: clampSum(row.CPU()), Blocked: clampSum(row.SelfOff.Blocked), Queued: clampSum(row.SelfOff.Queued),
		}
		if d := durations[row.Func]; d != nil {
			f.Calls, f.P50, f.P99, f.Max, f.Octaves = d.Count, d.P50, d.P99, d.Max, d.Octaves
		}
		list = append(list, f)
	}
	return list
}

func location(names symbolize.Names, fn reader.FuncID) string {
	if names == nil {
		return ""
	}
	if s, ok := names.Func(fn); ok && s.File != "" {
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return ""
}

// threads sums up the functions of each thread. Those with the most CPU time come
// first.
func threads(r *account.Report, names label.Threads) []tui.Thread {
	var list []tui.Thread
	index := make(map[reader.Thread]int)
	most := make(map[reader.Thread]uint64)
	for i := range r.Rows {
		row := &r.Rows[i]
		at, ok := index[row.Thread]
		if !ok {
			at = len(list)
			index[row.Thread] = at
			list = append(list, tui.Thread{Name: names.Of(row.Thread)})
		}
		t, self := &list[at], clampSum(row.Self)
		t.Calls += row.Count
		t.Self += self
		t.CPU += clampSum(row.CPU())
		t.Blocked += clampSum(row.SelfOff.Blocked)
		t.Queued += clampSum(row.SelfOff.Queued)
		if self > most[row.Thread] || t.Busiest == 0 {
			most[row.Thread], t.Busiest = self, row.Func
		}
	}
	slices.SortStableFunc(list, func(a, b tui.Thread) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Calls, a.Calls))
	})
	return list
}

// slowestCalls is how many calls are shown with their trees.
const slowestCalls = 5

// Slowest returns the slowest calls of a function and their trees, as xray slowest shows them.
func Slowest(s *session.Session, names symbolize.Names, fn reader.FuncID, width int) ([]string, error) {
	opts := slowest.Options{
		Root: func(id reader.FuncID) bool { return id == fn }, Thread: s.Scope.Thread,
		From: s.Scope.From, To: s.Scope.To, Top: slowestCalls, Values: s.Expressions(),
	}
	if _, err := s.Span(); err != nil {
		return nil, err
	}
	found, _, err := s.SearchSlowest(opts)
	if err != nil {
		return nil, err
	}
	trees, _, err := session.Analyze(s, session.Scope{}, calls.Options{Paths: true, Roots: opts.Root},
		func() *slowest.Trees { return slowest.NewTrees(found) })
	if err != nil {
		return nil, err
	}
	return text(s.Doc(names, trees.Report(s.Clock).Body(names, slowest.View{MinShare: 0.01})), width)
}

// text returns the lines of a report.
func text(d *report.Doc, width int) ([]string, error) {
	var b bytes.Buffer
	if err := d.Write(&b, report.Style{Format: report.Text, Width: width}); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), nil
}

// Source returns the lines of a function, if its file may be read.
func Source(sources *session.Sources, names symbolize.Names, fn reader.FuncID) ([]string, error) {
	if names == nil {
		return nil, errors.New("its name is unknown")
	}
	symbol, ok := names.Func(fn)
	if !ok || symbol.File == "" {
		return nil, errors.New("the source file is unknown: compile with debug information (-g)")
	}
	data, err := sources.Text(symbol.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", symbol.File, err)
	}
	all := source.Lines(data)
	first, last := source.Passage(all, symbol.Line)
	lines := []string{symbol.File}
	for n := first; n <= last; n++ {
		lines = append(lines, fmt.Sprintf("%5d  %s", n, strings.ReplaceAll(all[n-1], "\t", "    ")))
	}
	return lines, nil
}

// NeedTerminal returns an error if there is no terminal to show something in. instead says what to
// do without one.
func NeedTerminal(streams *cli.Streams, instead string) error {
	if !cli.IsTerminal(streams.Stdout.Raw) {
		return cli.Usagef("standard output is not a terminal: %s", instead)
	}
	return nil
}

// Show shows a model in the terminal until the user leaves it, or a signal ends xray. instead says
// what to do without a terminal.
func Show(ctx context.Context, m *tui.Model, updates <-chan tui.Update, instead string) error {
	screen, err := tui.Open()
	if err != nil {
		return fmt.Errorf("%w: %s", err, instead)
	}
	ctx, stop := launch.UntilInterrupted(ctx)
	wait := tui.Run(ctx, screen, m, updates)
	stop() // now a signal ends xray at once
	wait()
	return nil
}
