package session

import (
	"fmt"

	"github.com/xray-tools/xray/reader"
)

// OffCPU returns the clock for calls.Options.OffCPU if the trace says when threads were off the
// processor, or else nil. All files must say it, because unknown times would look like time on
// the processor.
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
	for i, file := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r != nil && r.Process.OffCPU != "" {
			continue
		}
		if r != nil && r.Process.NoOffCPU != "" {
			return fmt.Sprintf("%s has no off-CPU times: %s", file, r.Process.NoOffCPU)
		}
		return fmt.Sprintf("%s has no off-CPU times: record it with `xray record`", file)
	}
	return ""
}
