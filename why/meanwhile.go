package why

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

const (
	maxGaps  = 100 // of a cause that are looked at
	copies   = 20  // of the gaps, elsewhere in the trace
	gapCells = 1 << 14
)

// gap is a stretch of time that slow calls lost, or a copy of it at another time.
type gap struct {
	start, end uint64
	thread     int // that lost it
	cause      int // position in the list of named leads
	copy       int // 0 for the gap itself
}

// Holder is what other threads did while a cause lost time.
type Holder struct {
	Self     reader.FuncID // the innermost function that fits
	Scope    reader.FuncID // the one that fits next around it; Self when there is none
	Covered  float64       // share of the lost time in which Self was open elsewhere
	Expected float64       // the same at other times
	Ends     bool          // the wait ends when Self ends
}

// meanwhile is the pass that looks at what other threads do during gaps.
type meanwhile struct {
	gaps    []gap
	cells   [][]int32 // gaps that reach into a cell of the trace's time
	origin  uint64
	cell    uint64            // ticks
	victims []map[int][]span  // by cause and thread: what slow calls lost, in order
	seen    map[seenKey]*seen // what was open
}

type seenKey struct {
	gap int32
	fn  reader.FuncID
}

type seen struct {
	ticks, depth uint64
	ends         bool
}

// gapsOf are the longest holes of the calls that a lead dominates.
func (e *evidence) gapsOf(l *lead, cause int) []gap {
	var gaps []gap
	for _, i := range l.dominated {
		if h, ok := e.holeOf(l, i); ok {
			gaps = append(gaps, gap{start: h.start, end: h.end, thread: e.slow[i].thread, cause: cause})
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	if len(gaps) <= maxGaps {
		return gaps
	}
	// Some of every length: the longest may be those with a cause of their own.
	for i := range maxGaps {
		gaps[i] = gaps[i*len(gaps)/maxGaps]
	}
	return gaps[:maxGaps]
}

// holeOf is the longest hole of a slow call in the function of a lead.
func (e *evidence) holeOf(l *lead, i int) (longest hole, ok bool) {
	for _, v := range e.slow[i].visits {
		if slices.Contains(l.nodes, v.node) && v.hole.ticks() > longest.ticks() {
			longest, ok = v.hole, true
		}
	}
	return longest, ok
}

// meanwhile looks at other threads during what the named causes lost, and gives the
// holder of each, or nil.
func (x *explainer) meanwhile(d *durations, e *evidence) (map[*lead]*Holder, error) {
	var leads []*lead
	var gaps []gap
	var victims []map[int][]span
	for _, l := range e.leads {
		if l.named && l.kind == Slower {
			gaps = append(gaps, e.gapsOf(l, len(leads))...)
			leads = append(leads, l)
			victims = append(victims, e.victims(l))
		}
	}
	if len(gaps) == 0 || d.last <= d.first {
		return nil, nil
	}
	gaps = shifted(gaps, d.first, d.last, x.opts.Seed)
	proto := newMeanwhile(gaps, victims, d.first, d.last)
	m, _, err := run(x, true, func() *meanwhile {
		c := *proto
		c.seen = make(map[seenKey]*seen)
		return &c
	})
	if err != nil {
		return nil, err
	}
	holders := make(map[*lead]*Holder)
	for i, l := range leads {
		if h := m.holder(i, l.fn); h != nil {
			holders[l] = h
		}
	}
	return holders, nil
}

// victims are the stretches in which threads lost time to a cause, so that those who
// wait too are not taken for those who are waited for.
func (e *evidence) victims(l *lead) map[int][]span {
	v := make(map[int][]span)
	for i := range e.slow {
		if l.x[i] > dominance*e.excess[i] {
			if h, ok := e.holeOf(l, i); ok {
				t := e.slow[i].thread
				v[t] = append(v[t], span{h.start, h.end})
			}
		}
	}
	return v
}

// shifted adds the copies of gaps, which wrap around at the end of the trace.
func shifted(gaps []gap, first, last, seed uint64) []gap {
	rng := rand.New(rand.NewPCG(seed, copies))
	n := len(gaps)
	for c := 1; c <= copies; c++ {
		offset := rng.Uint64N(last - first)
		for _, g := range gaps[:n] {
			length := min(g.end-g.start, last-first)
			g.start = first + (g.start-first+offset)%(last-first)
			g.start = min(g.start, last-length)
			g.end, g.copy = g.start+length, c
			gaps = append(gaps, g)
		}
	}
	return gaps
}

func newMeanwhile(gaps []gap, victims []map[int][]span, first, last uint64) *meanwhile {
	m := &meanwhile{gaps: gaps, victims: victims, origin: first, cell: (last-first)/gapCells + 1}
	m.cells = make([][]int32, gapCells+1)
	for i, g := range gaps {
		for c := m.cellOf(g.start); c <= m.cellOf(g.end); c++ {
			m.cells[c] = append(m.cells[c], int32(i))
		}
	}
	return m
}

func (m *meanwhile) cellOf(tsc uint64) int {
	return int(min((max(tsc, m.origin)-m.origin)/m.cell, gapCells))
}

// Calls notes the calls that overlap gaps of other threads.
func (m *meanwhile) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Nested {
			continue
		}
		from, to := m.cellOf(c.Start), m.cellOf(c.Start+c.Duration)
		if to-from > len(m.gaps)/4 {
			for g := range m.gaps {
				m.note(b, c, int32(g), 0, ^uint64(0))
			}
			continue
		}
		for cell := from; cell <= to; cell++ {
			start := m.origin + uint64(cell)*m.cell
			for _, g := range m.cells[cell] {
				m.note(b, c, g, start, start+m.cell)
			}
		}
	}
	return nil
}

