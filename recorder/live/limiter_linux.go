package live

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/budget"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/ring"
)

// Limit keeps the cost of recording below a share of the process's CPU time, until Close. The process
// must be recording with this Budget, see [recorder.Settings]. The functions of [Roots] are always recorded.
func (l *Reader) Limit(ctx context.Context, share float64) (err error) {
	if l.budget, err = budget.Open(ctx, l.process, l.image, l.root, l.text, share, true); err != nil {
		return err
	}
	l.keepRoots()
	l.budget.Start()
	return nil
}

// keepRoots makes the budget always record the functions of Roots.
func (l *Reader) keepRoots() {
	if l.budget == nil {
		return
	}
	for id, is := range l.roots.Is {
		if is {
			l.budget.AlwaysRecord(uint32(id))
		}
	}
	for _, id := range l.roots.Targets {
		l.budget.AlwaysRecord(uint32(id))
	}
}

// Limiter keeps the cost of a recording below a share of a process's CPU time. It is for a process that
// writes its trace itself. It reads the process's memory and decides which functions to record. It is
// not safe for concurrent use.
type Limiter struct {
	live   *Reader
	cancel context.CancelFunc
	read   chan struct{} // closed when follow has returned
	// before and cpu are the CPU time of the process when the recording and the Limiter began, in ns.
	// began is the TSC when the Limiter began.
	before, cpu float64
	began       uint64
}

// NewLimiter begins to limit the cost of a recording to a share of the process's CPU time. The process must
// be recording into a file with this Budget, see [recorder.Settings]. The caller needs permission to trace the
// process, as for gdb. A process can have only one Limiter or [Reader] with a limit.
func NewLimiter(ctx context.Context, p *client.Process, share float64) (*Limiter, error) {
	l := new(Limiter)
	clock := budget.ProcessClock(p.PID)
	var err error
	l.live, err = Open(ctx, p, 0, func(t *reader.Trace) (Roots, error) {
		if l.began == 0 {
			l.cpu, l.began = clock(), ring.ReadTSC()
			l.before = l.cpu - float64(t.Recording(0).Process.CPUNS)
		}
		return Roots{}, nil
	})
	if err != nil {
		return nil, err
	}
	b, err := budget.Open(ctx, p, l.live.image, l.live.root, l.live.text, share, false)
	if err != nil {
		return nil, errors.Join(err, l.live.Close())
	}
	b.ChargeWriting()
	l.live.budget = b
	l.live.tails, l.read = true, make(chan struct{})
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.follow(reading)
	b.Start()
	return l, nil
}

// follow reads the records of threads, for the durations of calls and for records that are not yet in
// the file.
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
			_, _ = l.live.Read(ctx, func(RootCall) {}) // an error means that the process has ended
		}
	}
}

// Over reports whether the recording has ended: the process has ended, executes another program, or was
// told to end the recording.
func (l *Limiter) Over() bool { return l.live.budget.Over() }

// Stop stops limiting. The latest limits stay in force, so tell the process to end the recording.
func (l *Limiter) Stop() {
	l.cancel()
	<-l.read
	l.live.budget.Stop()
}

// Finish adds to the trace at a path which calls were not recorded. Call it after [Limiter.Stop], when
// the process or the recording has ended. If the process was killed or executes another program, Finish
// estimates the calls after its counts were last read, and adds the records that it had not yet written,
// as far as they were read.
func (l *Limiter) Finish(path string) (err error) {
	defer func() { err = errors.Join(err, l.live.Close()) }()
	r, c, err := callsIn(path)
	if err != nil || !r.Budget.Limited() {
		return err // a damaged trace may not have the budget
	}
	b, first := l.live.budget, r.Budget.From
	var rest []byte
	if r.Process.Complete {
		for _, of := range r.Budget.Totals {
			c.Counted[of.Func] = of.Calls
		}
		c.CPU = l.before + float64(r.Process.CPUNS)
	} else if !b.CallsAtEnd(&c.Calls, l.began, l.cpu) {
		return nil // it ended before the counts were read
	} else {
		rest = l.rest(first, c)
	}
	found := b.Report(&c.Calls)
	found.From = first
	return appendTo(path, tracewrite.AppendBudget(rest, &found, first))
}

// rest returns the records that threads had not yet written, as blocks of a trace that begins at a TSC,
// and adds their calls to c. There may be many, because within a budget a chunk fills slowly.
func (l *Limiter) rest(first uint64, c *traceCalls) (blocks []byte) {
	for _, address := range slices.Sorted(maps.Keys(l.live.threads)) {
		t := l.live.threads[address]
		out := ring.BlockWriter{First: first, Since: max(first, c.last[t.TID]+1)}
		b := out.Chunk(t.Thread, &ring.ChunkPlace{Number: t.tail.number, Part: true}, t.tail.data)
		if b.Records == 0 {
			continue
		}
		blocks = append(blocks, b.Bytes...)
		var r reader.Record
		for data := b.Bytes; ; data = data[r.Size:] {
			if _, err := reader.ParseRecord(data, &ring.FDR5, &r); err != nil {
				break
			}
			if r.Kind == reader.Function && r.FuncKind.IsEnter() {
				c.Add(r.Func)
			}
		}
	}
	return blocks
}

// traceCalls are the calls of a process, and the TSC of each thread's last record in the trace.
type traceCalls struct {
	budget.Calls
	last map[int32]uint64
}

// callsIn returns the metadata and the calls of a trace of one process.
func callsIn(path string) (r *reader.Recording, c *traceCalls, err error) {
	t, err := reader.Open(reader.Options{MaxThreads: math.MaxInt32}, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c = &traceCalls{last: make(map[int32]uint64)}
	c.Counted, c.Pruned = make(map[reader.FuncID]uint64), make(map[reader.FuncID]*reader.PrunedFunction)
	r = t.Recording(0)
	if r == nil {
		return new(reader.Recording), c, nil
	}
	for i := range r.Pruned.Functions {
		c.Pruned[r.Pruned.Functions[i].Func] = &r.Pruned.Functions[i]
	}
	err = t.Each(1, func(_ int, b *reader.Block) error {
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind.IsEnter() {
				c.Add(e.Func)
			}
			c.last[b.Thread.Thread] = max(c.last[b.Thread.Thread], e.TSC)
		}
		return nil
	})
	return r, c, err
}

// appendTo appends data to an existing file.
func appendTo(path string, data []byte) error {
	f, err := fileio.Append(path, false)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
