package why

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// pick is a call of a function whose values were recorded: the longest one in an invocation of the root.
type pick struct {
	fn          reader.FuncID
	ticks, self uint64 // without foreign time
	values      []calls.Recorded
}

// control is a usual invocation that is compared with slow ones of the same stretch of time.
type control struct {
	hash  uint64
	start uint64
	picks []pick
}

// sampled is a call of a function whose values were recorded, drawn from all calls below the root.
type sampled struct {
	hash uint64
	pick
}

// valued is what the pass over paths keeps of recorded values. All of it is bounded, and depends on neither
// shards nor order: samples have the items with the smallest hashes.
type valued struct {
	controls []struct { // by stretch of time
		usual uint64 // usual invocations
		kept  []control
	}
	samples map[reader.FuncID]*[]sampled // a heap with the largest hash first
	held    int64
}

const (
	// Slow calls are compared with usual ones of the same stretch of time. So an argument that only grows with the
	// load, and with it all calls, is no reason. A stretch is at least as long as some slow calls, if the trace has
	// enough of these.
	maxStretches, minStretches = 2048, 32
	slowPerStretch             = 8
	// controlsKept is the maximum number of usual invocations that are kept, and samplesKept that of calls of a function.
	controlsKept = 8192
	samplesKept  = 2048
)

// divide sets the stretches of a trace between two TSCs.
func (p *plan) divide(first, last uint64) {
	span := max(last, first) - first
	n := min(max(span/max(1, slowPerStretch*p.slow), minStretches), maxStretches)
	p.first, p.width, p.stretches = first, span/n+1, int(n)
}

// stretch returns the number of the stretch of a time.
func (p *plan) stretch(tsc uint64) int {
	return int(min((max(tsc, p.first)-p.first)/p.width, uint64(p.stretches-1)))
}

// pick keeps the values of call i of a batch.
func (c *cohorts) pick(t *opened, b *calls.Batch, i int, kind placeKind) {
	call := &b.Calls[i]
	if kind == top {
		t.gather(call.Depth + 1)
	} else {
		t.gather(call.Depth)
	}
	p := pick{fn: call.Func, ticks: call.Duration, self: call.Self}
	if w := waitOf(b.Waits, i); w != nil {
		p.ticks -= min(p.ticks, foreign(w.Total))
		p.self -= min(p.self, foreign(w.Self))
	}
	at := slices.IndexFunc(t.picks, func(o pick) bool { return o.fn == p.fn })
	longest := at < 0 || t.picks[at].ticks < p.ticks
	hash := mix(mix(call.Start) ^ uint64(uint32(b.Thread.Thread))<<32 ^ uint64(call.Depth))
	sample := c.valued.samples[p.fn]
	draw := !call.Partial() && (sample == nil || len(*sample) < samplesKept || hash < (*sample)[0].hash)
	// Most invocations are neither slow nor drawn. Nobody asks what these were called with.
	if kind == top && t.nest == nil && !c.wants(t, call, p.ticks) {
		longest = false
	}
	if !longest && !draw {
		return
	}
	c.scratch = c.plan.values.Of(b, i, c.scratch[:0])
	switch last := len(t.spare) - 1; {
	case longest && at >= 0 && t.nest == nil:
		p.values = t.picks[at].values[:0]
	case last >= 0:
		p.values, t.spare = t.spare[last][:0], t.spare[:last]
	}
	for k := range c.scratch {
		p.values = append(p.values, c.scratch[k].Keep(maxText))
	}
	if draw {
		if sample == nil {
			sample = new([]sampled)
			c.valued.samples[p.fn] = sample
		}
		mine := p
		mine.values = slices.Clone(p.values)
		c.valued.held += drawn(sample, sampled{hash, mine})
	}
	if longest {
		t.picks = longer(t.picks, p)
	}
}

// wants reports whether the invocation that ends with a call may be kept. Own is its duration without foreign time.
func (c *cohorts) wants(t *opened, call *calls.Call, own uint64) bool {
	switch {
	case c.plan.isSlow(call.Duration, own):
		return true
	case !c.plan.isUsual(own):
		return false
	}
	s := &c.valued.controls[c.plan.stretch(call.Start)]
	v := rootCall{id: t.id, start: call.Start}
	most := controlsKept / c.plan.stretches
	return len(s.kept) < most || v.hash() < s.kept[most-1].hash
}

// clonePicks returns a copy whose values are not used again.
func clonePicks(picks []pick) []pick {
	picks = slices.Clone(picks)
	for i := range picks {
		picks[i].values = slices.Clone(picks[i].values)
	}
	return picks
}

