package why

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"unsafe"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// plan defines the cohorts.
type plan struct {
	root     func(reader.FuncID) bool
	rootFunc reader.FuncID // 0 if there are several
	locks    map[reader.FuncID]bool
	depth    int                    // of paths; 0 for no limit
	charged  map[reader.FuncID]bool // functions whose calls without callees count as their callers' time
	args     func(reader.FuncID) bool
	values   *calls.Expressions // nil if the trace has no values
	// The trace's time is divided into stretches of a width, from the first event on.
	first, width uint64
	stretches    int
	span         span
	lost         lossPoints
	origins      []Origin // nil unless the files are of several machines
	// processes is Options.Processes, or nil if no process has several files.
	processes []int
	slow      uint64 // minimum duration of slow calls
	offCPU    bool   // the trace says when threads were off CPU
	nested    bool   // calls of the root inside others are explained, too
	// Of durations without foreign time:
	ownSlow uint64 // minimum duration of slow calls
	low     uint64 // limits of usual calls
	high    uint64
	median  uint64
	pruned  uint64 // duration below which the recorder dropped calls, if offCPU is set; 0 for none
	// keep is the part of the slow calls that are kept, of 2^64. The largest number means
	// all.
	keep uint64
}

// isSlow reports whether an invocation is slow. own is its duration without foreign time.
func (p *plan) isSlow(duration, own uint64) bool { return own >= p.ownSlow || duration >= p.slow }

// isUsual reports whether an invocation that is not slow is usual.
func (p *plan) isUsual(own uint64) bool { return own >= p.low && own <= p.high }

// identity returns the same thread for all files of its process.
func (p *plan) identity(t reader.Thread) reader.Thread {
	if p.processes != nil {
		t.File = int32(p.processes[t.File])
	}
	return t
}

// hole is a time between two events in which a call had no open callee.
type hole struct {
	start, end    uint64
	before, after reader.FuncID // calls before and after it; 0 for none
	lock          uint64        // address of the lock that was waited for; 0 if unknown
	off           uint64        // ticks of it off CPU
}

// ticks returns the time on CPU, if off-CPU times are known, or all of the time.
func (h hole) ticks() uint64 { return h.end - h.start - h.off }

// visit is what one call of the root did on one path.
type visit struct {
	node  node
	calls uint32
	self  uint64
	off   calls.Off // of self
	hole  hole
	block span // the longest time blocked at a stretch
	// faulted is the part of off.Blocked in which the thread also had major page faults.
	faulted uint64
}

// argument is a logged argument, or a custom event, whose value is a hash.
type argument struct {
	fn    reader.FuncID // 0 for custom events
	value uint64
	text  string // of a custom event
}

// maxText is the maximum length of custom events that are compared. Longer ones are probably
// data, and all different.
const maxText = 64

// maxArguments is the maximum number of arguments of an invocation that are kept.
const maxArguments = 32

// rootCall is one invocation of the root, an outermost call unless plan.nested is set.
type rootCall struct {
	thread   int // see Batch.Index
	id       reader.Thread
	index    int    // among the invocations of its thread, from 0
	depth    uint32 // of the call, with plan.nested
	start    uint64
	duration uint64
	foreign  uint64 // of duration, see foreign
	recorder uint64 // of foreign
	// interrupted is the part of foreign in which interrupts ran.
	interrupted uint64
	queue       span // the longest time in the run queue at a stretch
	late        bool // slow even without foreign time
	visits      []visit
	args        []argument
	picks       []pick
}

// own returns the duration without foreign time.
func (v *rootCall) own() uint64 { return v.duration - v.foreign }

func (v *rootCall) clone() rootCall {
	c := *v
	c.visits, c.args, c.picks = slices.Clone(v.visits), slices.Clone(v.args), clonePicks(v.picks)
	return c
}

// earlier orders invocations by thread and time.
func earlier(a, b *rootCall) int {
	return cmp.Or(cmp.Compare(a.id.File, b.id.File), cmp.Compare(a.id.Process, b.id.Process),
		cmp.Compare(a.id.Thread, b.id.Thread), cmp.Compare(a.index, b.index))
}

// pathSum is a path summed over all usual invocations.
type pathSum struct {
	have, calls, self uint64
	off               calls.Off // of self
}

