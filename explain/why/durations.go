package why

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unsafe"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// span limits when calls of the root begin, in ticks: from <= start < to. If to is 0, there
// is no upper limit.
type span struct{ from, to uint64 }

func (s span) has(tsc uint64) bool { return tsc >= s.from && (s.to == 0 || tsc < s.to) }

// met is what passes over all calls find beside durations.
type met struct {
	role  func(reader.FuncID) Role
	loop  func(reader.FuncID) LoopRole // nil if event loops are not asked for
	files map[int32]span               // from the first to the last time of a call
	// addresses are those logged by functions that wait, up to maxLocks each.
	addresses map[reader.FuncID]map[uint64]bool
	unlocks   bool // functions with sleds release locks
	loops     bool // functions that may be of event loops were called
	polls     bool // one of them waits until files are ready
}

func newMet(o *Options) met {
	return met{role: o.Role, loop: o.Loop, files: make(map[int32]span), addresses: make(map[reader.FuncID]map[uint64]bool)}
}

// RootFinder is the analysis that chooses the root: it collects the durations of all functions' outermost calls. It
// needs calls.Options.Nested, and those of Options.Calls.
type RootFinder struct {
	met
	span  span
	funcs map[reader.FuncID]*rootSample
	small [1 << 12]*rootSample // the same for small IDs, for speed
	held  int64                // bytes of the values that samples have counted
	// depths of the calls that ended last, by thread. A call with callees comes after a deeper one.
	depths []uint32
	any    bool // there is a value
	top    int  // Options.Slowest
}

// NewRootFinder returns a RootFinder for Options.Finder.
func NewRootFinder(o Options) *RootFinder {
	o = o.withDefaults()
	return &RootFinder{met: newMet(&o), span: span{o.From, o.To}, funcs: make(map[reader.FuncID]*rootSample), top: o.Slowest}
}

// Memory implements [calls.MemoryUser]. A sample keeps its first values as they are.
func (r *RootFinder) Memory() int64 {
	const perFunction = 800
	return perFunction*int64(len(r.funcs)) + r.held + r.met.memory()
}

// rootSample is the durations of a function's outermost calls.
type rootSample struct {
	quantile.Sample
	off                 uint64 // ticks off CPU, of all calls
	leaves              uint64 // calls without callees
	truncated, inferred uint64
	slowest             []*invocation.Invocation // RootFinder.top of them
	least               uint64                   // duration of calls that may be among them
	threads             map[int]bool
	thread              int // of the latest call, from 1
	// foreign are the calls with foreign time, which settle adds to Sample; nil if there are none.
	foreign *foreignSample
}

// foreignSample is the durations of calls with foreign time, and the same without it. settle adds those of the others
// to own.
type foreignSample struct{ all, own quantile.Sample }

func (s *rootSample) withForeign(meter *int64) *foreignSample {
	if s.foreign == nil {
		s.foreign = &foreignSample{quantile.Sample{Meter: meter}, quantile.Sample{Meter: meter}}
	}
	return s.foreign
}

// settle completes the samples after the pass.
func (s *rootSample) settle() {
	if f := s.foreign; f != nil {
		f.own.Merge(&s.Sample)
		s.Sample.Merge(&f.all)
	}
}

// own is the durations without foreign time, after settle.
func (s *rootSample) own() *quantile.Sample {
	if s.foreign == nil {
		return &s.Sample
	}
	return &s.foreign.own
}

// sample returns the sample of a function. It adds new functions.
func (r *RootFinder) sample(fn reader.FuncID) *rootSample {
	small := uint32(fn) < uint32(len(r.small))
	if small && r.small[fn] != nil {
		return r.small[fn]
	}
	s := r.funcs[fn]
	if s == nil {
		s = &rootSample{Sample: quantile.Sample{Meter: &r.held}}
		if r.top == 0 {
			s.least = math.MaxUint64
		}
		r.funcs[fn] = s
		r.meet(fn)
	}
	if small {
		r.small[fn] = s
	}
	return s
}

