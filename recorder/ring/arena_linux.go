package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/xray-tools/xray/reader"
	"golang.org/x/sys/unix"
)

// The arena begins with its header, struct xr_arena, the slots and the processes.
const (
	slotsAt       = 4096
	processesAt   = slotsAt + maxSlots*SlotSize
	ArenaHeadSize = processesAt + maxProcesses*processSize
	LargestArena  = 64 << 30
	SmallestArena = 64 << 20
	MaxRingChunks = 1 << 16
	MaxCounters   = 1 << 29
	MaxSampled    = sampledIDsSize / 4 // functions
)

// Arena is memory that processes share with their observer, which creates it. Its contents can change
// at any time and can be anything, because the program can write to it by mistake. So the observer
// copies data before use, and checks it.
type Arena struct {
	Mem  []byte
	FD   int // of the memory
	size uint64
	from uint64                                  // TSC when it was created
	Over chan struct{}                           // closed when the keeper may end
	held struct{ next, offset, pending uintptr } // the kernel's struct robust_list_head
}

// ArenaOptions say what processes do with an arena.
type ArenaOptions struct {
	Session uint64
	Limits  bool // a budget limits how many calls of each function are recorded
	Rings   bool // threads keep their latest records, and nobody writes chunks as they fill up
	Drop    bool // threads drop records instead of waiting
}

// ArenaName is the name of an arena's memory in /proc/PID/maps.
const ArenaName = "xray-arena"

// NewArena creates an empty arena of this size, or a smaller one if the limit on the observer's
// address space does not allow that.
func NewArena(o *ArenaOptions, size int64) (*Arena, error) {
	fd, err := unix.MemfdCreate(ArenaName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot create memory to share with the program: %w", err)
	}
	for ; size >= SmallestArena; size /= 4 {
		if err = unix.Ftruncate(fd, size); err != nil {
			continue
		}
		var mem []byte
		if mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
			continue
		}
		a := &Arena{Mem: mem, FD: fd, size: uint64(size), from: ReadTSC(), Over: make(chan struct{})}
		// Who has the descriptor could otherwise truncate the memory, and reading it would be a fault.
		// Its size is that of addresses: pages exist only where something was written.
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot seal the memory to share with the program: %w", err), a.Close())
		}
		a.format(o)
		return a, nil
	}
	unix.Close(fd)
	return nil, fmt.Errorf("cannot map memory to share with the program: %w", err)
}

// Share returns a descriptor of the memory for a program, which the caller closes. The arena is shared until no
// process has this descriptor or a mapping of it: both keep the open file, and that has a lock.
func (a *Arena) Share() (int, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(a.FD), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("cannot share memory with the program: %w", err)
	}
	return fd, nil
}

