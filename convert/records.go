package convert

import (
	"github.com/xray-tools/xray/reader"
)

// RecordWriter writes the records of a trace. The blocks of a thread must come in order.
type RecordWriter interface {
	Block(*reader.Block) error
	Close() error
}

// sortedWriter is a RecordWriter that can sort a whole trace by time itself.
type sortedWriter interface {
	RecordWriter
	Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error
}

// WriteRecords writes the records of a trace and closes w. It applies edit, if not nil, to each
// block. Some writers use up to n goroutines in time order. If WriteRecords returns an error, it may
// not have closed w.
func WriteRecords(w RecordWriter, t *reader.Trace, order reader.Order, edit func(*reader.Block) *reader.Block, n int) error {
	if sorted, ok := w.(sortedWriter); ok && order == reader.TimeOrder {
		if err := sorted.Sorted(t, n, edit); err != nil {
			return err
		}
		return w.Close()
	}
	for b, err := range t.Blocks(order) {
		if err == nil {
			if edit != nil {
				b = edit(b)
			}
			err = w.Block(b)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}
