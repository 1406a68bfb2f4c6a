package recorder

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
)

// budgetLive is the memory of a process that has a budget of its own. It is read and written through
// /proc/PID/mem. The open file belongs to the address space: when the process executes another program,
// it does not refer to the new one. Writes need not be atomic: a half-written word is a wrong limit for
// a moment.
type budgetLive struct {
	process *Process
	image   *image
	file    *os.File
	root    uint64 // address of the runtime's root
	at      uint64 // address of the budget
	limits  uint64 // address of the limits
	slots   map[uint64]uint32
	about   *reader.Recording
	counted uint64 // TSC when the counts were last read
}

// Limit keeps the cost of recording below a share of the process's CPU time, until Close. The process
// must be recording with this Budget, see [Recording]. The functions of [Roots] are always recorded.
func (l *Live) Limit(ctx context.Context, share float64) error {
	if err := l.limit(ctx, share, new(budgetHistory)); err != nil {
		return err
	}
	l.keepRoots()
	l.budget.start()
	return nil
}

// limit creates the budget without starting it. history is nil if between is never called.
func (l *Live) limit(ctx context.Context, share float64, history *budgetHistory) error {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", l.process.PID), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	// The process may have executed another program since its memory was searched, so open checks this.
	m := *l.image
	m.in = file
	live := &budgetLive{process: l.process, image: &m, file: file, root: l.root, slots: make(map[uint64]uint32), about: l.text}
	control := &line{process: l.process}
	err = live.open()
	if err == nil {
		// While this connection is open, the process refuses other budgets.
		err = control.do(ctx, nil, "budget")
	}
	if err != nil {
		control.close()
		return errors.Join(fmt.Errorf("%s: %w", l.process, err), file.Close())
	}
	l.budget = newBudget(live, share)
	l.budget.history = history
	live.follow(l.budget, control)
	return nil
}

func (m *budgetLive) open() error {
	root, err := m.image.parseRoot(m.root)
	if err != nil {
		return err
	}
	if m.at = root.budget; m.at == 0 || m.u32(m.at+budgetOnAt) != 1 {
		return m.image.errorf("it records without a budget")
	}
	if m.limits = m.u64(m.at); m.limits%8 != 0 || m.limits == 0 {
		return m.image.errorf("the recorder's budget is damaged")
	}
	return nil
}

// keepRoots makes the budget always record the functions of Roots.
func (l *Live) keepRoots() {
	if l.budget == nil {
		return
	}
	for id, is := range l.roots.Is {
		if is {
			l.budget.keep(uint32(id))
		}
	}
	for _, id := range l.roots.Targets {
		l.budget.keep(uint32(id))
	}
}

