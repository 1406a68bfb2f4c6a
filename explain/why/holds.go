package why

import (
	"cmp"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// lockKey identifies a lock of a process by its address, or if the trace has none, by the function that
// takes it. One of the two is 0.
type lockKey struct {
	process process
	fn      reader.FuncID
	address uint64
}

// process is a process: its first file, and its ID.
type process struct{ file, id int32 }

// processOf returns the process of a thread.
func (o *Options) processOf(t reader.Thread) process {
	if int(t.File) < len(o.Processes) {
		t.File = int32(o.Processes[t.File])
	}
	return process{t.File, t.Process}
}

// key returns the key of a lock that a function takes.
func key(of process, fn reader.FuncID, address uint64) lockKey {
	if address != 0 {
		return lockKey{process: of, address: address}
	}
	return lockKey{process: of, fn: fn}
}

// missing has for each file the times in which a recorder with a budget may have left out calls that take
// or release locks. Then it is not known who holds a lock.
type missing map[int32][][2]uint64

func missingIn(src calls.Source, role func(reader.FuncID) Role) missing {
	t, ok := src.(*reader.Trace)
	if !ok {
		return nil
	}
	m := make(missing)
	for file := range t.Files() {
		if r := t.Recording(file); r != nil && len(r.Budget.Changes) > 0 {
			m[int32(file)] = r.Budget.Missing(func(fn reader.FuncID) bool { return !role(fn).runs() })
		}
	}
	return m
}

// overlap reports whether calls of a file may be missing between two times.
func (m missing) overlap(file int32, from, to uint64) bool {
	times := m[file]
	i := sort.Search(len(times), func(i int) bool { return times[i][1] > from })
	return i < len(times) && times[i][0] <= to
}

// firstTaken is when a lock was taken first, and by which function.
type firstTaken struct {
	tsc uint64
	fn  reader.FuncID
}

// waits are the gaps in which threads waited for one lock, by start.
type waits struct {
	gaps   []gap
	latest []uint64 // end of any gap up to here
}

func waitsByLock(gaps []gap) map[lockKey]*waits {
	byLock := make(map[lockKey]*waits)
	for _, g := range gaps {
		if g.lock == (lockKey{}) || g.copy > 0 {
			continue
		}
		w := byLock[g.lock]
		if w == nil {
			w = new(waits)
			byLock[g.lock] = w
		}
		w.gaps = append(w.gaps, g)
	}
	for _, w := range byLock {
		slices.SortStableFunc(w.gaps, func(a, b gap) int { return cmp.Compare(a.start, b.start) })
		latest := uint64(0)
		for _, g := range w.gaps {
			latest = max(latest, g.end)
			w.latest = append(w.latest, latest)
		}
	}
	return byLock
}

// during calls add with the part of each wait of other threads than thread that is within the given times.
func (w *waits) during(thread int, from, to uint64, add func(g *gap, part span)) {
	first := sort.Search(len(w.gaps), func(i int) bool { return w.latest[i] > from })
	for i := first; i < len(w.gaps) && w.gaps[i].start < to; i++ {
		g := &w.gaps[i]
		if part := (span{max(g.start, from), min(g.end, to)}); g.thread != thread && part.from < part.to {
			add(g, part)
		}
	}
}

// hold is a lock that a thread holds, from the exit of the call that took it.
type hold struct {
	lockKey
	waits *waits // for it; nil if there are none
	start uint64
	path  calls.PathID // of the call that took it
	depth uint32       // of that call
	least uint32       // depth of the outermost call that has ended since
	// While others waited:
	parts []heldPart
	spent map[blamed]int64 // in a function itself, except the scope
}

// heldPart is the part of a gap in which a thread held the lock.
type heldPart struct {
	gap *gap
	span
}

// coveredGap is a gap in which a scope held the lock.
type coveredGap struct {
	scope  reader.FuncID
	cause  int
	thread int
	start  uint64
}

// blamed is a function that a cause may be due to.
type blamed struct {
	cause int
	fn    reader.FuncID
}

// blamedInside is a function inside the scope of a hold.
type blamedInside struct {
	scope blamed
	fn    reader.FuncID
}

// holds finds the holders of the locks that others wait for. It needs paths.
type holds struct {
	waits   map[lockKey]*waits
	process func(reader.Thread) process
	missing missing
	first   map[lockKey]firstTaken // of the locks in waits that have addresses
	role    func(reader.FuncID) Role
	unlocks bool // functions with sleds release locks
	roles   []Role
	threads [][]hold              // by Batch.Index, in the order in which the locks were taken
	off     [][]offPart           // by Batch.Index: the latest times off CPU
	inner   []uint64              // by Batch.Index: the latest start of a call with a role that has ended
	covered map[coveredGap][]span // several threads may hold a lock at once
	spent   map[blamedInside]int64
	away    map[blamed]*[3]uint64 // by cause and scope: ticks while others waited, and of these blocked and queued
}

// offPart is a time in which a thread was off CPU, first blocked and then in the run queue.
type offPart struct{ from, ready, to uint64 }

// maxOff is how many times off CPU of a thread are kept while it holds locks.
const maxOff = 64

func newHolds(byLock map[lockKey]*waits, opts *Options, missing missing, unlocks bool) *holds {
	return &holds{waits: byLock, process: opts.processOf, missing: missing, role: opts.Role, unlocks: unlocks,
		first: make(map[lockKey]firstTaken), covered: make(map[coveredGap][]span), spent: make(map[blamedInside]int64), away: make(map[blamed]*[3]uint64)}
}

// Calls takes the next calls of a thread.
func (h *holds) Calls(b *calls.Batch) error {
	for id := len(h.roles); id < b.Paths.Len(); id++ {
		h.roles = append(h.roles, h.role(b.Paths.Func(calls.PathID(id))))
	}
	h.threads = grow(h.threads, b.Index+1)
	h.off = grow(h.off, b.Index+1)
	h.inner = grow(h.inner, b.Index+1)
	open, args, gaps := h.threads[b.Index], b.Args, b.Gaps
	for i := range b.Calls {
		c := &b.Calls[i]
		for ; len(gaps) > 0 && gaps[0].To <= c.Start+c.Duration; gaps = gaps[1:] {
			h.notRunning(b.Index, &gaps[0])
		}
		address := uint64(0)
		for first := true; len(args) > 0 && args[0].Call <= i; args = args[1:] {
			if first {
				address, first = args[0].Value, false
			}
		}
		role := h.roles[c.Path]
		if b.Paths.Func(c.Path) == reader.Folded {
			role = h.role(c.Func)
		}
		if role == WaitsUnlocked && h.inner[b.Index] > c.Start {
			role = Runs // what it calls says more: its name alone does not show which lock it releases
		}
		if !role.runs() {
			h.inner[b.Index] = max(h.inner[b.Index], c.Start)
		}
		if len(open) > 0 {
			open = h.pass(b, open, c, role, address)
		}
		switch {
		case c.End == calls.Truncated:
		case role == Locks:
			open = h.take(b, open, c, address)
		case role == Unlocks:
			open = h.give(b, open, c, address)
		}
	}
	for i := range gaps {
		h.notRunning(b.Index, &gaps[i])
	}
	h.threads[b.Index] = open
	return nil
}

// notRunning takes a time off CPU of a thread.
func (h *holds) notRunning(thread int, g *calls.Gap) {
	if g.Sum() == 0 {
		return
	}
	list := h.off[thread]
	if len(list) == maxOff {
		list = append(list[:0], list[maxOff/2:]...)
	}
	h.off[thread] = append(list, offPart{g.To - g.Sum(), g.To - g.Queued, g.To})
}

// addAway adds how long the thread that holds a lock was off CPU in a part of a hold.
func (h *holds) addAway(to *[3]uint64, thread int, s span) {
	within := func(from, until uint64) uint64 {
		from, until = max(from, s.from), min(until, s.to)
		return max(from, until) - from
	}
	to[0] += s.ticks()
	for _, o := range h.off[thread] {
		to[1] += within(o.from, o.ready)
		to[2] += within(o.ready, o.to)
	}
}

// pass handles a call that ended on a thread with locks.
func (h *holds) pass(b *calls.Batch, open []hold, c *calls.Call, role Role, address uint64) []hold {
	end := c.Start + c.Duration
	released := len(open) - 1 // by a wait for a condition
	if i := slices.IndexFunc(open, func(w hold) bool { return address != 0 && w.address == address }); i >= 0 {
		released = i
	}
	kept := open[:0]
	for i := range open {
		w := &open[i]
		if c.End == calls.Truncated || !h.unlocks && c.Depth < w.depth {
			h.end(b, w, end)
			continue
		}
		w.least = min(w.least, c.Depth)
		switch {
		case role == WaitsUnlocked && i == released:
			w.cover(b.Index, c.Start)
			w.start = end
		default:
			w.spend(b.Index, c)
		}
		kept = append(kept, *w)
	}
	return kept
}

// spend moves the time of a call from its caller to it.
func (w *hold) spend(thread int, c *calls.Call) {
	if w.waits == nil {
		return
	}
	w.waits.during(thread, max(c.Start, w.start), c.Start+c.Duration, func(g *gap, part span) {
		if w.spent == nil {
			w.spent = make(map[blamed]int64)
		}
		w.spent[blamed{g.cause, c.Func}] += int64(part.ticks())
		w.spent[blamed{g.cause, c.Caller}] -= int64(part.ticks())
	})
}

// cover adds the waits of others since start.
func (w *hold) cover(thread int, end uint64) {
	if w.waits == nil {
		return
	}
	w.waits.during(thread, w.start, end, func(g *gap, part span) { w.parts = append(w.parts, heldPart{g, part}) })
}

// end ends a hold. Its scope is the innermost function that was open all the time.
func (h *holds) end(b *calls.Batch, w *hold, end uint64) {
	if h.missing.overlap(b.Thread.File, w.start, end) {
		return
	}
	w.cover(b.Index, end)
	if len(w.parts) == 0 {
		return
	}
	path := w.path
	known := 0 // depth of path, which is less than that of the call if recursion is folded
	for p := path; p != 0; p = b.Paths.Parent(p) {
		known++
	}
	for ; known > max(1, int(min(w.depth, w.least))); known-- {
		path = b.Paths.Parent(path)
	}
	scope := b.Paths.Func(path)
	for _, p := range w.parts {
		h.cover(coveredGap{scope, p.gap.cause, p.gap.thread, p.gap.start}, p.span)
		h.spent[blamedInside{blamed{p.gap.cause, scope}, scope}] += int64(p.ticks())
		away := h.away[blamed{p.gap.cause, scope}]
		if away == nil {
			away = new([3]uint64)
			h.away[blamed{p.gap.cause, scope}] = away
		}
		h.addAway(away, b.Index, p.span)
	}
	for k, ticks := range w.spent {
		h.spent[blamedInside{blamed{k.cause, scope}, k.fn}] += ticks
	}
}

// cover adds times in which a scope held the lock.
func (h *holds) cover(g coveredGap, parts ...span) {
	list := append(h.covered[g], parts...)
	if n := len(list); n > 64 && n&(n-1) == 0 {
		list = joined(list)
	}
	h.covered[g] = list
}

// take begins a hold. If the thread already has the lock, its unlock was not recorded.
func (h *holds) take(b *calls.Batch, open []hold, c *calls.Call, address uint64) []hold {
	k := key(h.process(b.Thread), c.Func, address)
	if f, ok := h.first[k]; address != 0 && h.waits[k] != nil && (!ok || c.Start < f.tsc) {
		h.first[k] = firstTaken{c.Start, h.taker(b, c)}
	}
	if i := slices.IndexFunc(open, func(w hold) bool { return w.lockKey == k }); i >= 0 {
		h.end(b, &open[i], c.Start)
		open = slices.Delete(open, i, i+1)
	}
	if len(open) == maxHolds {
		open = slices.Delete(open, 0, 1)
	}
	return append(open, hold{
		lockKey: k, waits: h.waits[k], start: c.Start + c.Duration, path: c.Path, depth: c.Depth, least: c.Depth,
	})
}

// taker returns the function that takes a lock, which may do so by other functions.
func (h *holds) taker(b *calls.Batch, c *calls.Call) reader.FuncID {
	path := b.Paths.Parent(c.Path)
	for ; path != 0 && h.roles[path] == Locks; path = b.Paths.Parent(path) {
	}
	return b.Paths.Func(path)
}

// maxHolds is how many locks of a thread are followed at a time. More are probably released
// in other ways.
const maxHolds = 64

// give ends the latest hold of an address, or otherwise the latest hold without an address.
// If the unlock has no address, it ends the latest hold.
func (h *holds) give(b *calls.Batch, open []hold, c *calls.Call, address uint64) []hold {
	found := -1
	for i := range open {
		if address == 0 || open[i].address == address || open[i].address == 0 && (found < 0 || open[found].address == 0) {
			found = i
		}
	}
	if found < 0 {
		return open
	}
	h.end(b, &open[found], c.Start+c.Duration)
	return slices.Delete(open, found, found+1)
}

// Merge adds what other found.
func (h *holds) Merge(other *holds) {
	for k, f := range other.first {
		if own, ok := h.first[k]; !ok || f.tsc < own.tsc {
			h.first[k] = f
		}
	}
	for g, parts := range other.covered {
		h.cover(g, parts...)
	}
	for k, ticks := range other.spent {
		h.spent[k] += ticks
	}
	for k, ticks := range other.away {
		if mine := h.away[k]; mine != nil {
			for i := range mine {
				mine[i] += ticks[i]
			}
		} else {
			h.away[k] = ticks
		}
	}
}

// holder returns the function that held the lock of a cause longest while threads waited for
// it. It returns nil if known holders cover less than 30 % of the waiting.
func (h *holds) holder(cause int, gaps []gap) *Holder {
	var waited, held uint64
	evidence := ByAddress
	for _, g := range gaps {
		if g.cause == cause && g.copy == 0 {
			waited += g.end - g.start
			if g.lock.address == 0 {
				evidence = ByFunction
			}
		}
	}
	by := make(map[reader.FuncID]uint64)
	for g, parts := range h.covered {
		if g.cause == cause {
			for _, p := range joined(parts) {
				by[g.scope] += p.ticks()
				held += p.ticks()
			}
		}
	}
	scope, most := longest(by)
	if held == 0 || 10*held < 3*waited {
		return nil
	}
	inside, all := make(map[reader.FuncID]int64), int64(0)
	for k, ticks := range h.spent {
		if k.scope == (blamed{cause, scope}) {
			inside[k.fn] = ticks
			all += ticks
		}
	}
	self, its := longest(inside)
	away := h.away[blamed{cause, scope}]
	of := float64(max(1, away[0]))
	return &Holder{
		Blocked: float64(away[1]) / of, Queued: float64(away[2]) / of,
		Self: self, Scope: scope, Evidence: evidence,
		Covered: float64(most) / float64(waited), SelfShare: min(1, float64(its)/float64(max(1, all))),
	}
}

// longest returns the function with the most ticks, and these.
func longest[T uint64 | int64](by map[reader.FuncID]T) (fn reader.FuncID, most T) {
	for f, ticks := range by {
		if ticks > most || ticks == most && f < fn {
			fn, most = f, ticks
		}
	}
	return fn, most
}
