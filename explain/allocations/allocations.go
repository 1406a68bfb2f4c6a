// Package allocations analyzes the C library's allocation calls: which call paths allocate
// memory, how much is live at the end, how much is short-lived, and how much is copied: because a
// block had to move, by functions of the C library, and by copy constructors and the like.
//
// An [Analysis] needs the calls of all threads in time order (see calls.InOrder), because one
// thread often frees what another allocated.
package allocations

import (
	"math"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Role is what a function does.
type Role uint8

const (
	None    Role = iota
	Alloc        // allocates as many bytes as its argument; the result is the address, or 0
	Map          // likewise, and fails with -1
	Realloc      // changes the size of the block at the first argument to the second
	Remap        // likewise, and fails with -1
	Free         // frees the block at its argument
	Copy         // copies as many bytes as its argument
	Object       // copies an object; see [Copies]
)

// roles are the functions of the C library that the recorder knows, by name.
var roles = map[string]Role{
	"malloc": Alloc, "calloc": Alloc, "posix_memalign": Alloc, "aligned_alloc": Alloc, "memalign": Alloc, "valloc": Alloc, "pvalloc": Alloc,
	"realloc": Realloc, "reallocarray": Realloc, "free": Free,
	"mmap": Map, "mmap64": Map, "mremap": Remap, "munmap": Free,
	"memcpy": Copy, "memmove": Copy, "mempcpy": Copy, "__memcpy_chk": Copy, "__memmove_chk": Copy, "__mempcpy_chk": Copy,
}

// RoleOf returns the role of a function by its complete name. Functions of the program only have the roles
// None and Object.
func RoleOf(name string) Role {
	role, ok := roles[name]
	if !ok && Copies(name) {
		return Object
	}
	return role
}

// Options of an [Analysis].
type Options struct {
	// Role returns what a function does.
	Role func(reader.FuncID) Role
	// Thread, and From and To if it is not 0, select allocations by thread and by the start
	// of the call, in ticks. It does not matter which thread frees a block, or when. nil
	// selects all threads.
	Thread   func(reader.Thread) bool
	From, To uint64
	// Short is the maximum lifetime of a short-lived block, in ticks.
	Short uint64
}

// address is an address in a process.
type address struct {
	file, process int32
	at            uint64
}

// block is memory that is in use.
type block struct {
	sum   *sum // of the path that allocated it; nil if it was not selected
	bytes uint64
	since uint64 // end of the call that allocated it
}

// sum adds up the allocations of a call path.
type sum struct {
	path            calls.PathID
	blocks, bytes   uint64
	largest         uint64
	freed           uint64 // bytes
	freedBlocks     uint64
	short           uint64 // bytes that were freed soon
	shortBlocks     uint64
	copies, copied  uint64 // blocks that moved, and the bytes that were copied
	failed          uint64
	ticks, maxTicks uint64
}

// Analysis adds up allocations. It needs calls.Options.Paths, one shard, and the calls in
// time order.
type Analysis struct {
	opts   Options
	roles  map[reader.FuncID]Role
	live   map[address]block
	sums   map[calls.PathID]*sum
	chosen map[reader.Thread]bool
	paths  *calls.Paths
	now    struct{ bytes, peak, peakAt uint64 } // of selected blocks
	freed  struct{ calls, ticks, unknown uint64 }
	most   int // entries of live at most

	copying        map[reader.Thread]*copying
	objects, moved map[calls.PathID]*CopySums // by functions that copy objects, and by the C library's
}

// Memory implements [calls.MemoryUser].
func (a *Analysis) Memory() int64 {
	const perBlock, perPath, perThread = 128, 512, 64
	a.most = max(a.most, len(a.live))
	return perBlock*int64(a.most) + perPath*int64(len(a.sums)+len(a.objects)+len(a.moved)) + perThread*int64(len(a.chosen))
}

// New returns an analysis.
func New(opts Options) *Analysis {
	return &Analysis{
		opts: opts, roles: make(map[reader.FuncID]Role), live: make(map[address]block),
		sums: make(map[calls.PathID]*sum), chosen: make(map[reader.Thread]bool),
		copying: make(map[reader.Thread]*copying), objects: make(map[calls.PathID]*CopySums), moved: make(map[calls.PathID]*CopySums),
	}
}

// Merge is never called: there is one shard.
func (a *Analysis) Merge(*Analysis) {}

func (a *Analysis) role(fn reader.FuncID) Role {
	r, ok := a.roles[fn]
	if !ok {
		r = a.opts.Role(fn)
		a.roles[fn] = r
	}
	return r
}

// selected reports whether an allocation counts.
func (a *Analysis) selected(t reader.Thread, start uint64) bool {
	if start < a.opts.From || a.opts.To != 0 && start >= a.opts.To {
		return false
	}
	if a.opts.Thread == nil {
		return true
	}
	chosen, ok := a.chosen[t]
	if !ok {
		chosen = a.opts.Thread(t)
		a.chosen[t] = chosen
	}
	return chosen
}

// Calls implements calls.Sink. A call counts when it ends. But memory is free as soon as
// the call that frees it begins, because other threads may get it from then on.
func (a *Analysis) Calls(b *calls.Batch) error {
	a.paths = b.Paths
	results, n := b.Results, 0
	thread := a.thread(b.Thread)
	enter := func(o *calls.Open) {
		if a.role(o.Func) == Object {
			thread.begin()
		}
		if o.Args && a.role(o.Func) == Free {
			a.free(address{b.Thread.File, b.Thread.Process, o.Arg}, o.Start)
		}
	}
	leave := func(c *calls.Call, args []calls.Arg) {
		result, known := uint64(0), false
		for ; len(results) > 0 && results[0].Call <= n; results = results[1:] {
			result, known = results[0].Value, results[0].Call == n
		}
		n++
		// An allocator that calls another one is part of it.
		role, caller := a.role(c.Func), a.role(c.Caller)
		switch {
		case role == Object:
			if thread.end() {
				a.copied(a.objects, b.Thread, c, thread.bytes, thread.allocated)
			}
		case role == None || caller != None && caller != Object || len(args) == 0:
		case role == Copy:
			thread.bytes += args[0].Value
			a.copied(a.moved, b.Thread, c, args[0].Value, 0)
		default:
			thread.allocated += a.ended(b.Thread, c, args, role, result, known)
		}
	}
	b.Replay(enter, leave, func(*calls.Event) {})
	return nil
}

// ended handles the end of a call. It returns the bytes of the block that it allocated, unless it resized one.
func (a *Analysis) ended(t reader.Thread, c *calls.Call, args []calls.Arg, role Role, result uint64, known bool) (allocated uint64) {
	if role == Free {
		a.freed.calls++
		a.freed.ticks += c.Duration
		return 0
	}
	if !known {
		return 0 // it did not return
	}
	ok := result != 0
	if role == Map || role == Remap {
		ok = result != math.MaxUint64
	}
	end := c.Start + c.Duration
	place := func(at uint64) address { return address{t.File, t.Process, at} }
	var s *sum
	if a.selected(t, c.Start) {
		s = a.sumOf(c.Path)
		s.ticks += c.Duration
		s.maxTicks = max(s.maxTicks, c.Duration)
	}
	bytes := args[0].Value
	switch {
	case role == Realloc || role == Remap:
		if len(args) < 2 {
			return 0
		}
		bytes = args[1].Value
		a.resized(s, place(args[0].Value), place(result), bytes, c.Start, end, ok)
	case ok:
		a.allocated(s, place(result), bytes, bytes, end)
		allocated = bytes
	}
	if !ok && bytes > 0 && s != nil {
		s.failed++
	}
	return allocated
}

func (a *Analysis) sumOf(path calls.PathID) *sum {
	s := a.sums[path]
	if s == nil {
		s = &sum{path: path}
		a.sums[path] = s
	}
	return s
}

// allocated adds a block, of which this many bytes are new.
func (a *Analysis) allocated(s *sum, at address, bytes, fresh, now uint64) {
	if old, ok := a.live[at]; ok {
		a.end(old, now) // its end is not in the trace
	}
	a.live[at] = block{s, bytes, now}
	if s == nil {
		return
	}
	s.blocks++
	s.bytes += fresh
	s.largest = max(s.largest, bytes)
	if a.now.bytes += bytes; a.now.bytes > a.now.peak {
		a.now.peak, a.now.peakAt = a.now.bytes, now
	}
}

// resized moves a block, or changes its size.
func (a *Analysis) resized(s *sum, from, to address, bytes, start, now uint64, ok bool) {
	old, known := a.live[from]
	known = known && old.since <= start // otherwise another allocation got the address in the meantime
	if !ok && bytes > 0 {
		return
	}
	if known {
		delete(a.live, from)
	}
	switch {
	case !ok:
		if known {
			a.end(old, now)
		}
	case known && from == to:
		a.leave(old)
		a.allocated(s, to, bytes, bytes-min(bytes, old.bytes), now)
	default:
		if known {
			a.end(old, now)
		}
		if s != nil && from.at != 0 {
			s.copies++
			s.copied += min(old.bytes, bytes)
		}
		a.allocated(s, to, bytes, bytes, now)
	}
}

// free ends a block.
func (a *Analysis) free(at address, now uint64) {
	if at.at == 0 {
		return
	}
	old, ok := a.live[at]
	if !ok {
		a.freed.unknown++
		return
	}
	delete(a.live, at)
	a.end(old, now)
}

// end ends a block for good.
func (a *Analysis) end(old block, now uint64) {
	a.leave(old)
	if s := old.sum; s != nil && now-min(now, old.since) <= a.opts.Short {
		s.short += old.bytes
		s.shortBlocks++
	}
}

// leave removes a block from those in use.
func (a *Analysis) leave(old block) {
	if s := old.sum; s != nil {
		s.freed += old.bytes
		s.freedBlocks++
		a.now.bytes -= min(a.now.bytes, old.bytes)
	}
}
