package locks

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// key identifies a lock of a process: by address, or by function if there is none.
type key struct {
	process process
	addr    uint64
	logged  bool
	fn      reader.FuncID // 0 if logged
}

// process is a process: its first file, and its ID.
type process struct{ file, id int32 }

// hole is the beginning or the end of a time in which a recorder with a budget may have left out calls of
// functions of a class.
type hole struct {
	tsc uint64
	classIn
	begins bool
}

// classIn is a class of lock functions in a file.
type classIn struct {
	file  int32
	class string
}

// sweep processes what threads do to locks, in time order.
type sweep struct {
	opts        *Options
	functions   map[reader.FuncID]*Function
	small       [smallIDs]*Function // functions with small IDs
	unlocks     map[string]bool     // classes whose Unlock functions are called
	first, last uint64              // of the trace
	locks       map[key]*lock
	list        []*lock // by their first operation
	dropped     bool    // there were more locks than the limit
	threads     []*thread
	// free are the waits for free locks, by function. They show the cost of an uncontended
	// lock function.
	free   map[reader.FuncID]*quantile.Sample
	edges  map[edgeKey]*Edge
	edge   edgeKey // the latest one, which the next often equals
	latest *Edge   // of edge
	paths  *calls.Paths
	stuck  []Open
	gaps   uint64 // holds without a recorded end
	orphan uint64 // locks released without a recorded holder
	handed uint64 // locks released by another thread
	// holes are those to come, by time, and missing those that have begun and not ended.
	holes   []hole
	missing map[classIn]bool
	adder   adder
	// byID numbers the threads. woke has the open call of a thread when it woke another.
	// Both only with Options.Wakers.
	byID map[reader.Thread]int
	woke func(thread int, tsc uint64) calls.PathID
	// byWaker counts the waits with time charged to the waker, and that time.
	byWaker struct{ count, ticks uint64 }
}

// lock is the state of a lock.
type lock struct {
	key
	number     int
	fn         reader.FuncID // that took it first
	first      calls.PathID  // of the function that wanted it first
	used       bool          // shown in reports
	tries      uint64        // acquisitions by TryLock functions
	waits      quantile.Sample
	holds      quantile.Sample
	waitPaths  map[calls.PathID]*pathSum
	holdPaths  map[calls.PathID]*pathSum
	blame      map[pair]charged
	queuing    quantile.Sum // of the waits: time in the run queue
	longest    Stay         // hold
	longestSet bool

	waiters []*wait
	holders []*hold // holds that keep others waiting, the earliest first
	now     uint64  // time up to which waiters were charged
	convoy  Convoy  // while there are two or more waiters
	convoys []Convoy
	queued  struct{ count, ticks uint64 } // of all convoys
}

// pair is the call paths of a waiter and a holder.
type pair struct{ waiter, holder calls.PathID }

// pathSum adds up waits or holds of a path.
type pathSum struct {
	count, ticks, longest uint64
	self                  []selfTime // of holds, by function
}

// thread is the state of a thread.
type thread struct {
	id     reader.Thread
	chosen bool
	wait   *wait
	holds  []*hold // the earliest first
	tries  []op    // the latest ones
	selves selves
	spare  *wait // the latest one, which the next uses again
}

// wait is a thread waiting for a lock.
type wait struct {
	*lock
	thread *thread
	start  uint64
	busy   bool // the lock was not free
	shared bool
	chosen bool
	blame  map[calls.PathID]charged // by holder
	sleeps []sched.Off              // off-CPU times that are not over, if known
	sleep  *sleep                   // the latest one that is not settled, or nil
}

// hold is a thread holding a lock.
type hold struct {
	*lock
	thread *thread
	path   calls.PathID
	start  uint64
	class  string
	depth  uint32 // see op
	shared bool
	chosen bool
	// recursive: the thread already held the lock. suspended: it waits for a condition.
	recursive, suspended bool
	// overtaken is the time when another thread got the lock, or 0.
	overtaken uint64
	since     int // thread.selves.passed when it began
}

// Limits for tables that could otherwise grow without bounds.
const (
	maxTries   = 8       // of a thread
	maxHolds   = 32      // of a thread
	maxConvoys = 5       // of a lock, the longest
	maxEdges   = 100_000 // of the order
)

