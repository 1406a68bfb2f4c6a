package reader

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// A file of LLVM's profiling mode has the calls of each thread, summed up by path:
//
//	file  = magic version time process {block}
//	block = size number thread {path}
//	path  = function... 0 calls ticks
//
// A path lists its innermost function first. See "Profiling mode" in docs/dev/format.md.

// profilingFile is a file of LLVM's profiling mode. It has no events. Its sums are in
// Recording.Profiles.
type profilingFile struct{}

func (profilingFile) stream(*pass, Order, func(*Block) error) error  { return nil }
func (profilingFile) each(*pass, int, func(int, *Block) error) error { return nil }
func (profilingFile) lanes(*pass) ([]lane, error)                    { return nil, nil }
func (profilingFile) records(func(Record, error) bool)               {}

const (
	profilingMagic   = 0x7872617970726f66 // "xrayprof"
	profilingVersion = 0x20180424
	profilingBlock   = 16 // bytes of a block's header
	// Limits on what is kept from a file. compiler-rt has 16 KB for the paths of a thread.
	profilingDepth = 1 << 12
	profilingPaths = 1 << 20
	// profilingRoots is how often an outermost function may be in a block without a warning. compiler-rt takes
	// memory for each outermost call, which is enough for about 85 functions and paths.
	profilingRoots = 16
)

// profilingOrder returns the byte order of a file of profiling mode, or false if the file is of
// another kind.
func profilingOrder(head []byte) (binary.ByteOrder, bool) {
	if len(head) < 8 {
		return nil, false
	}
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint64(head) == profilingMagic {
			return o, true
		}
	}
	return nil, false
}

// parseProfiling reads a file of profiling mode.
func parseProfiling(f *file, order binary.ByteOrder, maxThreads int) error {
	var head [headerSize]byte
	if n, err := readFull(f.in, head[:], 0); err != nil {
		return err
	} else if n < len(head) {
		return &FormatError{f.name, 0, fmt.Errorf("%w: the header of a profile needs %d bytes, the file has %d: is it truncated?", ErrNotTrace, headerSize, n)}
	}
	f.header = Header{Version: 1, Type: Profiling, ByteOrder: order}
	f.recording = &Recording{}
	if v := order.Uint64(head[8:]); v != profilingVersion {
		f.losses.add(Loss{Cause: NewerVersion, File: f.name, Offset: 8,
			Detail: fmt.Sprintf("version %#x; the only known version is %#x", v, profilingVersion)})
	}
	p := &profilingParser{
		file: f, order: order, offset: headerSize, maxThreads: maxThreads, process: int32(order.Uint64(head[24:])),
		threads: make(map[int32]int), in: bufio.NewReaderSize(io.NewSectionReader(f.in, headerSize, math.MaxInt64-headerSize), 1<<16),
	}
	for p.offset < f.in.size {
		if err := p.block(); err != nil {
			return err
		}
	}
	return nil
}

// profilingParser reads the blocks of a file.
type profilingParser struct {
	file       *file
	order      binary.ByteOrder
	in         *bufio.Reader
	offset     int64 // of in
	process    int32
	maxThreads int
	threads    map[int32]int // index of each thread in Recording.Profiles
	paths      map[profilingKey]int
	path       []FuncID       // scratch memory, the innermost function first
	roots      map[FuncID]int // how often each outermost function is in the block
}

// profilingKey finds a path of a thread by its caller's path and its function.
type profilingKey struct {
	profile, parent int
	fn              FuncID
}

// lose counts the bytes from an offset to the current one as lost.
func (p *profilingParser) lose(cause Cause, from, records int64, format string, args ...any) {
	p.file.losses.add(Loss{Cause: cause, File: p.file.name, Offset: from, Bytes: p.offset - from, Records: records,
		Detail: fmt.Sprintf(format, args...)})
}

// skip moves to an offset.
func (p *profilingParser) skip(to int64) error {
	for p.offset < to {
		n, err := p.in.Discard(int(min(to-p.offset, 1<<30)))
		p.offset += int64(n)
		if err != nil {
			return p.readError(err)
		}
	}
	return nil
}

func (p *profilingParser) readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errShrinks
	}
	return &FormatError{p.file.name, p.offset, err}
}

func (p *profilingParser) read(b []byte) error {
	n, err := io.ReadFull(p.in, b)
	if p.offset += int64(n); err != nil {
		return p.readError(err)
	}
	return nil
}