// counted is the number of buckets in which arguments of usual invocations are counted.
// Arguments that share a bucket look more frequent than they are, so differences look
// smaller.
const counted = 1 << 14

// cohorts is the pass that examines paths.
type cohorts struct {
	plan    *plan
	places  *places
	threads []*opened // by Batch.Index
	current *opened
	slot    []int32 // by node, index of its visit in current, from 1

	usual struct {
		count, ticks uint64
		foreign      uint64 // of ticks
		recorder     uint64 // of foreign
		interrupted  uint64 // of foreign
		paths        []pathSum
		args         []uint32 // by bucket
	}
	slowCount uint64
	slowTicks uint64
	slow      []rootCall
	middle    rootCall // the usual invocation nearest to the median
	valued    *valued  // nil without plan.values
	loops     *loops   // nil if the trace has no event loops
	scratch   []calls.Recorded
	kept      int64 // visits of slow
	under     int64 // capacity of threads for visits and siblings
}

// Memory implements [calls.MemoryUser].
func (c *cohorts) Memory() int64 {
	const perThread = 256
	visits := c.kept + c.under
	values := int64(0)
	if c.valued != nil {
		values = c.valued.held
	}
	return values + int64(unsafe.Sizeof(visit{}))*visits + perThread*int64(len(c.threads))
}

// opened is what a thread has done since its latest invocation ended.
type opened struct {
	rootCall
	total    int // invocations so far
	slow     int // those that are slow
	siblings []siblings
	spare    [][]calls.Recorded            // values of picks that are used again
	off      []openOff                     // by depth of the open call
	nest     *invocation.Nest[visit, once] // with plan.nested: what open invocations have
}

// once has the properties of an invocation that do not belong to a path.
type once struct {
	args  []argument
	picks []pick
	queue span
}

// plus adds the properties of a nested invocation.
func (o *once) plus(p *once) {
	if p.queue.ticks() > o.queue.ticks() {
		o.queue = p.queue
	}
	for _, a := range p.args {
		o.args = addArgument(o.args, a)
	}
	o.picks = longer(o.picks, p.picks...)
}

func (v *visit) plus(o *visit) {
	v.node = o.node
	v.calls += o.calls
	v.self += o.self
	v.off.Add(o.off)
	v.faulted += o.faulted
	if o.hole.ticks() > v.hole.ticks() {
		v.hole = o.hole
	}
	if o.block.ticks() > v.block.ticks() {
		v.block = o.block
	}
}

// gather merges the data of open invocations at a depth or deeper into t. Without plan.nested, t
// has all data already.
func (t *opened) gather(depth uint32) {
	if t.nest == nil {
		return
	}
	*t.nest.Extra() = once{t.args, t.picks, t.queue}
	t.nest.Gather(depth)
	x := t.nest.Extra()
	t.args, t.picks, t.queue = x.args, x.picks, x.queue
}

// drop discards the data of invocations at a depth or deeper.
func (t *opened) drop(depth uint32) {
	if t.nest != nil {
		t.gather(depth)
		t.nest.Reset()
		t.args, t.picks, t.queue = nil, nil, span{}
	}
}

// skip handles a call inside a lock function, or outside of all invocations.
func (t *opened) skip(call *calls.Call, outside bool) {
	if t.nest == nil {
		return
	}
	if outside {
		t.nest.Clear()
		t.args, t.picks, t.queue = nil, nil, span{}
	} else {
		t.drop(call.Depth + 1)
	}
	if inside := int(call.Depth) + 1; inside < len(t.siblings) {
		t.siblings[inside] = siblings{}
	}
}

// siblings describes the calls made from an open call.
type siblings struct {
	any         bool
	firstStart  uint64
	first, last reader.FuncID
	lastEnd     uint64
	firstOff    uint64 // ticks off CPU of the caller before the first
	longest     hole   // only if most is not 0
	most        uint64
}

// maxHoleDepth is the depth up to which holes are found.
const maxHoleDepth = 1024

func newCohorts(p *plan) *cohorts {
	c := &cohorts{plan: p, places: newPlaces(p), valued: newValued(p)}
	c.usual.args = make([]uint32, counted)
	return c
}

