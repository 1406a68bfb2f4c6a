package sql

import (
	"errors"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// errStopped ends a pass whose remaining records are not needed.
var errStopped = errors.New("stopped")

// chunk is a copy of a batch, on its way from the goroutine that rebuilds calls to the one
// that runs the query.
type chunk struct {
	thread reader.Thread
	index  int
	calls  []calls.Call
	args   []calls.Arg
	// results, waits and events are as in calls.Batch.
	results []calls.Arg
	waits   []calls.Wait
	events  []calls.Event
	values  []callValues
}

// callValues are the arguments and results of a call.
type callValues struct {
	call int // index in chunk.calls
	tables.Values
}

// pathTree is a tree of call paths by [calls.PathID].
type pathTree struct {
	parents []calls.PathID
	funcs   []reader.FuncID
}

// grow adds the paths that p has and t has not.
func (t *pathTree) grow(p *calls.Paths) {
	for id := calls.PathID(len(t.funcs)); int(id) < p.Len(); id++ {
		t.parents = append(t.parents, p.Parent(id))
		t.funcs = append(t.funcs, p.Func(id))
	}
}

// Len is the number of paths, with 0, which is none.
func (t *pathTree) Len() int { return len(t.funcs) }

// Parent is 0 for outermost calls.
func (t *pathTree) Parent(id calls.PathID) calls.PathID { return t.parents[id] }

// Func is the last function of a path.
func (t *pathTree) Func(id calls.PathID) reader.FuncID { return t.funcs[id] }

// frames returns the functions of a path, the outermost first.
func (t *pathTree) frames(id calls.PathID) []reader.FuncID {
	var list []reader.FuncID
	for ; id != 0 && int(id) < len(t.funcs); id = t.parents[id] {
		list = append(list, t.funcs[id])
	}
	slices.Reverse(list)
	return list
}

// stream is a pass over the calls that runs on a goroutine of its own, a few chunks ahead.
type stream struct {
	out   chan *chunk
	free  chan *chunk
	quit  chan struct{}
	err   error // valid once out is closed
	wants wants

	source  *tables.Source
	scratch []calls.Recorded
}

// wants are the parts of batches that chunks have.
type wants struct {
	calls, args, results, waits, events, paths, values bool
}

// chunksAhead is how many chunks the pass may be ahead of the query.
const chunksAhead = 3

// start begins a pass. The caller must call stop.
func (db *DB) start(opts PassOptions, w wants) (*stream, error) {
	if w.paths {
		if _, err := db.pathTree(); err != nil {
			return nil, err
		}
		opts.Filter.Thread = nil // the numbers of paths must not depend on it
	}
	s := &stream{out: make(chan *chunk, chunksAhead), free: make(chan *chunk, chunksAhead+1), quit: make(chan struct{}), wants: w, source: &db.opts.Source}
	for range chunksAhead + 1 {
		s.free <- &chunk{}
	}
	opts.Paths, opts.OffCPU = w.paths, w.waits
	go func() {
		defer close(s.out)
		if err := db.opts.Pass(opts, s); !errors.Is(err, errStopped) {
			s.err = err
		}
	}()
	return s, nil
}

// next returns the next chunk that has a call or an event, or nil at the end. It takes back
// the previous one, which may be nil.
func (s *stream) next(used *chunk) (*chunk, error) {
	if used != nil {
		s.free <- used
	}
	if c, ok := <-s.out; ok {
		return c, nil
	}
	return nil, s.err
}

// stop ends the pass and waits until its goroutine is done with the trace.
func (s *stream) stop() {
	close(s.quit)
	for range s.out {
	}
}

// Calls implements [calls.Sink].
func (s *stream) Calls(b *calls.Batch) error {
	if (!s.wants.calls || len(b.Calls) == 0) && (!s.wants.events || len(b.Events) == 0) {
		return nil
	}
	var c *chunk
	select {
	case c = <-s.free:
	case <-s.quit:
		return errStopped
	}
	c.thread, c.index = b.Thread, b.Index
	if s.wants.calls {
		c.calls = append(c.calls[:0], b.Calls...)
	}
	if s.wants.args {
		c.args = append(c.args[:0], b.Args...)
	}
	if s.wants.results {
		c.results = append(c.results[:0], b.Results...)
	}
	if s.wants.values {
		c.values = c.values[:0]
		for i := range b.Calls {
			var v tables.Values
			if v, s.scratch = s.source.ValuesOf(b, i, s.scratch); v != (tables.Values{}) {
				c.values = append(c.values, callValues{i, v})
			}
		}
	}
	if s.wants.waits {
		c.waits = append(c.waits[:0], b.Waits...)
	}
	if s.wants.events {
		c.events = append(c.events[:0], b.Events...)
		for i := range c.events {
			c.events[i].Data = slices.Clone(c.events[i].Data)
		}
	}
	select {
	case s.out <- c:
		return nil
	case <-s.quit:
		return errStopped
	}
}
