package why_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
)

// mutexes says how the contended program takes locks.
type mutexes struct {
	addresses bool // lock and unlock log the address
	noUnlocks bool // unlock has no sled
	guard     bool // lock and unlock are called by a guard
	waits     bool // the flusher also waits for a condition, without the lock
	named     bool // what the flusher does meanwhile is in a function with the name of a condition
}

const (
	theLock, otherLock = 0xbb, 0xaa
	every, takes       = 400_000, 100_000
	guardOn            = reader.FuncID(50)
	guardOff           = reader.FuncID(51)
	condWait           = reader.FuncID(52)
	bystander          = reader.FuncID(53)
	namedWait          = reader.FuncID(54)
)

// lock takes a lock after a wait.
func (m mutexes) lock(t *thread, address, wait uint64) {
	if m.guard {
		t.event(reader.Enter, guardOn)
		defer t.event(reader.Exit, guardOn)
	}
	t.event(reader.Enter, lock)
	if m.addresses {
		t.events[len(t.events)-1].Kind, t.events[len(t.events)-1].Side = reader.EnterArg, true
		t.args = append(t.args, reader.Arg{Event: len(t.events) - 1, Value: address})
	}
	t.now += wait
	t.event(reader.Exit, lock)
}

func (m mutexes) unlock(t *thread, address uint64) {
	if m.guard {
		t.event(reader.Enter, guardOff)
		defer t.event(reader.Exit, guardOff)
	}
	switch {
	case m.noUnlocks:
		t.now += 50
	case m.addresses:
		t.callArg(unlock, address, 50)
	default:
		t.call(unlock, 50)
	}
}

// contended is a program whose requests wait while another thread has the lock, in flush. That
// thread spends most of the time in sort. A bystander works at the same times.
func contended(m mutexes) *program {
	p := newProgram(3)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 100, func() {
			if m.addresses {
				m.lock(t, otherLock, 60)
				t.call(row, 100)
				m.unlock(t, otherLock)
			}
			wait := uint64(60)
			if at := t.now % every; t.now > every && at > 10_000 && at < 10_000+takes {
				wait = 10_000 + takes - at
			}
			m.lock(t, theLock, wait)
			t.now += 30
			m.unlock(t, theLock)
		})
	})
	end := p.threads[0].now
	flusher := &thread{now: 1000, rng: rand.New(rand.NewPCG(2, 2))}
	other := &thread{now: 1000, rng: rand.New(rand.NewPCG(3, 3))}
	for k := uint64(1); k*every < end; k++ {
		flusher.now = k * every
		flusher.event(reader.Enter, flush)
		if m.waits {
			m.lock(flusher, theLock, 60)
			flusher.event(reader.Enter, condWait)
			flusher.now = k*every + 9_500
			flusher.event(reader.Exit, condWait)
		} else {
			flusher.now += 9_000
			m.lock(flusher, theLock, 60)
		}
		flusher.now = k*every + 10_000
		if m.named {
			// It waits for nothing, but takes a lock of its own.
			flusher.event(reader.Enter, namedWait)
			m.lock(flusher, otherLock, 60)
			m.unlock(flusher, otherLock)
		}
		flusher.event(reader.Enter, sort)
		flusher.now += takes * 8 / 10
		flusher.event(reader.Exit, sort)
		flusher.now += takes * 2 / 10
		if m.named {
			flusher.event(reader.Exit, namedWait)
		}
		m.unlock(flusher, theLock)
		flusher.event(reader.Exit, flush)
		other.now = k*every + 9_000
		other.event(reader.Enter, bystander)
		other.now += takes + 2_000
		other.event(reader.Exit, bystander)
	}
	p.threads = append(p.threads, flusher, other)
	return p
}

