package live

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// RootCall is a finished call of a root function.
type RootCall struct {
	Func       reader.FuncID
	TID        int32
	Start, End uint64 // TSC
}

// Roots are the functions whose calls [Reader.Read] reports.
type Roots struct {
	// Is has an entry for each function ID, up to the largest ID of a root.
	Is []bool
	// Continues reports whether a function may end with a tail call of another, whose call is then
	// part of the first. It may be nil.
	Continues func(from, to reader.FuncID) bool
	// Targets are the functions that a root can reach by any number of such tail calls.
	Targets []reader.FuncID
}

// State is the result of [Reader.Read].
type State struct {
	Bytes  int64   // number of bytes read
	Fill   float64 // the largest share of a ring that was filled since the previous call
	Lost   uint64  // chunks that were overwritten before they were read
	Oldest uint64  // TSC at which the oldest open call of a root started; 0 for none
}

// maxOpenRoots limits the open calls that are followed in each thread. Deeper calls are only counted.
const maxOpenRoots = 64

// rootScan follows the calls of root functions through the chunks of a thread. It reports only the
// outermost call of a recursion. Calls end by the rules of package calls.
type rootScan struct {
	roots    *Roots
	followed []bool // by function ID: the roots and their targets
	tid      int32
	clock    ring.ChunkClock
	open     []openRoot // open calls of followed functions; the first is of a root
	more     int        // number of open calls inside those
	// If awaits is set, the innermost call had a tail exit at awaitsAt. The next record tells whether a
	// tail call continues it.
	awaits   bool
	awaitsAt uint64
	since    uint64 // TSC at which the recording began; earlier records are ignored
	// windows is nil if everything is recorded. The latest record was in the window between the TSCs
	// from and to.
	windows  *windows
	from, to uint64
}

type openRoot struct {
	fn        reader.FuncID
	start     uint64
	continued bool // the next open call is its tail call
}

func (s *rootScan) setRoots(r *Roots) {
	s.roots, s.followed = r, r.Is
	for _, id := range r.Targets {
		for int(id) >= len(s.followed) {
			s.followed = append(s.followed[:len(s.followed):len(s.followed)], false)
		}
	}
	s.followed = slices.Clone(s.followed)
	for _, id := range r.Targets {
		s.followed[id] = true
	}
}

// lose forgets the open calls because records are missing.
func (s *rootScan) lose() {
	s.open, s.more, s.clock, s.awaits = s.open[:0], 0, ring.ChunkClock{}, false
}

// begin sets when the recording began. It forgets open calls of an earlier recording, whose exits were
// not recorded.
func (s *rootScan) begin(since uint64) {
	s.since = since
	if len(s.open) > 0 && s.open[0].start < since {
		s.open, s.more, s.awaits = s.open[:0], 0, false
	}
}

// scan reads the records of a chunk from an offset on, and calls each with the calls that end there.
// With part, the thread may still be writing the chunk, and scan stops at an incomplete record. It
// returns the offset that it has reached.
func (s *rootScan) scan(data []byte, at int, part bool, each func(RootCall)) int {
	for at+8 <= len(data) {
		word, tsc, size := s.clock.Next(data[at:], part)
		switch {
		case size == 0:
			if part {
				return at
			}
			return len(data) // damaged
		case word != 0 && (s.awaits || int(word>>4) < len(s.followed) && s.followed[word>>4]):
			s.function(word, tsc, each)
		}
		at += size
	}
	return at
}

func (s *rootScan) function(word uint32, tsc uint64, each func(RootCall)) {
	id, kind := reader.FuncID(word>>4), word>>1&7
	isEnter := kind != ring.FunctionExit && kind != ring.FunctionTail
	if tsc < s.since || !s.inWindow(tsc) {
		return
	}
	if s.awaits {
		s.awaits = false
		top := len(s.open) - 1
		if isEnter && s.roots.Continues != nil && s.roots.Continues(s.open[top].fn, id) {
			s.open[top].continued = true
		} else {
			s.pop(top, s.awaitsAt, each)
		}
		if int(id) >= len(s.followed) || !s.followed[id] {
			return
		}
	}
	switch {
	case isEnter:
		isRoot := int(id) < len(s.roots.Is) && s.roots.Is[id]
		if len(s.open) == 0 && !isRoot {
			return
		}
		if len(s.open) == maxOpenRoots {
			s.more++
			return
		}
		s.open = append(s.open, openRoot{fn: id, start: tsc})
	case s.more > 0:
		s.more--
	default:
		for i := len(s.open) - 1; i >= 0; i-- {
			if s.open[i].fn != id || s.open[i].continued {
				continue // its exit is missing
			}
			if kind == ring.FunctionTail && s.roots.Continues != nil {
				s.open = s.open[:i+1]
				s.awaits, s.awaitsAt = true, tsc
			} else {
				s.pop(i, tsc, each)
			}
			return
		}
	}
}

// pop ends the open calls from this one on, and the calls that continued in it.
func (s *rootScan) pop(i int, tsc uint64, each func(RootCall)) {
	for i > 0 && s.open[i-1].continued {
		i--
	}
	if i == 0 {
		c := s.open[0]
		each(RootCall{Func: c.fn, TID: s.tid, Start: c.start, End: max(tsc, c.start)})
	}
	s.open = s.open[:i]
}
