package recorder

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// Limiter keeps what a recording costs a process, which writes its trace itself, below a share of the
// process's CPU time. It reads the process's memory and decides which functions are recorded. It is not
// safe for concurrent use.
type Limiter struct {
	live   *Live
	cancel context.CancelFunc
	read   chan struct{} // closed when nothing more is read
	// CPU time of the process when the recording began and when the Limiter did, in ns, and the TSC then.
	before, cpu float64
	began       uint64
}

// Limit begins to limit what a recording costs, as a share of the process's CPU time. The process records into
// a file with this Budget, see [Recording]. The caller needs the right to trace the process, as with gdb. Only
// one Limiter, or [Live] with a limit, can decide what a process records.
func (p *Process) Limit(ctx context.Context, share float64) (*Limiter, error) {
	l := new(Limiter)
	process := budgetProcess{clock: clockOfProcess(p.PID)}
	var err error
	l.live, err = OpenLive(ctx, p, 0, func(t *reader.Trace) (Roots, error) {
		if l.began == 0 {
			l.cpu, l.began = process.cpuNow(), rdtsc()
			l.before = l.cpu - float64(t.Recording(0).Process.CPUNS)
		}
		return Roots{}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := l.live.limit(ctx, share); err != nil {
		return nil, errors.Join(err, l.live.Close())
	}
	b := l.live.budget
	b.writing = writingCost
	b.call += b.writing
	l.live.tails, l.read = true, make(chan struct{})
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.follow(reading)
	b.start()
	return l, nil
}

// follow reads what threads record: how long calls take, and what is not yet in the file.
func (l *Limiter) follow(ctx context.Context) {
	defer close(l.read)
	const often = 50 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = l.live.Read(ctx, func(RootCall) {}) // an error is the end of the process
		}
	}
}

// Over reports whether the process records no more: it has ended, it executes another program, or somebody
// has ended the recording.
func (l *Limiter) Over() bool { return l.live.budget.memory.over() }

// Stop ends the decisions. The process then must be told to end the recording: it keeps to the latest
// limits.
func (l *Limiter) Stop() {
	l.cancel()
	<-l.read
	l.live.budget.end()
}

// Finish adds to the trace at a path what was not recorded, after [Limiter.Stop]. The process must have ended,
// or have ended the recording. Of a process that was killed or executes another program, the calls after its
// counts were last read are estimated, and the records that it had not yet written are added as far as they
// were read.
func (l *Limiter) Finish(path string) (err error) {
	defer func() { err = errors.Join(err, l.live.Close()) }()
	r, c, err := callsIn(path)
	if err != nil || !r.Budget.Limited() {
		return err // damaged traces may have lost that
	}
	b, first := l.live.budget, r.Budget.From
	var rest []byte
	if r.Process.Complete {
		for _, of := range r.Budget.Totals {
			c.counted[of.Func] = of.Calls
		}
		c.cpu = l.before + float64(r.Process.CPUNS)
	} else if m := b.memory.(*budgetLive); m.counted == 0 {
		return nil // it has ended at once: nobody has ever read the counts
	} else {
		b.addTotals(c.counted)
		rest = l.rest(first, c)
		p := b.processes[0]
		c.cut = true
		c.unseen = max(0, p.cpu-l.cpu) * float64(b.overAt-m.counted) / float64(max(1, m.counted-l.began))
		c.cpu = p.cpu + p.looks + c.unseen
	}
	found := b.report(&c.processCalls)
	found.From = first
	return appendTo(path, tracewrite.AppendBudget(rest, &found, first))
}

// rest returns blocks of what threads had recorded and not written, of a trace that begins at a TSC, and adds
// the calls in it. Within a budget, it takes long to fill a chunk.
func (l *Limiter) rest(first uint64, c *traceCalls) (blocks []byte) {
	for _, address := range slices.Sorted(maps.Keys(l.live.threads)) {
		t := l.live.threads[address]
		out := blockWriter{first: first, since: max(first, c.last[t.TID]+1)}
		b := out.chunk(t.ringThread, &chunkPlace{number: t.tail.number, part: true}, t.tail.data)
		if b.records == 0 {
			continue
		}
		blocks = append(blocks, b.bytes...)
		var r reader.Record
		for data := b.bytes; ; data = data[r.Size:] {
			if _, err := reader.ParseRecord(data, &fdr5, &r); err != nil {
				break
			}
			if r.Kind == reader.Function && r.FuncKind.IsEnter() {
				c.record(r.Func)
			}
		}
	}
	return blocks
}

// traceCalls are the calls of a process, and of each thread the TSC of its last record in the trace.
type traceCalls struct {
	processCalls
	last map[int32]uint64
}

func (c *traceCalls) record(id reader.FuncID) {
	if id > 0 && id < maxLimits {
		c.recorded = upTo(c.recorded, uint64(id))
		c.recorded[id]++
	}
}

// addTotals adds all calls that were counted so far.
func (b *budget) addTotals(to map[reader.FuncID]uint64) {
	for i := range b.slots {
		for id, calls := range b.slots[i].counts {
			if calls > 0 {
				to[reader.FuncID(id)] += calls
			}
		}
	}
}

// callsIn returns the metadata of the trace of one process, and which calls it has.
func callsIn(path string) (r *reader.Recording, c *traceCalls, err error) {
	t, err := reader.Open(reader.Options{MaxThreads: math.MaxInt32}, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c = &traceCalls{last: make(map[int32]uint64)}
	c.counted, c.pruned = make(map[reader.FuncID]uint64), make(map[reader.FuncID]*reader.PrunedFunction)
	r = t.Recording(0)
	if r == nil {
		return new(reader.Recording), c, nil
	}
	for i := range r.Pruned.Functions {
		c.pruned[r.Pruned.Functions[i].Func] = &r.Pruned.Functions[i]
	}
	err = t.Each(1, func(_ int, b *reader.Block) error {
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind.IsEnter() {
				c.record(e.Func)
			}
			c.last[b.Thread.Thread] = max(c.last[b.Thread.Thread], e.TSC)
		}
		return nil
	})
	return r, c, err
}

// appendTo appends data to a file that exists.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
