package convert

import "github.com/xray-tools/xray/reader/calls"

// CallWriter is a writer of calls: [Perfetto], [Chrome], [Speedscope], [Firefox], [CSV] or
// [JSONLines].
type CallWriter interface {
	calls.Sink
	Close() error
}

// WriteCalls rebuilds the calls of src, writes them to w in the order in which they end in the
// blocks of src, and closes w. It ignores opts.Shards and uses one goroutine, so that the order is
// defined. If src or w fails, it returns the error without closing w.
func WriteCalls(src calls.Source, opts calls.Options, w CallWriter) (*calls.Stats, error) {
	opts.Shards = 1
	_, stats, err := calls.Run(src, opts, func() stream { return stream{w} })
	if err != nil {
		return nil, err
	}
	return stats, w.Close()
}

// stream is the only sink of a run, so there is nothing to merge.
type stream struct{ calls.Sink }

func (stream) Merge(stream) {}
