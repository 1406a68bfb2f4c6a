package session

import (
	"fmt"
	"slices"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader"
)

// ShortTicks is [survey.ShortTicks] for the clock of the trace.
func (s *Session) ShortTicks() uint64 { return survey.ShortTicks(s.Clock) }

// Caveats returns the caveats of a report. Every report begins with them.
func (s *Session) Caveats(run *Run) []string {
	if s.summed != nil {
		return s.summedCaveats(run)
	}
	c := survey.Coverage{Trace: s.Trace, Stats: run.Stats, Clock: s.Clock, Names: s.Names, PrunedFiles: run.PrunedFiles, PrunedIn: run.PrunedIn}
	return append(slices.Clone(run.Caveats), c.Caveats()...)
}

// RecordedTicks returns a function that says how much of a time was recorded in a file, or nil if no
// recording has windows.
func (s *Session) RecordedTicks() func(file int32, from, to uint64) uint64 {
	if s.Trace == nil || !slices.ContainsFunc(s.recordings(), (*reader.Recording).Windowed) {
		return nil
	}
	return func(file int32, from, to uint64) uint64 {
		if r := s.Trace.Recording(int(file)); r != nil {
			return r.RecordedTicks(from, to)
		}
		return to - from
	}
}

// TellCaveats writes caveats to standard error, each after the prefix where.
func TellCaveats(streams *cli.Streams, where string, caveats []string) {
	for _, caveat := range caveats {
		streams.Say("%s%s", where, caveat)
	}
}

// TellCaveats writes the caveats of a run to standard error, each after the prefix where.
func (s *Session) TellCaveats(where string, run *Run) {
	TellCaveats(s.Streams, where, s.Caveats(run))
}

// SharedCaveats collects the caveats of several traces that are read one after the other.
type SharedCaveats struct {
	texts []string // each once
	of    map[string]int
}

// Add adds the caveats of a trace.
func (c *SharedCaveats) Add(caveats []string) {
	if c.of == nil {
		c.of = make(map[string]int)
	}
	for _, text := range caveats {
		if c.of[text]++; c.of[text] == 1 {
			c.texts = append(c.texts, text)
		}
	}
}

// List returns the caveats. Those that do not hold for all traces name the number for which they
// do.
func (c *SharedCaveats) List(traces int) []string {
	var list []string
	for _, text := range c.texts {
		if n := c.of[text]; n < traces {
			text = fmt.Sprintf("In %d of %d traces: %s", n, traces, text)
		}
		list = append(list, text)
	}
	return list
}
