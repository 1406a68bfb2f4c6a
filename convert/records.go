package convert

import (
	"github.com/xray-tools/xray/reader"
)

// RecordWriter writes the records of a trace. Blocks of a thread come in order.
type RecordWriter interface {
	Block(*reader.Block) error
	Close() error
}

// sortedWriter is one that can put a whole trace in order by itself.
type sortedWriter interface {
	RecordWriter
	Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error
}

// WriteRecords writes the records of a trace, with edit applied to each block unless it is
// nil, and closes w. Writers that can, use n goroutines.
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
