package budget

import (
	"strconv"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/ring"
)

// memory is the memory of the recorded processes that a budget reads and writes. The budget holds
// its lock during all methods except exhausted, over, processes and inspect.
type memory interface {
	// exhausted returns how often threads have reached a limit. decide increments the number of times that the budget has
	// switched functions.
	exhausted() uint32
	decide()
	// limit returns how many calls of a function each thread records.
	limit(id uint32) uint64
	setLimit(id uint32, calls uint64)
	// setUncounted sets which of the 32 functions from first on the next sample does not count. setSampled sets
	// the functions that the sample records.
	setUncounted(first, bits uint32)
	setSampled(ids []uint32)
	// processes returns the number of processes so far. find adds new processes to the budget, and
	// removes those that have ended.
	processes() uint32
	find(b *Controller)
	// over reports whether there is nothing more to decide.
	over() bool
	// threads calls each for every slot, with its process and an iterator over the nonzero counts of its
	// thread. The iterator is nil for a slot without a thread.
	threads(each func(slot, process uint32, words func(each func(id, calls uint64))))
	// charges calls each with the ticks that reading the values of a function has taken so far, if any.
	charges(each func(id, ticks uint64))
	// inspect reads the durations of calls from the rings, if nobody else passes them to the budget.
	inspect(b *Controller)
}

// New creates the budget of an arena with limits without starting it. locate converts a process ID of a PID
// namespace to one of this namespace, or returns -1.
func New(a *ring.Arena, locate func(space uint64, inner int) int, share float64) *Controller {
	b := newController(arenaMemory{a, locate}, share)
	b.streams = a.Streams()
	return b
}

// arenaMemory is an arena with limits.
type arenaMemory struct {
	*ring.Arena
	locate func(space uint64, inner int) int
}

func (a arenaMemory) over() bool        { return false }
func (a arenaMemory) processes() uint32 { return a.Arena.Processes() }
func (a arenaMemory) exhausted() uint32 { return a.U32(ring.ArenaSpentAt) }
func (a arenaMemory) decide()           { atomic.AddUint32(a.Word32(ring.ArenaDecidedAt), 1) }

func (a arenaMemory) limitOf(id uint32) *uint64 {
	return a.Word64(a.U64(ring.ArenaLimitsAt) + 8*uint64(id))
}

func (a arenaMemory) limit(id uint32) uint64           { return atomic.LoadUint64(a.limitOf(id)) }
func (a arenaMemory) setLimit(id uint32, calls uint64) { atomic.StoreUint64(a.limitOf(id), calls) }

func (a arenaMemory) setUncounted(first, bits uint32) {
	atomic.StoreUint32(a.Word32(a.U64(ring.ArenaLimitsAt)+8*ring.MaxLimits+uint64(first/8)), bits)
}

func (a arenaMemory) setSampled(ids []uint32) {
	for i, id := range ids {
		atomic.StoreUint32(a.Word32(ring.ArenaSampledAt+ring.SampledIDsAt+4*uint64(i)), id)
	}
	atomic.StoreUint32(a.Word32(ring.ArenaSampledAt+ring.SampledNAt), uint32(len(ids)))
}

func (a arenaMemory) threads(each func(slot, process uint32, words func(func(id, calls uint64)))) {
	for i := range a.Slots() {
		at := ring.SlotAt(i)
		state, process := a.U32(at+ring.SlotStateAt), a.U32(at+ring.SlotProcessAt) // in this order, see owns
		if state == ring.SlotFree || state == ring.SlotTaken {
			each(i, process, nil)
			continue
		}
		each(i, process, func(each func(id, calls uint64)) {
			a.Words(a.U64(at+ring.SlotCountersAt), min(a.U64(at+ring.SlotNCountersAt), ring.MaxLimits), each)
		})
	}
}

func (a arenaMemory) charges(each func(id, ticks uint64)) {
	a.AnyWords(a.U64(ring.ArenaBaseAt)+a.U64(ring.ArenaLimitsAt)+ring.ChargesAt, ring.MaxLimits, each)
}

