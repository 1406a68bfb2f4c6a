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
// thread may be writing. It returns how far it has seen the chunk.
func (n *inspector) follow(data []byte, at int, part bool, exit func(function uint32, ticks uint64)) int {
	for at+8 <= len(data) {
		word, now, size := n.clock.next(data[at:], part)
		if size == 0 {
			break
		}
		if at += size; word != 0 {
			n.record(word, now, func(uint32) {}, exit)
		}
	}
	return at
}

// followedThread is the thread of a slot of an arena, and how far its records were inspected.
type followedThread struct {
	owner     uint32
	number    uint64 // of the chunk
	at        int    // in the chunk
	inspector inspector
}

// follow takes over the durations of calls that end in a chunk of a thread. With part, the thread may be
// writing to it.
func (b *budget) follow(slot, owner uint32, number uint64, data []byte, part bool) {
	b.threads = upTo(b.threads, uint64(slot))
	t := &b.threads[slot]
	if t.owner != owner {
		*t = followedThread{owner: owner}
	}
	switch {
	case number < t.number:
		return
	case number > t.number+1:
		t.inspector = inspector{} // records are missing
	}
	if number > t.number {
		t.number, t.at = number, chunkHeader
	}
	t.at = t.inspector.follow(data, t.at, part, b.lasted)
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

// written takes over what was written of a chunk of a slot, up to a place.
func (b *budget) written(slot uint32, s *observedSlot, p *observedProcess, c *chunkPlace, to int, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	new(inspector).records(data, c.from, to, func(id uint32) {
		p.recorded = upTo(p.recorded, uint64(id))
		p.recorded[id]++
	}, func(uint32, uint64) {})
	if b.streams { // else the memory has the durations
		b.follow(slot, s.owner, c.number, data[:min(to, len(data))], c.part)
	}
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

// processCalls are the calls of a process, up to its end or to now.
type processCalls struct {
	index    uint32 // of the process
	since    uint64
	cpu      float64 // ns
	counted  map[reader.FuncID]uint64
	recorded []uint64 // of them, those in the trace, by ID
	pruned   map[reader.FuncID]*reader.PrunedFunction
	cut      bool    // it ended after the calls were last counted,
	unseen   float64 // with so many ns of CPU time in between
}

// report returns what was not recorded of a process.
func (b *budget) report(c *processCalls) reader.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	report := reader.Budget{Share: b.millionths(), From: c.since, To: rdtsc(), Changes: slices.Clone(b.changes)}
	var estimates []budgetEstimate
	if e := b.estimates[c.index]; e != nil && e.since == c.since {
		b.finishEstimates(e, c.cpu)
		estimates = e.estimates
		report.Changes = append(report.Changes, e.cuts...)
		sortChanges(report.Changes)
	}
	for id := range estimates {
		if estimates[id].ns > 0 {
			c.counted[reader.FuncID(id)] += 0
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.counted)) {
		row, kept := reader.BudgetFunction{Func: id}, uint64(0)
		if int(id) < len(c.recorded) {
			kept = c.recorded[id]
		}
		if of := c.pruned[id]; of != nil {
			kept += of.Calls
		}
		row.Counted = c.counted[id] - min(c.counted[id], kept)
		if int(id) < len(estimates) {
			b.estimate(&row, estimates[id])
		}
		b.guess(&row, c, kept)
		if row.Counted+row.Estimated+row.Error > 0 || row.OffNS > 0 {
			report.Functions = append(report.Functions, row)
		}
	}
	return report
}

// guess adds the calls of a function after the calls were last counted, of which the trace may have
// some. Nobody knows how many there were.
func (b *budget) guess(row *reader.BudgetFunction, c *processCalls, kept uint64) {
	if !c.cut || int(row.Func) >= len(b.functions) {
		return
	}
	n := max(1, uint64(math.Ceil(b.functions[row.Func].rate*c.unseen)))
	row.Error += n
	if !b.functions[row.Func].off { // else it is estimated already
		later := kept - min(kept, c.counted[row.Func])
		row.Estimated += n - min(n, later)
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
