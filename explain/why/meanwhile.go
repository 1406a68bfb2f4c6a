package why

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// gapCells is the number of cells that the trace's time is divided into, for finding gaps.
const gapCells = 1 << 14

// Holder is what other threads did while time was lost.
type Holder struct {
	Evidence Evidence
	// For a lock, Scope is the innermost function that was open as long as the lock was held,
	// and Self is the function inside it with most of the time. By waking, Self is the innermost
	// function that was open for most of the time before the wake-up, or else at the wake-up, and
	// Scope is the next one around it. By coincidence, Self is the innermost
	// function that fits, and Scope is the next one around it that fits, or Self if there is
	// none.
	Self, Scope reader.FuncID
	Covered     float64 // share of the lost time in which Scope held, or Self was open
	SelfShare   float64 // of Covered, in Self itself; 0 by coincidence
	Expected    float64 // by coincidence: Covered at other times
	Ends        bool    // by coincidence: the wait ends when Self ends
	// Blocked and Queued are the shares of Covered in which the holder itself was blocked, and waited for a CPU, if
	// the trace says when threads were off CPU.
	Blocked, Queued float64
	// Other is, by executor, the share of the lost time in which the thread worked on another request.
	Other float64
	// OtherClass is the class of these requests, or "" if there is no single one.
	OtherClass string
	// Cause is the number of the cause that makes the holder slow, from 1, or 0 for none.
	Cause int
}

// AddExecutors adds to the causes of requests what the threads that these waited for did meanwhile. ran finds it for the
// calls that at selects by their thread and start. It returns nil if that is unknown. atMost is for waits before which
// the request may not have been able to go on.
func (r *Report) AddExecutors(ran func(at func(reader.Thread, uint64) bool, atMost bool) *Holder) {
	for i := range r.Causes {
		c := &r.Causes[i]
		if x := c.Holder; c.Func == reader.Suspended && x != nil && x.Evidence == ByCoincidence && x.Expected > 0.5 {
			c.Holder = nil // the loop of its executor, which is open all the time
		}
		if c.Func == reader.ExecutorAwaited || c.Func == reader.ExecutorAtMost {
			// What other threads did at that time is no reason.
			c.Holder = ran(c.Dominated, c.Func == reader.ExecutorAtMost)
		}
	}
}

// Evidence is how a holder was found.
type Evidence uint8

const (
	ByAddress     Evidence = iota // it held the lock at the address that threads waited for
	ByFunction                    // it held a lock of the same function, which is assumed to be the only one
	ByWaking                      // it woke the waiting threads
	ByCoincidence                 // it was active when time was lost, and hardly ever at other times
	ByExecutor                    // the thread that the request waited for was in it
)

// String returns the name of the evidence in JSON.
func (e Evidence) String() string {
	return [...]string{"address", "assumed one lock per function", "waking", "coincidence", "executor"}[e]
}

// meanwhile is the pass that finds what other threads do during gaps.
type meanwhile struct {
	gaps    []gap
	cells   [][]int32 // gaps that overlap a cell of the trace's time
	origin  uint64
	cell    uint64           // ticks
	victims map[int][][]span // by thread and cause: times that slow calls lost, in order
	seen    []seenInGap      // what was open, by gap
	near    []nearby         // what the thread lost that was examined last, by gap
	latest  int              // the cell that find returned last
}

// nearby is what a thread lost during a gap, by cause.
type nearby struct {
	thread int // from 1; 0 for none
	lost   []loss
}

// loss is a time that a thread lost to a cause.
type loss struct {
	span
	cause int
}

// others is the pass that examines other threads.
type others struct {
	holds     *holds // nil if no thread waited for a lock
	meanwhile *meanwhile
	wakers    *wakers
	queues    *queues      // nil without off-CPU times
	numbers   *rootNumbers // nil if numbers take a pass of their own
}

