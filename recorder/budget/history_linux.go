package budget

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
)

// history keeps the data for [Controller.Between]. When it is full, it drops the oldest.
type history struct {
	skipped  []skippedCalls
	followed []uint64  // TSCs at which the process had switched its sleds as decided
	clock    []cpuTime // in order
}

// skippedCalls are calls of a function that was on, between two TSCs, that were counted but not recorded.
type skippedCalls struct {
	id       uint32
	from, to uint64
	calls    uint64
}

// cpuTime is the CPU time of the process, in ns, at a TSC.
type cpuTime struct {
	tsc uint64
	ns  float64
}

const maxHistory = 1 << 15

func remember[T any](list []T, v T) []T {
	if len(list) == maxHistory {
		list = slices.Delete(list, 0, maxHistory/2)
	}
	return append(list, v)
}

func (h *history) skip(s skippedCalls) { h.skipped = remember(h.skipped, s) }

func (h *history) follow(tsc uint64) { h.followed = remember(h.followed, tsc) }

// NoteCPU notes the CPU time of the process at a TSC.
func (b *Controller) NoteCPU(tsc uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const often = 1 << 22 // ticks, about a millisecond
	h := b.history
	if h == nil {
		return
	}
	if n := len(h.clock); len(b.processes) == 0 || n > 0 && tsc-h.clock[n-1].tsc < often {
		return
	}
	h.clock = remember(h.clock, cpuTime{tsc, b.processes[0].cpuNow()})
}

// cpuAt returns the CPU time at a TSC.
func (h *history) cpuAt(tsc uint64) float64 {
	n := len(h.clock)
	i := sort.Search(n, func(i int) bool { return h.clock[i].tsc >= tsc })
	switch {
	case n == 0:
		return 0
	case i == 0:
		return h.clock[0].ns
	case i == n:
		return h.clock[n-1].ns
	}
	x, y := h.clock[i-1], h.clock[i]
	return x.ns + (y.ns-x.ns)*float64(tsc-x.tsc)/float64(y.tsc-x.tsc)
}

// ReadDurations reads the durations of calls from the records of a chunk, from an offset on.
func (b *Controller) ReadDurations(n *Inspector, data []byte, at int, part bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.follow(data, at, part, b.lasted)
	b.takeSpent(n)
}

// ExitsMissing reports whether a call of a function that began at TSC start may lack its exit because the
// process had switched the function off by TSC at.
func (b *Controller) ExitsMissing(fn reader.FuncID, start, at uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.processes) > 0 && slices.ContainsFunc(b.processes[0].cuts, func(c reader.BudgetChange) bool {
		return c.Func == fn && c.TSC >= start && c.TSC <= at
	})
}

// Between returns what was not recorded between two TSCs.
func (b *Controller) Between(from, to uint64) reader.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := reader.Budget{Share: b.Millionths(), From: from, To: to}
	if len(b.processes) == 0 {
		return found
	}
	p, h := b.processes[0], b.history
	cpu := max(0, h.cpuAt(to)-h.cpuAt(from))
	rows := make(map[uint32]*reader.BudgetFunction)
	row := func(id uint32) *reader.BudgetFunction {
		if rows[id] == nil {
			rows[id] = &reader.BudgetFunction{Func: reader.FuncID(id)}
		}
		return rows[id]
	}
	for id, ticks := range b.offBetween(from, to) {
		var latest sampledRate
		if int(id) < len(p.latest) {
			latest = p.latest[id]
		}
		b.estimate(row(id), latest, fewSamples*float64(shortestSample), max(1, cpu*float64(ticks)/float64(max(1, to-from))), 0)
	}
	for _, s := range h.skipped {
		if s.from >= from && s.to <= to {
			row(s.id).Counted += s.calls
		} else if s.to > from && s.from < to {
			n := uint64(math.Ceil(float64(s.calls) * float64(min(s.to, to)-max(s.from, from)) / float64(s.to-s.from)))
			row(s.id).Estimated += n
			row(s.id).Error += n
		}
	}
	b.countSince(max(from, b.readAt), to, row)
	for _, r := range rows {
		found.Functions = append(found.Functions, *r)
	}
	slices.SortFunc(found.Functions, func(x, y reader.BudgetFunction) int { return cmp.Compare(x.Func, y.Func) })
	for _, c := range slices.Concat(b.changes, p.cuts) {
		if c.TSC >= from && c.TSC <= to {
			found.Changes = append(found.Changes, c)
		}
	}
	sortChanges(found.Changes)
	return found
}

// countSince adds the calls since the counts were last read that were counted but not recorded.
func (b *Controller) countSince(from, to uint64, row func(id uint32) *reader.BudgetFunction) {
	if from >= to {
		return
	}
	b.memory.threads(func(i, _ uint32, words func(func(id, calls uint64))) {
		words(func(id, calls uint64) {
			if id >= uint64(len(b.functions)) || b.functions[id].off {
				return
			}
			f, before := &b.functions[id], uint64(0)
			if int(i) < len(b.slots) && id < uint64(len(b.slots[i].counts)) {
				before = b.slots[i].counts[id]
			}
			if before = max(before, f.limit); f.called && calls > before {
				r := row(uint32(id))
				r.Estimated += calls - before
				r.Error += calls - before
			}
		})
	})
}

// offBetween returns, by ID, for how many ticks between two TSCs functions were off. A function that is
// switched on remains off until the process has switched its sleds.
func (b *Controller) offBetween(from, to uint64) map[uint32]uint64 {
	off := make(map[uint32]uint64)
	add := func(id uint32, since, until uint64) {
		if since, until = max(since, from), min(until, to); since < until {
			off[id] += until - since
		}
	}
	until, seen := make(map[uint32]uint64), make(map[uint32]bool)
	for _, c := range slices.Backward(b.changes) {
		id := uint32(c.Func)
		if c.To == reader.FunctionPartly {
			delete(until, id)
			continue
		}
		seen[id] = true
		if c.To == reader.FunctionOn {
			until[id] = math.MaxUint64
			if i, _ := slices.BinarySearch(b.history.followed, c.TSC); i < len(b.history.followed) {
				until[id] = b.history.followed[i]
			}
			continue
		}
		if end, ok := until[id]; ok {
			add(id, c.TSC, end)
			delete(until, id)
		} else {
			add(id, c.TSC, math.MaxUint64)
		}
	}
	for id, end := range until {
		add(id, 0, end) // it went off before the oldest known change
	}
	for id := range b.functions {
		if b.functions[id].off && !seen[uint32(id)] {
			add(uint32(id), 0, to)
		}
	}
	return off
}
