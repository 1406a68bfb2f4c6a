package summary

import (
	"math/bits"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Options of an analysis.
type Options struct {
	// Clock is the clock of the trace.
	Clock reader.Clock
	// OffCPU says that batches have off-CPU times.
	OffCPU bool
	// MaxPaths is the limit of the run for call paths, or 0. It limits the pairs of caller and
	// function of folded calls, too, see maxPairs. If there are more, folded calls count by
	// function alone.
	MaxPaths int
}

// Analysis sums up the calls of a trace by path. It is a calls.Analysis, and needs
// calls.Options.Paths and calls.Options.Nested. Its memory grows with the number of
// different paths.
type Analysis struct {
	opts  Options
	scale scale
	// paths has the sums of the call paths of the run. folds has those of folded calls, by caller
	// and function.
	paths, folds table
	// callerless says that there were more pairs than the limit.
	callerless bool
}

// table has the sums and histograms of call paths. Sums are in ticks, and histograms in the unit of
// the summary.
type table struct {
	tree   *calls.Paths
	slots  []int32 // by path: 1 + index in the following fields; 0 for none
	sums   []Sums
	bins   histograms // by slot: durations and self times
	coarse histograms // by slot, only with the first counter; usually empty
}

// NewAnalysis returns an empty analysis.
func NewAnalysis(opts Options) *Analysis {
	return &Analysis{opts: opts, scale: newScale(opts.Clock), folds: table{tree: calls.NewPaths()}}
}

var (
	_ calls.Analysis[*Analysis] = (*Analysis)(nil)
	_ calls.SumSink             = (*Analysis)(nil)
)

// Calls adds a batch. It never fails.
func (a *Analysis) Calls(b *calls.Batch) error {
	a.paths.tree = b.Paths
	for i := range b.Calls {
		c := &b.Calls[i]
		t, slot := a.place(c)
		if t == &a.folds {
			a.folded(c.Path, 1, c.Self)
		}
		t.sums[slot].count(c)
		if c.Partial() {
			continue
		}
		duration, self := quantile.Bin(a.scale.of(c.Duration)), quantile.Bin(a.scale.of(c.Self))
		if duration == self {
			t.bins.add(slot, duration, 1, 1)
			continue
		}
		t.bins.add(slot, self, 0, 1)
		t.bins.add(slot, duration, 1, 0)
	}
	for i := range b.Waits {
		w := &b.Waits[i]
		t, slot := a.place(&b.Calls[w.Call])
		s := &t.sums[slot]
		s.Blocked += w.Self.Blocked
		s.Queued += w.Self.Queued
	}
	return nil
}

// place returns the table and slot in which a call counts. A call with a folded path counts by its
// caller, and in the path only with its self time.
func (a *Analysis) place(c *calls.Call) (*table, int) {
	if a.paths.tree.Func(c.Path) != reader.Folded {
		return &a.paths, a.paths.slot(c.Path)
	}
	return &a.folds, a.foldSlot(c.Caller, c.Func)
}

// foldSlot returns the slot of the folded calls of a function by its caller.
func (a *Analysis) foldSlot(caller, fn reader.FuncID) int {
	if a.callerless {
		caller = reader.Folded
	}
	slot := a.folds.slot(a.folds.fold(caller, fn))
	if a.hasTooManyPairs() {
		a.dropCallers()
		return a.foldSlot(caller, fn)
	}
	return slot
}

func (a *Analysis) hasTooManyPairs() bool {
	return a.opts.MaxPaths > 0 && !a.callerless && a.folds.tree.Len() > maxPairs(a.opts.MaxPaths)
}

// dropCallers counts folded calls by function alone. The decision depends on all pairs of the
// trace, so sharding does not change it.
func (a *Analysis) dropCallers() {
	if a.callerless {
		return
	}
	a.callerless = true
	from := a.folds
	a.folds = table{tree: calls.NewPaths()}
	for path, slot := range from.slots {
		if slot > 0 {
			_, fn := from.folded(calls.PathID(path))
			a.folds.addSlot(a.folds.slot(a.folds.fold(reader.Folded, fn)), &from, int(slot-1))
		}
	}
}

// fold returns the path of the folded calls of a function by its caller. The outermost function is
// a marker that says whether the next one is the caller.
func (t *table) fold(caller, fn reader.FuncID) calls.PathID {
	if caller == reader.Folded {
		return t.tree.Child(t.tree.Child(0, withoutCaller), fn)
	}
	return t.tree.Child(t.tree.Child(t.tree.Child(0, withCaller), caller), fn)
}

// folded returns the caller and the function of a path that fold made.
func (t *table) folded(path calls.PathID) (caller, fn reader.FuncID) {
	parent := t.tree.Parent(path)
	if t.tree.Func(parent) == withoutCaller && t.tree.Parent(parent) == 0 {
		return reader.Folded, t.tree.Func(path)
	}
	return t.tree.Func(parent), t.tree.Func(path)
}

const (
	withCaller reader.FuncID = 1 + iota
	withoutCaller
)

// slot returns the index of a path.
func (t *table) slot(path calls.PathID) int {
	if int(path) < len(t.slots) {
		if slot := t.slots[path]; slot > 0 {
			return int(slot - 1)
		}
	}
	return t.grow(path)
}

func (t *table) grow(path calls.PathID) int {
	if n := t.tree.Len(); len(t.slots) < n {
		t.slots = append(t.slots, make([]int32, n-len(t.slots)+n/4)...)
	}
	t.sums = append(t.sums, Sums{})
	slot := len(t.sums) - 1
	t.bins.grow(slot + 1)
	t.coarse.grow(slot + 1)
	t.slots[path] = int32(slot + 1)
	return slot
}

// count adds a call.
func (s *Sums) count(c *calls.Call) {
	if c.Nested {
		s.Nested = addSaturating(s.Nested, c.Duration)
	}
	if c.Partial() {
		s.Open++
		s.OpenTime = addSaturating(s.OpenTime, c.Duration)
		s.OpenSelf = addSaturating(s.OpenSelf, c.Self)
		return
	}
	if s.Calls == 0 {
		s.Min, s.Max = c.Duration, c.Duration
	}
	s.Min, s.Max = min(s.Min, c.Duration), max(s.Max, c.Duration)
	s.Calls++
	s.Time = addSaturating(s.Time, c.Duration)
	s.Self = addSaturating(s.Self, c.Self)
	switch c.End {
	case calls.TailExited:
		s.TailExited++
	case calls.Continued:
		s.Continued++
	case calls.Inferred:
		s.Inferred++
	case calls.Left:
		s.Left++
	}
}

// Sums adds the calls of a thread that the recorder summed up.
func (a *Analysis) Sums(s *calls.Sums) error {
	if a.paths.tree == nil {
		a.paths.tree = calls.NewPaths()
	}
	for i, path := range s.PathsIn(a.paths.tree) {
		p := &s.Paths[i]
		if p.Func == reader.Folded {
			a.folded(path, p.Count+p.Open, p.Self+p.OpenSelf)
		} else if p.Count+p.Open > 0 {
			a.paths.addSum(a.paths.slot(path), p, &a.scale)
		}
	}
	for i := range s.Folds {
		if p := &s.Folds[i]; p.Count+p.Open > 0 {
			slot := a.foldSlot(p.Caller, p.Func)
			a.folds.addSum(slot, p, &a.scale)
		}
	}
	return nil
}

func (a *Analysis) folded(path calls.PathID, n, self uint64) {
	if n > 0 {
		s := &a.paths.sums[a.paths.slot(path)]
		s.Folded = addSaturating(s.Folded, n)
		s.FoldedSelf = addSaturating(s.FoldedSelf, self)
	}
}

// addSum adds the calls of a path that the recorder summed up.
func (t *table) addSum(slot int, p *calls.Sum, k *scale) {
	o := Sums{
		commonSums: commonSums{Calls: p.Count, Time: p.Total, Self: p.Self, Min: p.Min, Max: p.Max},
		Open:       p.Open, OpenTime: p.OpenTotal, OpenSelf: p.OpenSelf, Nested: addSaturating(p.Nested, p.OpenNested),
		Blocked: p.SelfOff.Blocked, Queued: p.SelfOff.Queued,
	}
	if p.Spread() == 0 {
		o.Min, o.Max = maxValue, 0
	}
	t.sums[slot].add(&o)
	for length, n := range p.Octaves {
		if n > 0 {
			v := min(p.Max, max(p.Min, quantile.InOctave(length)))
			t.coarse.add(slot, quantile.Bin(k.of(v)), n, 0)
		}
	}
}

// Count adds n calls of a function that were only counted.
func (a *Analysis) Count(_ reader.Thread, _ int, fn reader.FuncID, n uint64) {
	slot := a.foldSlot(reader.Folded, fn)
	s := &a.folds.sums[slot]
	s.Untimed = addSaturating(s.Untimed, n)
}

// Pruned adds n calls of a function that the recorder dropped, which took ticks in total.
func (a *Analysis) Pruned(_ reader.Thread, _ int, fn reader.FuncID, n, ticks uint64) {
	slot := a.foldSlot(reader.Folded, fn)
	s := &a.folds.sums[slot]
	s.Pruned = addSaturating(s.Pruned, n)
	s.PrunedTime = addSaturating(s.PrunedTime, ticks)
}

// Merge adds what other has collected, which must not be used afterwards.
func (a *Analysis) Merge(other *Analysis) {
	a.paths.merge(&other.paths)
	if a.callerless || other.callerless {
		a.dropCallers()
		other.dropCallers()
	}
	a.folds.merge(&other.folds)
	if a.hasTooManyPairs() {
		a.dropCallers()
	}
}

func (t *table) merge(o *table) {
	if o.tree == nil {
		return
	}
	if t.tree == nil {
		t.tree = calls.NewPaths()
	}
	ids := t.tree.Remap(o.tree)
	for path := range o.tree.Len() {
		if path >= len(o.slots) || o.slots[path] == 0 {
			continue
		}
		from, to := int(o.slots[path]-1), t.slot(ids[path])
		t.addSlot(to, o, from)
	}
}

// addSlot adds a slot of another table.
func (t *table) addSlot(to int, o *table, from int) {
	t.sums[to].add(&o.sums[from])
	t.bins.addAll(to, &o.bins, from)
	t.coarse.addAll(to, &o.coarse, from)
}

// Group returns the sums. function describes the functions of the trace. The analysis must
// not be used afterwards.
func (a *Analysis) Group(key Key, function func(reader.FuncID) Function) *Group {
	g := NewGroup(key)
	b := groupBuilder{g: g, a: a, function: function, ids: make(map[reader.FuncID]reader.FuncID)}
	if t := &a.paths; t.tree != nil {
		ids := make([]calls.PathID, t.tree.Len())
		for path := calls.PathID(1); int(path) < len(ids); path++ {
			ids[path] = g.child(ids[t.tree.Parent(path)], 0, b.id(t.tree.Func(path)))
			b.add(t, path, ids[path])
		}
	}
	b.addFolds()
	g.Callerless = a.callerless
	for i := range g.sums { // also of paths that are only callers
		g.sums[i].OffKnown = a.opts.OffCPU
	}
	return g
}

// groupBuilder makes a group of an analysis.
type groupBuilder struct {
	g        *Group
	a        *Analysis
	function func(reader.FuncID) Function
	ids      map[reader.FuncID]reader.FuncID // from those of the trace to those of the group
}

func (b *groupBuilder) id(fn reader.FuncID) reader.FuncID {
	if fn == reader.Folded {
		return fn
	}
	id, ok := b.ids[fn]
	if !ok {
		id = b.g.function(b.describe(fn))
		b.ids[fn] = id
	}
	return id
}

// describe returns the name and place of a function, also for the markers of folded calls.
func (b *groupBuilder) describe(fn reader.FuncID) Function {
	switch fn {
	case 0:
		return Function{}
	case reader.Folded:
		return Function{Name: foldedName}
	}
	f := b.function(fn)
	f.Name, f.Symbol, f.File, f.Object = clean(f.Name), clean(f.Symbol), clean(f.File), clean(f.Object)
	return f
}

func (b *groupBuilder) addFolds() {
	t := &b.a.folds
	for path := calls.PathID(1); int(path) < t.tree.Len(); path++ {
		if int(path) < len(t.slots) && t.slots[path] > 0 {
			caller, fn := t.folded(path)
			b.add(t, path, b.g.foldsPath(b.describe(caller), b.describe(fn)))
		}
	}
}

// add adds the sums of a path of the analysis to those of one of the group.
func (b *groupBuilder) add(t *table, from, to calls.PathID) {
	if int(from) >= len(t.slots) || t.slots[from] == 0 {
		return
	}
	slot := int(t.slots[from] - 1)
	s := t.sums[slot]
	s.settle(b.a.opts)
	b.g.sums[to].add(&s)
	b.g.bins.addAll(int(to), &t.bins, slot)
	b.g.coarse.addAll(int(to), &t.coarse, slot)
}

// settle converts sums to the unit of the summary.
func (s *Sums) settle(opts Options) {
	if opts.OffCPU {
		s.OffKnown = true
		self := addSaturating(s.Self, s.OpenSelf)
		s.Blocked = min(s.Blocked, self)
		s.Queued = min(s.Queued, self-s.Blocked)
	} else {
		s.Blocked, s.Queued = 0, 0
	}
	for _, t := range []*uint64{
		&s.Time, &s.Self, &s.Min, &s.Max, &s.OpenTime, &s.OpenSelf, &s.Nested, &s.Blocked, &s.Queued, &s.PrunedTime, &s.FoldedSelf,
	} {
		*t = min(opts.Clock.Nanos(*t), maxValue)
	}
	if self := addSaturating(s.Self, s.OpenSelf); s.OffKnown {
		s.Blocked = min(s.Blocked, self)
		s.Queued = min(s.Queued, self-s.Blocked)
		s.OnCPU = self - s.Blocked - s.Queued
	}
}

// scale converts single durations to the unit of the summary, faster than a reader.Clock.
type scale struct {
	clock  reader.Clock
	factor uint64 // nanoseconds per tick, times 2^64; 0 for clocks that need the slow path
}

func newScale(c reader.Clock) scale {
	s := scale{clock: c}
	if c.Frequency > nanosPerSecond {
		s.factor, _ = bits.Div64(nanosPerSecond, 0, c.Frequency)
		s.factor++ // so that a second is exactly a second
	}
	return s
}

const nanosPerSecond = 1_000_000_000

// of converts a duration. It may round down or to the nearest.
func (s *scale) of(ticks uint64) uint64 {
	if s.factor != 0 {
		hi, _ := bits.Mul64(ticks, s.factor)
		return hi
	}
	return s.clock.Nanos(ticks)
}