// Calls implements [calls.Sink].
func (r *RootFinder) Calls(b *calls.Batch) error {
	waits := b.Waits
	r.depths = grow(r.depths, b.Index+1)
	ended := r.depths[b.Index]
	all := span{from: math.MaxUint64}
	for i := range b.Calls {
		c := &b.Calls[i]
		var off calls.Off
		off, waits = waited(waits, i)
		leaf := ended <= c.Depth
		ended = c.Depth
		all.from, all.to = min(all.from, c.Start), max(all.to, c.Start+c.Duration)
		s := r.sample(c.Func)
		if c.Nested || !r.span.has(c.Start) {
			continue
		}
		if c.Partial() {
			s.truncated++
			continue
		}
		if c.End == calls.Inferred {
			s.inferred++
		}
		r.any = true
		if without := foreign(off); without > 0 {
			f := s.withForeign(&r.held)
			f.all.Add(c.Duration)
			f.own.Add(c.Duration - without)
		} else {
			s.Add(c.Duration)
		}
		s.off += off.Sum()
		if leaf {
			s.leaves++
		}
		if c.Duration >= s.least {
			r.keep(s, &invocation.Invocation{
				Key: invocation.Key{Start: c.Start, Index: b.Index}, Thread: b.Thread, Root: c.Func, Duration: c.Duration,
			})
		}
		if r.top > 0 && s.thread != b.Index+1 {
			if s.thread = b.Index + 1; s.threads == nil {
				s.threads = make(map[int]bool)
			}
			s.threads[b.Index] = true
		}
	}
	r.depths[b.Index] = ended
	r.cover(b.Thread.File, all)
	r.log(b)
	return nil
}

// keep adds a call that may be among the slowest.
func (r *RootFinder) keep(s *rootSample, v *invocation.Invocation) {
	at, _ := slices.BinarySearchFunc(s.slowest, v, invocation.Slower)
	if s.slowest = slices.Insert(s.slowest, at, v); len(s.slowest) < r.top {
		r.held += int64(unsafe.Sizeof(*v))
		return
	}
	s.slowest = s.slowest[:r.top]
	s.least = s.slowest[r.top-1].Duration
}

// Merge implements [calls.Analysis].
func (r *RootFinder) Merge(other *RootFinder) {
	r.any = r.any || other.any
	r.met.merge(&other.met)
	for fn, s := range other.funcs {
		mine := r.funcs[fn]
		if mine == nil {
			r.funcs[fn] = s
			continue
		}
		mine.Merge(&s.Sample)
		mine.off += s.off
		mine.leaves += s.leaves
		mine.truncated += s.truncated
		mine.inferred += s.inferred
		for _, v := range s.slowest {
			r.keep(mine, v)
		}
		if mine.threads == nil {
			mine.threads = s.threads
		} else {
			maps.Copy(mine.threads, s.threads)
		}
		if s.foreign != nil {
			f := mine.withForeign(&r.held)
			f.all.Merge(&s.foreign.all)
			f.own.Merge(&s.foreign.own)
		}
	}
}

// minRootCalls excludes main loops and rarely called functions as roots: they have no tail.
const minRootCalls = 200

// idle reports whether the calls of a function only wait, given the most time that any function that may be
// a root was on a CPU: a sleep that calls nothing, or a worker's wait for its next request.
func (s *rootSample) idle(busiest float64) bool {
	all := s.Sum().Float64()
	awake := all - float64(s.off)
	return awake < all/2 && 2*s.leaves > s.Count() || awake < all/10 && awake < busiest/20
}

