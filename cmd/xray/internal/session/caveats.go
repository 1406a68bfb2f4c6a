package session

import (
	"slices"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/survey"
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
