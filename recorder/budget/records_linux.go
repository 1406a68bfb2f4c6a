package budget

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// Inspector follows the recorded calls of a thread, to learn how long they take.
type Inspector struct {
	clock ring.ChunkClock
	open  []openCall
	spent float64 // to find out how long the thread was off CPU, since the budget took it, ns
}

// openCall is a recorded call that has not ended.
type openCall struct {
	function uint32
	Start    uint64 // TSC
}

// maxInspected limits the open calls that are followed. The runtime records no more.
const maxInspected = 4096

// records calls entry and exit with the function records of a chunk between two offsets.
func (n *Inspector) records(data []byte, from, to int, entry func(function uint32), exit func(function uint32, ticks uint64)) {
	for at := ring.ChunkHeader; at+8 <= min(to, len(data)); {
		word, now, size := n.clock.Next(data[at:], false)
		if size == 0 {
			return
		}
		if at += size; at > from {
			n.record(data[at-size:at], word, now, entry, exit)
		}
	}
}

// follow continues to read a chunk at an offset, and calls exit with the calls that end there. With
// part, the thread may still be writing the chunk. follow returns the offset that it has reached.
func (n *Inspector) follow(data []byte, at int, part bool, exit func(function uint32, ticks uint64)) int {
	for at+8 <= len(data) {
		word, now, size := n.clock.Next(data[at:], part)
		if size == 0 {
			break
		}
		n.record(data[at:at+size], word, now, func(uint32) {}, exit)
		at += size
	}
	return at
}

// switchCost returns about how much CPU time the thread spent on a switch event, in ns, or 0 for another
// record. The runtime reads the run-queue time once for each askAt ns of waits.
func switchCost(record []byte) float64 {
	const noticing, asking, askAt = 2200.0, 18000.0, 20e6
	if record[0]>>1 != ring.RecordCustom {
		return 0
	}
	s, ok := reader.ParseSwitch(record[16 : len(record)-8])
	switch {
	case !ok:
		return 0
	case s.Voluntary == 0:
		return noticing
	}
	return noticing + asking*min(1, float64(s.OffNS)/askAt)
}

// takeSpent adds to the cost of noticing switches what an inspector has found since the last time.
func (b *Controller) takeSpent(n *Inspector) {
	b.spent += n.spent
	n.spent = 0
}

// followedThread is the thread in a slot of an arena, and how far its records were inspected.
type followedThread struct {
	owner     uint32
	number    uint64 // of the chunk
	at        int    // offset in the chunk
	inspector Inspector
}

// follow adds the durations of calls that end in a chunk of a thread. With part, the thread may still
// be writing the chunk.
func (b *Controller) follow(slot, owner uint32, number uint64, data []byte, part bool) {
	b.threads = upTo(b.threads, uint64(slot))
	t := &b.threads[slot]
	if t.owner != owner {
		*t = followedThread{owner: owner}
	}
	switch {
	case number < t.number:
		return
	case number > t.number+1:
		t.inspector = Inspector{} // records are missing
	}
	if number > t.number {
		t.number, t.at = number, ring.ChunkHeader
	}
	t.at = t.inspector.follow(data, t.at, part, b.lasted)
	b.takeSpent(&t.inspector)
}

// record evaluates a record, with its word and time from ring.ChunkClock.next.
func (n *Inspector) record(data []byte, word uint32, now uint64, entry func(function uint32), exit func(function uint32, ticks uint64)) {
	if word == 0 {
		n.spent += switchCost(data)
		return
	}
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
		exit(id, max(now, n.open[i].Start)-n.open[i].Start)
		n.open = n.open[:i]
	}
}

// CountWritten evaluates the records of a chunk that were written to the trace, up to an offset. owner is the
// thread in the slot. written returns recorded, the calls of the process by ID, with those of the chunk.
func (b *Controller) CountWritten(slot, owner uint32, recorded []uint64, c *ring.ChunkPlace, to int, data []byte) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	new(Inspector).records(data, c.From, to, func(id uint32) {
		recorded = upTo(recorded, uint64(id))
		recorded[id]++
	}, func(uint32, uint64) {})
	if b.streams { // otherwise inspect has read the durations
		b.follow(slot, owner, c.Number, data[:min(to, len(data))], c.Part)
	}
	return recorded
}

// lasted adds the duration of a call.
func (b *Controller) lasted(id uint32, ticks uint64) {
	if id >= ring.MaxLimits {
		return
	}
	b.functions = upTo(b.functions, uint64(id))
	f := &b.functions[id]
	if f.calls > maxRemembered {
		f.calls, f.squares = f.calls/2, f.squares/2
	}
	t := float64(ticks)
	if f.off {
		f.sampled.calls++
		f.sampled.sum += t
		f.sampled.squares += t * t
	}
	f.calls++
	f.squares += t * t
}

// leastSampled is the smallest number of calls that a mean is computed from.
const leastSampled = 16

// maxRemembered is the total weight of a function's calls at which the weights of older calls are halved.
const maxRemembered = 1 << 14

// Calls are the calls of a process until its end, or so far.
type Calls struct {
	Index     uint32 // of the process
	Since     uint64
	CPU       float64 // ns
	Counted   map[reader.FuncID]uint64
	Recorded  []uint64 // calls in the trace, by ID
	Pruned    map[reader.FuncID]*reader.PrunedFunction
	cut       bool    // it ended some time after its calls were last counted
	uncounted float64 // CPU time after its calls were last counted, ns, if cut
}

