package slowest

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// AddWait adds a wait of ticks for a lock, and the holders. If the wait began in one of the
// slowest invocations, it belongs to the row of the lock function. Otherwise, AddWait ignores
// it. path is the path of the
// function that wanted the lock, from the outermost call on.
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

// ForgetWaits undoes AddWait.
func (r *Report) ForgetWaits() {
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
