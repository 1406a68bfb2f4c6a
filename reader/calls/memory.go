package calls

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"sync/atomic"
)

// MemoryUser is a sink with tables whose size depends on the trace: by function, by thread, by
// both, by argument and so on. [Options].Memory limits them.
type MemoryUser interface {
	// Memory returns the approximate size in bytes of the tables, and of the results made from them
	// at the end. It is called after each block, so it must be cheap. It never decreases, except
	// by Merge. It must not depend on the order of threads. Merged sinks hold at most the sum of
	// what they held before. Tables of call paths need not count: Options.Budget limits them.
	Memory() int64
}

// MemoryError reports that a run needs more than Options.Memory.
type MemoryError struct{ Limit int64 } // in bytes

// Error names the limit and the remedy.
func (e *MemoryError) Error() string {
	mb := func(n int64) string { return fmt.Sprintf("%dM", (n+1<<20-1)>>20) }
	return fmt.Sprintf("tables of functions, threads, events and the like need more than %s of memory: select a part of the trace, "+
		"or raise the limit with --table-memory, for example to %s", mb(e.Limit), mb(4*e.Limit))
}

// CheckMemory returns a [MemoryError] if a sink holds more than a number of bytes, unless that
// is 0. Runs do this by themselves.
func CheckMemory(sink any, most int64) error {
	if h, ok := sink.(MemoryUser); ok && most > 0 && h.Memory() > most {
		return &MemoryError{most}
	}
	return nil
}

// Memory returns the number of bytes that all sinks that implement [MemoryUser] hold together.
func Memory(sinks ...any) (bytes int64) {
	for _, s := range sinks {
		if h, ok := s.(MemoryUser); ok {
			bytes += h.Memory()
		}
	}
	return bytes
}

// The size in bytes of an open call. Sinks may keep it, too. A frame of a deep stack is also in a
// map by function, and slices grow in large steps.
const (
	frameBytes     = 48
	deepFrameBytes = 128
)

// memory returns the bytes that the shard holds: those of the sink, and of the open calls of threads
// at the ends of their blocks.
func (s *shard) memory() int64 {
	if depth := int32(s.stack.depth); s.stack.thread != nil && depth > s.stack.thread.peak {
		s.frames += frames(depth) - frames(s.stack.thread.peak)
		s.stack.thread.peak = depth
	}
	return s.frames + Memory(s.sink)
}

// frames returns the bytes that open calls take. It rounds their number down to a power of two, so
// that a thread is not updated at each block.
func frames(depth int32) int64 {
	n := int64(1) << bits.Len32(uint32(depth)) >> 1
	if n > deepStack {
		return n * deepFrameBytes
	}
	return n * frameBytes
}

// share limits a resource that all shards of a run use together.
type share struct {
	most int64 // 0 for no limit
	used atomic.Int64
	_    [56]byte // over has its own cache line: all shards read it often
	over atomic.Bool
}

// add counts the growth of a shard from counted to now, and updates counted.
func (l *share) add(counted *int64, now int64) {
	if grown := now - *counted; grown != 0 {
		*counted = now
		if l.used.Add(grown) > l.most {
			l.over.Store(true)
		}
	}
}

// limits are those of a pass.
type limits struct{ paths, memory share }

// err says which limit was exceeded. A pass with too many paths is repeated with fewer, so
// that comes first.
func (l *limits) err() error {
	switch {
	case l.paths.over.Load():
		return errPathBudget
	case l.memory.over.Load():
		return &MemoryError{l.memory.most}
	}
	return nil
}

// check counts the growth of a shard. If the run has become too large and nobody needs the rest
// of the trace, it ends the pass.
func (l *limits) check(s *shard) error {
	if s.discards {
		return nil
	}
	if l.paths.most > 0 {
		l.paths.add(&s.countedPaths, int64(s.paths.Len()))
	}
	if l.memory.most > 0 {
		l.memory.add(&s.countedBytes, s.memory())
	}
	err := l.err()
	if err == nil || s.opts.Unmatched == nil {
		return err
	}
	// Unmatched exits are reported in one pass only, so this pass continues.
	if s.paths != nil {
		s.paths.Freeze()
	}
	s.sink, s.discards = Discard{}, true
	return nil
}

// runLimited runs a pass, and repeats it with one shard if the shards hold too much: several
// shards may hold the same data, and the result must not depend on their number.
func runLimited[S Analysis[S]](src Source, opts Options, paths int, newSink func() S) (S, *Stats, error) {
	sink, stats, err := pass(src, &opts, paths, newSink)
	if !errors.As(err, new(*MemoryError)) || opts.Shards == 1 {
		return sink, stats, err
	}
	debug.FreeOSMemory()
	opts.Shards, opts.Unmatched = 1, nil // the first pass reported all of them
	return pass(src, &opts, paths, newSink)
}
