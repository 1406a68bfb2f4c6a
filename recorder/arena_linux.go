package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/xray-tools/xray/reader"
	"golang.org/x/sys/unix"
)

// The layout of the arena, as in runtime/arena.h, version 4.
const (
	arenaMagic     = "XRAY-ARENA-1\x00\x00\x00\x00"
	arenaVersion   = 4
	arenaHeader    = 4096
	slotSize       = 256
	maxSlots       = 1 << 16
	processSize    = 192
	maxProcesses   = 1 << 14
	maxArenaText   = 4 << 20
	slotsAt        = arenaHeader
	processesAt    = slotsAt + maxSlots*slotSize
	arenaHeadSize  = processesAt + maxProcesses*processSize
	largestArena   = 64 << 30
	smallestArena  = 64 << 20
	helloSize      = 72
	helloKeyAt     = 40
	maxRingChunks  = 1 << 16
	maxCounters    = 1 << 29
	arenaSizeAt    = 32
	arenaBaseAt    = 40
	arenaNextAt    = 48
	arenaSessionAt = 56
	arenaNSlotsAt  = 64
	arenaNProcsAt  = 68
	arenaSlotsAt   = 72
	arenaProcsAt   = 80
	arenaStreamAt  = 88
	arenaDropAt    = 92
	arenaBeatAt    = 96
	arenaBellAt    = 104
	arenaClosedAt  = 108
	arenaKeeperAt  = 112
	arenaFreeAt    = 116
	arenaLimitsAt  = 120
	arenaSpentAt   = 128
	arenaDecidedAt = 132
	arenaBurstAt   = 136
	arenaPlanAt    = 1160
	maxBurst       = 255
	maxLimits      = 1 << 22 // as many bits follow the limits, see chooseLooked
)

// States of a slot and of a process.
const (
	slotFree = iota
	slotTaken
	slotLive
	slotEnded
	slotDone
)

const (
	processFree = iota
	processTaken
	processLive
)

// Offsets in struct xr_slot and struct xr_process.
const (
	slotStateAt, slotProcessAt, slotTIDAt, slotOwnerAt          = 0, 4, 8, 12
	slotRingAt, slotChunksAt, slotTakenAt, slotConsumedAt       = 16, 24, 32, 40
	slotWaitingAt, slotFirstAt, slotLastAt                      = 48, 56, 64
	slotDroppedAt, slotTruncatedAt, slotWaitedAt, slotNameAt    = 72, 80, 88, 96
	slotCountersAt, slotNCountersAt, slotProfileAt              = 112, 120, 128
	slotSumsAt, slotNSumsAt, slotWritingAt                      = 136, 144, 152
	slotGoneAt                                                  = 160
	processStateAt, processPIDAt, processPPIDAt, processSinceAt = 0, 4, 8, 16
	processFlushAskedAt, processFlushDoneAt, processModeAt      = 24, 28, 32
	processTextsAt, processTextAt, processTextSizeAt            = 36, 40, 56
	processDroppedAt, processHookedAt, processNHookedAt         = 72, 80, 88
	processWindowsAt, processNWindowsAt, processSpaceAt         = 96, 104, 112
	processEndedAt                                              = 120
	processMemoryAt                                             = 128 // struct xr_memory
)

// arena is memory that processes share with their observer, which creates it. Its contents can change
// at any time and can be anything, because the program can write to it by mistake. So the observer
// copies data before use, and checks it.
type arena struct {
	mem  []byte
	fd   int // of the memory
	size uint64
	from uint64                                  // TSC when it was created
	over chan struct{}                           // closed when the keeper may end
	held struct{ next, offset, pending uintptr } // the kernel's struct robust_list_head
}

// arenaOptions say what processes do with an arena.
type arenaOptions struct {
	session uint64
	limits  bool // a budget limits how many calls of each function are recorded
	rings   bool // threads keep their latest records, and nobody writes chunks as they fill up
	drop    bool // threads drop records instead of waiting
}

// arenaName is the name of an arena's memory in /proc/PID/maps.
const arenaName = "xray-arena"

