package observe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/sched/kernel"
)

// schedReader reads the kernel's scheduler events while processes run, and assigns them to processes.
type schedReader struct {
	cancel context.CancelFunc
	begun  chan struct{}
	done   chan struct{}

	mu       sync.Mutex
	instance *kernel.Instance
	tracker  *kernel.Tracker // nil until the processes are known
	pending  kernel.Queue    // events that earlier ones may still arrive for
	horizon  uint64          // TSC; the tracker has all earlier events
	since    uint64          // TSC when the instance was created
	swept    time.Time
	kept     uint64 // events of the processes until counted
	counted  time.Time
	idle     bool // they have few events
	dozes    atomic.Bool
	err      error
}

// newSchedReader creates an instance of the kernel's tracer. It reads nothing before begin.
func newSchedReader(interrupts bool) (*schedReader, error) {
	instance, err := kernel.Open(interrupts)
	if err != nil {
		return nil, err
	}
	s := &schedReader{instance: instance, since: ring.ReadTSC(), begun: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	return s, nil
}

// begin begins to follow threads of a process, and the threads and processes that they create. most
// limits the events of a process that wait to be taken.
func (s *schedReader) begin(pid int, tids []int, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker != nil {
		return
	}
	s.tracker = kernel.NewTracker(s.since)
	s.tracker.ProcessOf, s.tracker.NameOf, s.tracker.Most = processOf, commOf, most
	for _, tid := range tids {
		s.tracker.Follow(int32(pid), int32(tid))
	}
	s.horizon, s.counted = s.since, time.Now()
	close(s.begun)
}

// processOf returns the process of a thread, or 0 if it has ended.
func processOf(tid int32) int32 {
	fields, err := proc.StatusFields(int(tid))
	if err != nil || len(fields["Tgid"]) == 0 {
		return 0
	}
	pid, err := strconv.ParseInt(fields["Tgid"][0], 10, 32)
	if err != nil {
		return 0
	}
	return int32(pid)
}

// commOf returns the name of a thread, or "" if it has ended.
func commOf(tid int32) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
	return strings.TrimSuffix(string(text), "\n")
}

const (
	// The kernel wakes the reader when the buffer of a CPU fills. Else it reads after activeRound, or after
	// idleRound while the processes have at most fewEvents a second. The recorder has a thread in each
	// process that wakes ten times a second.
	activeRound          = 100 * time.Millisecond
	idleRound, idleAfter = 2 * time.Second, time.Second
	fewEvents            = 500
	// Some kernels cannot wake it. Then it reads after longestRound, or earlier if a round has read more than
	// manyPages. The buffer of a CPU has 128 to 1024 pages.
	longestRound  = 20 * time.Millisecond
	shortestRound = time.Millisecond
	idleUnwoken   = 100 * time.Millisecond
	manyPages     = 64
	// settling is the number of ticks after an event until all earlier events can be read, about
	// 100 µs.
	settling = 300_000
)

func (s *schedReader) run(ctx context.Context) {
	defer close(s.done)
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	instance, sleep, full := s.instance, longestRound, false
	for ctx.Err() == nil {
		pages := s.round()
		if full {
			instance.Woken(pages)
		}
		switch {
		case pages > manyPages:
			sleep = max(shortestRound, sleep/2)
		case pages < manyPages/4:
			sleep = min(longestRound, 2*sleep)
		}
		wait, idle := sleep, s.isIdle()
		switch {
		case instance.Watches() && idle:
			wait = idleRound
		case instance.Watches():
			wait = activeRound
		case idle && sleep == longestRound:
			wait = idleUnwoken
		}
		s.dozes.Store(idle)
		full = instance.Wait(wait)
		s.dozes.Store(false)
	}
}

// rouse ends the long wait of an idle reader, because a process is active again.
func (s *schedReader) rouse() {
	if !s.dozes.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.kept, s.counted = false, s.tracker.Kept(), time.Now()
	if s.instance != nil {
		s.instance.Wake()
	}
}

