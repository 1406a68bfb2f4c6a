package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/frames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/budget"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// Observer writes the traces of processes with the runtime. It shares memory with them: an arena for
// each executed program and its forked children. The processes fill chunks, and the observer writes
// them to files. So a trace has everything that was recorded, however its process ended.
type Observer struct {
	options Options
	socket  int
	program int          // a pidfd of the process that was started to be recorded, or -1
	sched   *schedReader // nil if scheduler events are not recorded
	noSched string       // why they are not recorded although they were requested

	mu       sync.Mutex
	arenas   []*arenaObserver // of processes that are running, or may be
	finished []Trace
	problems []error
	further  int    // problems that are only counted
	plan     uint64 // when a window begins in all arenas, in nanoseconds of CLOCK_MONOTONIC, or 0
	asked    uint64 // number of calls of Settle
	leaving  bool   // HandOver was called
	settled  sync.Cond

	selections selections
	left       leftPrograms
	naming     sync.WaitGroup
}

// Listen begins to listen for programs, at the address [Options.Address].
func Listen(o Options) (*Observer, error) {
	if len(o.Key) != ring.KeySize {
		return nil, errors.New("the recording has no key")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ob := &Observer{options: o, socket: fd, program: -1}
	ob.settled.L = &ob.mu
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + o.Name()}), unix.Listen(fd, 128)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot create a socket for the program: %w", err)
	}
	if o.Sched {
		if ob.sched, err = newSchedReader(o.Interrupts); err != nil {
			ob.noSched = err.Error()
		}
	}
	return ob, nil
}

// arena says how the processes use their arenas.
func (o *Options) arena() *ring.ArenaOptions {
	return &ring.ArenaOptions{Session: o.Session, Limits: o.Budget > 0, Rings: o.Rings, Drop: o.Drop}
}

// NoSched returns why scheduler events are not recorded although the options request them, in one
// line, or "".
func (ob *Observer) NoSched() string { return ob.noSched }

// Started says which process was started to be recorded. It must not have been reaped.
func (ob *Observer) Started(pid int) {
	if handle, err := unix.PidfdOpen(pid, 0); err == nil {
		ob.mu.Lock()
		ob.program = handle
		ob.mu.Unlock()
	}
	if ob.sched != nil {
		ob.sched.begin(pid, []int{pid}, schedEvents(&ob.options))
	}
}

// Run serves programs until ctx ends, and known programs until they end.
func (ob *Observer) Run(ctx context.Context) error {
	d := door{welcome: ob.welcome}
	err := d.run(ctx, ob.socket, ob.problem)
	if ob.sched != nil {
		err = errors.Join(err, ob.sched.close())
	}
	return err
}

func (ob *Observer) problem(err error) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if len(ob.problems) == 16 {
		ob.further++
		return
	}
	ob.problems = append(ob.problems, err)
}

// welcome answers the packet of a visitor: the hello of a program, or a request for scheduler events.
// Other programs than those of the recording get no answer.
func (ob *Observer) welcome(v *visitor, packet []byte) error {
	if len(packet) == schedRequestSize && string(packet[:16]) == schedMagic && isOwner(v.Uid) {
		return ob.answerSched(v, packet)
	}
	if len(packet) == ring.QuestionSize && string(packet[:16]) == ring.SelectMagic && ob.options.accepts(packet[ring.QuestionKeyAt:]) {
		ob.serveSelect(v, packet)
		return nil
	}
	if len(packet) == ring.QuestionSize && string(packet[:16]) == ring.LeftMagic && ob.options.accepts(packet[ring.QuestionKeyAt:]) {
		ob.leave(int(v.Pid), packet)
		return v.send([]byte{0}, -1)
	}
	if len(packet) != ring.HelloSize || string(packet[:16]) != ring.ArenaMagic {
		return nil // not a recorder
	}
	f := ring.Fields(packet)
	if f.U32(ring.HelloVersionAt) != ring.ArenaVersion || f.U64(ring.HelloSessionAt) != ob.options.Session || !ob.options.accepts(packet[ring.HelloKeyAt:]) || v.Pid <= 0 {
		return nil // the process writes its trace itself
	}
	return ob.handshake(v, int(int32(f.U32(ring.HelloPIDAt))))
}