// note adds what of a call is in a gap, from one time to another.
func (m *meanwhile) note(b *calls.Batch, c *calls.Call, number int32, from, to uint64) {
	g := &m.gaps[number]
	end := c.Start + c.Duration
	start, stop := max(from, c.Start, g.start), min(to, end, g.end)
	if start >= stop || g.thread == b.Index || m.suffers(g.cause, b.Index, start, stop) {
		return
	}
	k := seenKey{number, c.Func}
	s := m.seen[k]
	if s == nil {
		s = new(seen)
		m.seen[k] = s
	}
	s.ticks += stop - start
	s.depth += (stop - start) * uint64(c.Depth)
	near := (g.end - g.start) / 10
	s.ends = s.ends || end+near >= g.end && end <= g.end+near
}

// suffers reports whether a thread loses more than half of a stretch to the cause
// itself.
func (m *meanwhile) suffers(cause, thread int, start, stop uint64) bool {
	lost := m.victims[cause][thread]
	first, _ := slices.BinarySearchFunc(lost, start, func(v span, tsc uint64) int {
		if v.to <= tsc {
			return -1
		}
		return 1
	})
	for _, v := range lost[first:] {
		if v.from >= stop {
			break
		}
		if lo, hi := max(start, v.from), min(stop, v.to); hi > lo && 2*(hi-lo) > stop-start {
			return true
		}
	}
	return false
}

// Merge adds what other saw.
func (m *meanwhile) Merge(other *meanwhile) {
	for k, s := range other.seen {
		if mine := m.seen[k]; mine != nil {
			mine.ticks += s.ticks
			mine.depth += s.depth
			mine.ends = mine.ends || s.ends
		} else {
			m.seen[k] = s
		}
	}
}

// cover is how much of a cause's gaps a function was open in.
type cover struct {
	ticks [copies + 1]uint64 // by copy
	depth float64            // times ticks, in the gaps themselves
	ends  int
}

// holder is who was at work when a cause lost time, and hardly ever else.
func (m *meanwhile) holder(cause int, fn reader.FuncID) *Holder {
	var total uint64
	count := 0
	for i := range m.gaps {
		if g := &m.gaps[i]; g.cause == cause && g.copy == 0 {
			total += g.end - g.start
			count++
		}
	}
	covers := make(map[reader.FuncID]*cover)
	for k, s := range m.seen {
		g := &m.gaps[k.gap]
		if g.cause != cause || k.fn == fn {
			continue
		}
		c := covers[k.fn]
		if c == nil {
			c = new(cover)
			covers[k.fn] = c
		}
		c.ticks[g.copy] += min(s.ticks, g.end-g.start)
		if g.copy == 0 {
			c.depth += float64(s.depth)
			if s.ends {
				c.ends++
			}
		}
	}
	best := uint64(0)
	for fn, c := range covers {
		if !c.stands(total) {
			delete(covers, fn)
		} else {
			best = max(best, c.ticks[0])
		}
	}
	var fit []reader.FuncID
	for fn, c := range covers {
		if 10*c.ticks[0] >= 9*best {
			fit = append(fit, fn)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	depth := func(fn reader.FuncID) float64 { return covers[fn].depth / float64(covers[fn].ticks[0]) }
	slices.SortFunc(fit, func(a, b reader.FuncID) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	})
	self := fit[len(fit)-1]
	c := covers[self]
	return &Holder{
		Self: self, Scope: fit[max(0, len(fit)-2)],
		Covered:  float64(c.ticks[0]) / float64(total),
		Expected: c.expected() / float64(total),
		Ends:     2*c.ends >= count,
	}
}

func (c *cover) expected() float64 {
	all := uint64(0)
	for _, t := range c.ticks[1:] {
		all += t
	}
	return float64(all) / copies
}

// stands reports whether a function was open in the gaps more than chance would
// have it.
func (c *cover) stands(total uint64) bool {
	return float64(c.ticks[0]) > 0.3*float64(total) && float64(c.ticks[0]) > 3*c.expected() &&
		c.ticks[0] > slices.Max(c.ticks[1:])
}
