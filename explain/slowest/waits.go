package slowest

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// TreesAndFuncs are [Trees], and in the same pass the functions that [Report.FindWaits] needs.
type TreesAndFuncs struct {
	*Trees
	*locks.Finder
}

// Calls implements [calls.Sink].
func (t *TreesAndFuncs) Calls(b *calls.Batch) error {
	return cmp.Or(t.Finder.Calls(b), t.Trees.Calls(b))
}

// Merge implements [calls.Analysis].
func (t *TreesAndFuncs) Merge(o *TreesAndFuncs) {
	t.Trees.Merge(o.Trees)
	t.Finder.Merge(o.Finder)
}

// FindWaits completes options of [locks.Analyze], so that it adds the waits of the slowest invocations for locks, and
// their holders. Function and Clock are given. It returns false if none of them called a lock function.
func (r *Report) FindWaits(opts *locks.Options) bool {
	threads := make(map[reader.Thread]bool)
	opts.From = math.MaxUint64
	for i := range r.Slowest {
		slow := &r.Slowest[i]
		if slices.ContainsFunc(slow.Rows, func(row Row) bool { return opts.Function(row.Func).Role == locks.Lock }) {
			threads[slow.Thread] = true
			opts.From, opts.To = min(opts.From, slow.Start), max(opts.To, slow.Start+slow.Duration+1)
		}
	}
	opts.Thread = func(t reader.Thread) bool { return threads[t] }
	opts.Matters = func(tsc uint64) bool {
		return slices.ContainsFunc(r.Slowest, func(s Slow) bool { return tsc >= s.Start && tsc-s.Start <= s.Duration })
	}
	opts.Begin = r.forgetWaits
	opts.Waited = func(w *locks.Wait) {
		var holders []Holder
		for _, h := range w.Holders {
			if n := len(h.Path); n > 0 {
				holders = append(holders, Holder{Func: h.Path[n-1], Ticks: h.Ticks})
			}
		}
		r.AddWait(w.Thread, w.Start, w.Ticks, w.Path, w.Func, holders)
	}
	return len(threads) > 0
}

// AddWait adds a wait of ticks for a lock, and the holders. If the wait began in one of the
// slowest invocations, it belongs to the row of the lock function. Otherwise, AddWait ignores
// it. path is the path of the function that wanted the lock, from the outermost call on.
func (r *Report) AddWait(thread reader.Thread, start, ticks uint64, path []reader.FuncID, lock reader.FuncID, holders []Holder) {
	for i := range r.Slowest {
		s := &r.Slowest[i]
		if s.Thread != thread || start < s.Start || start-s.Start > s.Duration {
			continue
		}
		if row := s.lockRow(path, lock); row != nil {
			row.wait(ticks, holders)
		}
	}
}

// forgetWaits undoes AddWait.
func (r *Report) forgetWaits() {
	for _, s := range r.Slowest {
		for i := range s.Rows {
			s.Rows[i].Waited, s.Rows[i].Holders = 0, nil
		}
	}
}

// lockRow finds the row of a lock function that the function at the end of a path called,
// directly or indirectly.
func (s *Slow) lockRow(path []reader.FuncID, lock reader.FuncID) *Row {
	begin := slices.Index(path, s.Root)
	if begin < 0 {
		return nil
	}
	place, folded := 0, path[begin:begin+1:begin+1]
	for _, fn := range path[begin+1:] {
		if at := slices.Index(folded, fn); at >= 0 {
			for folded = folded[:at+1]; s.Rows[place].Depth > at; {
				place--
			}
			continue
		}
		if place = s.below(place, fn, len(folded)); place < 0 {
			return nil
		}
		folded = append(folded, fn)
	}
	at := s.below(place, lock, len(folded))
	if at < 0 {
		at = s.below(place, lock, 0)
	}
	if at < 0 {
		return nil
	}
	return &s.Rows[at]
}

// below returns the index of the first row of a function below another, at the given depth
// unless that is 0, or -1.
func (s *Slow) below(place int, fn reader.FuncID, depth int) int {
	for i := place + 1; i < len(s.Rows) && s.Rows[i].Depth > s.Rows[place].Depth; i++ {
		if s.Rows[i].Func == fn && (depth == 0 || s.Rows[i].Depth == depth) {
			return i
		}
	}
	return -1
}

func (r *Row) wait(ticks uint64, holders []Holder) {
	r.Waited += ticks
	for _, h := range holders {
		i := slices.IndexFunc(r.Holders, func(o Holder) bool { return o.Func == h.Func })
		if i < 0 {
			i = len(r.Holders)
			r.Holders = append(r.Holders, Holder{Func: h.Func})
		}
		r.Holders[i].Ticks += h.Ticks
	}
	slices.SortFunc(r.Holders, func(a, b Holder) int { return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Func, b.Func)) })
}