func (c *cohorts) Calls(b *calls.Batch) error {
	c.places.find(b.Paths)
	t := c.use(b)
	defer c.measure(t, t.size())
	args, events, waits, gaps := b.Args, b.Events, b.Waits, b.Gaps
	examined := 0 // the invocations that end with calls before it are to be examined
	for i := 0; i < len(b.Calls); i++ {
		if i == examined && t.nest == nil {
			examined = c.invocation(b, i)
			last := &b.Calls[examined-1]
			if end := last.Start + last.Duration; c.ignores(b, examined-1) {
				for len(args) > 0 && args[0].Call < examined {
					args = args[1:]
				}
				for len(waits) > 0 && waits[0].Call < examined {
					waits = waits[1:]
				}
				for len(gaps) > 0 && gaps[0].To <= end {
					gaps = gaps[1:]
				}
				for len(events) > 0 && events[0].TSC <= end {
					events = events[1:]
				}
				c.ignore(t, b, i, examined-1)
				i = examined - 1
				continue
			}
		}
		call := &b.Calls[i]
		var w calls.Wait
		if len(waits) > 0 && waits[0].Call == i {
			w, waits = waits[0], waits[1:]
		}
		for len(gaps) > 0 && gaps[0].To <= call.Start+call.Duration {
			c.gap(t, &gaps[0])
			gaps = gaps[1:]
		}
		for len(events) > 0 && events[0].TSC <= call.Start+call.Duration {
			c.event(t, b, &events[0])
			events = events[1:]
		}
		own := args
		for len(args) > 0 && args[0].Call == i {
			args = args[1:]
		}
		own = own[:len(own)-len(args)]
		if p := c.places.list[call.Path]; p.kind.counts() {
			if c.describes(call) {
				c.pick(t, b, i, p.kind)
			}
			c.add(t, call, p, own, &w)
		} else {
			if c.plan.offCPU {
				t.close(call, p.kind == insideLock)
			}
			t.skip(call, p.kind == outside)
		}
	}
	for i := range gaps {
		c.gap(t, &gaps[i])
	}
	for i := range events {
		c.event(t, b, &events[i])
	}
	if c.loops != nil {
		c.loops.see(b)
	}
	return nil
}

// describes reports whether the values of a call's function were recorded and are compared.
func (c *cohorts) describes(call *calls.Call) bool {
	return c.valued != nil && c.plan.values.Describe(call.Func) && (c.plan.args == nil || c.plan.args(call.Func))
}

// invocation returns the number of calls of a batch up to the end of the invocation that call i is part of or comes
// before, or all if that ends later.
func (c *cohorts) invocation(b *calls.Batch, i int) int {
	for ; i < len(b.Calls); i++ {
		if c.places.list[b.Calls[i].Path].kind == top {
			return i + 1
		}
	}
	return len(b.Calls)
}

// ignores reports whether call i ends an invocation that is neither slow nor usual.
func (c *cohorts) ignores(b *calls.Batch, i int) bool {
	call := &b.Calls[i]
	if c.places.list[call.Path].kind != top {
		return false
	}
	own := call.Duration
	if w := waitOf(b.Waits, i); w != nil {
		own -= foreign(w.Total)
	}
	return !c.plan.isSlow(call.Duration, own) && !c.plan.isUsual(own)
}

// ignore ends an invocation that is neither slow nor usual with the calls from to last, without what these did.
// Only the samples of values are of all invocations.
func (c *cohorts) ignore(t *opened, b *calls.Batch, from, last int) {
	for i := from; c.valued != nil && i <= last; i++ {
		if p := c.places.list[b.Calls[i].Path]; p.kind.counts() && c.describes(&b.Calls[i]) {
			c.pick(t, b, i, p.kind)
		}
	}
	call := &b.Calls[last]
	if c.complete(t, call) {
		t.total++
	}
	if from == 0 { // an earlier batch may have calls of it
		for depth := int(call.Depth); depth < max(len(t.siblings), len(t.off)); depth++ {
			if depth < len(t.siblings) {
				t.siblings[depth] = siblings{}
			}
			if depth < len(t.off) {
				t.off[depth] = openOff{}
			}
		}
	}
	c.forget(t)
}

// measure counts the additional capacity of a thread, which had one before.
func (c *cohorts) measure(t *opened, before int) {
	c.under += int64(t.size() - before)
}