// propose orders the functions that may be roots by the time that their slow calls took
// beyond the median. Among those close to the largest, the one with the most total time comes
// first: the outer function. Functions that wait, by their role or because they do nothing else, come last.
func (r *RootFinder) propose(role func(reader.FuncID) Role) []Candidate {
	var list []Candidate
	most, busiest := 0.0, 0.0
	for _, s := range r.funcs {
		s.settle()
		if s.Count() >= minRootCalls {
			busiest = max(busiest, s.Sum().Float64()-float64(s.off))
		}
	}
	waits := make(map[reader.FuncID]bool)
	for fn, s := range r.funcs {
		if s.Count() < minRootCalls {
			continue
		}
		var q [2]uint64
		s.Quantiles(q[:], 0.5, 0.99)
		c := Candidate{Func: fn, Calls: s.Count(), Median: q[0], P99: q[1], Total: s.Sum().Float64()}
		for v, n := range s.All() {
			if v >= q[1] {
				c.Lost += float64(v-q[0]) * float64(n)
			}
		}
		if waits[fn] = role(fn).kind() != Slower || s.idle(busiest); !waits[fn] {
			most = max(most, c.Lost)
		}
		list = append(list, c)
	}
	rank := func(c Candidate) float64 {
		switch {
		case waits[c.Func]:
			return -1
		case c.Lost >= 0.8*most:
			return c.Total
		}
		return 0
	}
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Func, b.Func))
	})
	return list
}

// durations collects the durations of the calls of the root, and other data that the pass
// over paths needs.
type durations struct {
	met
	places *places
	span   span
	lost   lossPoints

	sample    quantile.Sample
	own       quantile.Sample // the same without foreign time, if offCPU is set
	offCPU    bool
	roots     map[reader.FuncID]bool
	leaves    quantile.Sample // durations of calls below the root without callees
	lengths   map[reader.FuncID]*lengths
	pathSizes []*lengths // by PathID
	depths    []uint32   // by thread, of the call that ended last
	truncated uint64
	inferred  uint64
	partial   uint64 // calls of the root inside which records are missing
	outside   functionSet
}

// functionSet is a set of functions that is fast for small IDs.
type functionSet struct {
	small [1 << 14]bool
	large map[reader.FuncID]bool
}

// add reports whether fn is new.
func (s *functionSet) add(fn reader.FuncID) bool {
	if i := uint32(fn); i < uint32(len(s.small)) {
		is := s.small[i]
		s.small[i] = true
		return !is
	}
	if s.large[fn] {
		return false
	}
	if s.large == nil {
		s.large = make(map[reader.FuncID]bool)
	}
	s.large[fn] = true
	return true
}

// lengths counts a function's calls without callees, by the length of their duration in
// bits.
type lengths [65]uint64

// Memory implements [calls.MemoryUser].
func (d *durations) Memory() int64 {
	const perFunction, perOutside = 640, 48
	return perFunction*int64(len(d.lengths)) + perOutside*int64(len(d.outside.large)) + d.met.memory()
}

func (m *met) memory() int64 {
	const perAddress = 48
	return perAddress * maxLocks * int64(len(m.addresses))
}

// maxLocks is the maximum number of locks of a function that get paths of their own.
const maxLocks = 256

func newDurations(e *explainer) *durations {
	return &durations{
		met: newMet(&e.opts), offCPU: e.facts(),
		places: newPlaces(&plan{root: e.opts.Root}), span: e.span(), lost: e.lossPoints,
		roots: make(map[reader.FuncID]bool), lengths: make(map[reader.FuncID]*lengths),
	}
}

// durationsOf returns the durations of a function as a pass over its paths would find them, except the lengths of calls
// without callees.
func durationsOf(e *explainer, r *RootFinder, fn reader.FuncID) *durations {
	d, s := newDurations(e), r.funcs[fn]
	d.met, d.roots[fn], d.truncated, d.inferred = r.met, true, s.truncated, s.inferred
	d.sample.Merge(&s.Sample)
	if d.offCPU {
		d.own.Merge(s.own())
	}
	return d
}

