package budget

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/ranking"
	"github.com/xray-tools/xray/recorder/ring"
)

// Controller keeps what recording costs the processes of an arena below a share of their CPU time.
//
// The runtime counts all calls of functions whose sleds are on, and records those below the
// function's limit. In rounds, the budget reads the counts and chooses which functions to record.
// It switches the others off. A sample counts their calls for a moment, and records some calls of a
// few of them. So a function that has become rare or slow is recorded again.
type Controller struct {
	memory  memory
	streams bool // all records are written, not only kept in rings
	share   float64
	random  func() float64 // in [0, 1)
	history *history       // nil if Between is never called
	stop    context.CancelFunc
	ended   chan struct{}

	// Used only by the goroutine that runs the rounds:
	slots       []slotState
	processes   []*processState   // by index in the arena; nil for none
	own         float64           // CPU time of the processes so far without the cost of recording, ns
	call        float64           // cost of recording a call without values, ns
	tick        float64           // duration of a tick of the TSC, ns
	writing     float64           // part of call for writing the trace, if the process does that itself
	balance     float64           // unspent budget so far; negative if overspent, ns
	tokens      float64           // unspent budget for samples and switching, ns
	length      time.Duration     // of the next sample
	sampleCost  float64           // of the latest sample, ns
	switching   float64           // cost of switching the sleds of a process, ns
	sampleSpent uint32            // limits reached by the end of the latest sample, including those of recorded calls
	sampledFrom int               // function at which the next choice of those to record begins
	sampled     []uint32          // the functions that the latest sample records
	readAt      uint64            // TSC when the counts were last read
	overAt      uint64            // TSC of the end
	groups      map[uint32]string // functions that are switched together

	mu        sync.Mutex
	functions []functionState // by ID
	changes   []reader.BudgetChange
	estimates map[uint32]*processState // by index in the arena
	threads   []followedThread         // by slot; used if all records are written
	revived   bool                     // AlwaysRecord has switched on a function since the latest round
	spent     float64                  // to notice switches since the latest round, ns
	noticing  float64                  // unspent budget for noticing switches, ns
	blind     bool                     // noticing switches cost too much, so the processes stop it
}

// functionState is the state of a function. Rates are calls per ns of CPU time, excluding the cost
// of recording.
type functionState struct {
	called bool
	off    bool
	// For functions in groups: partly means that some threads have reached the limit, and reached that they did so since
	// the latest round.
	partly, reached bool
	top             uint64 // calls made by the thread with the most calls
	limit           uint64
	rate            float64     // 0 until it is known
	fresh           sampledRate // calls since rate was last updated, while the function is on
	// Durations of recorded calls in ticks. Older calls count less.
	calls, squares float64
	sampled        struct{ calls, sum, squares float64 } // durations of calls recorded in samples
	// Recorded calls, and the ticks spent on reading their values. Older calls count less. charged is the total number of
	// these ticks in all processes.
	read     struct{ calls, ticks float64 }
	charged  uint64
	offUntil time.Time     // earliest time to switch it on again
	backoff  time.Duration // minimum time off when it is switched off next; doubles each time
	chance   float64       // probability that the latest sample counts it; 0 if it does not
	samples  ratio         // of calls to ns of CPU time, weighted as in sample
	counted  float64       // CPU time of samples that counted it, including the cost, ns
	// CPU time in ns, and calls, while the function was on or had not been called yet.
	watched, made float64
}

// rootMeanSquare of durations is how much a recorded call is worth. It gives weight to functions that are
// sometimes slow, wait, or hold locks.
func rootMeanSquare(squares, calls float64) float64 {
	if calls == 0 {
		return 0
	}
	return math.Sqrt(squares / calls)
}

// slotState is the state of a thread's slot.
type slotState struct {
	counts []uint64
	// If records stay in rings, the thread, and how far its records were inspected.
	owner     uint32
	inspected uint64 // in chunks
	inspector Inspector
}

// processState is the state of a process in the rounds.
type processState struct {
	index     uint32
	since     uint64
	clock     func() float64 // CPU time in ns, 0 if the process has ended
	control   control        // nil if it cannot be controlled
	retry     time.Time      // when to try again
	cpu       float64        // CPU time at the latest round, ns
	switched  float64        // CPU time when its sleds were switched, ns
	stale     bool           // its sleds have to be switched
	blind     bool           // it no longer notices switches
	wasted    float64        // cost of counting unrecorded calls since its sleds were switched, ns
	wasting   float64        // the same cost per ns of CPU time, before the latest round
	samples   float64        // CPU time of samples since the latest round, ns
	unsampled float64        // CPU time since the latest sample, excluding the cost of recording, ns
	sampled   float64        // sum of the CPU time of samples, excluding the cost of recording, ns; older samples count less
	whole     float64        // the same of the CPU time that the samples stand for

	// Protected by the budget's lock; lists are by function:
	total     float64 // CPU time, excluding the cost of recording, ns
	latest    []sampledRate
	estimates []estimate
	cuts      []reader.BudgetChange
}