func (o others) Calls(b *calls.Batch) error {
	if o.holds != nil {
		if err := o.holds.Calls(b); err != nil {
			return err
		}
	}
	if o.wakers != nil {
		if err := o.wakers.Calls(b); err != nil {
			return err
		}
	}
	if o.queues != nil {
		if err := o.queues.Calls(b); err != nil {
			return err
		}
	}
	if o.numbers != nil {
		o.numbers.see(b)
	}
	return o.meanwhile.Calls(b)
}

func (o others) Merge(other others) {
	if o.holds != nil {
		o.holds.Merge(other.holds)
	}
	if o.wakers != nil {
		o.wakers.Merge(other.wakers)
	}
	if o.queues != nil {
		o.queues.Merge(other.queues)
	}
	if o.numbers != nil {
		o.numbers.Merge(other.numbers.Numbering)
	}
	o.meanwhile.Merge(other.meanwhile)
}

// found is what other threads did.
type found struct {
	holders map[*lead]*Holder
	taken   map[*lead]reader.FuncID // the function that took the lock first
	behind  map[*lead]preempted     // whether the thread that was waited for was
	rest    *Holder                 // while no cause explains the lost time
}

// prefer makes a holder by waking that of a lead, unless what another thread did explains clearly more.
func (f *found) prefer(l *lead, h *Holder) {
	if other := f.holders[l]; h != nil && (other == nil || other.Covered < h.Covered+clearShare) {
		f.holders[l] = h
	}
}

// breakCycles removes holders by coincidence of threads that themselves keep the others waiting: where threads
// in one place wait for threads in another, both are active at the same time.
func (f *found) breakCycles(e *evidence, leads []*lead, gaps []gap) {
	for a, l := range leads {
		for b, o := range leads[:a] {
			h, other := f.holders[l], f.holders[o]
			if h == nil || other == nil || !e.runsIn(o, h) || !e.runsIn(l, other) {
				continue
			}
			switch {
			case h.Evidence != ByCoincidence && other.Evidence == ByCoincidence,
				h.Evidence == other.Evidence && outlasts(gaps, a, b):
				delete(f.holders, o)
			case h.Evidence == ByCoincidence:
				delete(f.holders, l)
			}
		}
	}
}

// runsIn reports whether the time that a lead loses is in a function that a holder is in.
func (e *evidence) runsIn(l *lead, h *Holder) bool {
	return l.fn == h.Self || e.waiter(l) == h.Self || e.pathOf(l)[h.Self]
}

// outlasts reports whether gaps of a cause mostly end after those gaps of another cause that they overlap, in other
// threads. Those who wait go on after what they wait for.
func outlasts(gaps []gap, cause, other int) bool {
	after, before := 0, 0
	for _, g := range gaps {
		for _, o := range gaps {
			if g.cause != cause || o.cause != other || g.copy+o.copy != 0 || g.thread == o.thread || g.start >= o.end || o.start >= g.end {
				continue
			}
			if g.end > o.end {
				after++
			} else {
				before++
			}
		}
	}
	return after >= before
}

// fewGaps is the number of gaps below which nothing is reported about the rest.
const fewGaps = 5

