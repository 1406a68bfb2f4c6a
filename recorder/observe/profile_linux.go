package observe

import (
	"encoding/binary"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// Limits of what a thread's profile can have: a program may write any number there.
const (
	maxProfileFolds = 1<<16 + 1<<18
	maxProfileDeep  = 1 << 22
)

// profileParser reads the profile of a thread, which may still be running.
type profileParser struct {
	arena   *arenaObserver
	address uint64
	head    ring.Fields
	out     reader.Profile
	paths   map[uint64]int // by address; -1 for the top
	folds   map[uint64]int
	any     []int // for each fold, the index of the fold with any caller
	// folded has the folded calls of each path. The last entry is for the top.
	folded []reader.ProfilePath
}

// profileRoom limits the paths and folds of all threads together.
type profileRoom struct{ paths, folds int }

// profile reads a thread's profile, and subtracts its size from the room.
func (a *arenaObserver) profile(address uint64, pid int32, room *profileRoom) (reader.Profile, bool) {
	b := a.Read(address, ring.ProfileSize)
	if b == nil {
		return reader.Profile{}, false
	}
	f := ring.Fields(b)
	p := &profileParser{arena: a, address: address, head: f, paths: make(map[uint64]int), folds: make(map[uint64]int)}
	p.out = reader.Profile{Process: pid, Thread: int32(f.U32(ring.ProfileTIDAt)), First: f.U64(ring.ProfileFirstAt), Last: f.U64(ring.ProfileLastAt), Lost: f.U64(ring.ProfileLostAt)}
	if f.U32(ring.ProfileOwnersAt) > 1 {
		p.out.Thread = 0 // several threads used it, one after another
	}
	paths, folds := int(f.U32(ring.ProfilePathsAt)), int(f.U32(ring.ProfileNFoldsAt))
	if paths > room.paths || folds > room.folds || !p.readPaths(f.U64(ring.ProfilePagesAt), paths) || !p.readFolds(f.U64(ring.ProfileFoldsAt), folds) {
		return p.out, false
	}
	room.paths -= paths
	room.folds -= folds
	p.addOpen()
	p.addFolded()
	return p.out, true
}

// rowsAt is where a page of paths or folds has its rows.
const rowsAt = ring.PathPagePathsAt

// rows reads n rows of a list of pages. Each page begins with the address of the next one.
func (p *profileParser) rows(page uint64, n, ofPage, size, pageSize int, each func(address uint64, page []byte, at int) bool) bool {
	for first := 0; first < n; first += ofPage {
		b := p.arena.Read(page, uint64(pageSize))
		if b == nil {
			return false
		}
		for i := range min(ofPage, n-first) {
			if !each(page+rowsAt+uint64(i*size), b, i) {
				return false
			}
		}
		page = binary.LittleEndian.Uint64(b)
	}
	return true
}

func (p *profileParser) readPaths(page uint64, n int) bool {
	top := p.address + ring.ProfileTopAt
	p.paths[top] = -1
	ok := p.rows(page, n, ring.ProfilePathsOfPage, ring.PathSize, ring.PathPageSize, func(address uint64, page []byte, i int) bool {
		row, left := ring.Fields(page[rowsAt+i*ring.PathSize:]), ring.Fields(page[ring.PathPageLeftAt+i*ring.LeftSize:])
		path := reader.ProfilePath{
			Func: reader.FuncID(row.U32(ring.PathFuncAt)), Total: row.U64(ring.PathTicksAt), Min: row.U64(ring.PathMinAt), Max: row.U64(ring.PathMaxAt),
			Open: left.U64(ring.LeftCallsAt), OpenTotal: left.U64(ring.LeftTicksAt),
		}
		path.Octaves, path.Count = octaves(row)
		if !p.arena.isPossible(path.Octaves, path.Total) {
			return false
		}
		path.Off = offOf(row)
		path.Min = min(path.Min, path.Max) // no call has ended if Max is 0
		parent, ok := p.paths[row.U64(ring.PathParentAt)]
		path.Parent = parent
		p.folded = append(p.folded, foldedOf(row, len(p.out.Paths)))
		p.paths[address] = len(p.out.Paths)
		p.out.Paths = append(p.out.Paths, path)
		return ok
	})
	p.folded = append(p.folded, foldedOf(p.head[ring.ProfileTopAt:], -1))
	return ok
}

// foldedOf returns the path with the folded calls below a path.
func foldedOf(row ring.Fields, parent int) reader.ProfilePath {
	return reader.ProfilePath{Func: reader.Folded, Parent: parent, Count: row.U64(ring.PathFoldedAt), Total: row.U64(ring.PathFoldedTicksAt)}
}

// offOf returns the off-CPU time of a path.
func offOf(row ring.Fields) reader.ProfileOff {
	return reader.NewProfileOff(row.U64(ring.PathSwitchesAt), row.U64(ring.PathOffAt), row.U64(ring.PathQueuedAt))
}

func octaves(row ring.Fields) (list []uint64, count uint64) {
	for i := range reader.ProfileOctaves {
		calls := row.U64(ring.PathCallsAt + 8*i)
		count += calls
		list = append(list, calls)
	}
	for n := len(list); n > 0 && list[n-1] == 0; n-- {
		list = list[:n-1]
	}
	return list, count
}

// isPossible reports whether a thread's calls may be so many, and may have taken so many ticks. The times of
// nested calls add up.
func (a *arenaObserver) isPossible(octaves []uint64, ticks uint64) bool {
	return a.Plausible(ticks>>10) && !slices.ContainsFunc(octaves, func(calls uint64) bool { return !a.Plausible(calls) })
}

func (p *profileParser) readFolds(page uint64, n int) bool {
	var addresses []uint64
	ok := p.rows(page, n, ring.ProfileFoldsOfPage, ring.FoldSize, ring.FoldPageSize, func(address uint64, page []byte, i int) bool {
		row := ring.Fields(page[rowsAt+i*ring.FoldSize:])
		fold := reader.ProfileFold{
			Func: reader.FuncID(row.U32(ring.PathFuncAt)), Caller: reader.FuncID(row.U32(ring.FoldCallerAt)),
			Total: row.U64(ring.PathTicksAt), Min: row.U64(ring.PathMinAt), Max: row.U64(ring.PathMaxAt),
			Inside: row.U64(ring.FoldInsideAt), Nested: row.U64(ring.FoldNestedAt),
			Open: row.U64(ring.FoldLeftAt + ring.LeftCallsAt), OpenTotal: row.U64(ring.FoldLeftAt + ring.LeftTicksAt), OpenNested: row.U64(ring.FoldLeftNestedAt),
		}
		fold.Octaves, fold.Count = octaves(row)
		if !p.arena.isPossible(fold.Octaves, fold.Total) {
			return false
		}
		fold.Off = offOf(row)
		fold.Min = min(fold.Min, fold.Max)
		if row.U32(ring.FoldCallerAt) == ring.ProfileAnyCaller {
			fold.Caller = reader.Folded
		}
		addresses = append(addresses, row.U64(ring.FoldAnyAt))
		p.folds[address] = len(p.out.Folds)
		p.out.Folds = append(p.out.Folds, fold)
		return true
	})
	for _, address := range addresses {
		at, known := p.folds[address]
		p.any = append(p.any, at)
		ok = ok && known
	}
	return ok
}

// addOpen adds the open calls, as if they lasted until the latest event. It stops at the first call that
// is incomplete.
func (p *profileParser) addOpen() {
	frames := p.head[ring.ProfileFramesAt:ring.ProfileDeepAt]
	depth := int(min(p.head.U64(ring.ProfileDepthAt), ring.ProfilePathDepth+maxProfileDeep))
	if deep := depth - ring.ProfilePathDepth; deep > 0 {
		room := min(uint64(deep), p.head.U64(ring.ProfileNDeepAt))
		more := p.arena.Read(p.head.U64(ring.ProfileDeepAt), room*ring.FrameSize)
		frames = append(frames[:len(frames):len(frames)], more...)
	}
	caller, last := -1, -1 // a fold, and the caller's path
	isOpen := make(map[int]bool)
	for ; depth > 0 && len(frames) >= ring.FrameSize; frames, depth = frames[ring.FrameSize:], depth-1 {
		ticks := uint64(0)
		if start := frames.U64(ring.FrameStartAt); p.out.Last > start {
			ticks = p.out.Last - start
		}
		if at, ok := p.paths[frames.U64(ring.FramePathAt)]; ok && at >= 0 {
			p.out.Paths[at].Open++
			p.out.Paths[at].OpenTotal += ticks
			caller, last = -1, at
			continue
		}
		at, ok := p.folds[frames.U64(ring.FramePathAt)]
		if !ok {
			return
		}
		p.addOpenFold(at, caller, last, ticks, isOpen)
		caller = at
	}
}

func (p *profileParser) addOpenFold(at, caller, last int, ticks uint64, isOpen map[int]bool) {
	fold := &p.out.Folds[at]
	fold.Open++
	fold.OpenTotal += ticks
	if isOpen[p.any[at]] || p.has(last, fold.Func) {
		fold.OpenNested += ticks
	}
	isOpen[p.any[at]] = true
	folded := &p.folded[len(p.folded)-1]
	if last >= 0 {
		folded = &p.folded[last]
	}
	folded.Open++
	if caller >= 0 {
		p.out.Folds[caller].Inside += ticks
	} else {
		folded.OpenTotal += ticks
	}
}

// has reports whether a path contains a function.
func (p *profileParser) has(at int, fn reader.FuncID) bool {
	for at >= 0 && p.out.Paths[at].Func != fn {
		at = p.out.Paths[at].Parent
	}
	return at >= 0
}

// addFolded adds the paths with folded calls.
func (p *profileParser) addFolded() {
	for _, f := range p.folded {
		if f.Count+f.Open > 0 {
			p.out.Paths = append(p.out.Paths, f)
		}
	}
}

// freeProfile releases the memory of a profile.
func (a *arenaObserver) freeProfile(address uint64) {
	b := a.Read(address, ring.ProfileSize)
	if b == nil {
		return
	}
	f := ring.Fields(b)
	a.freePages(f.U64(ring.ProfilePagesAt), int(min(f.U32(ring.ProfilePathsAt), ring.ProfileMaxPaths)), ring.ProfilePathsOfPage, ring.PathPageSize)
	a.freePages(f.U64(ring.ProfileFoldsAt), int(min(f.U32(ring.ProfileNFoldsAt), maxProfileFolds)), ring.ProfileFoldsOfPage, ring.FoldPageSize)
	a.PunchHole(f.U64(ring.ProfileDeepAt), min(f.U64(ring.ProfileNDeepAt), maxProfileDeep)*ring.FrameSize)
	a.PunchHole(f.U64(ring.ProfileBucketsAt), ring.ProfileBuckets*8)
	a.PunchHole(address, ring.ProfileSize)
}

func (a *arenaObserver) freePages(page uint64, n, ofPage int, size uint64) {
	for ; n > 0; n -= ofPage {
		next := a.Read(page, 8)
		if next == nil {
			return
		}
		a.PunchHole(page, size)
		page = binary.LittleEndian.Uint64(next)
	}
}