// control sends a budget's commands to a process. It is a Connection, except in tests.
type control interface {
	Do(ctx context.Context, answer any, command string) error
	Close()
}

// ProcessClock returns a function that reads the CPU time of a process, in ns.
func ProcessClock(pid int) func() float64 {
	return func() float64 {
		var t unix.Timespec
		_ = unix.ClockGettime(int32(^pid<<3|2), &t) // stays 0
		return float64(t.Nano())
	}
}

// sampledRate is the result of the latest samples of a function. Older samples count less.
type sampledRate struct {
	ns    float64 // CPU time, excluding the cost of recording
	calls float64
}

// rate returns the calls per ns.
func (l *sampledRate) rate() float64 {
	if l.ns == 0 {
		return 0
	}
	return l.calls / l.ns
}

// estimate estimates the calls of a function in a process while it was off.
type estimate struct {
	ns      float64     // CPU time outside of samples, excluding the cost of recording, before from
	seen    float64     // calls that were counted in that time
	samples sampledRate // sums of all samples, weighted as in sample
	off     bool        // it has been off since from
	from    float64     // total of the process
}

// turn records in the estimates of a process that a function is switched off or on.
func (p *processState) turn(id int, off bool) {
	p.estimates = upTo(p.estimates, uint64(id))
	e := &p.estimates[id]
	e.ns = p.offTime(id)
	e.off, e.from = off, p.total
}

// offTime returns the CPU time in which a function was off and its calls were not counted, in ns.
func (p *processState) offTime(id int) float64 {
	e := &p.estimates[id]
	if !e.off {
		return e.ns
	}
	return e.ns + p.total - e.from
}

const (
	// countingCost is the cost of counting a call that is not recorded, in ns. notingCost is what a
	// recorded call costs besides its probes: to count it, and to note that it is open.
	countingCost, notingCost = 10.0, 30.0
	// writingCost is the cost of writing a recorded call, in ns, if the process writes its trace itself.
	writingCost = 8.0
	// sampleCounting is the cost of counting a call of a function that is called often, in ns. It includes no
	// clock read, so it depends little on the machine: in a program that does little but call one function it
	// was 5.9 ns on an idle machine and 6.6 to 8 ns on a busy one. It is less where other work hides it: 3 ns
	// if the program's own work takes 7 ns per call.
	sampleCounting = 6.0
	// sampleDeviation is the standard deviation of sampleCounting.
	sampleDeviation = 1.5
	// shortestCall is the shortest time from one call of an instrumented function to the next, in ns,
	// excluding the cost of recording.
	shortestCall = 2.0
	// mostCounting is the largest part of a sample that counting may take. Rates are relative to the rest
	// of the sample, and the cost of counting is only roughly known.
	mostCounting = 0.1
	firstSamples = 3
	// mostRecording is the same for recording the calls of a sample.
	mostRecording = 0.02
	// leastOwn is the smallest part of a sample's CPU time that is attributed to the program itself.
	leastOwn = 0.3
	// recordShare is the part of the budget for recorded calls, and sampleShare the part for samples. The
	// rest is a reserve.
	recordShare, sampleShare = 0.6, 0.25
	// noticingShare is the largest part of the budget for noticing when threads were switched out. Calls
	// are recorded less if the sum exceeds the budget.
	noticingShare = 0.3
	sampledCalls  = 64 // recorded calls of a function in a sample; fewer if reading their values costs more
	// maxRead is the total weight of a function's recorded calls at which the weights of older calls are halved, to
	// know what reading their values costs.
	maxRead = 1 << 10

	// The observer competes with the program for CPUs, so it wakes soon after threads reach limits and rarely
	// while processes are idle.
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 30 * time.Millisecond
	idlePoll     = 100 * time.Millisecond

	urgentRound   = 4 * time.Millisecond // while threads reach limits
	roundInterval = 60 * time.Millisecond
	// Samples are longer if the budget has room for that, because a longer sample is more representative.
	shortestSample = 6 * time.Millisecond
	leastSample    = time.Millisecond
	longestSample  = 12 * time.Millisecond
	// roundTime is the CPU time, in ns, after which a round is worth its cost. urgentTime is the same for
	// rounds after limits were reached.
	roundTime, urgentTime = 30e6, 1e6
	leastMeasured         = 1e6 // least CPU time to measure a rate in, excluding the cost of recording, ns
	quotaTime             = 1e8 // CPU time of a thread that a limit is sufficient for, at twice the rate, ns
	mostGrowth            = 8   // of a limit, relative to the calls so far
	repayTime             = 1e9 // CPU time in which excess cost is compensated, ns
	leastBackoff          = time.Second
	mostOwed              = 5e6  // maximum debt from a sample that later samples repay, ns; the rest is written off
	mostSaved             = 20e6 // maximum unspent budget that is carried over, ns
	mostNoticed           = 5e6  // excess cost at which noticing switches ends, ns
	mostBackoff           = 16 * time.Second
	maxChanges            = 1 << 16
	stayingAdvance        = 1.5 // factor by which functions that are on rank higher
	returningMargin       = 0.8 // functions are switched on only within this part of the budget for calls
)

