package recorder

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// inspector follows the recorded calls of a thread, to learn how long they take.
type inspector struct {
	clock chunkClock
	open  []openCall
}

// openCall is a recorded call that has not ended.
type openCall struct {
	function uint32
	start    uint64 // TSC
}

// maxInspected limits the open calls that are followed. The runtime records no more.
const maxInspected = 4096

// records calls entry and exit with the function records of a chunk between two places.
func (n *inspector) records(data []byte, from, to int, entry func(function uint32), exit func(function uint32, ticks uint64)) {
	for at := chunkHeader; at+8 <= min(to, len(data)); {
		word, now, size := n.clock.next(data[at:], false)
		if size == 0 {
			return
		}
		if at += size; at > from && word != 0 {
			n.record(word, now, entry, exit)
		}
	}
}

// follow is like records for the rest of a chunk of which it has seen what is before. With part, the
// thread may be writing.
func (n *inspector) follow(data []byte, at int, part bool, exit func(function uint32, ticks uint64)) {
	for at+8 <= len(data) {
		word, now, size := n.clock.next(data[at:], part)
		if size == 0 {
			return
		}
		if at += size; word != 0 {
			n.record(word, now, func(uint32) {}, exit)
		}
	}
}

func (n *inspector) record(word uint32, now uint64, entry func(function uint32), exit func(function uint32, ticks uint64)) {
	id := word >> 4
	switch kind := reader.Kind(word >> 1 & 7); {
	case kind.IsEnter():
		entry(id)
		if len(n.open) < maxInspected {
			n.open = append(n.open, openCall{id, now})
		}
	case kind.IsExit():
		i := len(n.open) - 1
		for i >= 0 && n.open[i].function != id {
			i--
		}
		if i < 0 {
			return
		}
		exit(id, max(now, n.open[i].start)-n.open[i].start)
		n.open = n.open[:i]
	}
}

// written takes over what was written of a chunk of a slot.
func (b *budget) written(s *observedSlot, p *observedProcess, from, to int, data []byte) {
	if s.inspector == nil {
		s.inspector = new(inspector)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	lasted := b.lasted
	if !b.streams {
		lasted = func(uint32, uint64) {} // the memory has them
	}
	s.inspector.records(data, from, to, func(id uint32) {
		p.recorded = upTo(p.recorded, uint64(id))
		p.recorded[id]++
	}, lasted)
}

// lasted takes over the duration of a call.
func (b *budget) lasted(id uint32, ticks uint64) {
	if id >= maxLimits {
		return
	}
	b.functions = upTo(b.functions, uint64(id))
	f := &b.functions[id]
	if f.calls > maxRemembered {
		f.calls, f.squares = f.calls/2, f.squares/2
	}
	t := float64(ticks)
	if f.off {
		f.burst.calls++
		f.burst.sum += t
		f.burst.squares += t * t
	}
	f.calls++
	f.squares += t * t
}

// leastBurst is the least number of calls that a mean is made of.
const leastBurst = 16

// maxRemembered is the weight of the calls of a function at which older ones begin to count less.
const maxRemembered = 1 << 14

// report puts into the metadata of a process what was not recorded. counts are the calls of its functions
// that were counted.
func (b *budget) report(r *reader.Recording, p *observedProcess, counts map[reader.FuncID]uint64, pruned map[reader.FuncID]*reader.PrunedFunction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Budget = reader.Budget{Share: uint64(math.Round(b.share * 1e6)), From: p.since, To: rdtsc()}
	var estimates []budgetEstimate
	if e := b.estimates[p.index]; e != nil && e.since == p.since {
		b.finishEstimates(e, float64(r.Process.CPUNS))
		estimates = e.estimates
	}
	for id := range estimates {
		if estimates[id].ns > 0 {
			counts[reader.FuncID(id)] += 0
		}
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		row := reader.BudgetFunction{Func: id, Counted: counts[id]}
		if int(id) < len(p.recorded) {
			row.Counted -= min(row.Counted, p.recorded[id])
		}
		if of := pruned[id]; of != nil {
			row.Counted -= min(row.Counted, of.Calls)
		}
		if int(id) < len(estimates) {
			b.estimate(&row, estimates[id])
		}
		if row.Counted+row.Estimated > 0 || row.OffNS > 0 {
			r.Budget.Functions = append(r.Budget.Functions, row)
		}
	}
	r.Budget.Changes = slices.Clone(b.changes)
	if e := b.estimates[p.index]; e != nil && e.since == p.since {
		r.Budget.Changes = append(r.Budget.Changes, e.cuts...)
		sortChanges(r.Budget.Changes)
	}
}

// sortChanges sorts changes by time. Those of the same time stay in order.
func sortChanges(list []reader.BudgetChange) {
	slices.SortStableFunc(list, func(x, y reader.BudgetChange) int { return cmp.Compare(x.TSC, y.TSC) })
}

// finishEstimates adds what is between the latest round and the end of a process.
func (b *budget) finishEstimates(p *budgetProcess, cpu float64) {
	if rest := cpu - p.cpu - p.looks; rest > 0 {
		p.cpu, p.looks = cpu, 0
		b.extrapolate(p, &countedCalls{}, rest)
	}
	for id := range p.estimates {
		p.settle(id)
	}
}

// estimate puts what is known of a function's calls while it was off into its row.
func (b *budget) estimate(row *reader.BudgetFunction, e budgetEstimate) {
	f := &b.functions[row.Func]
	row.Estimated, row.OffNS = uint64(math.Round(e.calls)), uint64(e.ns)
	row.Error = row.Estimated // nobody has looked often enough
	if f.looks.n >= 2 && f.looks.y > 0 {
		// Looks that say something else than the estimate show that the function is called in phases,
		// between which there were too few looks.
		other := e.ns * f.looks.x / f.looks.y
		row.Error = uint64(math.Ceil(max(e.ns*f.looks.standardError(), math.Abs(e.calls-other)/2)))
	}
	row.Rate = uint64(math.Round(f.rate * 1e9))
	if n := f.burst.calls; n >= leastBurst {
		mean := f.burst.sum / n
		row.Mean = uint64(math.Round(mean))
		row.MeanError = uint64(math.Ceil(math.Sqrt(max(0, f.burst.squares/n-mean*mean) / n)))
	}
}