func (d *durations) Calls(b *calls.Batch) error {
	d.find(b.Paths)
	d.depths = grow(d.depths, b.Index+1)
	waits := b.Waits
	all := span{from: math.MaxUint64}
	for i := range b.Calls {
		c := &b.Calls[i]
		// Calls come in the order in which they end: a call with callees comes after a
		// deeper one.
		leaf := d.depths[b.Index] <= c.Depth
		d.depths[b.Index] = c.Depth
		all.from, all.to = min(all.from, c.Start), max(all.to, c.Start+c.Duration)
		var off calls.Off
		off, waits = waited(waits, i)
		switch d.places.list[c.Path].kind {
		case outside:
			if d.outside.add(c.Func) {
				d.meet(c.Func)
			}
		case below:
			if leaf {
				d.leaves.Add(c.Duration)
				d.sizes(b.Paths, c)[bits.Len64(c.Duration-foreign(off))]++
			}
		case top:
			if d.span.has(c.Start) {
				d.root(c, b.Index, foreign(off))
			}
		}
	}
	d.cover(b.Thread.File, all)
	d.log(b)
	return nil
}

// log takes the logged addresses of functions that wait.
func (m *met) log(b *calls.Batch) {
	for _, a := range b.Args {
		if fn := b.Calls[a.Call].Func; m.role(fn).kind() != Slower {
			seen := m.addresses[fn]
			if seen == nil {
				seen = make(map[uint64]bool)
				m.addresses[fn] = seen
			}
			if len(seen) <= maxLocks {
				seen[a.Value] = true
			}
		}
	}
}

// cover extends the time of a file.
func (m *met) cover(file int32, s span) {
	if s.from > s.to {
		return
	}
	if old, ok := m.files[file]; ok {
		s = span{min(s.from, old.from), max(s.to, old.to)}
	}
	m.files[file] = s
}