func newController(m memory, share float64) *Controller {
	return &Controller{
		memory: m, share: share, ended: make(chan struct{}), call: 25, tick: 0.5, length: shortestSample, sampleCost: 300e3, switching: 300e3,
		estimates: make(map[uint32]*processState), groups: make(map[uint32]string),
		random: rand.Float64,
	}
}

// Millionths returns the share in millionths, the unit in traces.
func (b *Controller) Millionths() uint64 { return recorder.Millionths(b.share) }

// Start begins the rounds.
func (b *Controller) Start() {
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() {
		defer close(b.ended)
		_ = ring.Guarded(func() { b.run(ctx) }) // who serves the memory reports the error
	}()
}

// Stop ends the rounds, and waits until the goroutine no longer uses the memory.
func (b *Controller) Stop() {
	b.stop()
	<-b.ended
}

func (b *Controller) run(ctx context.Context) {
	defer func() {
		for _, p := range b.processes {
			if p != nil {
				p.closeControl()
			}
		}
	}()
	var seen uint32 // limits that were reached
	last, soon, next, poll := time.Now(), urgentRound, roundInterval, shortestPoll
	timer := time.NewTimer(poll)
	for ; ; timer.Reset(poll) {
		select {
		case <-ctx.Done():
			b.overAt = ring.ReadTSC()
			return
		case <-timer.C:
		}
		if b.memory.over() {
			b.overAt = ring.ReadTSC()
			return
		}
		now, spent := time.Now(), b.memory.exhausted()
		urgent := (spent != seen || b.wasteful()) && now.Sub(last) >= soon && b.passed() >= urgentTime
		if !urgent && now.Sub(last) < next {
			poll = min(2*poll, longestPoll)
			continue
		} else if !urgent && b.passed() < roundTime {
			poll = min(2*poll, idlePoll)
			continue
		}
		seen, b.sampleSpent = spent, 0
		b.round(ctx, now, !urgent)
		if b.sampleSpent != 0 && !b.reached() {
			seen = b.sampleSpent
		}
		if urgent {
			soon, poll = min(2*soon, 4*urgentRound), shortestPoll
		} else {
			soon, poll = max(soon/2, urgentRound), longestPoll
		}
		// Samples at regular intervals could coincide with periodic work of the program.
		last = time.Now()
		next = max(roundInterval/2+time.Duration(rand.Int64N(int64(roundInterval))), 20*(last.Sub(now)-b.length))
	}
}

// round reads the counts, chooses what to record, and has the processes switch their sleds.
func (b *Controller) round(ctx context.Context, now time.Time, sample bool) {
	b.memory.inspect(b)
	b.mu.Lock()
	b.memory.find(b)
	progress := b.measure()
	changed := b.choose(now, progress) || b.revived
	b.revived = false
	if changed {
		b.memory.decide()
	}
	at := b.toSample(sample, now)
	b.mu.Unlock()
	b.tokens = min(max(b.tokens, -mostOwed)+progress*b.share*sampleShare, mostSaved)
	b.balance = min(b.balance, mostSaved)
	for _, p := range b.processes {
		if p == nil {
			continue
		}
		p.stale = p.stale || changed
		switch {
		case b.blind && !p.blind:
			p.blind = b.command(ctx, p, "budget offcpu=0", now) != nil
		case p.stale && p != at && b.worthSwitching(p):
			b.command(ctx, p, "budget", now)
		}
	}
	if at != nil {
		b.sample(ctx, at, now)
	}
}

// worthSwitching reports whether to switch the sleds of a process: because counting unrecorded calls
// since the last switch has cost as much as switching, or because the budget for switching allows it.
// The latter is for functions that are switched on again, whose calls cost nothing until then.
func (b *Controller) worthSwitching(p *processState) bool {
	return p.wasted >= b.switching || (p.cpu-p.switched)*b.share*sampleShare >= b.switching
}

// wasteful reports whether switching a process, which was not worthwhile in the latest round, probably
// is by now. Otherwise, a process that uses little CPU time would keep counting until the next round.
func (b *Controller) wasteful() bool {
	return slices.ContainsFunc(b.processes, func(p *processState) bool {
		return p != nil && p.stale && p.control != nil && p.wasted+p.wasting*(p.cpuNow()-p.cpu) >= b.switching
	})
}

