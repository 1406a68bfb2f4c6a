package session

import (
	"errors"
	"runtime"
	"strings"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Streamed turns a sink that cannot be merged into an analysis for runs with one shard.
type Streamed struct{ calls.Sink }

// Merge is never called, because there is only one shard.
func (Streamed) Merge(Streamed) {}

// Memory returns the memory that the sink holds. See [calls.MemoryUser].
func (s Streamed) Memory() int64 { return calls.Memory(s.Sink) }

// WriteRecords writes the records in scope. Those of a part of the time are a slice, with marks if w can
// hold events.
func (s *Session) WriteRecords(w convert.RecordWriter, scope Scope, order reader.Order, events bool) error {
	return s.Pass(func(func(*calls.Unmatched) error) error {
		if scope.From > 0 || scope.To > 0 {
			slicer := convert.NewSlicer(convert.SliceOptions{Filter: scope.Filter, Spans: scope.Spans, Bare: true, NoMarks: !events})
			if err := slicer.Write(w, s.Trace, order, runtime.GOMAXPROCS(0)); err != nil {
				return err
			}
			return w.Close()
		}
		return convert.WriteRecords(w, s.Trace, order, convert.ChooseRecords(scope.Filter), runtime.GOMAXPROCS(0))
	})
}

// TellMissing reports on standard error what an output could not hold. With --strict, that is an
// error.
func (s *Session) TellMissing(lines []string) error {
	if s.Strict && len(lines) > 0 {
		return errors.New(strings.Join(lines, "; "))
	}
	for _, line := range lines {
		s.Say("%s", line)
	}
	return nil
}
