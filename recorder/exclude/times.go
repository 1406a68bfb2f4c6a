package exclude

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xray-tools/xray/reader"
)

// Measured sets the CPU time of the recorded processes, up to the last records of their threads, and the
// part of it that recording took. It sets nothing unless both are known for all of the trace. For a ring,
// which holds only the end of a recording, they are not.
func (o *Options) Measured(t *reader.Trace) {
	if !o.Clock.Known() {
		return
	}
	var cpu, chunks, fixed, writing, waiting float64 // ns
	for i := range t.Files() {
		r := t.Recording(i)
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
		for _, thread := range r.Threads {
			last = max(last, thread.Last)
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
	o.CPU = o.ticks(cpu)
	o.Spent = Spent{Fixed: o.ticks(fixed), Chunks: o.ticks(chunks), Writing: o.ticks(writing), Waiting: o.ticks(waiting)}
	o.Least = o.ticks(1000 * leastCallNS)
}

// ticks converts nanoseconds to ticks of the trace.
func (o *Options) ticks(ns float64) uint64 {
	return uint64(min(ns*float64(o.Clock.Frequency)/1e9, 1<<62))
}

// leastCallNS is a lower bound for the time of an unrecorded call, in nanoseconds. A call of an
// empty function takes 1.4 ns on a processor with 3.7 GHz.
const leastCallNS = 1

// countedNS is the time to count a call, in nanoseconds: at least, likely, and at most. It was
// 1.7 to 2.2 ns in SQLite, Lua and the tests of yaml-cpp, and 3.8 ns in a loop of empty calls.
var countedNS = [3]float64{1, 2, 4}

// GivenBaseline sets the CPU time without recording.
func (o *Options) GivenBaseline(d time.Duration) error {
	t := o.ticks(max(float64(d), 1))
	return o.setBaseline(Range{Least: t, Likely: t, Most: t})
}

// CountedBaseline sets the CPU time without recording from recordings that counted calls of the same load as
// trace, whose calls are in sink. Errors name the flag --baseline of xray exclude.
func (o *Options) CountedBaseline(trace, counts *reader.Trace, sink *Analysis) error {
	c, err := readCounts(trace, counts)
	if err != nil {
		return err
	}
	scale, err := c.scale(sink)
	if err != nil {
		return err
	}
	base := func(callNS float64) uint64 { return o.ticks(max(scale*(c.cpu-c.calls*callNS), 1)) }
	return o.setBaseline(Range{Least: base(countedNS[2]), Likely: base(countedNS[1]), Most: base(countedNS[0])})
}

func (o *Options) setBaseline(r Range) error {
	if r.Least > o.CPU+o.CPU/2 {
		return errors.New("--baseline uses more CPU time for the same number of calls than the recording: record the same load")
	}
	o.Baseline = r
	return nil
}

// countedCalls are recordings that counted calls.
type countedCalls struct {
	cpu   float64 // CPU time of the processes without the start of the recorder, in ns
	calls float64
	of    map[reader.FuncID]uint64
}

func readCounts(of, t *reader.Trace) (*countedCalls, error) {
	c := &countedCalls{of: make(map[reader.FuncID]uint64)}
	build := of.Recording(0).Process.BuildID
	for i := range t.Files() {
		r := t.Recording(i)
		// A process that made no calls has no counters, but it may have used CPU time.
		if r == nil || r.Process.Mode != "count" {
			return nil, fmt.Errorf("--baseline: %s was not recorded with xray record --count", t.Files()[i])
		}
		if r.Process.BuildID != build {
			return nil, fmt.Errorf("--baseline: %s comes from a different build", t.Files()[i])
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
		return nil, errors.New("--baseline: these recordings do not state their CPU time")
	}
	return c, nil
}

// scale returns the load of the trace relative to the counted recordings. It is the median of
// the ratios of calls over all functions. A sum would be wrong for a program that polls: how
// often it calls some functions depends on time, not on load.
func (c *countedCalls) scale(sink *Analysis) (float64, error) {
	var ratios []float64
	for id, n := range c.of {
		if has := sink.Count(id); has > 0 && n > 0 {
			ratios = append(ratios, float64(has)/float64(n))
		}
	}
	if len(ratios) == 0 {
		return 0, errors.New("--baseline has no calls of the recorded functions")
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], nil
}
