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
		for i := range s.sched {
			if r := s.Trace.Recording(i); r != nil {
				s.sched[i] = sched.New(r)
			}
		}
	}
	return s.sched
}

// Interrupts returns when threads were interrupted, for calls.Options, or nil if the trace has no
// interrupts.
func (s *Session) Interrupts() func(reader.Thread) []calls.Stretch {
	for i := range s.Trace.Files() {
		if r := s.Trace.Recording(i); r != nil && r.Sched.Interrupts() > 0 {
			s.Sched() // before threads ask for it concurrently
			return s.interruptsOf
		}
	}
	return nil
}

func (s *Session) interruptsOf(t reader.Thread) (list []calls.Stretch) {
	for _, i := range s.sched[t.File].Thread(t.Thread).Interrupts(0, ^uint64(0)) {
		// An interrupt in another one belongs to that.
		if n := len(list); n > 0 && i.From < list[n-1].To {
			list[n-1].To = max(list[n-1].To, i.To)
			continue
		}
		list = append(list, calls.Stretch{From: i.From, To: i.To})
	}
	return list
}
