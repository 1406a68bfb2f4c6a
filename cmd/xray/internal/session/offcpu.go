package session

import (
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader"
)

// OffCPU returns the clock for calls.Options.OffCPU if the trace says when threads were off the
// processor, or else nil.
func (s *Session) OffCPU() *reader.Clock {
	if s.NoOffCPU() != "" {
		return nil
	}
	return &s.Clock
}

// NoOffCPU returns why the trace does not say when threads were off CPU, or "" if it
// does.
func (s *Session) NoOffCPU() string {
	if !s.Clock.Known() {
		return "the trace does not state its clock frequency, so off-CPU times are unknown"
	}
	if s.summed != nil && !s.summed.set.KnowsOffCPU() {
		return "some of the summarized traces have no off-CPU times"
	}
	return survey.NoOffCPU(s.Trace)
}