// meanwhile finds what other threads did while slow calls lost time.
func (x *explainer) meanwhile(d *durations, e *evidence) (found, error) {
	f := found{holders: make(map[*lead]*Holder), taken: make(map[*lead]reader.FuncID), behind: make(map[*lead]preempted)}
	var leads []*lead
	var gaps []gap
	var victims []map[int][]span
	for _, l := range e.leads {
		fn := e.waiter(l)
		role := x.opts.Role(fn)
		if !l.named && (x.threads == 1 || !e.maySpin(l, x.opts.MinShare) || role != Runs) {
			continue
		}
		l.waits, l.releases = role.kind(), role == Locks || role == WaitsUnlocked
		l.spins = e.offCPU && l.kind == Slower && (l.waits != Slower || x.threads > 1 && e.inOneHole(l))
		if l.argued || !e.mayWait(l) {
			continue
		}
		gaps = append(gaps, e.gapsOf(l, len(leads), fn, role, x.opts.processOf)...)
		leads = append(leads, l)
		victims = append(victims, e.victims(l))
	}
	ids := make(map[int]reader.Thread)
	for i := range e.slow {
		ids[e.slow[i].thread] = e.slow[i].id
	}
	rest := e.restGaps(len(leads))
	if len(rest) >= fewGaps {
		gaps = append(gaps, rest...)
	}
	victims = append(victims, nil)
	covered := d.covered(x.opts.Windows)
	if len(gaps) == 0 || len(covered) == 0 {
		return f, nil
	}
	byLock := waitsByLock(gaps)
	wakeUps := x.wakeUps(gaps, ids)
	if x.threads == 1 && len(byLock)+len(wakeUps) == 0 {
		return f, nil // there are no other threads
	}
	gaps = shifted(gaps, covered, x.opts.Seed)
	proto := newMeanwhile(gaps, victims, covered[0].from, covered[len(covered)-1].to)
	want := calls.Options{Nested: true, Paths: len(byLock) > 0}
	blocked := e.offCPU && slices.ContainsFunc(leads, func(l *lead) bool { return l.kind == Blocked || l.isBlocked() })
	if want.Paths || blocked {
		want.OffCPU = x.opts.Calls.OffCPU
	}
	if want.Paths && x.opts.MaxPaths > 0 {
		want.Budget = calls.NewPathBudget(x.opts.MaxPaths)
	}
	missing := missingIn(x.src, x.opts.Role)
	root, slow := x.numbered(d, e)
	o, _, err := run(x, want, func() others {
		m := *proto
		m.seen, m.near = make([]seenInGap, len(gaps)), make([]nearby, len(gaps))
		o := others{meanwhile: &m}
		if slow != nil {
			o.numbers = &rootNumbers{invocation.NewNumbering(slow), root}
		}
		if want.Paths {
			o.holds = newHolds(byLock, &x.opts, missing, d.unlocks)
		}
		if blocked {
			o.queues = &queues{&m, make(map[queuedIn]uint64)}
		}
		if len(wakeUps) > 0 {
			o.wakers = newWakers(wakeUps, x.opts.Role)
		}
		return o
	})
	if err != nil {
		return f, err
	}
	if o.numbers != nil {
		x.numbers = o.numbers.Numbering
	}
	if o.holds != nil {
		for _, g := range gaps {
			if first, ok := o.holds.first[g.lock]; ok && g.copy == 0 && g.cause < len(leads) {
				f.taken[leads[g.cause]] = first.fn
			}
		}
		for i, l := range leads {
			if h := o.holds.holder(i, gaps); h != nil {
				f.holders[l] = h
			}
		}
	}
	wakers := make(map[*lead]*Holder)
	if o.wakers != nil {
		for i, l := range leads {
			if f.holders[l] == nil && !l.spins {
				wakers[l] = o.wakers.holder(i, gaps, e.pathOf(l))
			}
		}
	}
	if x.opts.Origins != nil {
		for l, h := range wakers {
			f.prefer(l, h)
		}
		return f, nil
	}
	coinciding := func(waits func(int) bool) map[*lead]*Holder {
		list := make(map[*lead]*Holder)
		for i, l := range leads {
			if f.holders[l] != nil {
				continue
			}
			path := e.pathOf(l)
			not := func(fn reader.FuncID) bool {
				return path[fn] || x.opts.Root(fn) || x.opts.Role(fn).kind() != Slower
			}
			h := o.meanwhile.holder(i, not, waits, 0.3)
			// Work that another thread does meanwhile, perhaps for the same request, does not end at the same time.
			if h != nil && (!l.spins || l.waits != Slower || h.Ends && h.Covered >= headline) {
				list[l] = h
			}
		}
		return list
	}
	// The first search shows which threads wait, besides those that do by name. They are not holders, so
	// search again without them. A thread that waits, but for no thread of the program, may hold a lock or
	// keep a condition from becoming true.
	byName := func(cause int) bool { return leads[cause].waits != Slower }
	known := func(cause int) bool { return f.holders[leads[cause]] != nil }
	first := coinciding(byName)
	again := coinciding(func(cause int) bool { return byName(cause) || known(cause) || first[leads[cause]] != nil })
	maps.Copy(first, again)
	maps.Copy(f.holders, first)
	for l, h := range coinciding(known) {
		if l.releases {
			f.holders[l] = h
		}
	}
	for l, h := range wakers {
		f.prefer(l, h)
	}
	for _, l := range leads {
		l.named = l.named || f.holders[l] != nil // disturbances do not end with calls of other threads
	}
	f.breakCycles(e, leads, gaps)
	if o.queues != nil {
		queued := o.queues.longest()
		for i, l := range leads {
			h := f.holders[l]
			// A thread that only wakes others does not block in that: it is preempted by them.
			known := h != nil && h.Evidence != ByWaking && h.Queued < halfOfLoss && h.Covered >= headline && x.opts.Role(h.Self) != Posts
			if l.kind == Blocked && !known {
				f.behind[l] = x.behind(e, l, i, gaps, queued, wakeUps)
			}
			if l.kind == Blocked && h == nil && !queuedFor(i, gaps, queued) {
				l.queue = e.queueOf(l)
			}
		}
	}
	if len(rest) < fewGaps {
		return f, nil
	}
	// Other threads in the same functions are active because a CPU is free.
	same := make(map[reader.FuncID]bool)
	for _, s := range e.tree.steps {
		same[s.fn] = true
	}
	f.rest = o.meanwhile.holder(len(leads), func(fn reader.FuncID) bool { return same[fn] || x.opts.Root(fn) },
		func(int) bool { return false }, 0.5)
	return f, nil
}

