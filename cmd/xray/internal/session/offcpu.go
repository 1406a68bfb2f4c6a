package session

import (
	"fmt"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
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

// NoOffCPU returns why the trace does not say when threads were off the processor, or "" if it
// does.
func (s *Session) NoOffCPU() string {
	if !s.Clock.Known() {
		return "the trace does not state the frequency of its clock, so times off the processor are unknown"
	}
	if s.summed != nil && !s.summed.set.KnowsOffCPU() {
		return "not all of the traces that were summed up say when threads were off the processor"
	}
	for i, file := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r != nil && r.Process.OffCPU != "" {
			continue
		}
		if r != nil && r.Process.NoOffCPU != "" {
			return fmt.Sprintf("%s does not say when threads were off the processor: %s", file, r.Process.NoOffCPU)
		}
		return fmt.Sprintf("%s does not say when threads were off the processor: record it with `xray record`", file)
	}
	return ""
}

// offCPUCaveats returns caveats about the times off the processor.
func offCPUCaveats(stats *calls.Stats, clock reader.Clock) (list []string) {
	if stats == nil {
		return nil
	}
	if n := stats.Off.Unknown; n > 0 {
		list = append(list, fmt.Sprintf("%s off the processor have an unknown length, because a seccomp filter was in place. They count as time on the processor.",
			label.Count(n, "time", "times")))
	}
	if n := stats.Off.Unqueued; n > 0 {
		list = append(list, fmt.Sprintf("For %s off the processor, the kernel did not say how long the thread waited for a processor. They count as blocked.",
			label.Count(n, "time", "times")))
	}
	if ticks := stats.Off.Recorder; ticks > 0 {
		list = append(list, fmt.Sprintf("Threads waited %s for the recorder. This counts neither as blocked nor as time on the processor.", clock.Format(ticks)))
	}
	return list
}