// keep makes the budget always record a function.
func (b *budget) keep(id uint32) {
	if id >= maxLimits {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.functions = upTo(b.functions, uint64(id))
	f := &b.functions[id]
	if f.off {
		b.changes = append(b.changes, reader.BudgetChange{TSC: rdtsc(), Func: reader.FuncID(id), To: reader.FunctionOn})
	}
	b.revived = b.revived || f.off
	f.called, f.off, f.away = true, false, leastAway
	for _, p := range b.processes {
		p.turn(int(id), false)
	}
	b.setLimit(id, unlimited)
}

func (m *budgetLive) u32(at uint64) uint32 {
	var p [4]byte
	_, _ = m.image.readSome(p[:], at) // 0 if the process has ended
	return binary.LittleEndian.Uint32(p[:])
}

func (m *budgetLive) u64(at uint64) uint64 {
	var p [8]byte
	_, _ = m.image.readSome(p[:], at)
	return binary.LittleEndian.Uint64(p[:])
}

// write writes memory, unless the process has ended.
func (m *budgetLive) write(at uint64, p []byte) { _, _ = m.file.WriteAt(p, int64(at)) }

func (m *budgetLive) exhausted() uint32 { return m.u32(m.at + budgetSpentAt) }

func (m *budgetLive) decide() {
	m.write(m.at+budgetDecidedAt, binary.LittleEndian.AppendUint32(nil, m.u32(m.at+budgetDecidedAt)+1))
}

func (m *budgetLive) limit(id uint32) uint64 { return m.u64(m.limits + 8*uint64(id)) }

func (m *budgetLive) setLimit(id uint32, calls uint64) {
	if id < maxLimits {
		m.write(m.limits+8*uint64(id), binary.LittleEndian.AppendUint64(nil, calls))
	}
}

func (m *budgetLive) setUnseen(first, bits uint32) {
	if first < maxLimits {
		m.write(m.limits+8*maxLimits+uint64(first/8), binary.LittleEndian.AppendUint32(nil, bits))
	}
}

func (m *budgetLive) setBurst(ids []uint32) {
	p := binary.LittleEndian.AppendUint32(nil, uint32(len(ids)))
	for _, id := range ids {
		p = binary.LittleEndian.AppendUint32(p, id)
	}
	m.write(m.at+budgetBurstAt, p)
}

func (m *budgetLive) processes() uint32 { return 1 }

// over reports whether the recording or the process has ended.
func (m *budgetLive) over() bool { return m.u32(m.at+budgetOnAt) != 1 }

// find does nothing: the only process was added by follow.
func (m *budgetLive) find(*budget) {}

// follow adds the process to a new budget.
func (m *budgetLive) follow(b *budget, control *line) {
	p := &budgetProcess{clock: clockOfProcess(m.process.PID), control: control}
	b.processes, b.estimates[0] = []*budgetProcess{p}, p
	b.learnCost(m.about)
	b.learnGroups(m.about)
	// It records since an earlier time, so the calls so far are not those of the CPU time from now on.
	earlier := b.read(func(*budgetProcess) bool { return true })[0]
	p.cpu = p.cpuNow()
	b.balance -= earlier.cost(b.call)
	// If the process was forked from one with a budget, some functions are already off.
	for _, o := range m.about.Objects {
		for id := o.First; o.State == "ready" && o.Holds(id) && id < maxLimits; id++ {
			if m.limit(uint32(id)) > 0 {
				continue
			}
			b.functions = upTo(b.functions, uint64(id))
			if f := &b.functions[id]; !f.called {
				f.called, f.off, f.away = true, true, leastAway
				p.assume(int(id), 0)
				p.turn(int(id), true)
			}
		}
	}
}

func (m *budgetLive) threads(each func(slot, process uint32, words func(func(id, calls uint64)))) {
	now, whole := rdtsc(), true
	root, err := m.image.parseRoot(m.root)
	if err != nil {
		return
	}
	table, err := m.image.read("the table of threads", root.threads, int(root.nthreads)*8)
	if err != nil {
		return
	}
	for f := fields(table); len(f) > 0; f = f[8:] {
		t, err := m.image.parseThread(f.u64(0), root.threadSize)
		if err != nil {
			return
		}
		slot, ok := m.slots[t.address]
		if !ok {
			slot = uint32(len(m.slots))
			m.slots[t.address] = slot
		}
		each(slot, 0, func(each func(id, calls uint64)) {
			p := make(fields, 8*min(t.ncounter, root.maxFunction+1, maxLimits))
			if n, err := m.image.readSome(p, t.counters); n < len(p) || err != nil {
				whole = false
				return
			}
			for id := 0; 8*id < len(p); id++ {
				if calls := p.u64(8 * id); calls > 0 {
					each(uint64(id), calls)
				}
			}
		})
	}
	if whole {
		m.counted = now
	}
}

// inspect does nothing, because [Live.Read] reads all records.
func (m *budgetLive) inspect(*budget) {}

// budgetHistory has the data that between needs. It drops the oldest data.
type budgetHistory struct {
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

func (h *budgetHistory) skip(s skippedCalls) { h.skipped = remember(h.skipped, s) }
func (h *budgetHistory) follow(tsc uint64)   { h.followed = remember(h.followed, tsc) }

// pass notes the CPU time of the process at a TSC.
func (b *budget) pass(tsc uint64) {
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
func (h *budgetHistory) cpuAt(tsc uint64) float64 {
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

// saw reads the durations of calls from the records of a chunk, from an offset on.
func (b *budget) saw(n *inspector, data []byte, at int, part bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.follow(data, at, part, b.lasted)
	b.takeSpent(n)
}

// gaveUp reports whether the exits of calls of a function that began at a TSC are missing since another one.
func (b *budget) gaveUp(fn reader.FuncID, start, at uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.processes) > 0 && slices.ContainsFunc(b.processes[0].cuts, func(c reader.BudgetChange) bool {
		return c.Func == fn && c.TSC >= start && c.TSC <= at
	})
}

// between returns what was not recorded between two TSCs.
func (b *budget) between(from, to uint64) reader.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := reader.Budget{Share: b.millionths(), From: from, To: to}
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
		var latest lookedAt
		if int(id) < len(p.looked) {
			latest = p.looked[id]
		}
		b.estimate(row(id), latest, fewLooks*float64(shortestLook), max(1, cpu*float64(ticks)/float64(max(1, to-from))), 0)
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
func (b *budget) countSince(from, to uint64, row func(id uint32) *reader.BudgetFunction) {
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
func (b *budget) offBetween(from, to uint64) map[uint32]uint64 {
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
