package recorder

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
)

// budgetMemory is what a budget reads and writes of the processes that it is for. Its methods are called
// with the budget's lock held, except exhausted, over, processes and inspect.
type budgetMemory interface {
	// exhausted counts how often threads came to a limit, and decide how often the budget has switched
	// functions.
	exhausted() uint32
	decide()
	// limit returns how many calls of a function each thread records.
	limit(id uint32) uint64
	setLimit(id uint32, calls uint64)
	// setUnseen says which of 32 functions, from first on, the next look does not count, and setBurst which
	// functions it records.
	setUnseen(first, bits uint32)
	setBurst(ids []uint32)
	// processes is the number of processes so far. find has the budget follow those that have appeared, and
	// forget those that are gone.
	processes() uint32
	find(b *budget)
	// over reports whether there is nothing more to decide.
	over() bool
	// threads calls each with all places of threads, their processes, and what calls a function with the
	// counts that are not 0. It is nil for a place that has no thread.
	threads(each func(slot, process uint32, words func(each func(id, calls uint64))))
	// inspect has the budget take over the durations of calls that nothing else tells it.
	inspect(b *budget)
}

// budgetArena is an arena with limits.
type budgetArena struct{ *arenaObserver }

func (a budgetArena) over() bool        { return false }
func (a budgetArena) exhausted() uint32 { return a.u32(arenaSpentAt) }
func (a budgetArena) decide()           { atomic.AddUint32(a.word32(arenaDecidedAt), 1) }

func (a budgetArena) limitOf(id uint32) *uint64 {
	return a.word64(a.u64(arenaLimitsAt) + 8*uint64(id))
}

func (a budgetArena) limit(id uint32) uint64           { return atomic.LoadUint64(a.limitOf(id)) }
func (a budgetArena) setLimit(id uint32, calls uint64) { atomic.StoreUint64(a.limitOf(id), calls) }

func (a budgetArena) setUnseen(first, bits uint32) {
	atomic.StoreUint32(a.word32(a.u64(arenaLimitsAt)+8*maxLimits+uint64(first/8)), bits)
}

func (a budgetArena) setBurst(ids []uint32) {
	for i, id := range ids {
		atomic.StoreUint32(a.word32(arenaBurstAt+4+4*uint64(i)), id)
	}
	atomic.StoreUint32(a.word32(arenaBurstAt), uint32(len(ids)))
}

func (a budgetArena) threads(each func(slot, process uint32, words func(func(id, calls uint64)))) {
	for i := range a.slots() {
		at := slotAt(i)
		state, process := a.u32(at+slotStateAt), a.u32(at+slotProcessAt) // in this order, see owns
		if state == slotFree || state == slotTaken {
			each(i, process, nil)
			continue
		}
		each(i, process, func(each func(id, calls uint64)) {
			a.words(a.u64(at+slotCountersAt), min(a.u64(at+slotNCountersAt), maxLimits), each)
		})
	}
}

// find begins to follow processes that have appeared, and forgets those that are gone.
func (a budgetArena) find(b *budget) {
	for i := range a.processes() {
		if uint32(len(b.processes)) <= i {
			b.processes = append(b.processes, nil)
		}
		at := processAt(i)
		since, live := a.u64(at+processSinceAt), a.u32(at+processStateAt) == processLive
		if p := b.processes[i]; p != nil && (!live || p.since != since) {
			p.hangUp()
			b.processes[i] = nil
		}
		if b.processes[i] != nil || !live {
			continue
		}
		inner := int(int32(a.u32(at + processPIDAt)))
		host := inner
		if a.pid != a.inner {
			host = hostPID(a.pid, inner)
		}
		p := &budgetProcess{index: i, since: since, clock: clockOfProcess(host)}
		p.lookFrom = rand.IntN(len(b.functions) + 1) // children that end soon all begin elsewhere
		if process, err := Dial(strconv.Itoa(host)); err == nil {
			p.control = &line{process: process}
		}
		for id := range b.functions {
			p.assume(id, b.functions[id].rate) // as in the others
		}
		b.processes[i], b.estimates[i] = p, p
		text, _ := a.text(i)
		if r, err := reader.ParseRecording(text); err == nil {
			b.learnCost(r)
		}
	}
}

// inspect takes over the durations of calls in rings, which nobody writes while the program runs, and in
// chunks that are not yet full. Within a budget, it may take minutes to fill one.
func (a budgetArena) inspect(b *budget) {
	if a.streams() {
		a.inspectCurrent(b)
		return // written has the other records
	}
	const most = 4 // chunks of a thread in a round
	data := make([]byte, chunkSize)
	for i := range b.slots {
		at, s := slotAt(uint32(i)), &b.slots[i]
		taken, chunks := a.u64(at+slotTakenAt), a.u64(at+slotChunksAt)
		if a.u32(at+slotStateAt) != slotLive || chunks == 0 || chunks > maxRingChunks || taken == 0 {
			continue
		}
		if owner := a.u32(at + slotOwnerAt); owner != s.owner {
			s.owner, s.inspected, s.inspector = owner, 0, inspector{}
		}
		// The chunk behind the current one is overwritten next.
		if from := max(taken, min(chunks, most+2)) - min(chunks, most+2); s.inspected < from {
			s.inspected, s.inspector = from, inspector{}
		}
		for ; s.inspected+1 < taken; s.inspected++ {
			number := s.inspected + 1
			there, same := a.copyChunk(data, at, chunks, number)
			if !there {
				break
			}
			if !same {
				s.inspector = inspector{}
				continue
			}
			b.mu.Lock()
			s.inspector.records(data, 0, chunkSize, func(uint32) {}, b.lasted)
			b.mu.Unlock()
		}
	}
}

// inspectCurrent takes over the durations of calls in the chunks that threads write to.
func (a budgetArena) inspectCurrent(b *budget) {
	data := make([]byte, chunkSize)
	for i := range a.slots() {
		at := slotAt(i)
		taken, chunks := a.u64(at+slotTakenAt), a.u64(at+slotChunksAt)
		// A full chunk that is not yet written comes first.
		if a.u32(at+slotStateAt) != slotLive || chunks == 0 || chunks > maxRingChunks || taken == 0 || a.u64(at+slotConsumedAt)+1 != taken {
			continue
		}
		owner := a.u32(at + slotOwnerAt)
		if _, same := a.copyChunk(data, at, chunks, taken); same {
			b.mu.Lock()
			b.follow(i, owner, taken, data, true)
			b.mu.Unlock()
		}
	}
}

// copyChunk copies a chunk of the slot at a place, by its number. It reports whether there is one, and
// whether it still was that chunk after the copy.
func (a budgetArena) copyChunk(data []byte, at, chunks, number uint64) (there, same bool) {
	place, ok := a.offset(a.u64(at+slotRingAt)+(number-1)%chunks*chunkSize, chunkSize)
	if !ok {
		return false, false
	}
	copy(data, a.mem[place:place+chunkSize])
	return true, fields(data).u64(0) == 2*number && a.u64(place) == 2*number
}
