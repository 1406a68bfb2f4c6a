package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// lossy is a source that reports data it could not read, as *reader.Trace does.
type lossy interface {
	Files() []string
	Losses() *reader.Losses
}

// lossPoint is a place where records of a thread may be missing.
type lossPoint struct {
	offset int64  // of the first block after it
	tsc    uint64 // of the last event before it
}

// lossPoints are the places where records are missing, by thread. A loss does not say which
// threads it affects, so all threads with records before and after it count.
type lossPoints map[int][]lossPoint

// within reports whether a call was open where records are missing.
func (p lossPoints) within(thread int, c *calls.Call) bool {
	points := p[thread]
	i, _ := slices.BinarySearchFunc(points, c.Start, func(l lossPoint, tsc uint64) int { return cmp.Compare(l.tsc, tsc) })
	return i < len(points) && points[i].tsc <= c.Start+c.Duration
}

// findLossPoints finds the threads that have records before and after a loss. It reads the
// trace only if there was a loss, and not concurrently. Only the first few losses of each
// cause are known.
func findLossPoints(src calls.Source) (lossPoints, error) {
	s, ok := src.(lossy)
	if !ok {
		return nil, nil
	}
	lost := make([][]int64, len(s.Files())) // offsets by file
	any := false
	for _, l := range s.Losses().Samples() {
		switch l.Cause {
		case reader.ShortBlock, reader.BadRecord, reader.BadBlock, reader.NoClock, reader.DuplicateRun:
			file := slices.Index(s.Files(), l.File)
			lost[file] = append(lost[file], l.Offset)
			any = true
		}
	}
	if !any {
		return nil, nil
	}
	for _, offsets := range lost {
		slices.Sort(offsets)
	}
	found := make(lossPoints)
	last := make(map[int]lossPoint) // the latest block of every thread
	err := src.Each(1, func(_ int, b *reader.Block) error {
		if len(b.Events) == 0 {
			return nil
		}
		before, known := last[b.Index]
		last[b.Index] = lossPoint{b.Offset, b.Events[len(b.Events)-1].TSC}
		offsets := lost[b.Thread.File]
		i, _ := slices.BinarySearch(offsets, before.offset)
		if known && i < len(offsets) && offsets[i] < b.Offset {
			found[b.Index] = append(found[b.Index], lossPoint{b.Offset, before.tsc})
		}
		return nil
	})
	for _, points := range found {
		slices.SortStableFunc(points, func(a, b lossPoint) int { return cmp.Compare(a.tsc, b.tsc) })
	}
	return found, err
}

// closedAtLosses is a source in which calls that are open where records are missing end there.
// Otherwise a root whose exit is missing would include all later calls.
type closedAtLosses struct {
	calls.Source
	lossPoints lossPoints
}

// Below returns the source. See [calls.Source].
func (s closedAtLosses) Below() calls.Source { return s.Source }

// Each adds the exits to the events of the source.
func (s closedAtLosses) Each(n int, fn func(shard int, b *reader.Block) error) error {
	shards := make([]map[int]*lossThread, n)
	for i := range shards {
		shards[i] = make(map[int]*lossThread)
	}
	return s.Source.Each(n, func(i int, b *reader.Block) error {
		points := s.lossPoints[b.Index]
		if len(points) == 0 || len(b.Events) == 0 {
			return fn(i, b)
		}
		t := shards[i][b.Index]
		if t == nil {
			t = &lossThread{points: points}
			shards[i][b.Index] = t
		}
		if exits := t.exits(b); exits != nil {
			if err := fn(i, exits); err != nil {
				return err
			}
		}
		t.follow(b)
		return fn(i, b)
	})
}

// searched is the maximum number of open calls that are searched for that of an exit, so
// that damaged traces do not take quadratic time.
const searched = 255

// lossThread is the state of a thread with losses.
type lossThread struct {
	points []lossPoint // not yet reached
	open   []reader.FuncID
}

// exits returns a block that ends the open calls before the first block after a loss, or nil.
func (t *lossThread) exits(b *reader.Block) *reader.Block {
	if len(t.points) == 0 || b.Offset < t.points[0].offset {
		return nil
	}
	exits := &reader.Block{Thread: b.Thread, Index: b.Index, Offset: -1}
	for _, fn := range slices.Backward(t.open) {
		exits.Events = append(exits.Events, reader.Event{TSC: t.points[0].tsc, Func: fn, Kind: reader.Exit})
	}
	t.open, t.points = t.open[:0], t.points[1:]
	return exits
}

// follow opens and ends the calls of a block.
func (t *lossThread) follow(b *reader.Block) {
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Kind.IsEnter():
			t.open = append(t.open, e.Func)
		case e.Kind.IsExit():
			for j := len(t.open) - 1; j >= max(0, len(t.open)-searched); j-- {
				if t.open[j] == e.Func {
					t.open = t.open[:j]
					break
				}
			}
		default:
			if edge, ok := b.Edge(i); ok && edge == reader.WindowEnds {
				t.open = t.open[:0]
			}
		}
	}
}
