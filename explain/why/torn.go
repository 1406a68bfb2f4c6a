package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// lossy is a source that reports what could not be read, as *reader.Trace does.
type lossy interface {
	Files() []string
	Losses() *reader.Losses
}

// tear is a place where records of a thread may be missing.
type tear struct {
	offset int64  // of the first block after it
	tsc    uint64 // of the last event before it
}

// torn is where records are missing, by thread. It is unknown which threads lost records
// with some bytes of a file, so these are all that have records on both sides.
type torn map[int][]tear

// within reports whether a call was open where records are missing.
func (t torn) within(thread int, c *calls.Call) bool {
	tears := t[thread]
	i, _ := slices.BinarySearchFunc(tears, c.Start, func(w tear, tsc uint64) int { return cmp.Compare(w.tsc, tsc) })
	return i < len(tears) && tears[i].tsc <= c.Start+c.Duration
}

// findTorn finds the threads that have records before and after a loss, in a separate pass
// if there was any. Of every cause of loss, the first few are known. It does not read
// concurrently.
func findTorn(src calls.Source) (torn, error) {
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
	found := make(torn)
	last := make(map[int]tear) // the latest block of every thread
	err := src.Each(1, func(_ int, b *reader.Block) error {
		if len(b.Events) == 0 {
			return nil
		}
		before, known := last[b.Index]
		last[b.Index] = tear{b.Offset, b.Events[len(b.Events)-1].TSC}
		offsets := lost[b.Thread.File]
		i, _ := slices.BinarySearch(offsets, before.offset)
		if known && i < len(offsets) && offsets[i] < b.Offset {
			found[b.Index] = append(found[b.Index], tear{b.Offset, before.tsc})
		}
		return nil
	})
	for _, tears := range found {
		slices.SortStableFunc(tears, func(a, b tear) int { return cmp.Compare(a.tsc, b.tsc) })
	}
	return found, err
}

// mended is a source in which calls that are open where records are missing end there.
// Otherwise a root whose exit is missing would include all that follow.
type mended struct {
	calls.Source
	torn torn
}

// Each adds the exits to the events of the source.
func (s mended) Each(n int, fn func(shard int, b *reader.Block) error) error {
	shards := make([]map[int]*mendedThread, n)
	for i := range shards {
		shards[i] = make(map[int]*mendedThread)
	}
	return s.Source.Each(n, func(i int, b *reader.Block) error {
		tears := s.torn[b.Index]
		if len(tears) == 0 || len(b.Events) == 0 {
			return fn(i, b)
		}
		t := shards[i][b.Index]
		if t == nil {
			t = &mendedThread{tears: tears}
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

// searched is the maximum number of calls in which an exit is searched, so that damaged
// traces do not take quadratic time.
const searched = 255

// mendedThread is the state of a thread with tears.
type mendedThread struct {
	tears []tear // not yet reached
	open  []reader.FuncID
}

// exits returns a block that ends the open calls before a block after a tear, or nil.
func (t *mendedThread) exits(b *reader.Block) *reader.Block {
	if len(t.tears) == 0 || b.Offset < t.tears[0].offset {
		return nil
	}
	exits := &reader.Block{Thread: b.Thread, Index: b.Index, Offset: -1}
	for _, fn := range slices.Backward(t.open) {
		exits.Events = append(exits.Events, reader.Event{TSC: t.tears[0].tsc, Func: fn, Kind: reader.Exit})
	}
	t.open, t.tears = t.open[:0], t.tears[1:]
	return exits
}

// follow opens and ends the calls of a block.
func (t *mendedThread) follow(b *reader.Block) {
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
		}
	}
}