// handshake gives an arena to a program.
func (ob *Observer) handshake(v *visitor, inner int) error {
	a, err := ring.NewArena(ob.options.arena(), ring.LargestArena)
	if err != nil {
		return err
	}
	ao := &arenaObserver{observer: ob, Arena: a, bell: newBell(a.Word32(ring.ArenaBellAt)), pid: int(v.Pid), inner: inner}
	ao.began, ao.inode, ao.execution = proc.StartTime(ao.pid), inodeOf(a.FD), executionOf(ao.pid)
	memory, err := a.Share()
	if err != nil {
		ao.bell.end()
		return errors.Join(err, a.Close())
	}
	defer unix.Close(memory)
	if ao.joining, err = unix.FcntlInt(uintptr(v.handle), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		ao.bell.end()
		return errors.Join(err, a.Close())
	}
	// The program may end before send returns, and Settle must find its arena then.
	ob.mu.Lock()
	if ob.leaving {
		ob.mu.Unlock()
		unix.Close(ao.joining)
		ao.bell.end()
		return a.Close()
	}
	for _, other := range ob.arenas {
		other.replaced(ao.pid)
		ob.plan = cmp.Or(ob.plan, other.Plan())
	}
	a.Follow(ob.plan)
	ob.arenas = append(ob.arenas, ao)
	ob.mu.Unlock()
	if ob.options.Budget > 0 {
		ao.budget = budget.New(a, ao.locate, ob.options.Budget)
		ao.budget.Start()
	}
	ao.Keep()
	err = v.send([]byte{0}, memory)
	go ao.run()
	return err
}

// Settle waits until the traces of all processes that have ended are written. It returns these traces,
// and the processes that are still running.
func (ob *Observer) Settle() *Result {
	ob.naming.Wait()
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.asked++
	asked := ob.asked
	for _, a := range ob.arenas {
		a.bell.wake()
	}
	for slices.ContainsFunc(ob.arenas, func(a *arenaObserver) bool { return a.answered < asked }) {
		ob.settled.Wait()
	}
	o := &Result{Traces: slices.Clone(ob.finished)}
	for _, a := range ob.arenas {
		o.Running = append(o.Running, a.running...)
	}
	o.Left = ob.left.list()
	o.Unselected = ob.selections.unselected()
	o.Unused = ob.options.Filter.Unused()
	for _, err := range ob.problems {
		o.Problems = append(o.Problems, err.Error())
	}
	if ob.further > 0 {
		o.Problems = append(o.Problems, fmt.Sprintf("%d further errors", ob.further))
	}
	return o
}

// Idle reports whether no process is observed, and the one that was started has ended.
func (ob *Observer) Idle() bool {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	return len(ob.arenas) == 0 && (ob.program < 0 || hasEnded(ob.program))
}

// HandOver ends the observation. Processes that still run write the rest of their traces themselves.
func (ob *Observer) HandOver() {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.leaving = true
	for _, a := range ob.arenas {
		a.bell.wake()
	}
	for len(ob.arenas) > 0 {
		ob.settled.Wait()
	}
}

// arenaObserver serves the processes of one arena. Its goroutine owns all fields except those that the
// observer's lock protects.
type arenaObserver struct {
	*ring.Arena
	observer  *Observer
	bell      *bell
	pid       int       // process that the arena was created for
	joining   int       // pidfd of that process until its entry in the arena has it; then -1
	inner     int       // pid in the process's own namespace, which differs in a container
	began     uint64    // when that process started, see proc.StartTime
	inode     uint64    // of the arena
	execution execution // of that process and its forked children

	processesOf []*observedProcess // by index in the arena; nil for none
	slotsOf     []observedSlot
	writer      ring.BlockWriter
	chunk       []byte
	frames      frames.Encoder
	budget      *budget.Controller // nil without one
	leaves      bool               // the observer is about to end

	// Protected by the observer's lock:
	gone     []int  // processes that have executed another program
	answered uint64 // of Observer.asked
	running  []Process
}