// size is the capacity of a thread.
func (t *opened) size() int {
	n := cap(t.visits) + cap(t.siblings)
	if t.nest != nil {
		n += t.nest.Len()
	}
	return n
}

// use returns the thread of b, and makes slot refer to it.
func (c *cohorts) use(b *calls.Batch) *opened {
	c.threads = grow(c.threads, b.Index+1)
	t := c.threads[b.Index]
	if t == nil {
		t = &opened{rootCall: rootCall{thread: b.Index, id: b.Thread}}
		if c.plan.nested {
			t.nest = invocation.NewNest((*visit).plus, (*once).plus)
		}
		c.threads[b.Index] = t
	}
	if t != c.current {
		if c.current != nil {
			for i := range c.current.visits {
				c.slot[c.current.visits[i].node] = 0
			}
		}
		c.current = t
		for i := range t.visits {
			c.slot[t.visits[i].node] = int32(i + 1)
		}
	}
	return t
}

func (c *cohorts) event(t *opened, b *calls.Batch, e *calls.Event) {
	if c.places.list[e.Path].kind == outside || len(e.Data) > maxText {
		return
	}
	h := fnv.New64a()
	h.Write(e.Data)
	t.gather(e.Depth)
	t.argument(argument{0, h.Sum64(), string(e.Data)})
}

func (t *opened) argument(a argument) { t.args = addArgument(t.args, a) }

func addArgument(args []argument, a argument) []argument {
	if len(args) < maxArguments && !slices.Contains(args, a) {
		return append(args, a)
	}
	return args
}

// add adds a call of the root or below it.
func (c *cohorts) add(t *opened, call *calls.Call, p place, args []calls.Arg, w *calls.Wait) {
	node, self, off, counts := p.node, call.Self, w.Self, p.kind == below && p.node > 0
	isLock, address := false, uint64(0)
	if len(c.plan.locks) > 0 && counts {
		var own bool
		if own, isLock = c.plan.locks[call.Func]; isLock {
			self, off = call.Duration, w.Total
			if len(args) > 0 {
				address = args[0].Value
			}
			if own && address != 0 {
				s := c.places.tree.steps[node]
				node = c.places.tree.child(s.parent, s.fn, address)
			}
		}
	}
	switch {
	case p.kind == top:
		t.gather(call.Depth + 1)
	case isLock:
		t.drop(call.Depth + 1) // it is the lock's own time
		fallthrough
	default:
		t.gather(call.Depth)
	}
	if !isLock {
		for _, a := range args {
			if (c.plan.args == nil || c.plan.args(call.Func)) && !c.plan.values.Describe(call.Func) {
				t.argument(argument{fn: call.Func, value: a.Value})
			}
		}
		if counts && (len(c.plan.charged) > 0 && c.plan.charged[call.Func] || call.Duration-foreign(w.Total) < c.plan.pruned) && t.leaf(call) {
			node, counts = c.places.tree.steps[node].parent, false
		}
	}
	v := c.visit(t, node)
	if counts {
		v.calls++
	}
	v.self += self
	var ended openOff
	if c.plan.offCPU {
		v.off.Add(off)
		if ended = t.close(call, false); ended.block.ticks() > v.block.ticks() {
			v.block = ended.block
		}
		v.faulted += ended.faulted
	}
	t.hole(call, isLock, ended.off, address, &v.hole)
	if p.kind == top {
		v.calls = 1
		t.foreign, t.recorder, t.interrupted = foreign(w.Total), w.Total.Recorder, w.Total.Interrupted
		c.end(t, call)
	}
}

// leaf reports whether a call made no calls.
func (t *opened) leaf(call *calls.Call) bool {
	inside := int(call.Depth) + 1
	return inside >= len(t.siblings) || !t.siblings[inside].any
}

func (c *cohorts) visit(t *opened, n node) *visit {
	if t.nest != nil {
		v := t.nest.Item(uint32(n))
		v.node = n
		return v
	}
	if int(n) >= len(c.slot) {
		c.slot = grow(c.slot, len(c.places.tree.steps)+int(n)/2)
	}
	if c.slot[n] == 0 {
		t.visits = append(t.visits, visit{node: n})
		c.slot[n] = int32(len(t.visits))
	}
	return &t.visits[c.slot[n]-1]
}