// newArena creates an empty arena of this size, or a smaller one if the limit on the observer's
// address space does not allow that.
func newArena(o *arenaOptions, size int64) (*arena, error) {
	fd, err := unix.MemfdCreate(arenaName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot create memory to share with the program: %w", err)
	}
	for ; size >= smallestArena; size /= 4 {
		if err = unix.Ftruncate(fd, size); err != nil {
			continue
		}
		var mem []byte
		if mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
			continue
		}
		a := &arena{mem: mem, fd: fd, size: uint64(size), from: rdtsc(), over: make(chan struct{})}
		// Who has the descriptor could otherwise truncate the memory, and reading it would be a fault.
		// Its size is that of addresses: pages exist only where something was written.
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot seal the memory to share with the program: %w", err), a.close())
		}
		a.format(o)
		return a, nil
	}
	unix.Close(fd)
	return nil, fmt.Errorf("cannot map memory to share with the program: %w", err)
}

func (a *arena) format(o *arenaOptions) {
	copy(a.mem, arenaMagic)
	le := binary.LittleEndian
	for i, v := range []uint32{arenaVersion, slotSize, processSize, chunkSize} {
		le.PutUint32(a.mem[16+4*i:], v)
	}
	le.PutUint64(a.mem[arenaSizeAt:], a.size)
	next := uint64(arenaHeadSize+chunkSize-1) &^ (chunkSize - 1)
	if o.limits {
		le.PutUint64(a.mem[arenaLimitsAt:], next)
		next += 8*maxLimits + maxLimits/8
	}
	le.PutUint64(a.mem[arenaNextAt:], next)
	le.PutUint64(a.mem[arenaSessionAt:], o.session)
	le.PutUint64(a.mem[arenaSlotsAt:], slotsAt)
	le.PutUint64(a.mem[arenaProcsAt:], processesAt)
	if !o.rings {
		le.PutUint32(a.mem[arenaStreamAt:], 1)
	}
	if o.drop {
		le.PutUint32(a.mem[arenaDropAt:], 1)
	}
}

func (a *arena) close() error {
	close(a.over)
	return errors.Join(unix.Munmap(a.mem), unix.Close(a.fd))
}

// keep makes the kernel mark the arena when this process ends, however it ends. So its processes need
// not know who observes them. The mark is that of a robust futex, which a thread of its own holds.
func (a *arena) keep() {
	kept := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		word := a.word32(arenaKeeperAt)
		a.held.next, a.held.pending = uintptr(unsafe.Pointer(&a.held)), uintptr(unsafe.Pointer(word))
		if _, _, err := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, a.held.next, unsafe.Sizeof(a.held), 0); err == 0 {
			atomic.StoreUint32(word, uint32(unix.Gettid()))
		}
		close(kept)
		<-a.over
	}()
	<-kept
}

// guarded runs f. If the memory that is shared with a program cannot be read, guarded returns an error
// instead of ending this process.
func guarded(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = fmt.Errorf("cannot read the memory that is shared with the program: %w", fault)
	}()
	f()
	return nil
}

func (a *arena) word32(at uint64) *uint32 { return (*uint32)(unsafe.Pointer(&a.mem[at])) }
func (a *arena) word64(at uint64) *uint64 { return (*uint64)(unsafe.Pointer(&a.mem[at])) }
func (a *arena) u32(at uint64) uint32     { return atomic.LoadUint32(a.word32(at)) }
func (a *arena) u64(at uint64) uint64     { return atomic.LoadUint64(a.word64(at)) }

// plausible reports whether a thread can have made so many calls, or can have run for so many ticks. A
// program may write any number into the arena.
func (a *arena) plausible(n uint64) bool {
	const second = 1 << 32 // more or less
	return n <= rdtsc()-a.from+second
}

// offset returns the offset of size bytes from their address in the processes. It returns false if
// they are not in the arena.
func (a *arena) offset(address, size uint64) (uint64, bool) {
	at := address - a.u64(arenaBaseAt)
	if address == 0 || at < arenaHeadSize || at > a.size || size > a.size-at || at%8 != 0 {
		return 0, false
	}
	return at, true
}

// read copies memory at an address. It returns nil if the memory is not in the arena.
func (a *arena) read(address, size uint64) []byte {
	at, ok := a.offset(address, size)
	if !ok {
		return nil
	}
	return append([]byte(nil), a.mem[at:at+size]...)
}

func (a *arena) slots() uint32     { return min(a.u32(arenaNSlotsAt), maxSlots) }
func (a *arena) processes() uint32 { return min(a.u32(arenaNProcsAt), maxProcesses) }

// owns reports whether a slot belongs to a process. A thread that takes a slot sets the process before
// it makes the slot live, and only the observer frees slots. So the state must be read first.
func (a *arena) owns(process, slot uint32) bool {
	at := slotAt(slot)
	return a.u32(at+slotStateAt) > slotTaken && a.u32(at+slotProcessAt) == process
}