// replaced notes that a process has executed another program. The observer must be locked.
func (a *arenaObserver) replaced(pid int) {
	a.gone = append(a.gone, pid)
	if pid == a.pid || slices.ContainsFunc(a.running, func(p Process) bool { return p.PID == pid }) {
		a.bell.wake()
	}
}

// isReplaced reports whether a process has executed another program since findProcesses began.
func (a *arenaObserver) isReplaced(pid int) bool {
	a.observer.mu.Lock()
	defer a.observer.mu.Unlock()
	return slices.Contains(a.gone, pid)
}

const (
	shortestSleep = 10 * time.Millisecond
	longestSleep  = 20 * time.Millisecond
	// Within a budget, rings fill slowly, and threads ring when a quarter of their ring is full.
	budgetSleep, idleSleep = 50 * time.Millisecond, 100 * time.Millisecond
	// searchInterval is the interval at which processes are checked while there is work.
	searchInterval = 20 * time.Millisecond
	// A round takes some 50 us. Once the processes have been idle for this time, the observer sleeps until a
	// thread rings or a process ends. It still looks sometimes for what nobody tells it.
	idleTime, deepSleep = time.Second, 500 * time.Millisecond
)

// run serves the processes until none has the arena mapped, or the observer leaves.
func (a *arenaObserver) run() {
	ob := a.observer
	err := ring.Guarded(a.serve)
	if err != nil {
		a.abandon(err)
	}
	if a.budget != nil {
		a.budget.Stop()
	}
	if a.joining >= 0 {
		unix.Close(a.joining)
	}
	_ = ring.Guarded(a.bell.end)
	// Remove the arena before it is unmapped, so that nothing wakes it.
	ob.mu.Lock()
	ob.arenas = slices.DeleteFunc(ob.arenas, func(o *arenaObserver) bool { return o == a })
	ob.settled.Broadcast()
	ob.mu.Unlock()
	if err := errors.Join(err, a.Close()); err != nil {
		ob.problem(err)
	}
}

// chunks are copies of chunks that observers of arenas have made room for. A child that lives for some
// milliseconds needs one.
var chunks = sync.Pool{New: func() any { return new([ring.ChunkSize]byte) }}

func (a *arenaObserver) serve() {
	chunk := chunks.Get().(*[ring.ChunkSize]byte)
	defer chunks.Put(chunk)
	a.chunk = chunk[:]
	shortest, longest := shortestSleep, longestSleep
	if a.budget != nil {
		shortest, longest = budgetSleep, idleSleep
	}
	sleep, searched, busy := shortest, time.Time{}, time.Now()
	for {
		a.Beat()
		shared := a.IsShared() // a process may have no entry yet, as a forked child that has recorded nothing
		work := a.consume()
		if !work || !shared || time.Since(searched) > searchInterval {
			a.findProcesses()
			searched = time.Now()
		}
		if a.leaves || a.IsClosed() {
			a.handOver()
			return
		}
		if a.empty() && !shared {
			return
		}
		if work {
			sleep, busy = shortest, time.Now()
			continue
		}
		if time.Since(busy) > idleTime && a.tells() {
			if a.bell.sleep(deepSleep, ring.ArenaSleepsLong, a.hasWork) {
				sleep, busy = shortest, time.Now()
				if a.observer.sched != nil {
					a.observer.sched.rouse()
				}
			}
			continue
		}
		a.bell.sleep(sleep, ring.ArenaNaps, a.hasWork)
		sleep = min(2*sleep, longest)
	}
}

// tells reports whether something wakes the observer when there is work: threads that may ring, and the ends
// of processes. Windows only show up in tables of their latest ones.
func (a *arenaObserver) tells() bool {
	if a.empty() || a.Plan() != 0 || a.U32(ring.ArenaSealedAt) != 0 {
		return false
	}
	for _, p := range a.processesOf {
		if p == nil {
			continue
		}
		if p.windows.seen != 0 || p.windows.open.From != 0 {
			return false
		}
		if !p.watchEnd(a.bell) {
			return false
		}
	}
	return true
}