// Add counts a call that is in the trace.
func (c *Calls) Add(id reader.FuncID) {
	if id > 0 && id < ring.MaxLimits {
		c.Recorded = upTo(c.Recorded, uint64(id))
		c.Recorded[id]++
	}
}

// Report returns which calls of a process were not recorded.
func (b *Controller) Report(c *Calls) reader.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	report := reader.Budget{Share: b.Millionths(), From: c.Since, To: ring.ReadTSC(), Changes: slices.Clone(b.changes)}
	p := b.estimates[c.Index]
	if p == nil || p.since != c.Since {
		p = new(processState)
	}
	p.finish(c.CPU)
	report.Changes = append(report.Changes, p.cuts...)
	sortChanges(report.Changes)
	for id := range p.estimates {
		if p.offTime(id) > 0 {
			c.Counted[reader.FuncID(id)] += 0
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Counted)) {
		row, kept := reader.BudgetFunction{Func: id}, uint64(0)
		if int(id) < len(c.Recorded) {
			kept = c.Recorded[id]
		}
		if of := c.Pruned[id]; of != nil {
			kept += of.Calls
		}
		row.Counted = c.Counted[id] - min(c.Counted[id], kept)
		if int(id) < len(p.estimates) {
			e, others := &p.estimates[id], 0.0
			if f := &b.functions[id]; f.samples.n > 0 {
				others = fewSamples * f.samples.y / f.samples.n
			}
			b.estimate(&row, e.samples, others, p.offTime(int(id)), e.seen)
		}
		b.guess(&row, c, kept)
		if row.Counted+row.Estimated+row.Error > 0 || row.OffNS > 0 {
			report.Functions = append(report.Functions, row)
		}
	}
	return report
}

// guess estimates the calls of a function after the calls were last counted. The trace may have some
// of them.
func (b *Controller) guess(row *reader.BudgetFunction, c *Calls, kept uint64) {
	if !c.cut || int(row.Func) >= len(b.functions) {
		return
	}
	n := max(1, uint64(math.Ceil(b.functions[row.Func].rate*c.uncounted)))
	row.Error += n
	if !b.functions[row.Func].off { // otherwise these calls are already estimated
		later := kept - min(kept, c.Counted[row.Func])
		row.Estimated += n - min(n, later)
	}
}

// sortChanges sorts changes by time. Changes at the same time keep their order.
func sortChanges(list []reader.BudgetChange) {
	slices.SortStableFunc(list, func(x, y reader.BudgetChange) int { return cmp.Compare(x.TSC, y.TSC) })
}

// finish adds the time between the latest round and the end of the process.
func (p *processState) finish(cpu float64) {
	if rest := cpu - p.cpu - p.samples; rest > 0 {
		p.cpu, p.samples = cpu, 0
		p.total += rest
	}
}

// fewSamples is the number of samples at which a process's own rate and that of all processes count equally.
const fewSamples = 2

// priorTime is how much CPU time in samples counts as much as the rate of a function while it was on, in ns.
const priorTime = 1e6

// countingDeviation returns how far a rate may be off because the cost of counting is only roughly known.
// That matters if the function is called all the time. A rate can be further above the estimate than below.
func countingDeviation(rate float64) float64 {
	if rate == 0 {
		return 0
	}
	own := 1 / rate
	return max(1/max(own-sampleDeviation, shortestCall)-rate, rate-1/(own+sampleDeviation))
}

// estimate fills a function's row with the estimate of its calls while it was off, for ns of CPU time
// excluding the cost of recording. It subtracts the seen calls. The rate is the mean of the process's samples and, with
// the weight of others ns, of all processes' samples. It does not track the rates of single samples: there are so few
// that a single phase of a program would dominate the estimate for a long time. In a short recording, samples may have
// seen next to nothing. Then the rate while the function was on counts, too.
func (b *Controller) estimate(row *reader.BudgetFunction, samples sampledRate, others, ns, seen float64) {
	f := &b.functions[row.Func]
	on := f.onRate()
	rate, deviation, least := on, on, 0.0 // unless there are enough samples
	if rate == 0 {
		least = ns / shortestCall // nothing is known
	}
	if f.samples.y > 0 {
		prior := 0.0
		if on > 0 {
			prior = priorTime / (f.counted + priorTime)
		}
		rate = (1-prior)*(samples.calls+others*f.meanRate())/(samples.ns+others) + prior*on
		deviation = rate
		if f.samples.n >= 2 {
			deviation = math.Hypot((1-prior)*f.samples.standardError(), prior*on)
		}
		deviation = math.Hypot(deviation, countingDeviation(rate))
		least = ns / f.counted // one call in all samples
	}
	calls := max(0, rate*ns-seen)
	row.Estimated, row.OffNS = uint64(math.Round(calls)), uint64(ns)
	row.Error = uint64(math.Ceil(max(deviation*ns, least)))
	row.Rate = uint64(math.Round(f.rate * 1e9))
	if n := f.sampled.calls; n >= leastSampled {
		mean := f.sampled.sum / n
		row.Mean = uint64(math.Round(mean))
		row.MeanError = uint64(math.Ceil(math.Sqrt(max(0, f.sampled.squares/n-mean*mean) / n)))
	}
}