// block reads the paths of a thread. It counts damaged paths as losses.
func (p *profilingParser) block() error {
	start, size := p.offset, p.file.in.size
	if size-start < profilingBlock {
		err := p.skip(size)
		p.lose(TruncatedFile, start, 1, "a block of a profile ends in its header")
		return err
	}
	var head [profilingBlock]byte
	if err := p.read(head[:]); err != nil {
		return err
	}
	end := start + int64(p.order.Uint32(head[:]))
	if end < p.offset {
		err := p.skip(size)
		p.lose(BadBlock, start, 1, "a block of a profile declares %d bytes, fewer than its header", end-start)
		return err
	}
	truncated := end > size
	if truncated {
		if p.file.in.damage == nil { // otherwise, damage already reports it
			p.file.losses.add(Loss{Cause: TruncatedFile, File: p.file.name, Offset: size, Bytes: end - size, Records: 1,
				Detail: fmt.Sprintf("a block of a profile declares %d bytes, but the file ends after %d", end-start, size-start)})
		}
		end = size
	}
	profile, err := p.thread(int32(p.order.Uint64(head[8:])))
	if err != nil {
		return err
	}
	p.roots = nil
	for p.offset < end {
		from := p.offset
		err := p.entry(profile, end)
		if bad := (*badEntry)(nil); errors.As(err, &bad) {
			if err = p.skip(end); err == nil && !(truncated && bad.short) {
				p.lose(BadRecord, from, 1, "%s", bad.what)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, fn := range slices.Sorted(maps.Keys(p.roots)) {
		if n := p.roots[fn]; n >= profilingRoots {
			p.file.losses.add(Loss{Cause: ManyRoots, File: p.file.name, Offset: start, Detail: fmt.Sprintf("function %d is there %d times", fn, n)})
		}
	}
	return nil
}

// thread returns the index of the profile of a thread.
func (p *profilingParser) thread(id int32) (int, error) {
	i, ok := p.threads[id]
	if !ok {
		r := p.file.recording
		if i = len(r.Profiles); i >= p.maxThreads {
			return 0, &TooManyThreadsError{File: p.file.name, MaxThreads: p.maxThreads}
		}
		p.threads[id] = i
		r.Profiles = append(r.Profiles, Profile{Process: p.process, Thread: id})
	}
	return i, nil
}

// badEntry says why the rest of a block cannot be read.
type badEntry struct {
	what  string
	short bool // the block ends
}

func (e *badEntry) Error() string { return e.what }

// entry reads one path.
func (p *profilingParser) entry(profile int, end int64) error {
	from := p.offset
	p.path = p.path[:0]
	var b [16]byte
	for {
		if end-p.offset < 4 {
			return &badEntry{"a path of a profile has no end", true}
		}
		if err := p.read(b[:4]); err != nil {
			return err
		}
		fn := FuncID(p.order.Uint32(b[:]))
		if fn == 0 {
			break
		}
		if len(p.path) == profilingDepth {
			return &badEntry{fmt.Sprintf("a path of a profile has more than %d functions", profilingDepth), false}
		}
		p.path = append(p.path, fn)
	}
	if end-p.offset < int64(len(b)) {
		return &badEntry{"a path of a profile has no sums", true}
	}
	if err := p.read(b[:]); err != nil {
		return err
	}
	count, total := p.order.Uint64(b[:]), p.order.Uint64(b[8:])
	for _, fn := range p.path {
		if fn == Folded || WakerThread <= fn && fn <= WakerInterrupt {
			p.lose(BadRecord, from, 1, "a path of a profile has function %d", fn)
			return nil
		}
	}
	switch {
	case len(p.path) == 0:
		p.lose(BadRecord, from, 1, "a path of a profile has no function")
		return nil
	case total > math.MaxInt64:
		// compiler-rt subtracts the time of a call without an exit from all calls around it, from
		// some of them twice.
		p.file.losses.add(Loss{Cause: BadTime, File: p.file.name, Offset: p.offset - 8, Bytes: 8,
			Detail: fmt.Sprintf("%d calls take %d ticks", count, int64(total))})
		total = 0
	}
	at, ok := p.find(profile)
	if !ok {
		p.lose(BadRecord, from, 1, "the profile has more than %d paths", profilingPaths)
		return nil
	}
	if len(p.path) == 1 {
		if p.roots == nil {
			p.roots = make(map[FuncID]int)
		}
		p.roots[p.path[0]]++
	}
	path := &p.file.recording.Profiles[profile].Paths[at]
	path.Count = addSaturating(path.Count, count)
	path.Total = addSaturating(path.Total, total)
	return nil
}

// find returns the position of the current path, after those of its callers. It returns
// false if there are too many paths.
func (p *profilingParser) find(profile int) (int, bool) {
	if p.paths == nil {
		p.paths = make(map[profilingKey]int)
	}
	to, at := &p.file.recording.Profiles[profile], -1
	for i := len(p.path) - 1; i >= 0; i-- {
		key := profilingKey{profile, at, p.path[i]}
		next, ok := p.paths[key]
		if !ok {
			if len(p.paths) == profilingPaths {
				return 0, false
			}
			next = len(to.Paths)
			p.paths[key] = next
			to.Paths = append(to.Paths, ProfilePath{Func: key.fn, Parent: at})
		}
		at = next
	}
	return at, true
}

func addSaturating(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint64
}
