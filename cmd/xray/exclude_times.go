package main

import (
	"errors"
	"slices"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/exclude"
)

// addTimes adds the CPU time of the recorded processes, up to the last records of their
// threads, and the part of it that recording took. It adds nothing unless both are known for
// everything in the report. For a ring, which holds only the end of a recording, they are not.
func addTimes(s *session.Session, opts *exclude.Options) {
	if f := &s.Scope; f.From != 0 || f.To != 0 || f.Thread != nil || len(s.Scope.Spans) > 1 || !s.Clock.Known() {
		return
	}
	var cpu, chunks, fixed, writing, waiting float64 // ns
	for i := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r == nil || r.Process.CPUTo <= r.Process.CPUFrom || r.IsEnd() {
			return
		}
		p := &r.Process
		if r.Windowed() {
			sums := r.WindowSums(p.CPUTo)
			if sums.CPUNS == 0 {
				return
			}
			// Outside of windows, recording costs next to nothing.
			cpu += float64(sums.CPUNS)
			chunks += float64(p.ChunksNS)
			fixed += float64(p.LandingsNS)
			writing += float64(p.WritingNS)
			waiting += float64(p.WaitedNS)
			continue
		}
		last := p.CPUTo
		for _, t := range r.Threads {
			last = max(last, t.Last)
		}
		// The recorder saves times now and then, so those of a killed process are outdated.
		// Assume that it continued at the same rate, but not for long.
		factor := float64(last-p.CPUFrom) / float64(p.CPUTo-p.CPUFrom)
		if factor > 2 {
			return
		}
		cpu += factor * float64(p.CPUNS)
		chunks += factor * float64(p.ChunksNS)
		fixed += float64(p.SetupNS) + factor*float64(p.LandingsNS)
		writing += float64(p.WritingNS)
		waiting += float64(p.WaitedNS)
	}
	opts.CPU = ticksOf(s, cpu)
	opts.Spent = exclude.Spent{Fixed: ticksOf(s, fixed), Chunks: ticksOf(s, chunks), Writing: ticksOf(s, writing), Waiting: ticksOf(s, waiting)}
	opts.Least = ticksOf(s, 1000*leastCallNS)
}

// ticksOf converts nanoseconds to ticks of the trace.
func ticksOf(s *session.Session, ns float64) uint64 {
	return uint64(min(ns*float64(s.Clock.Frequency)/1e9, 1<<62))
}

// leastCallNS is a lower bound for the time of an unrecorded call, in nanoseconds. A call of an
// empty function takes 1.4 ns on a processor with 3.7 GHz.
const leastCallNS = 1

// countedNS is the time to count a call, in nanoseconds: at least, likely, and at most. It was
// 1.7 to 2.2 ns in SQLite, Lua and the tests of yaml-cpp, and 3.8 ns in a loop of empty calls.
var countedNS = [3]float64{1, 2, 4}

// addBaseline adds the CPU time without recording. Baselines are durations, or traces of count
// mode.
func addBaseline(s *session.Session, opts *exclude.Options, baselines []string, sink *exclude.Analysis) error {
	if opts.CPU == 0 {
		return cli.Usagef("--baseline: the CPU time of the selected part of the recording is unknown")
	}
	var traces []string
	var given time.Duration
	for _, b := range baselines {
		if d, err := time.ParseDuration(b); err == nil {
			given += d
		} else {
			traces = append(traces, b)
		}
	}
	ticks := func(ns float64) uint64 { return ticksOf(s, max(ns, 1)) }
	switch {
	case given > 0 && len(traces) == 0:
		t := ticks(float64(given))
		opts.Baseline = exclude.Range{Least: t, Likely: t, Most: t}
	case given != 0 || len(traces) == 0:
		return cli.Usagef("--baseline requires a time above 0, or traces")
	default:
		c, err := openCounts(s, traces)
		if err != nil {
			return err
		}
		scale, err := c.scale(sink)
		if err != nil {
			return err
		}
		base := func(callNS float64) uint64 { return ticks(scale * (c.cpu - c.calls*callNS)) }
		opts.Baseline = exclude.Range{Least: base(countedNS[2]), Likely: base(countedNS[1]), Most: base(countedNS[0])}
	}
	if opts.Baseline.Least > opts.CPU+opts.CPU/2 {
		return cli.Usagef("--baseline uses more CPU time for the same number of calls than the recording: record the same load")
	}
	return nil
}

// countedCalls are recordings that counted calls.
type countedCalls struct {
	cpu   float64 // CPU time of the processes without the start of the recorder, in ns
	calls float64
	of    map[reader.FuncID]uint64
}

func openCounts(s *session.Session, paths []string) (c *countedCalls, err error) {
	t, err := s.OpenTrace(paths...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c = &countedCalls{of: make(map[reader.FuncID]uint64)}
	build := s.Trace.Recording(0).Process.BuildID
	for i := range paths {
		r := t.Recording(i)
		// A process that made no calls has no counters, but it may have used CPU time.
		if r == nil || r.Process.Mode != "count" {
			return nil, cli.Usagef("--baseline: %s was not recorded with xray record --count", t.Files()[i])
		}
		if r.Process.BuildID != build {
			return nil, cli.Usagef("--baseline: %s comes from a different build", t.Files()[i])
		}
		cpu := float64(r.Process.CPUNS) - float64(r.Process.SetupNS)
		if r.Windowed() {
			cpu = float64(r.WindowSums(r.Process.CPUTo).CPUNS)
		}
		c.cpu += max(0, cpu)
		for _, counter := range r.Counters {
			c.calls += float64(counter.Calls)
			c.of[counter.Func] += counter.Calls
		}
	}
	if c.cpu <= 0 {
		return nil, cli.Usagef("--baseline: these recordings do not state their CPU time")
	}
	return c, nil
}

// scale returns the load of the trace relative to the counted recordings. It is the median of
// the ratios of calls over all functions. A sum would be wrong for a program that polls: how
// often it calls some functions depends on time, not on load.
func (c *countedCalls) scale(sink *exclude.Analysis) (float64, error) {
	var ratios []float64
	for id, n := range c.of {
		if has := sink.Count(id); has > 0 && n > 0 {
			ratios = append(ratios, float64(has)/float64(n))
		}
	}
	if len(ratios) == 0 {
		return 0, cli.Usagef("--baseline has no calls of the recorded functions")
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], nil
}