// find implements memory.
func (a arenaMemory) find(b *Controller) {
	for i := range a.Arena.Processes() {
		if uint32(len(b.processes)) <= i {
			b.processes = append(b.processes, nil)
		}
		at := ring.ProcessAt(i)
		since, live := a.U64(at+ring.ProcessSinceAt), a.U32(at+ring.ProcessStateAt) == ring.ProcessLive
		if p := b.processes[i]; p != nil && (!live || p.since != since) {
			p.closeControl()
			b.processes[i] = nil
		}
		if b.processes[i] != nil || !live {
			continue
		}
		inner := int(int32(a.U32(at + ring.ProcessPIDAt)))
		host := a.locate(a.U64(at+ring.ProcessSpaceAt), inner)
		p := &processState{index: i, since: since, clock: ProcessClock(host)}
		if process, err := client.Dial(strconv.Itoa(host)); err == nil {
			p.control = process.Connection()
		}
		for id := range b.functions {
			p.assume(id, b.functions[id].rate) // as in the other processes
			p.turn(id, b.functions[id].off)
		}
		b.processes[i], b.estimates[i] = p, p
		text, _ := a.Text(i)
		if r, err := reader.ParseRecording(text); err == nil {
			b.learnCost(r)
			b.learnGroups(r)
		}
	}
}

// inspect reads the durations of calls in rings, which are written only at the end, or else in the
// current chunks. Within a budget, a chunk may take minutes to fill.
func (a arenaMemory) inspect(b *Controller) {
	if a.Streams() {
		a.inspectCurrent(b)
		return // written reads the full chunks
	}
	const most = 4 // chunks per thread and round
	data := make([]byte, ring.ChunkSize)
	for i := range b.slots {
		at, s := ring.SlotAt(uint32(i)), &b.slots[i]
		taken, chunks := a.U64(at+ring.SlotTakenAt), a.U64(at+ring.SlotChunksAt)
		if a.U32(at+ring.SlotStateAt) != ring.SlotLive || chunks == 0 || chunks > ring.MaxRingChunks || taken == 0 {
			continue
		}
		if owner := a.U32(at + ring.SlotOwnerAt); owner != s.owner {
			s.owner, s.inspected, s.inspector = owner, 0, Inspector{}
		}
		// The oldest chunk is overwritten next.
		if from := max(taken, min(chunks, most+2)) - min(chunks, most+2); s.inspected < from {
			s.inspected, s.inspector = from, Inspector{}
		}
		for ; s.inspected+1 < taken; s.inspected++ {
			number := s.inspected + 1
			there, same := a.copyChunk(data, at, chunks, number)
			if !there {
				break
			}
			if !same {
				s.inspector = Inspector{}
				continue
			}
			b.mu.Lock()
			s.inspector.records(data, 0, ring.ChunkSize, func(uint32) {}, b.lasted)
			b.takeSpent(&s.inspector)
			b.mu.Unlock()
		}
	}
}

// inspectCurrent reads the durations of calls in the chunks that threads are writing to.
func (a arenaMemory) inspectCurrent(b *Controller) {
	data := make([]byte, ring.ChunkSize)
	for i := range a.Slots() {
		at := ring.SlotAt(i)
		taken, chunks := a.U64(at+ring.SlotTakenAt), a.U64(at+ring.SlotChunksAt)
		// Full chunks that are not yet written must come first.
		if a.U32(at+ring.SlotStateAt) != ring.SlotLive || chunks == 0 || chunks > ring.MaxRingChunks || taken == 0 || a.U64(at+ring.SlotConsumedAt)+1 != taken {
			continue
		}
		owner := a.U32(at + ring.SlotOwnerAt)
		if _, same := a.copyChunk(data, at, chunks, taken); same {
			b.mu.Lock()
			b.follow(i, owner, taken, data, true)
			b.mu.Unlock()
		}
	}
}

// copyChunk copies the chunk with this number of the slot at an offset. It reports whether the chunk
// is in the arena, and whether it was still the same chunk after the copy.
func (a arenaMemory) copyChunk(data []byte, at, chunks, number uint64) (there, same bool) {
	place, ok := a.Offset(a.U64(at+ring.SlotRingAt)+(number-1)%chunks*ring.ChunkSize, ring.ChunkSize)
	if !ok {
		return false, false
	}
	copy(data, a.Mem[place:place+ring.ChunkSize])
	return true, ring.Fields(data).U64(ring.ChunkSeqAt) == 2*number && a.U64(place) == 2*number
}