// waitOf returns the wait of a call, or nil.
func waitOf(waits []calls.Wait, i int) *calls.Wait {
	if k, ok := slices.BinarySearchFunc(waits, i, func(w calls.Wait, i int) int { return cmp.Compare(w.Call, i) }); ok {
		return &waits[k]
	}
	return nil
}

// drawn adds a call to a sample, and returns by how many bytes it grew.
func drawn(sample *[]sampled, s sampled) int64 {
	h := *sample
	size := s.size()
	if len(h) < samplesKept {
		h = append(h, s)
		for i := len(h) - 1; i > 0 && h[(i-1)/2].hash < h[i].hash; i = (i - 1) / 2 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		}
		*sample = h
		return size
	}
	if s.hash >= h[0].hash {
		return 0
	}
	size -= h[0].size()
	h[0] = s
	for i := 0; ; {
		largest := i
		for _, k := range [...]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h[k].hash > h[largest].hash {
				largest = k
			}
		}
		if largest == i {
			return size
		}
		h[i], h[largest] = h[largest], h[i]
		i = largest
	}
}

// size returns the bytes of a pick, with strings of maximum length.
func (p *pick) size() int64 {
	return int64(unsafe.Sizeof(sampled{})) + int64(len(p.values))*(int64(unsafe.Sizeof(calls.Recorded{}))+maxText)
}

// longer adds calls to those of an invocation, of which it keeps the longest of each function. An invocation
// has values for at most maxArguments expressions.
func longer(mine []pick, others ...pick) []pick {
	have := 0
	for i := range mine {
		have += len(mine[i].values)
	}
	for _, o := range others {
		if at := slices.IndexFunc(mine, func(p pick) bool { return p.fn == o.fn }); at >= 0 {
			if mine[at].ticks < o.ticks {
				mine[at] = o
			}
		} else if have += len(o.values); have <= maxArguments {
			mine = append(mine, o)
		}
	}
	return mine
}

// control keeps a usual invocation if it is drawn.
func (c *cohorts) control(v *rootCall) {
	if c.valued == nil {
		return
	}
	s := &c.valued.controls[c.plan.stretch(v.start)]
	s.usual++
	hash, most := v.hash(), controlsKept/c.plan.stretches
	if len(s.kept) == most && hash >= s.kept[most-1].hash {
		return
	}
	s.kept = add(s.kept, most, control{hash, v.start, clonePicks(v.picks)})
	for i := range v.picks {
		c.valued.held += v.picks[i].size() // too much if it replaces another one
	}
}

// add adds a control to those with the smallest hashes, in order.
func add(kept []control, most int, c control) []control {
	at, _ := slices.BinarySearchFunc(kept, c, func(a, b control) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.start, b.start))
	})
	kept = slices.Insert(kept, at, c)
	return kept[:min(len(kept), most)]
}

// merge adds what other has.
func (v *valued) merge(other *valued) {
	if v == nil {
		return
	}
	for i := range other.controls {
		to, from := &v.controls[i], &other.controls[i]
		to.usual += from.usual
		for _, c := range from.kept {
			to.kept = add(to.kept, controlsKept/len(v.controls), c)
		}
	}
	for fn, s := range other.samples {
		if v.samples[fn] == nil {
			v.samples[fn] = s
			continue
		}
		for _, o := range *s {
			drawn(v.samples[fn], o)
		}
	}
	v.held += other.held
}

func newValued(p *plan) *valued {
	if p.values == nil {
		return nil
	}
	v := &valued{samples: make(map[reader.FuncID]*[]sampled)}
	v.controls = slices.Grow(v.controls, p.stretches)[:p.stretches]
	return v
}

// numberOf returns the quantity that a candidate is of a value.
func numberOf(r *calls.Recorded, length bool) (float64, bool) {
	if length {
		n, ok := r.Length()
		return float64(n), ok
	}
	return r.Number()
}

// ranks returns the ranks of numbers, from 0. Equal numbers have the mean of theirs.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	r := make([]float64, len(x))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && x[order[to]] == x[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			r[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return r
}

// rankCorrelation returns Spearman's rank correlation, and the probability of at least that by chance.
func rankCorrelation(x, y []float64) (r, p float64) {
	if len(x) < 10 {
		return 0, 1
	}
	r, _ = correlation(ranks(x), ranks(y))
	z := math.Atanh(min(r, 1-1e-12)) * math.Sqrt(float64(len(x)-3)/1.06)
	return r, math.Erfc(z/math.Sqrt2) / 2
}
