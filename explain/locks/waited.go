package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Wait is a wait that ended with the thread getting the lock.
type Wait struct {
	Thread       reader.Thread
	Start, Ticks uint64
	Path         []reader.FuncID // of the function that wanted the lock, from the outermost call on
	Func         reader.FuncID   // the lock function
	Holders      []Holder        // recorded holders during the wait, the longest first
}

// Holder is a thread that held a lock while another waited for it.
type Holder struct {
	Path  []reader.FuncID
	Ticks uint64 // of the wait
}

func (s *sweep) waited(w *wait, path calls.PathID, fn reader.FuncID, ticks uint64) *Wait {
	out := &Wait{Thread: w.thread.id, Start: w.start, Ticks: ticks, Path: s.frames(path), Func: fn}
	for holder, t := range w.blame {
		out.Holders = append(out.Holders, Holder{s.frames(holder), t.ticks})
	}
	slices.SortFunc(out.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), slices.Compare(a.Path, b.Path))
	})
	return out
}