// isIdle reports whether the processes have had few events for some time.
func (s *schedReader) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Since(s.counted)
	kept := s.tracker.Kept()
	switch {
	case kept-s.kept > fewEvents*uint64(1+since/time.Second):
		s.idle = false
	case since < idleAfter:
		return s.idle
	default:
		s.idle = true
	}
	s.kept, s.counted = kept, time.Now()
	return s.idle
}

// round reads the available events.
func (s *schedReader) round() (pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker == nil || s.err != nil || s.instance == nil {
		return 0
	}
	horizon := ring.ReadTSC() - settling
	pages, lost, err := s.instance.Read(s.pending.Push)
	s.tracker.Lose(lost)
	if err != nil {
		s.err = err
		s.tracker.Lose(1)
	}
	s.pending.Until(horizon, s.tracker.Add)
	s.horizon = max(s.horizon, horizon)
	if time.Since(s.swept) > 5*time.Second {
		s.tracker.Sweep()
		s.swept = time.Now()
	}
	return pages
}

// catchUp reads all events until the present.
func (s *schedReader) catchUp() {
	for now, tries := ring.ReadTSC(), 0; tries < 10; tries++ {
		s.round()
		s.mu.Lock()
		reached := s.horizon >= now || s.err != nil
		s.mu.Unlock()
		if reached {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// claim announces that take will be called for a process. The process need not have appeared yet.
func (s *schedReader) claim(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker != nil {
		s.tracker.Claim(int32(pid))
	}
}

// take returns the events of a process since the previous call as a block of metadata, and their number.
// It returns nothing if there are fewer than least. tasks is the number of tasks in the trace, to which
// take adds the tasks of the block.
func (s *schedReader) take(pid, least int, first uint64, tasks *int) (block []byte, events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker == nil || s.tracker.Pending(int32(pid)) < least {
		return nil, 0
	}
	t := s.tracker.Take(int32(pid), s.horizon, *tasks)
	if t == nil {
		return nil, 0
	}
	*tasks += len(t.Tasks)
	t.Part.Origin = reader.SchedTracefs
	return tracewrite.AppendSched(nil, t.First, t.Tasks, &t.Part, first), len(t.Part.Events)
}

func (s *schedReader) forget(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker != nil {
		s.tracker.Forget(int32(pid))
	}
}

// close removes the instance.
func (s *schedReader) close() error {
	s.cancel()
	s.instance.Wake()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.err, s.instance.Close())
	s.instance = nil
	return err
}

// schedEvents limits the events of a process that wait to be written. With rings, they wait until
// it ends.
func schedEvents(o *Options) int {
	if o.Rings {
		return 1 << 18
	}
	return 1 << 20
}

// noSched returns why a trace has no scheduler events although they were requested, or "".
func (p *observedProcess) noSched() string {
	if p.observer.options.Sched && p.host != p.inner {
		return "the process runs in another PID namespace, so the kernel's events use different IDs"
	}
	return p.observer.noSched
}

// Scheduler events are written when there are manySched, or at intervals of schedInterval.
const (
	manySched     = 1 << 14
	schedInterval = 500 * time.Millisecond
)

// writeSched appends the scheduler events of a process to its trace. With last, it appends all events.
func (p *observedProcess) writeSched(last bool) {
	s := p.observer.sched
	if s == nil || p.noSched() != "" {
		return
	}
	if s.claim(p.host); p.trace == nil {
		return
	}
	least := manySched
	if time.Since(p.scheduled) > schedInterval {
		least, p.scheduled = 1, time.Now()
	}
	if last {
		s.catchUp()
		least = 0
	}
	block, events := s.take(p.host, least, p.trace.first, &p.tasks)
	if block == nil {
		return
	}
	t, limit := p.trace, p.observer.options.Limit
	switch block = t.encode(block); {
	case limit > 0 && t.size+int64(len(block)) > limit:
		p.lose("sched-size-limit", uint64(events))
	case t.append(block) != nil:
		p.lose("sched-write-error", uint64(events))
	default:
		t.wrote(len(block), "sched-write-error", uint64(events))
	}
}
