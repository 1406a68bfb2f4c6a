package recorder

import (
	"context"
	"errors"
	"math"
	"os"
	"syscall"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// Limiter keeps what a recording costs a process, which writes its trace itself, below a share of the
// process's CPU time. It reads the process's memory and decides which functions are recorded. It is not
// safe for concurrent use.
type Limiter struct {
	live   *Live
	cancel context.CancelFunc
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
	b.call += writingCost
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	b.memory.(*budgetLive).read = func() {
		_, _ = l.live.Read(reading, func(RootCall) {}) // an error is the end of the process
	}
	b.start()
	return l, nil
}

// Over reports whether the process records no more: it has ended, it executes another program, or somebody
// has ended the recording.
func (l *Limiter) Over() bool { return l.live.budget.memory.over() }

// Stop ends the decisions. The process then must be told to end the recording: it keeps to the latest
// limits.
func (l *Limiter) Stop() {
	l.cancel()
	l.live.budget.end()
}

// Finish adds to the trace at a path what was not recorded, after [Limiter.Stop]. The process must have ended,
// or have ended the recording. Of a process that was killed or executes another program, the calls after its
// counts were last read are estimated.
func (l *Limiter) Finish(path string) (err error) {
	defer func() { err = errors.Join(err, l.live.Close()) }()
	r, c, err := callsIn(path)
	if err != nil || !r.Budget.Limited() {
		return err // damaged traces may have lost that
	}
	b := l.live.budget
	if r.Process.Complete {
		for _, of := range r.Budget.Totals {
			c.counted[of.Func] = of.Calls
		}
		c.cpu = l.before + float64(r.Process.CPUNS)
	} else if m := b.memory.(*budgetLive); m.counted == 0 {
		return nil // it has ended at once: nobody has ever read the counts
	} else {
		b.addTotals(c.counted)
		p := b.processes[0]
		c.unseen = max(0, p.cpu-l.cpu) * float64(b.overAt-m.counted) / float64(max(1, m.counted-l.began))
		c.cpu = p.cpu + p.looks + c.unseen
	}
	found := b.report(c)
	found.From = r.Budget.From
	return appendTo(path, tracewrite.AppendBudget(nil, &found, found.From))
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
func callsIn(path string) (r *reader.Recording, c *processCalls, err error) {
	t, err := reader.Open(reader.Options{MaxThreads: math.MaxInt32}, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c = &processCalls{counted: make(map[reader.FuncID]uint64), pruned: make(map[reader.FuncID]*reader.PrunedFunction)}
	r = t.Recording(0)
	if r == nil {
		return new(reader.Recording), c, nil
	}
	for i := range r.Pruned.Functions {
		c.pruned[r.Pruned.Functions[i].Func] = &r.Pruned.Functions[i]
	}
	err = t.Each(1, func(_ int, b *reader.Block) error {
		for i := range b.Events {
			if e := &b.Events[i]; e.Kind.IsEnter() && e.Func > 0 && e.Func < maxLimits {
				c.recorded = upTo(c.recorded, uint64(e.Func))
				c.recorded[e.Func]++
			}
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
