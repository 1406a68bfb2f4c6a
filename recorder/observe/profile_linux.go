package observe

import (
	"encoding/binary"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// Layout of runtime/profile.h.
const (
	profilePathDepth   = 1024
	profileMaxPaths    = 1 << 17
	profileMaxFolds    = 1<<16 + 1<<18
	profileMaxDeep     = 1 << 22
	profilePathsOfPage = 154
	profileFoldsOfPage = 134
	profileOffAt       = 72 + 8*reader.ProfileOctaves
	profilePathSize    = profileOffAt + 24
	profileLeftSize    = 16
	profileFoldSize    = profilePathSize + 80
	profileLeftAt      = 8 + profilePathsOfPage*profilePathSize
	profilePageSize    = profileLeftAt + profilePathsOfPage*profileLeftSize
	profileFoldsSize   = 8 + profileFoldsOfPage*profileFoldSize
	profileTopAt       = 64
	profileFramesAt    = profileTopAt + profilePathSize
	profileFrameSize   = 24
	profileDeepAt      = profileFramesAt + profilePathDepth*profileFrameSize
	profileSize        = profileDeepAt + 72
	profileBuckets     = 1 << 12
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
	b := a.Read(address, profileSize)
	if b == nil {
		return reader.Profile{}, false
	}
	f := ring.Fields(b)
	p := &profileParser{arena: a, address: address, head: f, paths: make(map[uint64]int), folds: make(map[uint64]int)}
	p.out = reader.Profile{Process: pid, Thread: int32(f.U32(24)), First: f.U64(40), Last: f.U64(8), Lost: f.U64(16)}
	if f.U32(28) > 1 {
		p.out.Thread = 0 // several threads used it, one after another
	}
	paths, folds := int(f.U32(36)), int(f.U32(profileDeepAt+56))
	if paths > room.paths || folds > room.folds || !p.readPaths(f.U64(48), paths) || !p.readFolds(f.U64(profileDeepAt+40), folds) {
		return p.out, false
	}
	room.paths -= paths
	room.folds -= folds
	p.addOpen()
	p.addFolded()
	return p.out, true
}

// rows reads n rows of a list of pages. Each page begins with the address of the next one.
func (p *profileParser) rows(page uint64, n, ofPage, size, pageSize int, each func(address uint64, page []byte, at int) bool) bool {
	for first := 0; first < n; first += ofPage {
		b := p.arena.Read(page, uint64(pageSize))
		if b == nil {
			return false
		}
		for i := range min(ofPage, n-first) {
			if !each(page+8+uint64(i*size), b, i) {
				return false
			}
		}
		page = binary.LittleEndian.Uint64(b)
	}
	return true
}

func (p *profileParser) readPaths(page uint64, n int) bool {
	top := p.address + profileTopAt
	p.paths[top] = -1
	ok := p.rows(page, n, profilePathsOfPage, profilePathSize, profilePageSize, func(address uint64, page []byte, i int) bool {
		row, left := ring.Fields(page[8+i*profilePathSize:]), ring.Fields(page[profileLeftAt+i*profileLeftSize:])
		path := reader.ProfilePath{
			Func: reader.FuncID(row.U32(24)), Total: row.U64(32), Min: row.U64(40), Max: row.U64(48), Open: left.U64(0), OpenTotal: left.U64(8),
		}
		path.Octaves, path.Count = octaves(row)
		if !p.arena.isPossible(path.Octaves, path.Total) {
			return false
		}
		path.Off = offOf(row)
		path.Min = min(path.Min, path.Max) // no call has ended if Max is 0
		parent, ok := p.paths[row.U64(0)]
		path.Parent = parent
		p.folded = append(p.folded, foldedOf(row, len(p.out.Paths)))
		p.paths[address] = len(p.out.Paths)
		p.out.Paths = append(p.out.Paths, path)
		return ok
	})
	p.folded = append(p.folded, foldedOf(p.head[profileTopAt:], -1))
	return ok
}

// foldedOf returns the path with the folded calls below a path.
func foldedOf(row ring.Fields, parent int) reader.ProfilePath {
	return reader.ProfilePath{Func: reader.Folded, Parent: parent, Count: row.U64(56), Total: row.U64(64)}
}

// offOf returns the off-CPU time of a path.
func offOf(row ring.Fields) reader.ProfileOff {
	return reader.NewProfileOff(row.U64(profileOffAt), row.U64(profileOffAt+8), row.U64(profileOffAt+16))
}

func octaves(row ring.Fields) (list []uint64, count uint64) {
	for i := range reader.ProfileOctaves {
		calls := row.U64(72 + 8*i)
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
	ok := p.rows(page, n, profileFoldsOfPage, profileFoldSize, profileFoldsSize, func(address uint64, page []byte, i int) bool {
		row := ring.Fields(page[8+i*profileFoldSize:])
		own := row[profilePathSize:]
		fold := reader.ProfileFold{
			Func: reader.FuncID(row.U32(24)), Caller: reader.FuncID(own.U32(16)), Total: row.U64(32), Min: row.U64(40), Max: row.U64(48),
			Inside: own.U64(40), Nested: own.U64(48), Open: own.U64(56), OpenTotal: own.U64(64), OpenNested: own.U64(72),
		}
		fold.Octaves, fold.Count = octaves(row)
		if !p.arena.isPossible(fold.Octaves, fold.Total) {
			return false
		}
		fold.Off = offOf(row)
		fold.Min = min(fold.Min, fold.Max)
		if own.U32(16) == 1<<32-1 {
			fold.Caller = reader.Folded
		}
		addresses = append(addresses, own.U64(8))
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
	frames := p.head[profileFramesAt:profileDeepAt]
	depth := int(min(p.head.U64(0), profilePathDepth+profileMaxDeep))
	if deep := depth - profilePathDepth; deep > 0 {
		room := min(uint64(deep), p.head.U64(profileDeepAt+8))
		more := p.arena.Read(p.head.U64(profileDeepAt), room*profileFrameSize)
		frames = append(frames[:len(frames):len(frames)], more...)
	}
	caller, last := -1, -1 // a fold, and the caller's path
	isOpen := make(map[int]bool)
	for ; depth > 0 && len(frames) >= profileFrameSize; frames, depth = frames[profileFrameSize:], depth-1 {
		ticks := uint64(0)
		if start := frames.U64(8); p.out.Last > start {
			ticks = p.out.Last - start
		}
		if at, ok := p.paths[frames.U64(16)]; ok && at >= 0 {
			p.out.Paths[at].Open++
			p.out.Paths[at].OpenTotal += ticks
			caller, last = -1, at
			continue
		}
		at, ok := p.folds[frames.U64(16)]
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
	b := a.Read(address, profileSize)
	if b == nil {
		return
	}
	f := ring.Fields(b)
	a.freePages(f.U64(48), int(min(f.U32(36), profileMaxPaths)), profilePathsOfPage, profilePageSize)
	a.freePages(f.U64(profileDeepAt+40), int(min(f.U32(profileDeepAt+56), profileMaxFolds)), profileFoldsOfPage, profileFoldsSize)
	a.PunchHole(f.U64(profileDeepAt), min(f.U64(profileDeepAt+8), profileMaxDeep)*profileFrameSize)
	a.PunchHole(f.U64(profileDeepAt+32), profileBuckets*8)
	a.PunchHole(address, profileSize)
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
