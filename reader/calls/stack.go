package calls

import "github.com/xray-tools/xray/reader"

// frame is an open call.
type frame struct {
	start  uint64
	inside uint64 // duration of the calls made directly
	key    uint64 // keyOf the function, and perhaps hasArgs
	path   PathID
	child  PathID // the path of the call made last
}

const (
	// hasArgs marks the key of a frame that has arguments or a result in rare.args.
	hasArgs = 1 << 32
	// noCall is the key of the frame below the outermost call, which no exit matches. Its
	// function is 0.
	noCall = 1 << 33
	// gone marks the key of a call that left through the tail call above it, which continues
	// it.
	gone = 1 << 34
	// continues marks the key of such a tail call.
	continues = 1 << 35
	// cut marks the key of a call whose end the recorder did not wait for. It ends no later than the
	// calls inside it.
	cut = 1 << 36
	// earlier marks the key of a call that began before its frame does. See Call.Earlier.
	earlier = 1 << 37
)

// keyOf is the key of a frame without arguments.
func keyOf(fn reader.FuncID) uint64 { return uint64(uint32(fn)) }

func (f *frame) fn() reader.FuncID { return reader.FuncID(f.key) }

// exits reports whether an exit of fn may be that of the call.
func (f *frame) exits(fn reader.FuncID) bool { return f.key&^(hasArgs|continues|earlier) == keyOf(fn) }

// deepStack is the depth up to which the stack is searched for a function. Deeper calls are
// counted by function, so that no trace takes time that is quadratic in depth.
const deepStack = 255

// stack is the shadow stack of the current thread. Threads take turns, because one stack
// stays in the cache and few calls are open when threads change.
type stack struct {
	thread *thread
	depth  int // number of open calls
	// frames are the open calls up to deepStack, by depth. Frame 0 is below the outermost.
	// A byte can index all of them, which saves the hot loop bounds checks.
	frames [deepStack + 1]frame
	// counts says how many frames have functions with a hash; valid only if counting.
	counts   counts
	counting bool
}

// deep has the open calls beyond deepStack.
type deep struct {
	frames []frame
	counts map[reader.FuncID]int // by function, without zeros
}

// counts counts open calls by a hash of their function. If a count is 0, no call of the
// function is open.
type counts [1 << countBits]uint8

const countBits = 12

// of returns the count for a function. Functions are numbered from 1 on, so the low bits of an
// ID are a good hash.
func (c *counts) of(key uint64) *uint8 { return &c[key%uint64(len(c))] }

func (s *stack) init(counting bool) {
	s.frames[0].key = noCall
	s.counting = counting
}

// use switches to th.
func (s *stack) use(th *thread) {
	if s.thread == th {
		return
	}
	shallow := s.frames[1 : 1+min(s.depth, deepStack)]
	if s.thread != nil {
		s.thread.frames = append(s.thread.frames[:0], shallow...)
	}
	if s.counting {
		for i := range shallow {
			*s.counts.of(shallow[i].key)--
		}
		for i := range th.frames {
			*s.counts.of(th.frames[i].key)++
		}
	}
	s.thread = th
	s.depth = copy(s.frames[1:], th.frames)
	if th.rare != nil {
		s.depth += len(th.rare.deep.frames)
	}
}

// at returns the open call with depth - 1 others around it. Frame 0 is below all.
func (s *stack) at(depth int) *frame {
	if depth > deepStack {
		return &s.thread.rare.deep.frames[depth-deepStack-1]
	}
	return &s.frames[depth]
}

// top returns the innermost open call.
func (s *stack) top() *frame { return s.at(s.depth) }

func (s *stack) push(f frame) {
	s.depth++
	if s.depth > deepStack {
		d := &s.thread.rarely().deep
		if d.counts == nil {
			d.counts = make(map[reader.FuncID]int)
		}
		d.counts[f.fn()]++
		d.frames = append(d.frames, f)
		return
	}
	s.frames[s.depth] = f
	if s.counting {
		*s.counts.of(f.key)++
	}
}

// pop removes the innermost open call. What top returned is valid until the next push.
func (s *stack) pop() {
	f := s.top()
	s.depth--
	if s.depth >= deepStack {
		d := &s.thread.rare.deep
		if d.counts[f.fn()]--; d.counts[f.fn()] == 0 {
			delete(d.counts, f.fn())
		}
		d.frames = d.frames[:len(d.frames)-1]
		return
	}
	if s.counting {
		*s.counts.of(f.key)--
	}
}

// isOpen reports whether a call of fn is open. The stack must be counting.
func (s *stack) isOpen(fn reader.FuncID) bool {
	if s.depth > deepStack && s.thread.rare.deep.counts[fn] > 0 {
		return true
	}
	return *s.counts.of(keyOf(fn)) > 0 && find(s.frames[:1+min(s.depth, deepStack)], fn) > 0
}

// findExit returns the depth of the innermost open call that an exit of fn may end, or 0 if
// there is none. No call beyond deepStack is gone.
func (s *stack) findExit(fn reader.FuncID) int {
	if s.depth > deepStack && s.thread.rare.deep.counts[fn] > 0 {
		return deepStack + 1 + find(s.thread.rare.deep.frames, fn)
	}
	i := min(s.depth, deepStack)
	for i > 0 && !s.frames[i].exits(fn) {
		i--
	}
	return i
}

// find returns the index of the last frame of fn except the first, or 0.
func find(frames []frame, fn reader.FuncID) int {
	i := len(frames) - 1
	for i > 0 && frames[i].fn() != fn {
		i--
	}
	return i
}
