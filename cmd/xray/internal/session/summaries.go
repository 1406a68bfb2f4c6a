package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/arrivals"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables/summary"
)

// summed holds the summaries of a session, including those that it made of traces.
type summed struct {
	memory  int64 // Session.TableMemory
	set     *summary.Set
	caveats survey.SharedCaveats // of the traces
	traces  int
	counts  []counted // of the last pass
}

// counted is the calls of a function whose times are unknown.
type counted struct {
	fn                          reader.FuncID
	untimed, pruned, prunedTime uint64
}

// Header returns the header of the first trace. Summaries have none.
func (s *Session) Header() reader.Header {
	if s.summed != nil {
		return reader.Header{}
	}
	return s.Trace.Header(0)
}

// Summed reports whether the session has only sums, from summaries.
func (s *Session) Summed() bool { return s.summed != nil }

// NeedCalls returns an error if a given flag needs calls and the session has only sums.
func (s *Session) NeedCalls(flag string, given bool) error {
	if s.summed == nil || !given {
		return nil
	}
	return cli.Usagef("--%s needs individual calls, but a summary has only sums: pass traces", flag)
}

// openSummaries opens summaries, and sums up the traces among the inputs.
func (i *Inputs) openSummaries(s *Session, paths []string) error {
	if !i.Summaries {
		path, err := i.inputs(s.Streams).Any(paths)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is a summary, but %s needs individual calls: pass traces", remote.Name(path), s.Command)
	}
	if err := i.sumUp(s); err != nil {
		return err
	}
	traces := *i
	traces.scope = scopeFlags{} // the sums of all inputs are filtered together
	sources, err := traces.sources(s.Streams, s.Command, summary.Key{}, paths, func(caveats []string) {
		s.summed.traces++
		s.summed.caveats.Add(caveats)
	})
	if err != nil {
		return err
	}
	return i.overSources(s, sources)
}

// sumUp makes a session one that has only sums.
func (i *Inputs) sumUp(s *Session) error {
	if i.scope.choosesSingleCalls() {
		return cli.Usagef("a summary contains neither individual calls nor threads: select with --func and --max-depth, or use a trace")
	}
	if i.group {
		return cli.Usagef("--group-templates does not apply to summaries")
	}
	s.Trace, s.summed = &reader.Trace{}, &summed{memory: i.tables}
	return nil
}

// overSources makes a session over summaries.
func (i *Inputs) overSources(s *Session, sources []summary.Source) (err error) {
	s.summed.set = summary.NewSet(sources, (s.MaxPaths+summaryPathCost-1)/summaryPathCost)
	s.Names = s.summed.set
	if s.Clock, err = s.summed.set.Clock(); err != nil {
		return err
	}
	s.Scope, err = i.scope.build(s)
	return err
}

// Repetitions are the runs in a file: the hosts of a summary, or the trace itself.
type Repetitions struct {
	inputs  *Inputs
	path    string
	sources []summary.Source // by host; nil for a trace
}

// Repetitions finds the runs in a file.
func (i *Inputs) Repetitions(streams *cli.Streams, path string) (*Repetitions, error) {
	r := &Repetitions{inputs: i, path: path}
	if is, err := i.inputs(streams).Begins(path); !is || err != nil {
		return r, err
	}
	source, err := openSummary(i.inputs(streams), path)
	if err == nil {
		r.sources = summary.OfHosts(source)
	}
	return r, err
}

// Len returns the number of runs.
func (r *Repetitions) Len() int {
	if r.sources == nil {
		return 1
	}
	return len(r.sources)
}

// Open opens a run, and returns its name. The caller closes the session.
func (r *Repetitions) Open(streams *cli.Streams, command string, n int) (*Session, string, error) {
	if r.sources == nil {
		s, err := r.inputs.Open(streams, command, r.path)
		return s, r.path, err
	}
	name := r.path
	if len(r.sources) > 1 {
		name += " of host " + r.sources[n].Keys()[0].Host
	}
	s, err := r.inputs.session(streams, command)
	if err == nil {
		err = r.inputs.sumUp(s)
	}
	if err == nil {
		err = r.inputs.overSources(s, r.sources[n:n+1])
	}
	return s, name, err
}

// choosesSingleCalls reports whether a flag needs more than the sums of a path.
func (f *scopeFlags) choosesSingleCalls() bool {
	return len(f.threads) > 0 || f.minDuration != "" || f.from+f.to+f.last+f.around != ""
}

// Sources opens summaries, and sums up traces. Each trace fills the empty fields of its key. It
// writes the caveats of traces to standard error.
func (i *Inputs) Sources(streams *cli.Streams, command string, key summary.Key, paths []string) ([]summary.Source, error) {
	var caveats survey.SharedCaveats
	traces := 0
	sources, err := i.sources(streams, command, key, paths, func(list []string) {
		traces++
		caveats.Add(list)
	})
	TellCaveats(streams, "", caveats.List(traces))
	return sources, err
}

// maxPaths limits the call paths of a tree. 0 is no limit.
func (i *Inputs) maxPaths() int {
	if i.memory == 0 {
		return 0
	}
	return int(max(i.memory/BytesPerPath, 1))
}