// IsShared reports whether a process shares the arena, or can still do so.
func (a *Arena) IsShared() bool {
	return unix.Flock(a.FD, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

func (a *Arena) format(o *ArenaOptions) {
	copy(a.Mem, ArenaMagic)
	le := binary.LittleEndian
	le.PutUint32(a.Mem[arenaVersionAt:], ArenaVersion)
	le.PutUint32(a.Mem[arenaSlotSizeAt:], SlotSize)
	le.PutUint32(a.Mem[arenaProcessSizeAt:], processSize)
	le.PutUint32(a.Mem[arenaChunkSizeAt:], ChunkSize)
	le.PutUint64(a.Mem[arenaSizeAt:], a.size)
	next := uint64(ArenaHeadSize+ChunkSize-1) &^ (ChunkSize - 1)
	if o.Limits {
		le.PutUint64(a.Mem[ArenaLimitsAt:], next)
		next += LimitsSize
	}
	le.PutUint64(a.Mem[arenaNextAt:], next)
	le.PutUint64(a.Mem[arenaSessionAt:], o.Session)
	le.PutUint64(a.Mem[arenaSlotsAt:], slotsAt)
	le.PutUint64(a.Mem[arenaProcsAt:], processesAt)
	if !o.Rings {
		le.PutUint32(a.Mem[arenaStreamAt:], 1)
	}
	if o.Drop {
		le.PutUint32(a.Mem[arenaDropAt:], 1)
	}
}

func (a *Arena) Close() error {
	close(a.Over)
	return errors.Join(unix.Munmap(a.Mem), unix.Close(a.FD))
}

// Keep makes the kernel mark the arena when this process ends, however it ends. So its processes need
// not know who observes them. The mark is that of a robust futex, which a thread of its own holds.
func (a *Arena) Keep() {
	kept := make(chan struct{})
	go a.keep(kept)
	<-kept
}

func (a *Arena) keep(kept chan<- struct{}) {
	runtime.LockOSThread() // the thread ends with this goroutine
	if unix.Gettid() == unix.Getpid() {
		// Go never ends the process's first thread. As long as this goroutine has it, another one has another thread.
		a.Keep()
		runtime.UnlockOSThread()
		close(kept)
		return
	}
	word := a.Word32(ArenaKeeperAt)
	a.held.next, a.held.pending = uintptr(unsafe.Pointer(&a.held)), uintptr(unsafe.Pointer(word))
	if _, _, err := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, a.held.next, unsafe.Sizeof(a.held), 0); err == 0 {
		atomic.StoreUint32(word, uint32(unix.Gettid()))
	}
	close(kept)
	<-a.Over
}

// Guarded runs f. If the memory that is shared with a program cannot be read, Guarded returns an error
// instead of ending this process.
func Guarded(f func()) (err error) {
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

func (a *Arena) Word32(at uint64) *uint32 { return (*uint32)(unsafe.Pointer(&a.Mem[at])) }
func (a *Arena) Word64(at uint64) *uint64 { return (*uint64)(unsafe.Pointer(&a.Mem[at])) }
func (a *Arena) U32(at uint64) uint32     { return atomic.LoadUint32(a.Word32(at)) }
func (a *Arena) U64(at uint64) uint64     { return atomic.LoadUint64(a.Word64(at)) }

// Plausible reports whether a thread can have made so many calls, or can have run for so many ticks. A
// program may write any number into the arena.
func (a *Arena) Plausible(n uint64) bool {
	const second = 1 << 32 // more or less
	return n <= ReadTSC()-a.from+second
}

// Offset returns the offset of size bytes from their address in the processes. It returns false if
// they are not in the arena.
func (a *Arena) Offset(address, size uint64) (uint64, bool) {
	at := address - a.U64(ArenaBaseAt)
	if address == 0 || at < ArenaHeadSize || at > a.size || size > a.size-at || at%8 != 0 {
		return 0, false
	}
	return at, true
}

// Read copies memory at an address. It returns nil if the memory is not in the arena.
func (a *Arena) Read(address, size uint64) []byte {
	at, ok := a.Offset(address, size)
	if !ok {
		return nil
	}
	return append([]byte(nil), a.Mem[at:at+size]...)
}

func (a *Arena) Slots() uint32     { return min(a.U32(ArenaNSlotsAt), maxSlots) }
func (a *Arena) Processes() uint32 { return min(a.U32(ArenaNProcsAt), maxProcesses) }

// Owns reports whether a slot belongs to a process. A thread that takes a slot sets the process before
// it makes the slot live, and only the observer frees slots. So the state must be read first.
func (a *Arena) Owns(process, slot uint32) bool {
	at := SlotAt(slot)
	return a.U32(at+SlotStateAt) > SlotTaken && a.U32(at+SlotProcessAt) == process
}

// RingChunks returns the numbers of the first and the last chunk in the ring of a thread that has
// ended. If the thread was killed while it took a chunk, that chunk has no records yet, and it has
// replaced the oldest one.
func (a *Arena) RingChunks(slot uint32) (first, last uint64) {
	at := SlotAt(slot)
	chunks, taken := min(a.U64(at+SlotChunksAt), MaxRingChunks), a.U64(at+SlotTakenAt)
	gone := min(a.U64(at+slotGoneAt), taken)
	if taken < chunks || chunks == 0 {
		return 1 + min(gone, chunks), min(taken, chunks)
	}
	first = taken - chunks + 1
	if first <= gone {
		return gone + 1, taken
	}
	place, ok := a.Offset(a.U64(at+SlotRingAt)+taken%chunks*ChunkSize, ChunkSize)
	if ok && a.U64(place) == 2*(taken+1)-1 || ok && a.U64(place) == 2*(taken+1) {
		first++
	}
	return first, taken
}

func SlotAt(i uint32) uint64    { return slotsAt + uint64(i)*SlotSize }
func ProcessAt(i uint32) uint64 { return processesAt + uint64(i)*processSize }

// PunchHole releases the memory of a range of addresses, which then reads as zeros.
func (a *Arena) PunchHole(address, size uint64) {
	if at, ok := a.Offset(address, size); ok && size > 0 {
		_ = unix.Fallocate(a.FD, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(size))
	}
}

func Futex(word *uint32, op int, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}

const (
	FutexWait = 0
	FutexWake = 1
)

// Streams reports whether chunks are written as they fill up. If not, there is nothing to do until
// a process ends.
func (a *Arena) Streams() bool { return a.U32(arenaStreamAt) != 0 }

// IsClosed reports whether the processes no longer wait for their observer, because it did nothing for
// long, and write the rest themselves.
func (a *Arena) IsClosed() bool { return a.U32(ArenaClosedAt) != 0 }

// Beat tells the processes that their observer is running.
func (a *Arena) Beat() {
	atomic.AddUint64(a.Word64(arenaBeatAt), 1)
}

// Text returns the newest metadata of a process, or nil if there is none yet. The arena has the latest
// two versions. If the process overwrites a version while text reads it, text tries again.
func (a *Arena) Text(process uint32) (text []byte, version uint32) {
	at := ProcessAt(process)
	for range 4 {
		version = a.U32(at + ProcessTextsAt)
		if version == 0 {
			return nil, 0
		}
		i := uint64(version&1) * 8
		size := a.U64(at + ProcessTextSizeAt + i)
		if size > MaxArenaText {
			return nil, version
		}
		text = a.Read(a.U64(at+ProcessTextAt+i), size)
		if a.U32(at+ProcessTextsAt)-version < 2 {
			return text, version
		}
	}
	return text, version
}

// Words calls each with the nonzero ones of the n sums of a thread at an address. It omits those that are not
// plausible, and returns their number.
func (a *Arena) Words(address, n uint64, each func(i, v uint64)) (damaged uint64) {
	a.AnyWords(address, n, func(i, v uint64) {
		if a.Plausible(v) {
			each(i, v)
		} else if i > 0 { // the first word may be the address of another table
			damaged++
		}
	})
	return damaged
}

// AnyWords calls each with the nonzero ones of n words at an address. It reads the memory through its file,
// because touching unused pages would allocate them.
func (a *Arena) AnyWords(address, n uint64, each func(i, v uint64)) {
	at, ok := a.Offset(address, 8*n)
	if !ok {
		return
	}
	buf := make([]byte, ChunkSize)
	for from, end := int64(at), int64(at+8*n); from < end; {
		data, err := unix.Seek(a.FD, from, unix.SEEK_DATA)
		if err != nil || data >= end {
			return
		}
		from = data &^ 7
		k, err := unix.Pread(a.FD, buf[:min(int64(len(buf)), end-from)], from)
		if err != nil || k < 8 {
			return
		}
		for i := 0; i+8 <= k; i += 8 {
			if v := binary.LittleEndian.Uint64(buf[i:]); v != 0 {
				each(uint64(from+int64(i)-int64(at))/8, v)
			}
		}
		from += int64(k &^ 7)
	}
}

// MemoryOf returns the limit of memory of a process, or nil.
func (a *Arena) MemoryOf(process uint32) *reader.Memory {
	at := ProcessAt(process) + processMemoryAt
	bytes := func(field uint64) uint64 { return min(a.U64(at+field), a.size) * ChunkSize }
	if bytes(memoryLimitAt) == 0 {
		return nil
	}
	return &reader.Memory{
		Limit: bytes(memoryLimitAt), Used: bytes(memoryUsedAt), Peak: bytes(memoryPeakAt),
		RingsGivenUp: bytes(memoryGivenAt) / ChunkSize, BytesGivenUp: bytes(memoryGivenChunksAt),
	}
}

// Plan returns when windows begin in the arena, in nanoseconds of CLOCK_MONOTONIC, or 0.
func (a *Arena) Plan() uint64 { return a.U64(arenaPlanAt) }

// Follow makes windows begin at the same times as in another arena.
func (a *Arena) Follow(plan uint64) { atomic.StoreUint64(a.Word64(arenaPlanAt), plan) }
