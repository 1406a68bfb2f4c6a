// Package account shows per-function call counts and latency: count, self time, total time
// and percentiles.
//
// The steps are those of every analysis:
//
//  1. [New] makes an [Analysis] for each shard. calls.Run feeds and merges them.
//     It needs calls.Options.Nested.
//  2. [Analysis.Report] turns it into a [Report]: rows of integers, in ticks. 3.
//
// [Report.Sort] and [Report.Top] select what is shown. 4. [Report.Body] describes the
// report for output, which adds names and units.
//
// # What counts
//
// A call counts once it has ended: by its own exit, by a tail call, or because the exit of
// an outer call showed that it must have ended (Inferred). Count, minimum, maximum and
// quantiles are those of such calls, including recursive ones.
//
// Calls that are still open at the end of the trace are counted separately, as Open. Only a
// lower bound of their duration is known, so they are not in the quantiles. But the time
// was spent, so it is part of self and total. Otherwise, a program that is traced while it
// runs would seem to spend no time in its outermost functions.
//
// Self is the time in a function without the calls that it made. The self times of all
// functions add up to the time of all outermost calls. Total is the time during which at
// least one call of the function was open in its thread: a call inside another one of the
// same function adds nothing to it. Sum is the plain sum of the durations of the calls that
// count, as llvm-xray shows it.
package account

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Options of an analysis. The zero value is usable.
type Options struct {
	// Exact keeps every different duration, so that no quantile is approximate. It costs 16
	// to 32 bytes per different duration of a function.
	Exact bool
	// PerThread keeps the calls of different threads apart.
	PerThread bool
	// RecursiveOnly counts only calls that are part of a recursion: those inside another
	// call of the same function, and those that had such a call inside. It excludes
	// Compensation.
	RecursiveOnly bool
	// Compensation subtracts the cost of recording from times, unless it is nil.
	Compensation *Compensation
}

// Analysis collects the calls of one shard. It is a calls.Analysis.
type Analysis struct {
	opts   Options
	tables []*table // by thread index; one for all unless Options.PerThread
	at     []int32  // positions of a batch's functions in their table
	kept   []calls.Call
	prober *prober // nil unless Options.Compensation
	// recursive marks functions of which a nested call has ended in a thread, and the outer
	// call has not.
	recursive map[mark]struct{}
}

type mark struct {
	thread int
	fn     reader.FuncID
}

// New returns an empty analysis.
func New(opts Options) *Analysis {
	a := &Analysis{opts: opts, recursive: make(map[mark]struct{})}
	if opts.Compensation != nil {
		a.prober = newProber(opts.Compensation)
	}
	return a
}

// function is what is known of the calls of one function. It fits one cache line, because
// calls touch thousands of them in turn.
type function struct {
	self      quantile.Sum
	durations quantile.Sample // of calls that ended
	special   *special        // nil if there are none
}

// special counts properties that few calls have.
type special struct {
	nested     quantile.Sum // the part of durations inside another call
	openTotal  quantile.Sum // durations of calls that are open and not nested
	open       uint64
	inferred   uint64
	left       uint64
	tailExited uint64
	untimed    uint64 // calls that were only counted
	pruned     uint64 // calls that the recorder dropped, and their durations
	prunedSum  quantile.Sum
	probes     probes // with Options.Compensation
}

// Calls adds a batch.
func (a *Analysis) Calls(b *calls.Batch) error {
	t, list := a.table(b), b.Calls
	switch {
	case a.prober != nil:
		list = a.prober.count(b, t)
	case a.opts.RecursiveOnly:
		list = a.recursions(b)
	}
	// Look up all functions before touching the first. They are seldom in the first-level
	// cache, and this loads many from the second-level cache at once.
	a.at = slices.Grow(a.at[:0], len(list))[:len(list)]
	for i := range list {
		a.at[i] = t.index(list[i].Func)
	}
	functions := t.functions
	for i, at := range a.at {
		c, f := &list[i], &functions[at]
		f.self.Add(c.Self)
		if c.End != calls.Exited || c.Nested {
			if f.addSpecial(c); c.End == calls.Truncated {
				continue
			}
		}
		f.durations.Add(c.Duration)
	}
	return nil
}

// Sums adds the calls of a thread that the recorder summed up.
func (a *Analysis) Sums(s *calls.Sums) error {
	if a.opts.RecursiveOnly {
		return errors.New("a profile does not contain which calls are part of a recursion: record without --profile")
	}
	if a.prober != nil {
		return errors.New("cannot subtract the cost of recording from a profile: record without --profile")
	}
	t := a.table(&calls.Batch{Thread: s.Thread, Index: s.Index})
	for p := range s.Functions() {
		if p.Count == 0 && p.Open == 0 {
			continue
		}
		f := t.function(p.Func)
		f.self.Add(p.Self)
		f.self.Add(p.OpenSelf)
		f.durations.AddOctaves(p.Octaves, p.Min, p.Max, quantile.Sum{Lo: p.Total})
		if p.Open == 0 && p.Nested == 0 {
			continue
		}
		special := f.specials()
		special.open += p.Open
		special.nested.Add(p.Nested)
		special.openTotal.Add(p.OpenTotal - min(p.OpenNested, p.OpenTotal))
	}
	return nil
}

// Count adds n calls of a function that were only counted.
func (a *Analysis) Count(th reader.Thread, index int, fn reader.FuncID, n uint64) {
	a.table(&calls.Batch{Thread: th, Index: index}).function(fn).specials().untimed += n
}