func newSweep(opts *Options, f *Finder) *sweep {
	s := &sweep{
		opts: opts, functions: make(map[reader.FuncID]*Function), unlocks: make(map[string]bool), locks: make(map[key]*lock),
		free: make(map[reader.FuncID]*quantile.Sample), edges: make(map[edgeKey]*Edge), missing: make(map[classIn]bool),
	}
	if opts.Wakers != nil {
		s.byID = make(map[reader.Thread]int)
	}
	for fn := range f.all() {
		if described := opts.Function(fn); described != (Function{}) {
			s.functions[fn] = &described
			s.unlocks[described.Class] = s.unlocks[described.Class] || described.Role == Unlock
		}
	}
	for fn := range s.small {
		s.small[fn] = cmp.Or(s.functions[reader.FuncID(fn)], &other)
	}
	return s
}

// smallIDs is the number of functions that need no look-up in a map.
const smallIDs = 1 << 14

var other Function // has nothing to do with locks

func (s *sweep) function(fn reader.FuncID) *Function {
	if uint32(fn) < smallIDs {
		return s.small[fn]
	}
	if f := s.functions[fn]; f != nil {
		return f
	}
	return &other
}

// unopened returns the functions whose entries do not matter, for calls.Options. With wakers, all matter.
func (s *sweep) unopened() []bool {
	if s.opts.Wakers != nil {
		return nil
	}
	list := make([]bool, smallIDs)
	for fn := range list {
		list[fn] = s.small[fn] == &other
	}
	return list
}

// any reports whether functions of the roles are called.
func (s *sweep) any(roles ...Role) bool {
	for _, f := range s.functions {
		if slices.Contains(roles, f.Role) {
			return true
		}
	}
	return false
}

// register records the thread of a batch.
func (s *sweep) register(b *calls.Batch) {
	s.paths = b.Paths
	for len(s.threads) <= b.Index {
		s.threads = append(s.threads, nil)
	}
	if s.threads[b.Index] == nil {
		chosen := s.opts.Thread == nil || s.opts.Thread(b.Thread)
		s.threads[b.Index] = &thread{id: b.Thread, chosen: chosen}
		if s.byID != nil {
			s.byID[b.Thread] = b.Index
		}
	}
}

func (s *sweep) chosen(th *thread, start uint64) bool { return th.chosen && s.inTime(start) }

// counts reports whether the report shows a hold that begins at a time.
func (s *sweep) counts(th *thread, start uint64) bool {
	return s.opts.Waited == nil && s.chosen(th, start)
}

func (s *sweep) inTime(start uint64) bool {
	return start >= s.opts.From && (s.opts.To == 0 || start < s.opts.To)
}

// processOf returns the process of a thread.
func (s *sweep) processOf(th *thread) process {
	file := th.id.File
	if int(file) < len(s.opts.Processes) {
		file = int32(s.opts.Processes[file])
	}
	return process{file, th.id.Process}
}

// findHoles finds the times in which calls may be missing.
func (s *sweep) findHoles(t *reader.Trace) {
	classes := make(map[string]bool)
	for _, f := range s.functions {
		if f.Role != None {
			classes[f.Class] = true
		}
	}
	for file := range t.Files() {
		r := t.Recording(file)
		if r == nil || len(r.Budget.Changes) == 0 {
			continue
		}
		for class := range classes {
			for _, times := range r.Budget.Missing(func(fn reader.FuncID) bool {
				f := s.function(fn)
				return f.Role != None && f.Class == class
			}) {
				at := classIn{int32(file), class}
				s.holes = append(s.holes, hole{times[0], at, true}, hole{times[1], at, false})
			}
		}
	}
	slices.SortFunc(s.holes, func(a, b hole) int {
		return cmp.Or(cmp.Compare(a.tsc, b.tsc), cmp.Compare(a.file, b.file), cmp.Compare(a.class, b.class))
	})
}

// passHole begins or ends a time in which calls may be missing. Who holds a lock then is not known.
func (s *sweep) passHole(h hole) {
	s.missing[h.classIn] = h.begins
	if !h.begins {
		return
	}
	for _, th := range s.threads {
		if th == nil || th.id.File != h.file {
			continue
		}
		th.tries = slices.DeleteFunc(th.tries, func(o op) bool { return s.function(o.fn).Class == h.class })
		for _, held := range slices.Clone(th.holds) {
			if held.class == h.class {
				s.gaps++
				s.forget(held, h.tsc)
			}
		}
	}
}

// isMissing reports whether calls of the class of a function may be missing at present.
func (s *sweep) isMissing(th *thread, fn reader.FuncID) bool {
	return len(s.missing) > 0 && s.missing[classIn{th.id.File, s.function(fn).Class}]
}