// covered returns the periods for which the trace has calls, sorted. There are gaps between traces
// of slow calls, and between windows.
func (m *met) covered(windows func(file int) []reader.RecordedWindow) []span {
	var list []span
	for file, all := range m.files {
		var of []reader.RecordedWindow
		if windows != nil {
			of = windows(int(file))
		}
		if len(of) == 0 {
			of = []reader.RecordedWindow{{}}
		}
		for _, w := range of {
			s := span{max(all.from, w.From), all.to}
			if w.To != 0 {
				s.to = min(s.to, w.To)
			}
			if s.from < s.to {
				list = append(list, s)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return joined(list)
}

// find examines new paths.
func (d *durations) find(paths *calls.Paths) {
	d.places.find(paths)
	for id := len(d.pathSizes); id < paths.Len(); id++ {
		d.pathSizes = append(d.pathSizes, d.sizesOf(paths.Func(calls.PathID(id))))
	}
}

// sizes returns the lengths of a call's function.
func (d *durations) sizes(paths *calls.Paths, c *calls.Call) *lengths {
	if paths.Func(c.Path) == reader.Folded {
		return d.sizesOf(c.Func)
	}
	return d.pathSizes[c.Path]
}

// sizesOf returns the lengths of a function, which may be new.
func (d *durations) sizesOf(fn reader.FuncID) *lengths {
	l := d.lengths[fn]
	if l == nil {
		l = new(lengths)
		d.lengths[fn] = l
		d.meet(fn)
	}
	return l
}

// meet takes a function that was not called before. The functions of folded paths are unknown.
func (m *met) meet(fn reader.FuncID) {
	m.unlocks = m.unlocks || m.role(fn) == Unlocks
	if m.loop == nil {
		return
	}
	part := Polls // the functions of folded paths are unknown
	if fn != reader.Folded {
		part = m.loop(fn)
	}
	m.loops, m.polls = m.loops || part != NoLoop, m.polls || part == Polls
}

// root adds an outermost call of the root.
func (d *durations) root(c *calls.Call, thread int, foreign uint64) {
	d.roots[c.Func] = true
	switch {
	case c.Partial():
		d.truncated++
		return
	case d.lost.within(thread, c):
		d.partial++
		return
	case c.End == calls.Inferred:
		d.inferred++
	}
	d.sample.Add(c.Duration)
	if d.offCPU {
		d.own.Add(c.Duration - foreign)
	}
}

// waited returns the off-CPU time of a call, by its index in the batch, and the
// waits of the calls after it.
func waited(waits []calls.Wait, call int) (calls.Off, []calls.Wait) {
	if len(waits) == 0 || waits[0].Call != call {
		return calls.Off{}, waits
	}
	return waits[0].Total, waits[1:]
}

func (d *durations) Merge(other *durations) {
	d.sample.Merge(&other.sample)
	d.own.Merge(&other.own)
	d.leaves.Merge(&other.leaves)
	d.truncated += other.truncated
	d.inferred += other.inferred
	d.partial += other.partial
	d.met.merge(&other.met)
	for fn := range other.roots {
		d.roots[fn] = true
	}
	for fn, l := range other.lengths {
		if d.lengths[fn] == nil {
			d.lengths[fn] = l
			continue
		}
		for i, n := range l {
			d.lengths[fn][i] += n
		}
	}
}

func (m *met) merge(other *met) {
	for file, s := range other.files {
		m.cover(file, s)
	}
	m.unlocks = m.unlocks || other.unlocks
	m.loops, m.polls = m.loops || other.loops, m.polls || other.polls
	for fn, seen := range other.addresses {
		if m.addresses[fn] == nil {
			m.addresses[fn] = seen
			continue
		}
		for a := range seen {
			m.addresses[fn][a] = true
		}
	}
}

// RecordedThreshold returns the longest duration in nanoseconds below which the recorder dropped calls, or 0. known is
// set if all files of the trace say whether it did, for their whole time.
func RecordedThreshold(t *reader.Trace) (ns uint64, known bool) {
	known = true
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil {
			known = false
			continue
		}
		ns = max(ns, r.Process.ThresholdNS)
		for _, c := range r.Changes {
			known = known && !strings.Contains(c.What, "threshold") // it held for only a part of the time
		}
	}
	return ns, known
}

// pruned returns the duration below which the recorder dropped calls, or 0 if it dropped
// none. The duration comes from the recording, or is estimated: thresholds are whole
// microseconds, and the shortest call is hardly longer than the threshold. 1 us is no
// evidence, because some recorders need that time for a call. Neither is more than 5 us, the
// most common threshold, because longer durations are always close to an integer.
func (d *durations) pruned(e *explainer) uint64 {
	if e.opts.PrunedKnown || e.opts.Pruned > 0 || d.leaves.Count() == 0 {
		return e.opts.Pruned
	}
	shortest := d.leaves.Min()
	bound := shortest - shortest%e.microsecond()
	if us := bound / e.microsecond(); us >= 2 && us <= 5 && 20*(shortest-bound) <= bound {
		return bound
	}
	return 0
}

// shortest returns a duration that hardly any call falls below. It returns 0 if that is too
// short to suggest that short calls were dropped.
func (d *durations) shortest(e *explainer) uint64 {
	if p := d.pruned(e); p > 0 || e.opts.PrunedKnown || d.leaves.Count() == 0 {
		return p
	}
	if shortest := d.leaves.Quantile(0.005); shortest >= e.microsecond() {
		return shortest
	}
	return 0
}

// charged returns the functions whose calls are mostly so short that the recorder dropped
// them. Their number is unknown, so the calls that it kept count as their callers' time.
// Functions that the recorder kept completely are not included: none of their calls is
// shorter than the threshold.
func (d *durations) charged(pruned uint64) map[reader.FuncID]bool {
	list := make(map[reader.FuncID]bool)
	if pruned == 0 {
		return list
	}
	for fn, l := range d.lengths {
		var all, short uint64
		for length, n := range l {
			all += n
			if length < bits.Len64(2*pruned) {
				short += n
			}
		}
		if all > 0 && 10*short >= all {
			list[fn] = true
		}
	}
	return list
}

// locks returns the lock functions with addresses. The value says whether each lock gets
// its own paths, unless there are too many.
func (d *durations) locks() map[reader.FuncID]bool {
	l := make(map[reader.FuncID]bool)
	for fn, seen := range d.addresses {
		l[fn] = len(seen) <= maxLocks
	}
	return l
}