// handOver leaves the processes to themselves. What is not in their traces so far is theirs to write.
func (a *arenaObserver) handOver() {
	for _, p := range a.processesOf {
		if p == nil {
			continue
		}
		p.readWindows(a)
		if recording := a.recording(p, false); p.trace != nil {
			p.writeSched(true)
			a.observer.end(p, recording)
		}
	}
	atomic.StoreUint32(a.Word32(ring.ArenaClosedAt), 1)
}

// abandon ends the traces of processes whose shared memory cannot be read.
func (a *arenaObserver) abandon(err error) {
	for _, p := range a.processesOf {
		if p == nil || p.trace == nil {
			continue
		}
		r, _ := reader.ParseRecording(p.text)
		if r == nil {
			r = &reader.Recording{}
		}
		p.amend(r)
		p.lose("damaged-metadata", 1)
		r.Threads, r.Losses = p.threads, ring.Losses(p.lost)
		p.trace.err = cmp.Or(p.trace.err, err)
		a.observer.end(p, r)
	}
}

func (a *arenaObserver) empty() bool {
	return !slices.ContainsFunc(a.processesOf, func(p *observedProcess) bool { return p != nil })
}

// findProcesses finds processes that started or ended.
func (a *arenaObserver) findProcesses() {
	ob := a.observer
	ob.mu.Lock()
	asked, replaced := ob.asked, a.gone
	a.leaves = ob.leaving
	a.gone = nil
	ob.mu.Unlock()
	a.find()
	for _, p := range a.processesOf {
		if p == nil {
			continue
		}
		p.begin(a)
		p.quotas.sample("/", p.host)
		if ob.options.IO {
			p.pipes.sample("/", p.host)
		}
		p.readWindows(a)
		a.flush(p)
		p.writeSched(false)
		p.writeWindows()
		isReplaced := slices.Contains(replaced, p.host)
		if p.ended() || isReplaced {
			// A program says that it has the recorder before it ends.
			if !isReplaced && !a.isReplaced(p.host) {
				ob.reportExecuted(p)
			}
			a.finish(p)
			continue
		}
		p.watchExecution(a)
	}
	running := []Process{}
	for _, p := range a.processesOf {
		if p == nil {
			continue
		}
		one := Process{PID: p.host}
		if p.trace != nil {
			one.Trace = p.trace.path
		}
		running = append(running, one)
	}
	ob.mu.Lock()
	a.running = running
	ob.plan = cmp.Or(ob.plan, a.Plan())
	if asked > a.answered {
		a.answered = asked
		ob.settled.Broadcast()
	}
	ob.mu.Unlock()
}

// find begins to observe processes that have appeared.
func (a *arenaObserver) find() {
	n := a.Processes()
	for i := range n {
		if i < uint32(len(a.processesOf)) && a.processesOf[i] != nil {
			continue
		}
		if a.U32(ring.ProcessAt(i)+ring.ProcessStateAt) != ring.ProcessLive {
			continue
		}
		for uint32(len(a.processesOf)) <= i {
			a.processesOf = append(a.processesOf, nil)
		}
		a.processesOf[i] = a.newProcess(i)
	}
}

// hasWork reports whether a chunk is ready to be written.
func (a *arenaObserver) hasWork() bool {
	if !a.Streams() || a.IsClosed() {
		return false
	}
	for i := range a.Slots() {
		if i >= uint32(len(a.slotsOf)) {
			return true
		}
		at, s := ring.SlotAt(i), &a.slotsOf[i]
		switch a.U32(at + ring.SlotStateAt) {
		case ring.SlotEnded:
			return true
		case ring.SlotLive:
			if a.U32(at+ring.SlotOwnerAt) != s.owner || a.U64(at+ring.SlotTakenAt) > s.consumed+1 {
				return true
			}
		}
	}
	return false
}

// observedSlot is what the observer knows about a thread's slot.
type observedSlot struct {
	owner    uint32
	process  uint32
	consumed uint64 // chunks written
	partial  int    // offset in the next chunk up to which it is written
	over     bool   // nothing more is written for this owner
}