// lockOf returns the lock of an op.
func (s *sweep) lockOf(o *op) *lock {
	of := s.processOf(s.threads[o.thread])
	k := key{process: of, addr: o.addr, logged: o.logged}
	if !o.logged {
		k = key{process: of, fn: o.fn}
	}
	l := s.locks[k]
	if l == nil && o.logged && len(s.list) >= s.opts.Limit {
		s.dropped = true
		k = key{process: of, fn: o.fn}
		l = s.locks[k]
	}
	if l == nil {
		l = &lock{
			key: k, number: len(s.list), fn: o.fn,
			waitPaths: make(map[calls.PathID]*pathSum), holdPaths: make(map[calls.PathID]*pathSum), blame: make(map[pair]charged),
		}
		s.locks[k] = l
		s.list = append(s.list, l)
	}
	return l
}

// do processes the next op.
func (s *sweep) do(o *op) {
	for ; len(s.holes) > 0 && s.holes[0].tsc <= o.time; s.holes = s.holes[1:] {
		s.passHole(s.holes[0])
	}
	th := s.threads[o.thread]
	th.selves.pass(o.selves)
	s.doTo(th, o)
	th.trim(&s.adder)
}

// doTo processes an op of a thread.
func (s *sweep) doTo(th *thread, o *op) {
	switch o.kind {
	case opWait:
		s.wait(th, s.lockOf(o), o)
	case opCancelWait:
		s.endWait(th, o.time)
	case opStuck:
		s.recordStuck(th, o)
	case opAcquire:
		s.acquire(th, o)
	case opTry:
		if s.isMissing(th, o.fn) {
			break
		}
		if th.tries = append(th.tries, *o); len(th.tries) > maxTries {
			th.tries = slices.Delete(th.tries, 0, 1)
		}
	case opRelease:
		s.release(th, o)
	case opScopeEnd:
		for _, h := range slices.Clone(th.holds) {
			if h.depth >= o.depth {
				s.drop(h, o.time)
			}
		}
	case opSuspend:
		if s.isMissing(th, o.fn) {
			break
		}
		if h := s.suspended(th, o); h != nil {
			s.endHold(h, o.time)
			h.suspended = true
		}
	case opResume:
		if i := slices.IndexFunc(th.holds, func(h *hold) bool { return h.suspended }); i >= 0 {
			s.resume(th.holds[i], o.time)
		}
	}
}

// resume continues a hold after a wait for a condition.
func (s *sweep) resume(h *hold, now uint64) {
	s.charge(h.lock, now)
	h.suspended, h.overtaken, h.since = false, 0, h.thread.selves.passed
	h.start, h.chosen = now, s.counts(h.thread, now)
	s.overtake(h, now)
	h.holders = append(h.holders, h)
}

// suspended returns the hold that ends while its thread waits for a condition, or nil.
func (s *sweep) suspended(th *thread, o *op) *hold {
	if !o.logged || !s.function(o.fn).OfLock {
		return th.innermost()
	}
	i := slices.IndexFunc(th.holds, func(h *hold) bool { return h.logged && h.addr == o.addr && !h.recursive && !h.suspended })
	if i < 0 {
		return th.innermost() // the logged value is something else
	}
	return th.holds[i]
}

// innermost returns the hold that began last, or nil.
func (th *thread) innermost() *hold {
	for i := len(th.holds) - 1; i >= 0; i-- {
		if !th.holds[i].recursive {
			return th.holds[i]
		}
	}
	return nil
}

func (s *sweep) wait(th *thread, l *lock, o *op) {
	now := o.time
	s.charge(l, now)
	if th.spare == nil || th.wait != nil {
		th.spare = new(wait)
	}
	w := th.spare
	*w = wait{lock: l, thread: th, start: now, shared: s.function(o.fn).Shared, chosen: s.chosen(th, now)}
	if w.chosen {
		w.sleeps = s.opts.Wakers.Off(th.id, now, math.MaxUint64)
	}
	w.busy = len(l.waiters) > 0 || l.holderFor(w) != nil
	th.wait = w
	l.waiters = append(l.waiters, w)
	if len(l.waiters) == 2 {
		l.convoy = Convoy{Start: now, First: l.waiters[0].thread.id, Waits: 1}
		if h := l.holderFor(l.waiters[0]); h != nil {
			l.convoy.Holder, l.convoy.holder, l.convoy.Held = h.thread.id, h.path, true
		}
	}
	if n := len(l.waiters); n >= 2 {
		l.convoy.Waits++
		l.convoy.Most = max(l.convoy.Most, n)
	}
}