func newMeanwhile(gaps []gap, victims []map[int][]span, first, last uint64) *meanwhile {
	m := &meanwhile{gaps: gaps, victims: make(map[int][][]span), origin: first, cell: (last-first)/gapCells + 1}
	for cause, threads := range victims {
		for thread, lost := range threads {
			if m.victims[thread] == nil {
				m.victims[thread] = make([][]span, len(victims))
			}
			m.victims[thread][cause] = lost
		}
	}
	m.cells = make([][]int32, gapCells+1)
	for i, g := range gaps {
		for c := m.cellOf(g.start); c <= m.cellOf(g.end); c++ {
			m.cells[c] = append(m.cells[c], int32(i))
		}
	}
	return m
}

func (m *meanwhile) cellOf(tsc uint64) int {
	return int(min((max(tsc, m.origin)-m.origin)/m.cell, gapCells))
}

// within reports whether a time is certainly in a cell.
func (m *meanwhile) within(cell int, tsc uint64) bool {
	return tsc-m.origin-uint64(cell)*m.cell < m.cell
}

// find is cellOf for times close to each other: it divides only if the cell changes.
func (m *meanwhile) find(tsc uint64) int {
	if !m.within(m.latest, tsc) {
		m.latest = m.cellOf(tsc)
	}
	return m.latest
}

// Calls adds the calls that overlap gaps of other threads.
func (m *meanwhile) Calls(b *calls.Batch) error {
	lost := m.victims[b.Index]
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Nested {
			continue
		}
		from := m.find(c.Start)
		to := from
		if end := c.Start + c.Duration; !m.within(to, end) {
			to = m.cellOf(end)
		}
		if to-from > len(m.gaps)/4 {
			for g := range m.gaps {
				m.note(b, c, lost, int32(g), 0, ^uint64(0))
			}
			continue
		}
		for cell := from; cell <= to; cell++ {
			start := m.origin + uint64(cell)*m.cell
			for _, g := range m.cells[cell] {
				m.note(b, c, lost, g, start, start+m.cell)
			}
		}
	}
	return nil
}