// Lock events tell which thread is the holder, not which threads are busy at the time.
func TestHolderOfTheLock(t *testing.T) {
	for name, m := range map[string]mutexes{
		"addresses":            {addresses: true},
		"guard":                {addresses: true, guard: true},
		"functions":            {},
		"no unlocks":           {addresses: true, noUnlocks: true},
		"functions, no unlock": {noUnlocks: true},
		"condition":            {addresses: true, waits: true},
		"name of a condition":  {addresses: true, named: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Role = func(fn reader.FuncID) why.Role {
				return map[reader.FuncID]why.Role{lock: why.Locks, unlock: why.Unlocks, condWait: why.WaitsUnlocked, namedWait: why.WaitsUnlocked}[fn]
			}
			c := only(t, explain(t, contended(m), o))
			if c.Kind != why.LockWait || c.Func != lock || m.addresses && c.Lock != theLock {
				t.Fatalf("got %+v", c)
			}
			want := why.Holder{Scope: flush, Self: sort, Evidence: why.ByFunction}
			if m.addresses {
				want.Evidence = why.ByAddress
			}
			h := c.Holder
			if h == nil {
				t.Fatal("got no holder")
			}
			if h.Covered < 0.95 || h.Covered > 1 || h.SelfShare < 0.7 || h.SelfShare > 0.9 {
				t.Errorf("got coverage %v, by itself %v", h.Covered, h.SelfShare)
			}
			got := *h
			got.Covered, got.SelfShare = 0, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A thread that waits for a condition for a long time is not the holder in that time.
func TestConditionsGiveLocksBack(t *testing.T) {
	m := mutexes{addresses: true}
	p := contended(m)
	idle := &thread{now: 1000, rng: rand.New(rand.NewPCG(4, 4))}
	idle.event(reader.Enter, parse)
	m.lock(idle, theLock, 60)
	idle.event(reader.Enter, condWait)
	idle.now = p.threads[0].now
	idle.event(reader.Exit, condWait)
	m.unlock(idle, theLock)
	idle.event(reader.Exit, parse)
	p.threads = append(p.threads, idle)
	o := options()
	o.Role = func(fn reader.FuncID) why.Role {
		return map[reader.FuncID]why.Role{lock: why.Locks, unlock: why.Unlocks, condWait: why.WaitsUnlocked, namedWait: why.WaitsUnlocked}[fn]
	}
	if h := only(t, explain(t, p, o)).Holder; h == nil || h.Scope != flush {
		t.Errorf("got %+v", h)
	}
}

// Some requests hold a lock for long and others queue for it. The cause of the wait is linked to
// the cause of the long hold.
func TestConvoyIsLinked(t *testing.T) {
	m := mutexes{addresses: true}
	p := newProgram(8)
	leader := p.threads[0]
	p.requests(3000, func(th *thread, i int) {
		th.call(query, 300, func() {
			wait := uint64(60)
			turn, at := th.now/2_000_000, th.now%2_000_000
			switch {
			case th == leader && turn > uint64(i)/2000 && at < 20_000:
				m.lock(th, theLock, 60)
				th.now = turn*2_000_000 + 20_000
				th.call(rebuild, 100, func() { th.now = turn*2_000_000 + 400_000 })
				m.unlock(th, theLock)
				return
			case th != leader && turn > 0 && at > 20_000 && at < 400_000:
				wait = 400_000 - at
			}
			m.lock(th, theLock, wait)
			th.now += 100
			m.unlock(th, theLock)
		})
	})
	r := explain(t, p, options())
	if len(r.Causes) != 2 {
		t.Fatalf("got %+v", r.Causes)
	}
	for i, c := range r.Causes {
		if c.Incident != 1 {
			t.Errorf("cause %d is of incident %d", i+1, c.Incident)
		}
		switch c.Kind {
		case why.LockWait:
			if h := c.Holder; h == nil || h.Scope != query || h.Self != rebuild || h.Cause != 2-i {
				t.Errorf("got %+v", h)
			}
		case why.NewPath:
			if c.Func != rebuild {
				t.Errorf("got %+v", c)
			}
		}
	}
}

// Noise has no cause, but the report says what other threads did at the time.
func TestRestCoincides(t *testing.T) {
	p := newProgram(4)
	const burst, lasts = 1_000_000, 60_000
	p.requests(4000, func(t *thread, i int) {
		stopped := t.rng.IntN(4)
		for i, fn := range []reader.FuncID{query, row, work, sort} {
			t.call(fn, 1000, func() {
				if at := t.now % burst; i == stopped && t.now > burst && at < lasts {
					t.now += lasts - at
				}
			})
		}
	})
	burner := &thread{now: 1000, rng: rand.New(rand.NewPCG(5, 5))}
	for k := uint64(1); k*burst < p.threads[0].now; k++ {
		burner.now = k * burst
		burner.event(reader.Enter, flush)
		burner.now += lasts
		burner.event(reader.Exit, flush)
	}
	p.threads = append(p.threads, burner)
	r := explain(t, p, options())
	if len(r.Causes) != 0 {
		t.Fatalf("got %+v", r.Causes)
	}
	if h := r.Meanwhile; h == nil || h.Self != flush || h.Covered < 0.9 {
		t.Errorf("got %+v", h)
	}
}

// parts are traces of parts of a run, each of them a file.
type parts []*program

// Each implements calls.Source.
func (p parts) Each(n int, fn func(int, *reader.Block) error) error {
	for file, part := range p {
		err := part.Each(n, func(shard int, b *reader.Block) error {
			b.Thread.File, b.Index = int32(file), file*len(part.threads)+b.Index
			return fn(shard, b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Between traces of slow calls are long times of which nothing is known. A thread that is in main in all traces
// is not the reason for what is slow in them.
func TestTimesBetweenTraces(t *testing.T) {
	var all parts
	for file := range 40 {
		p := newProgram(2)
		slow, other := p.threads[0], p.threads[1]
		slow.now += uint64(file) * 1e9
		other.now = slow.now
		for i := range 40 {
			slow.call(handle, 2000, func() {
				slow.call(query, 500, func() {
					if file%2 == 1 && i == 20 {
						slow.switched(10_000_000, 0)
					}
				})
			})
		}
		other.call(main, 500, func() { other.call(flush, 500, func() { other.now = slow.now }) })
		all = append(all, p)
	}
	o := known()
	o.Processes = make([]int, len(all))
	c := only(t, explain(t, all, o))
	if c.Func != query || c.Kind != why.Blocked || c.Holder != nil {
		t.Errorf("got %+v, %+v", c, c.Holder)
	}
}

// The same holds for times between the windows of a recording.
func TestTimesBetweenWindows(t *testing.T) {
	p := newProgram(2)
	var windows []reader.RecordedWindow
	slow, other := p.threads[0], p.threads[1]
	for n := range 40 {
		from := slow.now
		for i := range 40 {
			slow.call(handle, 2000, func() {
				slow.call(query, 500, func() {
					if n%2 == 1 && i == 20 {
						slow.switched(10_000_000, 0)
					}
				})
			})
		}
		other.call(main, 500, func() { other.call(flush, 500, func() { other.now = slow.now }) })
		windows = append(windows, reader.RecordedWindow{From: from, To: slow.now})
		slow.now += 1e9
		other.now = slow.now
	}
	o := known()
	o.Windows = func(int) []reader.RecordedWindow { return windows }
	c := only(t, explain(t, p, o))
	if c.Func != query || c.Kind != why.Blocked || c.Holder != nil {
		t.Errorf("got %+v, %+v", c, c.Holder)
	}
}