// knownSlots returns the number of slots, and makes room for all of them in slotsOf.
func (a *arenaObserver) knownSlots() uint32 {
	n := a.Slots()
	if more := int(n) - len(a.slotsOf); more > 0 {
		a.slotsOf = append(a.slotsOf, make([]observedSlot, more)...)
	}
	return n
}

// consume writes the full chunks. It reports whether there were any.
func (a *arenaObserver) consume() bool {
	if !a.Streams() || a.IsClosed() {
		return false
	}
	work := false
	for i := range a.knownSlots() {
		switch a.U32(ring.SlotAt(i) + ring.SlotStateAt) {
		case ring.SlotLive, ring.SlotEnded:
			work = a.consumeSlot(i, false) || work
		}
	}
	return work
}

// consumeSlot writes the full chunks of a thread. If the thread has ended, or with last, it also writes
// the current chunk. It reports whether it has written anything.
func (a *arenaObserver) consumeSlot(i uint32, last bool) bool {
	at, s := ring.SlotAt(i), &a.slotsOf[i]
	state, owner := a.U32(at+ring.SlotStateAt), a.U32(at+ring.SlotOwnerAt)
	if owner != s.owner {
		*s = observedSlot{owner: owner, process: a.U32(at + ring.SlotProcessAt)}
	}
	if s.over {
		return false
	}
	taken, chunks := a.U64(at+ring.SlotTakenAt), a.U64(at+ring.SlotChunksAt)
	if chunks == 0 || chunks > ring.MaxRingChunks || !a.Plausible(taken) {
		if p := a.process(s.process); p != nil {
			p.lose("damaged-chunk", 1)
		}
		s.over = true
		return false
	}
	if taken > s.consumed+chunks+1 {
		// This happens only if the thread drops records, or if the program has written to the
		// arena by mistake.
		if p := a.process(s.process); p != nil {
			p.lose("damaged-chunk", taken-chunks-s.consumed)
		}
		s.consumed, s.partial = taken-chunks, 0
	}
	work := false
	for s.consumed+1 < taken {
		if !a.writeChunk(i, s, s.consumed+1, false) && state == ring.SlotLive && !last {
			return work // a record in it is being written
		}
		s.consumed++
		s.partial = 0
		work = true
		a.release(at, s.consumed)
	}
	if state != ring.SlotEnded && !last {
		return work
	}
	if s.consumed < taken {
		a.writeChunk(i, s, taken, false)
		s.consumed = taken
	}
	s.over = true
	if p := a.process(s.process); p != nil {
		p.addThread(a, i)
	}
	if !last {
		atomic.CompareAndSwapUint32(a.Word32(at+ring.SlotStateAt), ring.SlotEnded, ring.SlotDone)
	}
	return true
}

// release allows a thread to reuse chunks.
func (a *arenaObserver) release(at, consumed uint64) {
	atomic.StoreUint64(a.Word64(at+ring.SlotConsumedAt), consumed)
	waiting := a.Word32(at + ring.SlotWaitingAt)
	if atomic.LoadUint32(waiting) != 0 && atomic.SwapUint32(waiting, 0) != 0 {
		ring.Futex(waiting, ring.FutexWake, 1, nil)
	}
}

func (a *arenaObserver) process(i uint32) *observedProcess {
	if i >= uint32(len(a.processesOf)) || a.processesOf[i] == nil {
		a.find()
	}
	if i >= uint32(len(a.processesOf)) {
		return nil
	}
	return a.processesOf[i]
}