// passed returns the CPU time of the processes since the latest round, in ns.
func (b *Controller) passed() (ns float64) {
	if len(b.processes) < int(b.memory.processes()) {
		return math.Inf(1) // there is a new process
	}
	return b.used()
}

// used returns the CPU time of the known processes since the latest round, in ns.
func (b *Controller) used() (ns float64) {
	for _, p := range b.processes {
		if p != nil {
			ns += p.cpuNow() - p.cpu
		}
	}
	return ns
}

// reached reports whether a function that is on has reached its limit.
func (b *Controller) reached() bool {
	return slices.ContainsFunc(b.functions, func(f functionState) bool { return !f.off && f.called && f.top >= f.limit })
}

// closeControl closes the connection to a process.
func (p *processState) closeControl() {
	if p.control != nil {
		p.control.Close()
	}
}

// learnCost takes the cost of a call and of the setup from what the runtime has measured.
func (b *Controller) learnCost(r *reader.Recording) {
	if r.Process.Probe == 0 || len(r.Clock.Anchors) == 0 {
		return
	}
	first, now := r.Clock.Anchors[0], ring.ReadClocks()
	b.balance -= float64(r.Process.SetupNS)
	if now.TSC > first.TSC && now.Raw > first.Raw {
		b.tick = float64(now.Raw-first.Raw) / float64(now.TSC-first.TSC)
		b.call = float64(r.Process.Probe)/1000*b.tick + notingCost
	}
}

// learnGroups finds out which functions are switched together.
func (b *Controller) learnGroups(r *reader.Recording) {
	build.NameCalls(r)
	for _, o := range r.Objects {
		for i, name := range o.Names {
			if group := build.CallGroup(name); group != "" {
				b.groups[uint32(o.First)+uint32(i)] = group
			}
		}
	}
}

// hasRun reports whether a process has used CPU time since the latest round.
func (p *processState) hasRun() bool { return p.cpuNow() > p.cpu }

// cpuNow returns the CPU time of a process in ns.
func (p *processState) cpuNow() float64 { return max(p.cpu, p.clock()) }

// setLimit sets how many calls of a function each thread records.
func (b *Controller) setLimit(id uint32, limit uint64) {
	b.functions[id].limit = limit
	b.memory.setLimit(id, limit)
}

// countedCalls are the calls that a process has made between two reads.
type countedCalls struct {
	calls             map[uint32]uint64 // by function
	recorded, skipped float64           // of all functions
	read              map[uint32]uint64 // recorded calls, by function with values
	reading           float64           // cost of reading values, ns
}

// ownTime returns how much of an amount of CPU time is the program's own. The cost of recording is only
// roughly known, and may be most of the time.
func (c *countedCalls) ownTime(cpu, cost float64) float64 {
	return max(cpu-cost, min(cpu, shortestCall*(c.recorded+c.skipped)))
}

// cost returns the cost of the calls, in ns.
func (c *countedCalls) cost(call float64) float64 {
	return c.recorded*call + c.reading + c.skipped*countingCost
}

// read returns the calls of some processes that were counted since their counts were last read. The
// list is by index of the process.
func (b *Controller) read(wanted func(*processState) bool) []countedCalls {
	of, these := make([]countedCalls, len(b.processes)), make([]bool, len(b.processes))
	for i, p := range b.processes {
		these[i] = p != nil && wanted(p) // once for all threads, because reading a clock is a system call
	}
	now := ring.ReadTSC()
	b.memory.charges(b.charge)
	b.memory.threads(func(i, process uint32, words func(func(id, calls uint64))) {
		if b.slots = upTo(b.slots, uint64(i)); words == nil {
			b.slots[i].counts = nil
		} else if process < uint32(len(of)) && these[process] {
			b.readSlot(words, &b.slots[i], &of[process], now)
		}
	})
	b.readAt = now
	for i := range of {
		for id, calls := range of[i].read {
			of[i].reading += float64(calls) * b.readingCost(id)
		}
	}
	return of
}

// charge notes how many ticks reading the values of a function has taken so far.
func (b *Controller) charge(id, ticks uint64) {
	b.functions = upTo(b.functions, id)
	f := &b.functions[id]
	if f.charged == 0 {
		f.read.calls = 0 // it had no values before
	}
	f.read.ticks += float64(ticks - min(ticks, f.charged))
	f.charged = ticks
}

// readingCost returns the mean cost of reading the values of a recorded call, in ns.
func (b *Controller) readingCost(id uint32) float64 {
	f := &b.functions[id]
	if f.read.calls == 0 {
		return 0
	}
	return f.read.ticks / f.read.calls * b.tick
}

// callCost returns the cost of recording a call of a function, in ns.
func (b *Controller) callCost(id uint32) float64 { return b.call + b.readingCost(id) }