// note adds the part of a call in a gap, from one time to another. lost has, by cause, what the thread
// lost.
func (m *meanwhile) note(b *calls.Batch, c *calls.Call, lost [][]span, number int32, from, to uint64) {
	g := &m.gaps[number]
	end := c.Start + c.Duration
	start, stop := max(from, c.Start, g.start), min(to, end, g.end)
	if start >= stop || g.thread == b.Index {
		return
	}
	lostTo := 0
	if lost != nil {
		near := &m.near[number]
		if near.thread != b.Index+1 {
			near.find(b.Index, lost, g)
		}
		for _, l := range near.lost {
			if lo, hi := max(start, l.from), min(stop, l.to); hi <= lo || 2*(hi-lo) <= stop-start {
				continue // the thread lost at most half of the time
			}
			if l.cause == g.cause {
				return
			}
			if lostTo == 0 {
				lostTo = l.cause + 1
			}
		}
	}
	key := keyOfSeen(c.Func, lostTo)
	off := max(end, g.end) - min(end, g.end)
	if c.End == calls.Truncated {
		off = math.MaxUint64 // the trace ends, not the call
	}
	if off <= (g.end-g.start)/10 {
		key |= seenEnds
	}
	if off <= (g.end-g.start)/100 {
		key |= seenSharp
	}
	m.seen[number].add(key, stop-start, (stop-start)*uint64(c.Depth), g.copy == 0)
}

// find finds what a thread lost during a gap.
func (n *nearby) find(thread int, lost [][]span, g *gap) {
	n.thread, n.lost = thread+1, n.lost[:0]
	for cause, list := range lost {
		first, _ := slices.BinarySearchFunc(list, g.start, func(v span, tsc uint64) int {
			if v.to <= tsc {
				return -1
			}
			return 1
		})
		for _, v := range list[first:] {
			if v.from >= g.end {
				break
			}
			n.lost = append(n.lost, loss{v, cause})
		}
	}
}

// Merge adds what other found.
func (m *meanwhile) Merge(other *meanwhile) {
	for i := range m.seen {
		m.seen[i].merge(&other.seen[i], m.gaps[i].copy == 0)
	}
}

// cover is the part of a cause's gaps in which a function was open.
type cover struct {
	ticks [copies + 1]uint64 // by copy
	depth float64            // times ticks, in the gaps themselves
	ends  [copies + 1]int    // gaps that end with a call of it, by copy
	sharp [copies + 1]int    // the same with less tolerance
	most  [copies + 1]int    // gaps during most of which it was open, by copy
}

