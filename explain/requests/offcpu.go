package requests

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader/calls"
)

// Waits is a pass that finds the off-CPU times on the critical paths of requests.
// It is an analysis, and needs calls.Options.OffCPU and no filter. All shards share one,
// because each thread belongs to one shard.
//
// A record tells how long the thread was off CPU since the previous one. That time is assumed
// to end at the record: the thread is first blocked, then in the run queue.
type Waits struct{ threads map[int]*stretches }

// stretches are the parts of critical paths on a thread.
type stretches struct {
	list []stretch // by start
	next int       // the first that has not begun
	open []stretch // that have begun, and have not ended
}

type stretch struct {
	start, end uint64
	off        *calls.Off
}

// NewWaits returns an empty pass over the requests of a set. After the pass, reports of
// the set have the times.
func NewWaits(set *Set) *Waits {
	w := &Waits{make(map[int]*stretches)}
	set.OffKnown = true
	for i := range set.Requests {
		r := &set.Requests[i]
		parts := r.Path()
		r.off = make([]calls.Off, len(parts))
		for n := range parts {
			p := &parts[n]
			if !p.offKnown() {
				continue
			}
			index := r.Segments[p.Segment].Index
			if w.threads[index] == nil {
				w.threads[index] = new(stretches)
			}
			w.threads[index].list = append(w.threads[index].list, stretch{p.Start, p.End, &r.off[n]})
		}
	}
	for _, t := range w.threads {
		slices.SortStableFunc(t.list, func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	}
	return w
}

// Calls takes the next off-CPU times of a thread.
func (w *Waits) Calls(b *calls.Batch) error {
	t := w.threads[b.Index]
	if t == nil {
		return nil
	}
	for i := range b.Gaps {
		t.gap(&b.Gaps[i])
	}
	return nil
}

func (t *stretches) gap(g *calls.Gap) {
	for ; t.next < len(t.list) && t.list[t.next].start < g.To; t.next++ {
		t.open = append(t.open, t.list[t.next])
	}
	t.open = slices.DeleteFunc(t.open, func(s stretch) bool { return s.end <= g.From })
	ready := g.To - g.Queued
	recorder := ready - g.Recorder
	out := recorder - g.Blocked
	for _, s := range t.open {
		s.off.Add(calls.Off{Blocked: s.overlap(out, recorder), Recorder: s.overlap(recorder, ready), Queued: s.overlap(ready, g.To)})
	}
}

func (s *stretch) overlap(from, to uint64) uint64 {
	from, to = max(from, s.start), min(to, s.end)
	return to - min(from, to)
}

// Merge implements calls.Analysis.
func (w *Waits) Merge(*Waits) {}

var _ calls.Analysis[*Waits] = (*Waits)(nil)