func (b *Controller) readSlot(words func(func(id, calls uint64)), s *slotState, c *countedCalls, now uint64) {
	if c.calls == nil {
		c.calls, c.read = make(map[uint32]uint64), make(map[uint32]uint64)
	}
	words(func(id, calls uint64) {
		s.counts, b.functions = upTo(s.counts, id), upTo(b.functions, id)
		f, before := &b.functions[id], s.counts[id]
		s.counts[id] = calls
		if !f.called {
			f.called, f.backoff, f.limit, f.watched = true, leastBackoff, b.memory.limit(uint32(id)), b.own
		}
		f.top = max(f.top, calls)
		if calls <= before {
			return
		}
		recorded := min(calls, f.limit) - min(before, f.limit)
		c.calls[uint32(id)] += calls - before
		c.recorded += float64(recorded)
		f.read.calls += float64(recorded)
		if f.charged > 0 {
			c.read[uint32(id)] += recorded
		}
		if f.read.calls > maxRead {
			f.read.calls, f.read.ticks = f.read.calls/2, f.read.ticks/2
		}
		c.skipped += float64(calls - before - recorded)
		if !f.off && calls-before > recorded && b.groups[uint32(id)] != "" {
			if f.reached = true; !f.partly {
				f.partly = true
				b.change(uint32(id), reader.FunctionPartly, b.readAt)
			}
		}
		if b.history != nil && !f.off && calls-before > recorded {
			b.history.skip(skippedCalls{uint32(id), b.readAt, now, calls - before - recorded})
		}
	})
}

// upTo returns the list, extended if necessary so that the index is valid.
func upTo[T any](list []T, index uint64) []T {
	if more := int(index) + 1 - len(list); more > 0 {
		list = append(list, make([]T, more)...)
	}
	return list
}

// measure evaluates the calls that were counted since the previous round. It returns the CPU time
// since then, excluding the cost of recording, in ns.
func (b *Controller) measure() (progress float64) {
	before := b.readAt
	of := b.read((*processState).hasRun)
	calls := make([]uint64, len(b.functions))
	noticing := b.takeNoticing()
	for i, p := range b.processes {
		if p == nil {
			continue
		}
		now := p.cpuNow()
		passed := max(0, now-p.cpu-p.samples)
		p.wasted += of[i].skipped * countingCost
		p.wasting = of[i].skipped * countingCost / max(1, passed)
		p.cpu, p.samples = now, 0
		cost := of[i].cost(b.call) + passed*noticing
		// Rates would be too high with countingCost, which is meant for functions that are called rarely, too.
		own := max(of[i].ownTime(passed, cost-of[i].skipped*(countingCost-sampleCounting)), passed/20)
		cost = min(cost, passed-own)
		progress += own
		b.balance += own*b.share - cost
		p.unsampled += own
		for id, n := range of[i].calls {
			calls[id] += n
		}
		b.extrapolate(p, &of[i], own)
	}
	for id := range b.functions {
		f := &b.functions[id]
		if f.partly && !f.reached {
			f.partly = false
			b.change(uint32(id), reader.FunctionOn, before)
		}
		f.reached = false
		if f.off || !f.called {
			f.fresh = sampledRate{}
			continue
		}
		f.watched, f.made = f.watched+progress, f.made+float64(calls[id])
		f.fresh.ns += progress
		f.fresh.calls += float64(calls[id])
		// Rounds may be too short to measure a rate, especially while threads reach limits.
		if f.fresh.ns < leastMeasured {
			continue
		}
		rate := f.fresh.rate()
		f.rate = max(rate, f.rate+(rate-f.rate)/8) // an increase takes effect at once
		f.fresh = sampledRate{}
	}
	b.own += progress
	b.noticing = min(b.noticing+progress*b.share*noticingShare, mostNoticed)
	return progress
}

// takeNoticing returns the cost of noticing switches since the latest round, relative to the CPU time
// since then. It ends the noticing if it costs too much.
func (b *Controller) takeNoticing() float64 {
	passed := b.used()
	spent := min(b.spent, passed/2)
	b.noticing -= b.spent
	b.spent = 0
	b.blind = b.blind || b.noticing < -mostNoticed
	return spent / max(1, passed)
}

// extrapolate notes the given CPU time of a process, with the calls that were counted. The calls of
// functions that were off are estimated for that time.
func (b *Controller) extrapolate(p *processState, c *countedCalls, ns float64) {
	p.total += ns
	for id, calls := range c.calls {
		p.latest, p.estimates = upTo(p.latest, uint64(id)), upTo(p.estimates, uint64(id))
		seen, e := float64(calls), &p.estimates[id]
		if !e.off {
			continue
		}
		if l := &p.latest[id]; seen >= l.rate()*ns/2 {
			// The sleds of its entries were still on, so all calls were counted, as in a sample.
			*l = sampledRate{l.ns/2 + ns, l.calls/2 + seen}
			f := &b.functions[id]
			f.rate += (l.rate() - f.rate) / 4
			e.from += ns
			continue
		}
		e.seen += seen
	}
}