// hole makes longest the longest time in which a call had no open callee, if that is longer than longest, and adds
// the call to the siblings of its caller. Calls come in the order in which they end, so callees come first.
// off is how long the thread was off CPU since the last callee ended. lock is for holes of this call.
func (t *opened) hole(call *calls.Call, leaf bool, off, lock uint64, longest *hole) {
	end := call.Start + call.Duration
	depth := int(call.Depth)
	if depth+2 > len(t.siblings) && depth < maxHoleDepth {
		t.siblings = grow(t.siblings, depth+2)
	}
	most := longest.ticks()
	if depth >= maxHoleDepth || leaf || !t.siblings[depth+1].any {
		if call.Duration-off > most {
			*longest = hole{start: call.Start, end: end, lock: lock, off: off}
		}
	} else {
		inside := &t.siblings[depth+1]
		if inside.most > most {
			*longest, most = inside.longest, inside.most
			longest.lock = lock
		}
		if ticks := inside.firstStart - call.Start - inside.firstOff; ticks > most {
			*longest, most = hole{start: call.Start, end: inside.firstStart, after: inside.first, lock: lock, off: inside.firstOff}, ticks
		}
		if end-inside.lastEnd-off > most {
			*longest = hole{start: inside.lastEnd, end: end, before: inside.last, lock: lock, off: off}
		}
	}
	if depth >= maxHoleDepth {
		return
	}
	t.siblings[depth+1].any = false
	s := &t.siblings[depth]
	before := t.offBefore(call)
	if !s.any {
		s.any, s.firstStart, s.first, s.firstOff, s.most = true, call.Start, call.Func, before, 0
	} else if ticks := call.Start - s.lastEnd - before; ticks > s.most {
		s.longest, s.most = hole{s.lastEnd, call.Start, s.last, call.Func, 0, before}, ticks
	}
	s.last, s.lastEnd = call.Func, end
}

// end finishes the invocation of t, which ends with call.
func (c *cohorts) end(t *opened, call *calls.Call) {
	if t.nest != nil {
		t.visits, t.depth = t.nest.Items(), call.Depth
	} else if call.Depth < maxHoleDepth {
		t.siblings[call.Depth] = siblings{}
	}
	if c.complete(t, call) {
		t.start, t.duration, t.index = call.Start, call.Duration, t.total
		t.total++
		c.sort(t)
	}
	t.foreign, t.recorder, t.interrupted = 0, 0, 0
	if t.nest != nil {
		t.visits = nil
		t.gather(call.Depth) // it may be part of another one
		return
	}
	c.forget(t)
}

// complete reports whether an invocation that ends with call is explained.
func (c *cohorts) complete(t *opened, call *calls.Call) bool {
	return !call.Partial() && c.plan.span.has(call.Start) && !c.plan.lost.within(t.thread, call)
}

// forget discards what the invocation of t that has ended did.
func (c *cohorts) forget(t *opened) {
	for i := range t.visits {
		c.slot[t.visits[i].node] = 0
	}
	for i := range t.picks {
		t.spare = append(t.spare, t.picks[i].values)
	}
	t.visits, t.args, t.picks, t.queue = t.visits[:0], t.args[:0], t.picks[:0], span{}
}

// sort puts the invocation that has ended into its cohort.
func (c *cohorts) sort(t *opened) {
	v := &t.rootCall
	own := v.own()
	v.late = own >= c.plan.ownSlow
	switch {
	case c.plan.isSlow(v.duration, own):
		t.slow++
		c.slowCount++
		c.slowTicks += v.duration
		if v.hash() <= c.plan.keep {
			c.slow = append(c.slow, v.clone())
			c.kept += int64(len(v.visits))
			for i := range v.picks {
				c.valued.held += v.picks[i].size()
			}
		}
	case c.plan.isUsual(own):
		c.control(v)
		o := &c.usual
		o.count++
		o.ticks += v.duration
		o.foreign += v.foreign
		o.recorder += v.recorder
		o.interrupted += v.interrupted
		o.paths = grow(o.paths, len(c.places.tree.steps))
		for i := range v.visits {
			w := &v.visits[i]
			p := &o.paths[w.node]
			p.have++
			p.calls += uint64(w.calls)
			p.self += w.self
			p.off.Add(w.off)
		}
		for _, a := range v.args {
			o.args[a.bucket()]++
		}
		if c.nearer(v, &c.middle) {
			c.middle = v.clone()
		}
	}
}

