package allocations

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Path has the allocations of a call path. Times are in ticks.
type Path struct {
	Func reader.FuncID   // the function of the C library
	Path []reader.FuncID // the path without Func, the outermost first
	Sums
}

// Sums adds up some allocations.
type Sums struct {
	// Blocks is the number of blocks, and Bytes their requested size. A block that grows in
	// place counts again, with the bytes added.
	Blocks, Bytes uint64
	Largest       uint64
	// Live blocks were in use at the end.
	LiveBlocks, LiveBytes uint64
	// Short blocks were freed within Options.Short.
	ShortBlocks, ShortBytes uint64
	// Copies are blocks that moved when they were resized, and Copied their bytes.
	Copies, Copied uint64
	Failed         uint64
	Ticks, Longest uint64 // in the calls that allocate
}

// CopySums adds up the calls of a call path that copy memory.
type CopySums struct {
	Func  reader.FuncID
	Path  []reader.FuncID // the path without Func, the outermost first
	Calls uint64
	// Bytes is what functions of the C library copied in these calls, and Allocated what was allocated in
	// them.
	Bytes, Allocated uint64
	Ticks, Longest   uint64
}

// Report describes the allocations of a program.
type Report struct {
	Clock reader.Clock
	Short uint64
	Paths []Path // by bytes, the most first
	Total Sums
	// Peak is the maximum number of bytes in use, and PeakAt its time.
	Peak, PeakAt uint64
	// Frees is the number of calls that freed a block, and FreeTicks their total time.
	// Unknown is the number of freed blocks whose allocation is not in the trace.
	Frees, FreeTicks, Unknown uint64
	// Objects has the calls that copy objects, without those inside others, the longest in sum first. Moved
	// has the calls of the C library's functions that copy memory, those with the most bytes first.
	Objects, Moved []CopySums
}

// Report returns the results.
func (a *Analysis) Report(clock reader.Clock) *Report {
	r := &Report{
		Clock: clock, Short: a.opts.Short, Peak: a.now.peak, PeakAt: a.now.peakAt,
		Frees: a.freed.calls, FreeTicks: a.freed.ticks, Unknown: a.freed.unknown,
	}
	live := make(map[*sum]Sums)
	for _, b := range a.live {
		if b.sum != nil {
			l := live[b.sum]
			l.LiveBlocks++
			l.LiveBytes += b.bytes
			live[b.sum] = l
		}
	}
	for _, s := range a.sums {
		l := live[s]
		p := Path{Func: a.paths.Func(s.path), Path: a.paths.Frames(nil, a.paths.Parent(s.path)), Sums: Sums{
			Blocks: s.blocks, Bytes: s.bytes, Largest: s.largest, LiveBlocks: l.LiveBlocks, LiveBytes: l.LiveBytes,
			ShortBlocks: s.shortBlocks, ShortBytes: s.short, Copies: s.copies, Copied: s.copied, Failed: s.failed,
			Ticks: s.ticks, Longest: s.maxTicks,
		}}
		r.Paths = append(r.Paths, p)
		r.Total.plus(&p.Sums)
	}
	r.sort(r.Paths, func(s *Sums) uint64 { return s.Bytes })
	r.Objects = a.copySums(a.objects, func(c *CopySums) uint64 { return c.Ticks })
	r.Moved = a.copySums(a.moved, func(c *CopySums) uint64 { return c.Bytes })
	return r
}

// copySums returns sums, the largest first.
func (a *Analysis) copySums(sums map[calls.PathID]*CopySums, by func(*CopySums) uint64) (list []CopySums) {
	for path, s := range sums {
		s.Func, s.Path = a.paths.Func(path), a.paths.Frames(nil, a.paths.Parent(path))
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b CopySums) int {
		return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(b.Calls, a.Calls), slices.Compare(a.Path, b.Path), cmp.Compare(a.Func, b.Func))
	})
	return list
}

// sort orders paths by a sum, the largest first.
func (*Report) sort(list []Path, by func(*Sums) uint64) {
	slices.SortFunc(list, func(a, b Path) int {
		return cmp.Or(cmp.Compare(by(&b.Sums), by(&a.Sums)), cmp.Compare(b.Blocks, a.Blocks),
			slices.Compare(a.Path, b.Path), cmp.Compare(a.Func, b.Func))
	})
}

func (s *Sums) plus(o *Sums) {
	s.Blocks, s.Bytes, s.Largest = s.Blocks+o.Blocks, s.Bytes+o.Bytes, max(s.Largest, o.Largest)
	s.LiveBlocks, s.LiveBytes = s.LiveBlocks+o.LiveBlocks, s.LiveBytes+o.LiveBytes
	s.ShortBlocks, s.ShortBytes = s.ShortBlocks+o.ShortBlocks, s.ShortBytes+o.ShortBytes
	s.Copies, s.Copied, s.Failed = s.Copies+o.Copies, s.Copied+o.Copied, s.Failed+o.Failed
	s.Ticks, s.Longest = s.Ticks+o.Ticks, max(s.Longest, o.Longest)
}