// choose decides which functions to record, and reports whether sleds have to be switched.
func (b *Controller) choose(now time.Time, progress float64) (changed bool) {
	// If recording has cost too much, for example at the start, the next seconds make up for it.
	used, room := 0.0, b.share*recordShare
	room = max(room/8, room+min(0, b.balance)/repayTime)
	list, always := b.candidates(now)
	for _, id := range always {
		used += b.functions[id].rate * b.callCost(id)
	}
	for _, c := range list {
		cost := c.cost
		most := room
		if c.off {
			most *= returningMargin
		}
		fits := !c.waits && used+cost <= most
		if fits {
			used += cost
		}
		for _, id := range c.ids {
			f := &b.functions[id]
			switch {
			case fits && f.off:
				b.switchFunction(id, true, now)
				changed = true
			case !fits && !f.off && (progress > 0 || c.off || f.top >= f.limit):
				b.switchFunction(id, false, now)
				changed = true
			}
			if !f.off {
				b.renewLimit(id)
			}
		}
	}
	return changed
}

// candidate is a function, or several that are switched together.
type candidate struct {
	ids   []uint32
	off   bool    // some of them are off
	waits bool    // it cannot be switched on yet
	cost  float64 // of recording all their calls, relative to the CPU time
	ranking.Function
}

// candidates returns the functions that have been called, the most valuable per call first, and apart
// from them those without limits.
func (b *Controller) candidates(now time.Time) (list []*candidate, always []uint32) {
	groups := make(map[string]*candidate)
	for id := range b.functions {
		f := &b.functions[id]
		waits := f.off && (f.samples.n == 0 || now.Before(f.offUntil))
		group := b.groups[uint32(id)]
		switch {
		case !f.called:
			continue
		case f.limit == ring.Unlimited:
			always = append(always, uint32(id))
			continue
		case waits && group == "":
			continue
		}
		c := groups[group]
		if c == nil {
			c = new(candidate)
			list = append(list, c)
			if group != "" {
				groups[group] = c
			}
		}
		c.ids = append(c.ids, uint32(id))
		c.off, c.waits, c.cost = c.off || f.off, c.waits || waits, c.cost+f.rate*b.callCost(uint32(id))
	}
	for _, c := range list {
		calls, squares, cost := 0.0, 0.0, 0.0
		for _, id := range c.ids {
			f := &b.functions[id]
			calls, squares, cost = calls+f.calls, squares+f.squares, cost+f.calls*b.readingCost(id)
		}
		cost = b.call + cost/max(1, calls)
		c.Function = ranking.Function{Cost: cost, Value: rootMeanSquare(squares, calls)} // both per call
		if !c.off {
			c.Value *= stayingAdvance
		}
	}
	slices.SortFunc(list, func(x, y *candidate) int {
		return cmp.Or(ranking.Compare(y.Function, x.Function), cmp.Compare(x.ids[0], y.ids[0]))
	})
	return list, always
}

// renewLimit raises the limit of a recorded function before its threads reach it. It does nothing
// while the function's rate is unknown: a thread with fewer calls than others would record all its
// calls until it catches up.
func (b *Controller) renewLimit(id uint32) {
	f := &b.functions[id]
	if f.rate == 0 {
		return
	}
	// A rate measured from few calls may be far off, so the calls so far limit the growth.
	quota := uint64(ring.TrialCalls + min(2*f.rate*quotaTime, mostGrowth*float64(f.top)))
	if f.top+quota/2 > f.limit {
		b.setLimit(id, f.top+quota)
	}
}

func (b *Controller) switchFunction(id uint32, on bool, now time.Time) {
	f := &b.functions[id]
	f.off = !on
	if on {
		b.setLimit(id, f.top+ring.TrialCalls)
	} else {
		b.setLimit(id, 0)
		f.offUntil = now.Add(f.backoff)
		f.backoff = min(2*f.backoff, mostBackoff)
	}
	for _, p := range b.processes {
		if p == nil {
			continue
		}
		if p.turn(int(id), !on); !on {
			p.assume(int(id), f.onRate())
		}
	}
	to := reader.FunctionOff
	if on {
		to = reader.FunctionOn
	}
	f.partly = false
	b.change(id, to, ring.ReadTSC())
}

// change notes that a function was switched.
func (b *Controller) change(id uint32, to reader.BudgetState, tsc uint64) {
	if b.history != nil && len(b.changes) == maxChanges {
		b.changes = slices.Delete(b.changes, 0, maxChanges/2)
	}
	if len(b.changes) < maxChanges {
		b.changes = append(b.changes, reader.BudgetChange{TSC: tsc, Func: reader.FuncID(id), To: to})
	}
}

