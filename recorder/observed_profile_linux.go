package recorder

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// Layout of runtime/profile.c.
const (
	profilePathsOfPage = 170
	profilePathSize    = 72 + 8*reader.ProfileOctaves
	profilePageSize    = 8 + profilePathsOfPage*profilePathSize
	profileTopAt       = 64
	profileFramesAt    = profileTopAt + profilePathSize
	profileMaxOpen     = 1024
	profileFrameSize   = 24
	profileSize        = profileFramesAt + profileMaxOpen*profileFrameSize
	profileMaxPaths    = 1 << 17
)

// profile reads the call paths of a thread, which may be running: at most so many.
func (a *arena) profile(address uint64, pid int32, most int) (reader.Profile, bool) {
	b := a.read(address, profileSize)
	if b == nil {
		return reader.Profile{}, false
	}
	f := fields(b)
	p := reader.Profile{Process: pid, Thread: int32(f.u32(24)), First: f.u64(40), Last: f.u64(8), Lost: f.u64(16)}
	if f.u32(28) > 1 {
		p.Thread = 0 // several threads had it, one after the other
	}
	n := int(f.u32(36))
	if n > most {
		return p, false
	}
	numbers := map[uint64]int{address + profileTopAt: -1}
	page := f.u64(48)
	for at := 0; at < n; at += profilePathsOfPage {
		b := a.read(page, profilePageSize)
		if b == nil {
			return p, false
		}
		for i := range min(profilePathsOfPage, n-at) {
			path, parent := parsePath(b[8+i*profilePathSize:])
			number, ok := numbers[parent]
			if !ok {
				return p, false
			}
			path.Parent = number
			numbers[page+8+uint64(i*profilePathSize)] = at + i
			p.Paths = append(p.Paths, path)
		}
		page = binary.LittleEndian.Uint64(b)
	}
	addOpen(&p, numbers, f)
	return p, true
}

// parsePath reads struct path, and the address of its parent.
func parsePath(b []byte) (path reader.ProfilePath, parent uint64) {
	f := fields(b)
	path = reader.ProfilePath{
		Func: reader.FuncID(f.u32(24)), Total: f.u64(32), Min: f.u64(40), Max: f.u64(48),
		Open: f.u64(56), OpenTotal: f.u64(64),
	}
	if path.Max == 0 {
		path.Min = 0
	}
	for i := range reader.ProfileOctaves {
		calls := f.u64(72 + 8*i)
		path.Count += calls
		path.Octaves = append(path.Octaves, calls)
	}
	for n := len(path.Octaves); n > 0 && path.Octaves[n-1] == 0; n-- {
		path.Octaves = path.Octaves[:n-1]
	}
	return path, f.u64(0)
}

// addOpen adds the calls that had not ended, which last until the latest event.
func addOpen(p *reader.Profile, numbers map[uint64]int, f fields) {
	for i := range int(min(f.u64(0), profileMaxOpen)) {
		frame := f[profileFramesAt+i*profileFrameSize:]
		at, ok := numbers[frame.u64(16)]
		if !ok || at < 0 {
			continue
		}
		p.Paths[at].Open++
		if start := frame.u64(8); p.Last > start {
			p.Paths[at].OpenTotal += p.Last - start
		}
	}
}