// nearer reports whether a is nearer to the median than b.
func (c *cohorts) nearer(a, b *rootCall) bool {
	distance := func(v *rootCall) uint64 {
		if len(v.visits) == 0 {
			return math.MaxUint64
		}
		return max(v.own(), c.plan.median) - min(v.own(), c.plan.median)
	}
	return cmp.Or(cmp.Compare(distance(a), distance(b)), earlier(a, b)) < 0
}

// hash is the random number for the sample of slow calls.
func (v *rootCall) hash() uint64 {
	return mix(mix(v.start) ^ uint64(uint32(v.id.Thread))<<32 ^ uint64(uint32(v.id.Process)))
}

func (a argument) bucket() uint64 {
	return mix(a.value^uint64(uint32(a.fn))*0x9e3779b97f4a7c15) % counted
}

// mix is the last step of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Merge adds the invocations of other.
func (c *cohorts) Merge(other *cohorts) {
	if c.loops != nil {
		c.loops.merge(other.loops)
	}
	to := c.places.tree.remap(other.places.tree)
	for i := range other.slow {
		c.slow = append(c.slow, other.slow[i])
		c.kept += int64(len(other.slow[i].visits))
		other.slow[i].renumber(to)
	}
	other.middle.renumber(to)
	if c.nearer(&other.middle, &c.middle) {
		c.middle = other.middle
	}
	o, p := &c.usual, &other.usual
	o.count += p.count
	o.ticks += p.ticks
	o.foreign += p.foreign
	o.recorder += p.recorder
	o.interrupted += p.interrupted
	o.paths = grow(o.paths, len(c.places.tree.steps))
	for n, s := range p.paths {
		m := &o.paths[to[n]]
		m.have += s.have
		m.calls += s.calls
		m.self += s.self
		m.off.Add(s.off)
	}
	for i, n := range p.args {
		o.args[i] += n
	}
	c.valued.merge(other.valued)
	c.slowCount += other.slowCount
	c.slowTicks += other.slowTicks
	for i, t := range other.threads {
		if t != nil {
			c.threads = grow(c.threads, i+1)
			c.threads[i] = t
		}
	}
}

func (v *rootCall) renumber(to []node) {
	for i := range v.visits {
		v.visits[i].node = to[v.visits[i].node]
	}
}

// inOrder numbers the nodes of an invocation anew, and sorts its visits by them.
func (v *rootCall) inOrder(to []node) {
	v.renumber(to)
	slices.SortFunc(v.visits, func(a, b visit) int { return cmp.Compare(a.node, b.node) })
}

// settle sorts everything into an order that does not depend on shards.
func (c *cohorts) settle() {
	old := c.places.tree
	c.places.tree = old.sorted()
	to := c.places.tree.remap(old)
	paths := make([]pathSum, len(old.steps))
	for n, s := range c.usual.paths {
		paths[to[n]] = s
	}
	c.usual.paths = paths
	slices.SortFunc(c.slow, func(a, b rootCall) int { return earlier(&a, &b) })
	for i := range c.slow {
		c.slow[i].inOrder(to)
	}
	c.middle.inOrder(to)
}

// cut keeps the n slow calls that are longest, and the n that are longest without foreign
// time.
func (c *cohorts) cut(n int) {
	if n >= len(c.slow) {
		return
	}
	slices.SortStableFunc(c.slow, func(a, b rootCall) int { return cmp.Compare(b.own(), a.own()) })
	for i := range c.slow {
		c.slow[i].late = i < n
	}
	slices.SortStableFunc(c.slow, func(a, b rootCall) int { return cmp.Compare(b.duration, a.duration) })
	kept := c.slow[:n]
	for _, v := range c.slow[n:] {
		if v.late {
			kept = append(kept, v)
		} else {
			c.threads[v.thread].slow--
		}
	}
	c.slow = kept
	c.slowCount, c.slowTicks = uint64(len(kept)), 0
	for i := range c.slow {
		c.slowTicks += c.slow[i].duration
	}
	slices.SortFunc(c.slow, func(a, b rootCall) int { return earlier(&a, &b) })
}