func (i *Inputs) sources(streams *cli.Streams, command string, key summary.Key, paths []string, tell func([]string)) ([]summary.Source, error) {
	var sources []summary.Source
	for _, path := range paths {
		var source summary.Source
		is, err := i.inputs(streams).Begins(path)
		switch {
		case is && err == nil:
			source, err = openSummary(i.inputs(streams), path)
		case err == nil:
			source, err = i.summarize(streams, command, key, path, tell)
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// summaryPathCost is the memory for a path of a summary relative to other commands. Each path has
// two histograms and a name.
const summaryPathCost = 6

// MaxSummaryPaths limits the call paths of a summary. 0 is no limit.
func (i *Inputs) MaxSummaryPaths() int { return (i.maxPaths() + summaryPathCost - 1) / summaryPathCost }

// summarize sums up a trace.
func (i *Inputs) summarize(streams *cli.Streams, command string, key summary.Key, path string, tell func([]string)) (summary.Source, error) {
	s, err := i.Open(streams, command, path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.MaxPaths = i.MaxSummaryPaths()
	g, run, err := s.summarize(key)
	if err != nil {
		return nil, err
	}
	tell(s.Caveats(run))
	s.Summary(run.Stats)
	return summary.Memory{g}, nil
}

// summarize sums up the calls in scope. The trace fills the empty fields of the key.
func (s *Session) summarize(key summary.Key) (*summary.Group, *Run, error) {
	opts := calls.Options{Paths: true, Nested: true, OffCPU: s.OffCPU()}
	how := summary.Options{Clock: s.Clock, OffCPU: opts.OffCPU != nil, MaxPaths: s.MaxPaths}
	sink, run, err := Analyze(s, s.Scope, opts, func() *summary.Analysis { return summary.NewAnalysis(how) })
	if err != nil {
		return nil, nil, err
	}
	program, build, host := s.program()
	key.Program, key.BuildID, key.Host = cmp.Or(key.Program, program), cmp.Or(key.BuildID, build), cmp.Or(key.Host, host)
	key.Labels, key.Unit = cmp.Or(key.Labels, summary.NoLabels), s.Clock.Unit()
	return sink.Group(key, s.describe), run, nil
}

// program describes the traced program.
func (s *Session) program() (name, buildID, host string) {
	if r := s.SingleRecording(); r != nil && !r.Foreign() {
		return filepath.Base(r.Process.Exe), r.Process.BuildID, r.Process.Host
	}
	if t := s.Table(0); t != nil {
		o := t.Object()
		return filepath.Base(o.Path), o.BuildID, ""
	}
	return "", "", ""
}

// describe describes a function of the trace in the form of summaries.
func (s *Session) describe(fn reader.FuncID) summary.Function {
	f := summary.Function{Name: symbolize.Label(s.Names, fn)}
	if s.Names == nil {
		return f
	}
	f.Object = symbolize.ObjectName(s.Names, fn)
	if symbol, ok := s.Names.Func(fn); ok {
		f.Symbol, f.File, f.Line = symbol.Linkage, symbol.File, int32(symbol.Line)
	}
	return f
}

// openSummary opens a summary as a source of groups. Files are open only while they are
// read.
func openSummary(in *arrivals.Inputs, path string) (summary.Source, error) {
	return summary.OpenSource(remote.Name(path), func() (io.ReaderAt, int64, io.Closer, error) { return in.Open(path) })
}

// feed feeds the sums of the summaries to a sink.
func (s *summed) feed(scope Scope, sink any, stats *calls.Stats) error {
	to, ok := sink.(calls.SumSink)
	if !ok {
		return errors.New("a summary does not contain individual calls: use a trace")
	}
	s.counts = nil
	return s.set.Each(func(g *summary.Group, sums *calls.Sums) error {
		s.set.Counts(g, func(fn reader.FuncID, untimed, pruned, prunedTime uint64) {
			if scope.Func == nil || scope.Func(fn) {
				s.counts = append(s.counts, counted{fn, untimed, pruned, prunedTime})
			}
		})
		return errors.Join(calls.FeedSums(sums, &scope.Filter, to, stats), calls.CheckMemory(sink, s.memory))
	})
}

// feedCounts feeds the calls whose times are unknown to a sink.
func (s *summed) feedCounts(sink calls.CountSink, stats *calls.Stats) {
	for _, c := range s.counts {
		if c.untimed > 0 {
			sink.Count(reader.Thread{}, stats.Threads, c.fn, c.untimed)
			stats.Calls += c.untimed
		}
	}
}

// feedPruned feeds the calls that recorders dropped to a sink.
func (s *summed) feedPruned(sink calls.PrunedSink, stats *calls.Stats) {
	for _, c := range s.counts {
		if c.pruned > 0 {
			sink.Pruned(reader.Thread{}, stats.Threads, c.fn, c.pruned, c.prunedTime)
			stats.Calls += c.pruned
		}
	}
}

// summedCaveats returns the caveats of a report on summaries.
func (s *Session) summedCaveats(run *Run) []string {
	list := append(slices.Clone(run.Caveats), s.summed.caveats.List(s.summed.traces)...)
	if known, self := s.summed.set.OffCPU(); known > 0 && known < self {
		list = append(list, fmt.Sprintf("Off-CPU times are known for %s of self time. The rest counts as CPU time.",
			label.Percent(float64(known), float64(self))))
	}
	if run.Stats != nil && run.Stats.Folded > 0 {
		list = append(list, fmt.Sprintf("The programs have more call paths than the recorder or --path-memory keeps. The lightest are combined into nodes named (folded), "+
			"which have %s. Counts and times of functions are exact.", label.Count(run.Stats.Folded, "call", "calls")))
	}
	return list
}