// toSample chooses the process to sample, and which functions the sample counts and records. It returns
// nil for no sample.
func (b *Controller) toSample(sample bool, now time.Time) (at *processState) {
	if !sample || b.tokens < b.sampleCost || !slices.ContainsFunc(b.functions, func(f functionState) bool { return f.off }) {
		return nil
	}
	for _, p := range b.processes {
		if p != nil && p.control != nil && now.After(p.retry) && p.unsampled > 1e6 && (at == nil || p.unsampled > at.unsampled) {
			at = p
		}
	}
	if at != nil {
		if b.tokens > 3*b.sampleCost {
			b.length = min(b.length*5/4, longestSample)
		} else {
			b.length = max(b.length*3/4, shortestSample)
		}
		b.chooseCounted()
		b.chooseSampled()
	}
	return at
}

// chooseCounted chooses at random the functions whose calls the next sample counts. Counting takes about
// mostCounting. The probability of a function is inversely proportional to the root of its cost, which
// makes the sum of the relative variances of all estimates smallest. The cost is that of the mean rate: if
// the probability followed the present rate, it would be lowest whenever the function is called often. The
// first samples count each function, because nearly nothing is known about it.
func (b *Controller) chooseCounted() {
	n := len(b.functions)
	roots := 0.0
	root := func(f *functionState) float64 { return math.Sqrt(f.meanRate() * sampleCounting) }
	for id := range b.functions {
		if f := &b.functions[id]; f.off {
			roots += root(f)
		}
	}
	for id := range b.functions {
		f := &b.functions[id]
		f.chance = 0
		probability := mostCounting / max(mostCounting, roots*root(f))
		if f.samples.n < firstSamples {
			probability = 1
		}
		if f.off && b.random() < probability {
			f.chance = probability
		}
	}
	for first := 0; first < n; first += 32 {
		var uncounted uint32
		for i, f := range b.functions[first:min(first+32, n)] {
			if f.chance == 0 {
				uncounted |= 1 << i
			}
		}
		b.memory.setUncounted(uint32(first), uncounted)
	}
}

// chooseSampled chooses the functions of which the next sample records some calls.
func (b *Controller) chooseSampled() {
	left := min(b.tokens/4, mostRecording*float64(b.length))
	b.sampled = b.sampled[:0]
	for range b.functions {
		b.sampledFrom = (b.sampledFrom + 1) % len(b.functions)
		f := &b.functions[b.sampledFrom]
		if f.chance == 0 || b.groups[uint32(b.sampledFrom)] != "" {
			continue
		}
		id := uint32(b.sampledFrom)
		cost := b.callCost(id)
		most := max(1, math.Floor(sampledCalls*b.call/cost))
		left -= min(most, f.rate*float64(b.length)) * cost
		if left < 0 || len(b.sampled) == ring.MaxSampled {
			break
		}
		b.setLimit(id, f.top+uint64(most))
		b.sampled = append(b.sampled, id)
	}
	b.memory.setSampled(b.sampled)
}

// reply is the answer to the command budget.
type reply struct {
	SampleTicks uint64          `json:"sample_ticks"`
	SampleCPUNS uint64          `json:"sample_cpu_ns"`
	PatchingNS  uint64          `json:"patching_ns"`
	CutTSC      uint64          `json:"cut_tsc"`
	Cut         []reader.FuncID `json:"cut"`
}

// command has a process switch its sleds. It returns nil if that fails. Limits apply to the process's
// threads in any case.
func (b *Controller) command(ctx context.Context, p *processState, what string, now time.Time) *reply {
	if p.control == nil || ctx.Err() != nil || now.Before(p.retry) {
		return nil
	}
	// After sending a command, always wait for the answer, even in Stop: it lists the open calls whose exits
	// are missing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	answer := new(reply)
	if err := p.control.Do(ctx, answer, what); err != nil {
		p.retry = now.Add(100 * time.Millisecond)
		return nil
	}
	b.tokens -= float64(answer.PatchingNS)
	b.balance -= float64(answer.PatchingNS)
	p.stale, p.switched, p.wasted = false, p.cpu, 0
	if b.history != nil {
		b.mu.Lock()
		b.history.follow(ring.ReadTSC())
		b.mu.Unlock()
	}
	if answer.SampleCPUNS == 0 {
		b.switching += (float64(answer.PatchingNS) - b.switching) / 4
	}
	if len(answer.Cut) > 0 {
		b.mu.Lock()
		for _, id := range answer.Cut {
			if b.history != nil && len(p.cuts) == maxChanges {
				p.cuts = slices.Delete(p.cuts, 0, maxChanges/2)
			}
			if len(p.cuts) < maxChanges {
				p.cuts = append(p.cuts, reader.BudgetChange{TSC: answer.CutTSC, Func: id, To: reader.FunctionCut})
			}
		}
		b.mu.Unlock()
	}
	return answer
}