// Pruned adds n calls of a function that the recorder dropped, which took ticks in total.
func (a *Analysis) Pruned(th reader.Thread, index int, fn reader.FuncID, n, ticks uint64) {
	s := a.table(&calls.Batch{Thread: th, Index: index}).function(fn).specials()
	s.pruned += n
	s.prunedSum.Add(ticks)
}

// recursions returns the calls of the batch that are part of a recursion. They are valid
// until the next batch.
func (a *Analysis) recursions(b *calls.Batch) []calls.Call {
	a.kept = a.kept[:0]
	for i := range b.Calls {
		if c := &b.Calls[i]; a.isRecursive(b.Index, c) {
			a.kept = append(a.kept, *c)
		}
	}
	return a.kept
}

// addSpecial counts the special properties of a call.
func (f *function) addSpecial(c *calls.Call) {
	s := f.specials()
	switch c.End {
	case calls.TailExited:
		s.tailExited++
	case calls.Inferred:
		s.inferred++
	case calls.Left:
		s.left++
	case calls.Truncated:
		s.open++
		if !c.Nested {
			s.openTotal.Add(c.Duration)
		}
		return
	}
	if c.Nested {
		s.nested.Add(c.Duration)
	}
}

func (f *function) specials() *special {
	if f.special == nil {
		f.special = new(special)
	}
	return f.special
}

// isRecursive reports whether the call is part of a recursion. Calls come in the order of
// their ends, so all calls inside have been seen.
func (a *Analysis) isRecursive(thread int, c *calls.Call) bool {
	m := mark{thread, c.Func}
	if c.Nested {
		a.recursive[m] = struct{}{}
		return true
	}
	_, ok := a.recursive[m]
	delete(a.recursive, m)
	return ok
}

// table returns the table for the thread of the batch.
func (a *Analysis) table(b *calls.Batch) *table {
	at := 0
	if a.opts.PerThread {
		at = b.Index
	}
	for at >= len(a.tables) {
		a.tables = append(a.tables, nil)
	}
	if a.tables[at] == nil {
		a.tables[at] = newTable(a.opts.Exact)
		if a.opts.PerThread {
			a.tables[at].thread = b.Thread
		}
	}
	return a.tables[at]
}

// Merge adds what other has collected. Other must have the same options and other threads,
// and must not be used afterwards.
func (a *Analysis) Merge(other *Analysis) {
	for at, t := range other.tables {
		switch {
		case t == nil:
		case at >= len(a.tables):
			a.tables = append(a.tables, make([]*table, at+1-len(a.tables))...)
			a.tables[at] = t
		case a.tables[at] == nil:
			a.tables[at] = t
		default:
			to := a.tables[at]
			for i := range t.functions {
				f := &t.functions[i]
				to.function(t.ids[i]).merge(f)
				*f = function{} // the memory of both is not needed at the same time
			}
		}
	}
}

func (f *function) merge(o *function) {
	f.self.AddSum(o.self)
	f.durations.Merge(&o.durations)
	switch {
	case o.special == nil:
	case f.special == nil:
		f.special = o.special
	default:
		f.special.nested.AddSum(o.special.nested)
		f.special.openTotal.AddSum(o.special.openTotal)
		f.special.open += o.special.open
		f.special.inferred += o.special.inferred
		f.special.left += o.special.left
		f.special.tailExited += o.special.tailExited
		f.special.untimed += o.special.untimed
		f.special.pruned += o.special.pruned
		f.special.prunedSum.AddSum(o.special.prunedSum)
		f.special.probes.add(&o.special.probes)
	}
}

// table holds functions in order of first occurrence, and finds them with an
// open-addressing hash table: IDs are dense in most traces, but those of shared objects are
// far apart, and damaged traces can have any.
type table struct {
	thread    reader.Thread
	exact     bool
	functions []function
	ids       []reader.FuncID // of functions
	slots     []slot          // a power of two in length, at most half full
	shift     uint8           // 32 - log2(len(slots))
}

// slot is a function's ID and 1 + its index; 0 is a free slot.
type slot struct {
	id reader.FuncID
	at int32
}

func newTable(exact bool) *table {
	t := &table{exact: exact}
	t.resize(16)
	return t
}

// function returns the function with the ID. It is valid until the next new function.
func (t *table) function(id reader.FuncID) *function { return &t.functions[t.index(id)] }

// index returns the position of the function with the ID, and adds it if it is new.
func (t *table) index(id reader.FuncID) int32 {
	mask := uint32(len(t.slots) - 1)
	// 2^32 divided by the golden ratio: consecutive IDs never collide.
	for h := uint32(id) * 0x9e3779b1 >> (t.shift & 31); ; h++ {
		s := t.slots[h&mask]
		if s.at == 0 {
			return t.add(id)
		}
		if s.id == id {
			return s.at - 1
		}
	}
}

func (t *table) add(id reader.FuncID) int32 {
	t.functions = append(t.functions, function{})
	t.ids = append(t.ids, id)
	t.functions[len(t.functions)-1].durations.Exact = t.exact
	n := int32(len(t.functions))
	if 2*len(t.functions) > len(t.slots) {
		t.resize(2 * len(t.slots))
	} else {
		t.insert(id, n)
	}
	return n - 1
}

func (t *table) insert(id reader.FuncID, at int32) {
	mask := uint32(len(t.slots) - 1)
	h := uint32(id) * 0x9e3779b1 >> (t.shift & 31)
	for t.slots[h&mask].at != 0 {
		h++
	}
	t.slots[h&mask] = slot{id, at}
}

func (t *table) resize(n int) {
	t.slots = make([]slot, n)
	t.shift = uint8(32 - bits.TrailingZeros(uint(n)))
	for i, id := range t.ids {
		t.insert(id, int32(i+1))
	}
}