// writeChunk writes the rest of the chunk with this number to the trace. If the thread is still writing
// a record in the middle, writeChunk writes nothing and returns false, unless the thread takes too long.
// With part, it writes the records before that one.
func (a *arenaObserver) writeChunk(i uint32, s *observedSlot, number uint64, part bool) bool {
	p := a.process(s.process)
	if p == nil {
		return true
	}
	runtime.LockOSThread()
	start := threadCPU()
	defer func() {
		p.writing += threadCPU() - start
		runtime.UnlockOSThread()
	}()
	at := ring.SlotAt(i)
	address, chunks := a.U64(at+ring.SlotRingAt), a.U64(at+ring.SlotChunksAt)
	if chunks == 0 || chunks > ring.MaxRingChunks {
		p.lose("damaged-chunk", 1)
		return true
	}
	place, ok := a.Offset(address+(number-1)%chunks*ring.ChunkSize, ring.ChunkSize)
	if !ok {
		p.lose("damaged-chunk", 1)
		return true
	}
	data := a.chunk
	// Touching unused pages would allocate them.
	used := uint64(ring.UsedOf(ring.Fields(a.Mem[place : place+ring.ChunkHeader])))
	if used == 0 {
		used = ring.ChunkSize
	}
	copy(data, a.Mem[place:place+used])
	clear(data[used:])
	f := ring.Fields(data)
	// A thread that drops records may have reused the chunk meanwhile.
	if f.U64(ring.ChunkSeqAt) != 2*number || f.U64(ring.ChunkMagicAt) != ring.ChunkMagic || a.U64(place) != 2*number {
		p.lose("damaged-chunk", 1)
		return true
	}
	if first := f.U64(ring.ChunkFirstAt); p.windows.oldest == 0 || first < p.windows.oldest {
		p.windows.oldest = first
	}
	c := ring.ChunkPlace{Number: number, First: f.U64(ring.ChunkFirstAt), From: max(s.partial, int(f.U32(ring.ChunkStreamedAt))), Used: ring.UsedOf(f), Part: part}
	a.writer.First = p.since
	t := ring.Thread{}
	t.PID, t.TID = int32(p.inner), int32(a.U32(at+ring.SlotTIDAt))
	b := a.writer.Chunk(&t, &c, data)
	if b.Unwritten > 0 && !part && a.canWait(at, number, chunks) {
		return false
	}
	if a.budget != nil {
		p.recorded = a.budget.CountWritten(i, s.owner, p.recorded, &c, b.Reached, data)
	}
	// If this process is killed now, the program knows that these records may be in the trace. It does not
	// write them again.
	switch {
	case !part:
		atomic.StoreUint64(a.Word64(at+ring.SlotWritingAt), number)
	case !a.observer.options.Drop: // a thread that drops records may begin the chunk again
		atomic.StoreUint32(a.Word32(place+ring.ChunkStreamedAt), uint32(b.Reached))
	}
	p.write(a, b)
	if part {
		s.partial = b.Reached
	}
	return true
}

// threadCPU returns the CPU time of the calling thread, in nanoseconds.
func threadCPU() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}

// canWait reports whether there is time to wait for a record that is being written: the thread is
// running and still has room.
func (a *arenaObserver) canWait(at, number, chunks uint64) bool {
	return a.U32(at+ring.SlotStateAt) == ring.SlotLive && a.U64(at+ring.SlotTakenAt)-number < chunks/2
}

// flush writes the current chunks of a process's threads if the process has asked for it.
func (a *arenaObserver) flush(p *observedProcess) {
	at := ring.ProcessAt(p.index)
	asked := a.U32(at + ring.ProcessFlushAskedAt)
	if asked == a.U32(at+ring.ProcessFlushDoneAt) {
		return
	}
	for slot := range uint32(len(a.slotsOf)) {
		s := &a.slotsOf[slot]
		if s.process == p.index && !s.over && a.U32(ring.SlotAt(slot)+ring.SlotStateAt) == ring.SlotLive && a.U32(ring.SlotAt(slot)+ring.SlotOwnerAt) == s.owner {
			a.consumeSlot(slot, false)
			if taken := a.U64(ring.SlotAt(slot) + ring.SlotTakenAt); taken == s.consumed+1 {
				a.writeChunk(slot, s, taken, true)
			}
		}
	}
	if p.trace != nil {
		p.trace.metadata(a.recording(p, false))
	}
	done := a.Word32(at + ring.ProcessFlushDoneAt)
	atomic.StoreUint32(done, asked)
	ring.Futex(done, ring.FutexWake, 64, nil)
}