// endWait ends the wait of a thread, if any.
func (s *sweep) endWait(th *thread, now uint64) *wait {
	w := th.wait
	if w == nil {
		return nil
	}
	s.charge(w.lock, now)
	s.settle(w, true)
	th.wait = nil
	w.waiters = slices.DeleteFunc(w.waiters, func(o *wait) bool { return o == w })
	if len(w.waiters) == 1 {
		s.endConvoy(w.lock, now)
	}
	return w
}

func (s *sweep) endConvoy(l *lock, now uint64) {
	c := l.convoy
	if c.Ticks = now - c.Start; c.Ticks < s.opts.microsecond() || !s.inTime(c.Start) {
		return
	}
	l.used = true
	l.queued.count++
	l.queued.ticks += c.Ticks
	at := len(l.convoys)
	for at > 0 && l.convoys[at-1].Ticks < c.Ticks {
		at--
	}
	if l.convoys = slices.Insert(l.convoys, at, c); len(l.convoys) > maxConvoys {
		l.convoys = l.convoys[:maxConvoys]
	}
}

// charge attributes the waiting time up to now to the holder of a lock.
func (s *sweep) charge(l *lock, now uint64) {
	from := min(now, l.now)
	l.now = max(l.now, now)
	ticks := now - from
	if ticks == 0 {
		return
	}
	for _, w := range l.waiters {
		if len(w.sleeps) > 0 {
			s.chargeAsleep(w, from, now)
			continue
		}
		if h := l.holderFor(w); h != nil && w.chosen {
			w.charge(h.path, charged{ticks: ticks})
		}
	}
}

func (w *wait) charge(holder calls.PathID, c charged) {
	if w.blame == nil {
		w.blame = make(map[calls.PathID]charged)
	}
	w.blame[holder] = w.blame[holder].plus(c)
}

// holderFor returns the hold that keeps a thread waiting. Of several, it is the one that began
// first.
func (l *lock) holderFor(w *wait) *hold {
	for _, h := range l.holders {
		if h.thread != w.thread && !(h.shared && w.shared) {
			return h
		}
	}
	return nil
}

// acquire ends a wait and begins a hold.
func (s *sweep) acquire(th *thread, o *op) {
	w := s.endWait(th, o.time)
	if w == nil {
		return
	}
	l := w.lock
	ticks := o.time - w.start
	if l.first == 0 {
		l.first = o.path
	}
	if w.chosen {
		l.used = true
		l.waits.Add(ticks)
		sumOf(l.waitPaths, o.path).add(ticks)
		for holder, t := range w.blame {
			l.blame[pair{o.path, holder}] = l.blame[pair{o.path, holder}].plus(t)
		}
		s.countWakers(w, o.time)
		if s.opts.Waited != nil {
			s.opts.Waited(s.waited(w, o.path, o.fn, ticks))
		}
	}
	missing := s.isMissing(th, o.fn)
	if !w.busy && !missing {
		free := s.free[o.fn]
		if free == nil {
			free = new(quantile.Sample)
			s.free[o.fn] = free
		}
		free.Add(ticks)
	}
	if !o.noHold && !missing {
		s.hold(th, w, o)
	}
}

// recordStuck records that a thread waits at the end of the trace.
func (s *sweep) recordStuck(th *thread, o *op) {
	w := th.wait
	if w == nil || !w.chosen {
		return
	}
	w.used = true
	stuck := Open{Thread: th.id, Start: w.start, lock: w.lock, path: o.path}
	if h := w.holderFor(w); h != nil {
		stuck.Holder, stuck.holder, stuck.Held = h.thread.id, h.path, true
	}
	s.stuck = append(s.stuck, stuck)
}

// end ends the convoys that last until the end of the trace.
func (s *sweep) end() {
	for _, l := range s.list {
		if len(l.waiters) >= 2 {
			s.endConvoy(l, max(s.last, l.convoy.Start))
		}
	}
}

func sumOf(sums map[calls.PathID]*pathSum, path calls.PathID) *pathSum {
	p := sums[path]
	if p == nil {
		p = new(pathSum)
		sums[path] = p
	}
	return p
}

func (p *pathSum) add(ticks uint64) {
	p.count++
	p.ticks += ticks
	p.longest = max(p.longest, ticks)
}