// holder returns the function that was open during more than a share of the time that a
// cause lost, and hardly ever at other times. It does not count threads that lost time to a
// cause that waits selects.
func (m *meanwhile) holder(cause int, not func(reader.FuncID) bool, waits func(cause int) bool, share float64) *Holder {
	var total uint64
	count := 0
	for i := range m.gaps {
		if g := &m.gaps[i]; g.cause == cause && g.copy == 0 {
			total += g.end - g.start
			count++
		}
	}
	covers := make(map[reader.FuncID]*cover)
	for i := range m.gaps {
		if m.gaps[i].cause == cause {
			m.gaps[i].cover(covers, m.seen[i].without(waits), not)
		}
	}
	maps.DeleteFunc(covers, func(_ reader.FuncID, c *cover) bool { return c == nil })
	var best *cover
	candidates := len(covers)
	for fn, c := range covers {
		if !c.isSignificant(total, share, count, candidates) {
			delete(covers, fn)
		} else if best == nil || c.ticks[0] > best.ticks[0] {
			best = c
		}
	}
	var fit []reader.FuncID
	for fn, c := range covers {
		if c.nearly(best) {
			fit = append(fit, fn)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	depth := func(fn reader.FuncID) float64 { return covers[fn].depth / float64(covers[fn].ticks[0]) }
	slices.SortFunc(fit, func(a, b reader.FuncID) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	})
	self := fit[len(fit)-1]
	c := covers[self]
	return &Holder{
		Evidence: ByCoincidence, Self: self, Scope: fit[max(0, len(fit)-2)],
		Covered:  float64(c.ticks[0]) / float64(total),
		Expected: c.expected() / float64(total),
		Ends:     2*c.ends[0] >= count && 2*elsewhere(c.ends) < copies*c.ends[0],
	}
}

// cover adds the functions that were open in a gap to covers, with nil for those that not
// excludes.
func (g *gap) cover(covers map[reader.FuncID]*cover, open *seenInGap, not func(reader.FuncID) bool) {
	for i := range open.slots {
		s := &open.slots[i]
		if s.key == 0 {
			continue
		}
		fn := s.key.fn()
		c, known := covers[fn]
		if !known {
			if !not(fn) {
				c = new(cover)
			}
			covers[fn] = c
		}
		if c == nil {
			continue
		}
		c.ticks[g.copy] += min(s.ticks, g.end-g.start)
		if 2*s.ticks >= g.end-g.start {
			c.most[g.copy]++
		}
		if s.key&seenSharp != 0 {
			c.sharp[g.copy]++
		}
		if g.copy == 0 {
			c.depth += float64(open.depth(i))
		}
		if s.key&seenEnds != 0 {
			c.ends[g.copy]++
		}
	}
}

// nearly reports whether a function fits nearly as well as best, which covers most. best may
// be open whenever anything happens, so a function that is more specific may cover less.
func (c *cover) nearly(best *cover) bool {
	covered, most := float64(c.ticks[0]), float64(best.ticks[0])
	return covered >= 0.9*most || covered >= 0.75*most && covered*best.expected() >= 1.5*most*c.expected()
}

func (c *cover) expected() float64 {
	all := uint64(0)
	for _, t := range c.ticks[1:] {
		all += t
	}
	return float64(all) / copies
}

// elsewhere returns the sum over the gaps' copies.
func elsewhere(number [copies + 1]int) int {
	all := 0
	for _, n := range number[1:] {
		all += n
	}
	return all
}

// isSignificant reports whether a function was open in the gaps more than by chance. A
// function that is also often open at other times must end with the gaps. total is the time
// of all gaps, count is their number, and candidates is the number of functions.
func (c *cover) isSignificant(total uint64, share float64, count, candidates int) bool {
	covered := float64(c.ticks[0])
	if covered <= share*float64(total) || c.ticks[0] <= slices.Max(c.ticks[1:]) {
		return false
	}
	rare := func(number [copies + 1]int) bool {
		// The copies are few, so the true rate may be higher than theirs. Use the upper end of
		// an interval of two standard deviations.
		n := float64(elsewhere(number) + 1)
		rate := (n + 2*math.Sqrt(n)) / float64(copies*count)
		return binomialTail(count, number[0], rate)*float64(candidates) <= coincidence
	}
	endsWith := func(number [copies + 1]int, least int) bool {
		return number[0] >= least && 3*elsewhere(number) < copies*count && rare(number)
	}
	return covered > 3*c.expected() && rare(c.most) || endsWith(c.sharp, (count+1)/2) ||
		10*c.most[0] >= 9*count && endsWith(c.ends, (9*count+9)/10)
}

// coincidence is the maximum probability that any of all functions is open in the gaps by
// chance.
const coincidence = 1e-3

// mayWait reports whether a lead may wait for another thread. A lead that was on CPU waits only if its name says
// so, or if it spins.
func (e *evidence) mayWait(l *lead) bool {
	switch l.kind {
	case Blocked:
		return true
	case NewPath:
		return l.waits != Slower || l.isBlocked()
	case Slower:
		return !e.offCPU || l.spins
	}
	return false
}

// maySpin reports whether a lead that chance may explain is a cause if it spins for another thread.
func (e *evidence) maySpin(l *lead, minShare float64) bool {
	return e.offCPU && l.kind == Slower && l.share >= minShare && e.enough(l) && e.exceeds(l) && e.inOneHole(l)
}

// inOneHole reports whether a lead's CPU time is mostly lost at a stretch without calls, as in a loop that waits for
// another thread.
func (e *evidence) inOneHole(l *lead) bool {
	in, all := 0.0, 0.0
	for _, i := range l.dominated {
		all += l.x[i]
		if h, ok := e.holeOf(l, i); ok {
			in += min(l.x[i], float64(h.ticks()))
		}
	}
	return 2*in > all
}
