package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// span bounds when calls of the root begin, in ticks: from <= start < to; to 0 is
// no bound.
type span struct{ from, to uint64 }

func (s span) has(tsc uint64) bool { return tsc >= s.from && (s.to == 0 || tsc < s.to) }

// rootFinder collects the durations of all functions' outermost calls.
type rootFinder struct {
	span  span
	funcs map[reader.FuncID]*quantile.Sample
}

func (r *rootFinder) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Nested || c.End == calls.Truncated || !r.span.has(c.Start) {
			continue
		}
		s := r.funcs[c.Func]
		if s == nil {
			s = new(quantile.Sample)
			r.funcs[c.Func] = s
		}
		s.Add(c.Duration)
	}
	return nil
}

func (r *rootFinder) Merge(other *rootFinder) {
	for fn, s := range other.funcs {
		if mine := r.funcs[fn]; mine != nil {
			mine.Merge(s)
		} else {
			r.funcs[fn] = s
		}
	}
}

// minRootCalls keeps main loops and what is called only now and then from being
// taken for a root: they have no tail.
const minRootCalls = 200

// propose orders the functions that may be roots by what their slow calls took
// beyond the median. What is nearly as much as the most comes first if it takes
// more time in all: the function around it.
func (r *rootFinder) propose() []Candidate {
	var list []Candidate
	most := 0.0
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
		most = max(most, c.Lost)
		list = append(list, c)
	}
	rank := func(c Candidate) float64 {
		if c.Lost >= 0.8*most {
			return c.Total
		}
		return 0
	}
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Func, b.Func))
	})
	return list
}

// durations collects the durations of the calls of the root, and what else has to
// be known before paths are.
type durations struct {
	folder *folder
	span   span
	isLock func(reader.FuncID) bool

	sample    quantile.Sample
	roots     map[reader.FuncID]bool
	leaves    quantile.Sample // durations of calls below the root that made none
	depths    []uint32        // by thread, of the call that ended last
	truncated uint64
	inferred  uint64
	first     uint64 // TSC
	last      uint64
	// addresses are those that lock functions logged, up to maxLocks each.
	addresses map[reader.FuncID]map[uint64]bool
}

// maxLocks is how many locks a function may have for each to have paths of its own.
const maxLocks = 256

func newDurations(root, isLock func(reader.FuncID) bool, s span) *durations {
	return &durations{folder: newFolder(root, 0, nil), span: s, isLock: isLock, first: ^uint64(0),
		roots: make(map[reader.FuncID]bool), addresses: make(map[reader.FuncID]map[uint64]bool)}
}

func (d *durations) Calls(b *calls.Batch) error {
	d.depths = grow(d.depths, b.Index+1)
	for i := range b.Calls {
		c := &b.Calls[i]
		// Calls come as they end: what made calls comes after a deeper one.
		leaf := d.depths[b.Index] <= c.Depth
		d.depths[b.Index] = c.Depth
		d.first, d.last = min(d.first, c.Start), max(d.last, c.Start+c.Duration)
		kind := d.folder.of(b.Paths, c.Path).kind
		if kind == below && leaf {
			d.leaves.Add(c.Duration)
		}
		if kind != top || !d.span.has(c.Start) {
			continue
		}
		d.roots[c.Func] = true
		switch c.End {
		case calls.Truncated:
			d.truncated++
			continue
		case calls.Inferred:
			d.inferred++
		}
		d.sample.Add(c.Duration)
	}
	for _, a := range b.Args {
		if fn := b.Calls[a.Call].Func; d.isLock(fn) {
			seen := d.addresses[fn]
			if seen == nil {
				seen = make(map[uint64]bool)
				d.addresses[fn] = seen
			}
			if len(seen) <= maxLocks {
				seen[a.Value] = true
			}
		}
	}
	return nil
}

func (d *durations) Merge(other *durations) {
	d.sample.Merge(&other.sample)
	d.leaves.Merge(&other.leaves)
	d.truncated += other.truncated
	d.inferred += other.inferred
	d.first, d.last = min(d.first, other.first), max(d.last, other.last)
	for fn := range other.roots {
		d.roots[fn] = true
	}
	for fn, seen := range other.addresses {
		if d.addresses[fn] == nil {
			d.addresses[fn] = seen
			continue
		}
		for a := range seen {
			d.addresses[fn][a] = true
		}
	}
}

// pruned is the length below which there are hardly any calls, when it is so long
// that the recorder seems to have left out shorter ones; 0 when not.
func (d *durations) pruned(microsecond uint64) uint64 {
	if d.leaves.Count() == 0 {
		return 0
	}
	if shortest := d.leaves.Quantile(0.005); shortest >= microsecond {
		return shortest
	}
	return 0
}

// locks are the lock functions with addresses; the value says whether each lock is
// to have its own paths, which too many would make too long.
func (d *durations) locks() map[reader.FuncID]bool {
	l := make(map[reader.FuncID]bool)
	for fn, seen := range d.addresses {
		l[fn] = len(seen) <= maxLocks
	}
	return l
}
