package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Wait is one wait of a thread, which got the lock in the end.
type Wait struct {
	Thread       reader.Thread
	Start, Ticks uint64
	Path         []reader.FuncID // of who wanted the lock, from the outermost call on
	Func         reader.FuncID   // the lock function
	Holders      []Holder        // those that were seen to have it meanwhile, the longest first
}

// Holder is who had a lock while another thread waited for it.
type Holder struct {
	Path  []reader.FuncID
	Ticks uint64 // of the wait
}

func (s *sweep) waited(w *wait, path calls.PathID, fn reader.FuncID, ticks uint64) *Wait {
	out := &Wait{Thread: w.thread.id, Start: w.start, Ticks: ticks, Path: s.frames(path), Func: fn}
	for holder, t := range w.blame {
		out.Holders = append(out.Holders, Holder{s.frames(holder), t})
	}
	slices.SortFunc(out.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), slices.Compare(a.Path, b.Path))
	})
	return out
}
