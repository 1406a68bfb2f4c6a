package session

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Sched returns the scheduler events of each file of the trace, nil for files without any. It
// reads them once.
func (s *Session) Sched() []*sched.Log {
	if s.sched == nil {
		s.sched = make([]*sched.Log, len(s.Trace.Files()))
		for i, r := range s.Trace.Recordings() {
			s.sched[i] = sched.New(r)
		}
	}
	return s.sched
}

// Interrupts returns when threads were interrupted, for calls.Options, or nil if the trace has no
// interrupts.
func (s *Session) Interrupts() func(reader.Thread) []calls.Stretch {
	for _, r := range s.Trace.Recordings() {
		if r.Sched.Interrupts() > 0 {
			s.Sched() // before threads ask for it concurrently
			return func(t reader.Thread) []calls.Stretch { return s.sched[t.File].Thread(t.Thread).Interrupted() }
		}
	}
	return nil
}