// ringChunks returns the numbers of the first and the last chunk in the ring of a thread that has
// ended. If the thread was killed while it took a chunk, that chunk has no records yet, and it has
// replaced the oldest one.
func (a *arena) ringChunks(slot uint32) (first, last uint64) {
	at := slotAt(slot)
	chunks, taken := min(a.u64(at+slotChunksAt), maxRingChunks), a.u64(at+slotTakenAt)
	gone := min(a.u64(at+slotGoneAt), taken)
	if taken < chunks || chunks == 0 {
		return 1 + min(gone, chunks), min(taken, chunks)
	}
	first = taken - chunks + 1
	if first <= gone {
		return gone + 1, taken
	}
	place, ok := a.offset(a.u64(at+slotRingAt)+taken%chunks*chunkSize, chunkSize)
	if ok && a.u64(place) == 2*(taken+1)-1 || ok && a.u64(place) == 2*(taken+1) {
		first++
	}
	return first, taken
}

func slotAt(i uint32) uint64    { return slotsAt + uint64(i)*slotSize }
func processAt(i uint32) uint64 { return processesAt + uint64(i)*processSize }

// punchHole releases the memory of a range of addresses, which then reads as zeros.
func (a *arena) punchHole(address, size uint64) {
	if at, ok := a.offset(address, size); ok && size > 0 {
		_ = unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(size))
	}
}

func futex(word *uint32, op int, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}

const (
	futexWait = 0
	futexWake = 1
)

// streams reports whether chunks are written as they fill up. If not, there is nothing to do until
// a process ends.
func (a *arena) streams() bool { return a.u32(arenaStreamAt) != 0 }

// isClosed reports whether the processes no longer wait for their observer, because it did nothing for
// long, and write the rest themselves.
func (a *arena) isClosed() bool { return a.u32(arenaClosedAt) != 0 }

// beat tells the processes that their observer is running.
func (a *arena) beat() {
	atomic.AddUint64(a.word64(arenaBeatAt), 1)
}

// text returns the newest metadata of a process, or nil if there is none yet. The arena has the latest
// two versions. If the process overwrites a version while text reads it, text tries again.
func (a *arena) text(process uint32) (text []byte, version uint32) {
	at := processAt(process)
	for range 4 {
		version = a.u32(at + processTextsAt)
		if version == 0 {
			return nil, 0
		}
		i := uint64(version&1) * 8
		size := a.u64(at + processTextSizeAt + i)
		if size > maxArenaText {
			return nil, version
		}
		text = a.read(a.u64(at+processTextAt+i), size)
		if a.u32(at+processTextsAt)-version < 2 {
			return text, version
		}
	}
	return text, version
}

// words calls each with the nonzero ones of the n sums at an address. It omits those that are not plausible,
// and returns their number. It reads the memory through its file, because touching unused pages would
// allocate them.
func (a *arena) words(address, n uint64, each func(i, v uint64)) (damaged uint64) {
	at, ok := a.offset(address, 8*n)
	if !ok {
		return 0
	}
	buf := make([]byte, chunkSize)
	for from, end := int64(at), int64(at+8*n); from < end; {
		data, err := unix.Seek(a.fd, from, unix.SEEK_DATA)
		if err != nil || data >= end {
			return damaged
		}
		from = data &^ 7
		k, err := unix.Pread(a.fd, buf[:min(int64(len(buf)), end-from)], from)
		if err != nil || k < 8 {
			return damaged
		}
		for i := 0; i+8 <= k; i += 8 {
			switch v := binary.LittleEndian.Uint64(buf[i:]); {
			case v == 0:
			case a.plausible(v):
				each(uint64(from+int64(i)-int64(at))/8, v)
			case i > 0 || from > int64(at): // the first word may be the address of another table
				damaged++
			}
		}
		from += int64(k &^ 7)
	}
	return damaged
}

// memoryOf returns the limit of memory of a process, or nil.
func (a *arena) memoryOf(process uint32) *reader.Memory {
	at := processAt(process) + processMemoryAt
	var chunks [5]uint64
	for i := range chunks {
		chunks[i] = min(a.u64(at+8*uint64(i)), a.size) * chunkSize
	}
	if chunks[0] == 0 {
		return nil
	}
	return &reader.Memory{Limit: chunks[0], Used: chunks[1], Peak: chunks[2], RingsGivenUp: chunks[3] / chunkSize, BytesGivenUp: chunks[4]}
}
