package convert

import "github.com/xray-tools/xray/reader"

// recordStack has the open calls of a thread, outermost first.
type recordStack struct {
	open   []openRecord
	counts map[reader.FuncID]int // number of open calls by function; nil while the stack is small
}

// openRecord is an entry whose exit has not been seen yet.
type openRecord struct {
	fn   reader.FuncID
	kept bool // selected
	// The rest is only for slices.
	shown bool // was written, so its exit must be written too
	cut   bool // was open where the span begins
	gone  bool // has exited, perhaps to go on in the tail call above it
	cpu   uint16
	tsc   uint64 // as it will be written
	args  []uint64
}

func (s *recordStack) push(r openRecord) {
	s.open = append(s.open, r)
	if s.counts != nil {
		s.counts[r.fn]++
	} else if len(s.open) > searchDepth {
		s.counts = make(map[reader.FuncID]int)
		for i := range s.open {
			s.counts[s.open[i].fn]++
		}
	}
}

// endsWindow reports whether event i of a block is the end of a window of the recording. Calls that
// are open there continued, but have no exits.
func endsWindow(b *reader.Block, i int) bool {
	e, ok := b.Edge(i)
	return ok && e == reader.WindowEnds
}

// find returns the index of the innermost open call of a function, or a negative number if
// there is none. It searches the stack only if it is small or has the function, as openCalls does.
func (s *recordStack) find(fn reader.FuncID) int {
	if s.counts != nil && s.counts[fn] == 0 {
		return -1
	}
	i := len(s.open) - 1
	for i >= 0 && (s.open[i].fn != fn || s.open[i].gone) {
		i--
	}
	return i
}

// cut ends the calls from index i on.
func (s *recordStack) cut(i int) {
	if s.counts != nil {
		for j := range s.open[i:] {
			s.counts[s.open[i+j].fn]--
		}
	}
	s.open = s.open[:i]
}
