package live

import (
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// windows are the windows of a process that a [Reader] reads.
type windows struct {
	list []reader.RecordedWindow // the latest, in order; the last one may be open
	seen uint64                  // number of windows that have ended
	asOf uint64                  // TSC up to which the windows are known
	more func()                  // updates the windows
}

// update reads the windows up to a TSC.
func (w *windows) update(m *ring.Image, t *ring.WindowTable, now uint64) error {
	if n := len(w.list); n > 0 && w.list[n-1].To == 0 {
		w.list = w.list[:n-1]
	}
	list, err := m.ReadWindows(w.list, t, w.seen)
	if err != nil {
		return err
	}
	w.list, w.seen, w.asOf = list, t.N, now
	if n := len(list); n > 0 && list[n-1].To == 0 {
		w.seen--
	}
	if len(w.list) > 2*ring.WindowRows {
		w.list = slices.Clone(w.list[len(w.list)-ring.WindowRows:])
	}
	return nil
}

// at returns the window that contains a TSC, or false if none does. The end of an open window is the
// time up to which it is known to be open.
func (w *windows) at(tsc uint64) (from, to uint64, ok bool) {
	if tsc > w.asOf {
		w.more()
	}
	i := sort.Search(len(w.list), func(i int) bool { return w.list[i].To == 0 || w.list[i].To >= tsc })
	if i == len(w.list) || w.list[i].From > tsc {
		return 0, 0, false
	}
	one := w.list[i]
	if one.To == 0 {
		one.To = max(w.asOf, tsc)
	}
	return one.From, one.To, true
}

// between returns the windows that overlap the time between two TSCs.
func (w *windows) between(from, to uint64) []reader.RecordedWindow {
	var list []reader.RecordedWindow
	for _, one := range w.list {
		if one.From <= to && (one.To == 0 || one.To >= from) {
			list = append(list, one)
		}
	}
	return list
}

// inWindow reports whether a record is in a window. When the window changes, inWindow forgets the calls
// that were open in the previous one, because it is unknown when they ended.
func (s *rootScan) inWindow(tsc uint64) bool {
	if s.windows == nil || tsc >= s.from && tsc <= s.to {
		return true
	}
	from, to, ok := s.windows.at(tsc)
	if !ok || from != s.from {
		s.open, s.more, s.awaits = s.open[:0], 0, false
	}
	s.from, s.to = from, to
	return ok
}

// expire forgets the open calls if their window has ended.
func (s *rootScan) expire() {
	if s.windows == nil || len(s.open) == 0 {
		return
	}
	if n := len(s.windows.list); n == 0 || s.windows.list[n-1].To != 0 || s.windows.list[n-1].From > s.from {
		s.open, s.more, s.awaits = s.open[:0], 0, false
	}
}