// sample counts calls of functions that are off in a process, for a moment.
//
// A sample stands for the CPU time since the previous sample of the process, and for the samples that did not
// count the function. That gives the weight in sums: samples are rarer when functions are called often,
// because each costs more. The latest samples share their weight. Otherwise, a sample at an idle moment would
// stand for the work before it.
func (b *Controller) sample(ctx context.Context, p *processState, now time.Time) {
	this := func(of *processState) bool { return of == p }
	b.mu.Lock()
	earlier := b.read(this)[p.index]
	b.mu.Unlock()
	b.balance -= earlier.cost(b.call)
	answer := b.command(ctx, p, fmt.Sprintf("budget sample=%d", b.affordable()), now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sampleSpent = b.memory.exhausted()
	c := &b.read(this)[p.index]
	for _, id := range b.sampled {
		if b.functions[id].off {
			b.setLimit(id, 0)
		}
	}
	if answer == nil {
		return
	}
	cpu, cost := float64(answer.SampleCPUNS), c.recorded*b.call+c.reading+c.skipped*sampleCounting
	b.tokens -= cost
	b.balance -= cost
	b.sampleCost = min(cost+float64(answer.PatchingNS), mostSaved/2)
	p.samples += cpu
	own := max(c.ownTime(cpu, cost), cpu*leastOwn)
	if own < float64(leastSample)/20 {
		return // the process was nearly idle
	}
	const older = 1. / 2
	p.sampled, p.whole = p.sampled*older+own, p.whole*older+p.unsampled+own
	p.unsampled = 0
	p.total += own
	n := uint64(len(b.functions))
	p.latest, p.estimates = upTo(p.latest, n-1), upTo(p.estimates, n-1)
	for id := range b.functions {
		f := &b.functions[id]
		if f.chance == 0 {
			continue
		}
		p.estimates[id].from += own
		weight := p.whole / p.sampled / f.chance
		at, all, calls := &p.latest[id], &p.estimates[id].samples, float64(c.calls[uint32(id)])
		*at = sampledRate{at.ns/2 + own, at.calls/2 + calls}
		all.ns, all.calls = all.ns+weight*own, all.calls+weight*calls
		f.rate += (at.rate() - f.rate) / 4
		f.samples.add(weight*calls, weight*own)
		f.counted += cpu
	}
}

// affordable returns the length of a sample of the chosen functions. If these are called often at present, the
// sample is shorter.
func (b *Controller) affordable() time.Duration {
	counting := 0.0
	for id := range b.functions {
		if f := &b.functions[id]; f.chance > 0 {
			counting += f.rate * sampleCounting
		}
	}
	return max(time.Duration(float64(b.length)*min(1, 2*mostCounting/counting)), leastSample)
}

// meanRate returns the mean rate of a function that is off.
func (f *functionState) meanRate() float64 {
	if f.samples.y == 0 {
		return f.onRate()
	}
	return f.samples.x / f.samples.y
}

// onRate returns the mean rate of a function while it was on. The latest rate may be a peak, which
// was the reason to switch the function off.
func (f *functionState) onRate() float64 {
	if f.watched == 0 {
		return f.rate
	}
	return f.made / f.watched
}

// assume sets the rate of a function that is off, until a sample measures it.
func (p *processState) assume(id int, rate float64) {
	p.latest = upTo(p.latest, uint64(id))
	p.latest[id] = sampledRate{float64(shortestSample), rate * float64(shortestSample)}
}

// ratio estimates the ratio of two quantities from pairs of samples, weighted by their denominators.
type ratio struct{ n, x, y, xx, xy, yy float64 }

func (r *ratio) add(x, y float64) {
	r.n++
	r.x, r.y = r.x+x, r.y+y
	r.xx, r.xy, r.yy = r.xx+x*x, r.xy+x*y, r.yy+y*y
}

// standardError returns the standard error of the ratio, by linearization (Cochran, Sampling
// Techniques, 6.4). It needs at least two samples.
func (r *ratio) standardError() float64 {
	q := r.x / r.y
	residual := max(0, r.xx-2*q*r.xy+q*q*r.yy)
	return math.Sqrt(residual*r.n/(r.n-1)) / r.y
}

// AlwaysRecord makes the budget always record a function.
func (b *Controller) AlwaysRecord(id uint32) {
	if id >= ring.MaxLimits {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.functions = upTo(b.functions, uint64(id))
	f := &b.functions[id]
	if f.off {
		b.changes = append(b.changes, reader.BudgetChange{TSC: ring.ReadTSC(), Func: reader.FuncID(id), To: reader.FunctionOn})
	}
	b.revived = b.revived || f.off
	f.called, f.off, f.backoff = true, false, leastBackoff
	for _, p := range b.processes {
		p.turn(int(id), false)
	}
	b.setLimit(id, ring.Unlimited)
}
