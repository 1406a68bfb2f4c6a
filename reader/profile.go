package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Profile is the calls of a thread, added up by path while they were made.
type Profile struct {
	// Process and Thread are ids. Thread is 0 where threads that ended left their
	// profile to later ones.
	Process, Thread int32
	First, Last     uint64 // TSC of the first and the latest entry or exit
	// Lost calls have no path: they were too deep, or there were too many paths.
	Lost  uint64
	Paths []ProfilePath
}

// ProfilePath is a function that was called through the path of its parent. Times
// are in ticks.
type ProfilePath struct {
	Func   FuncID
	Parent int // position in Profile.Paths, before this one; -1 for outermost calls
	// Count calls ended, which took Total.
	Count, Total uint64
	Min, Max     uint64 // of them; 0 when Count is
	// Open calls had not ended, and OpenTotal is their time up to the latest
	// entry or exit.
	Open, OpenTotal uint64
	// Octaves counts the calls that ended by the length of their ticks in bits.
	// The last one of ProfileOctaves holds longer ones too.
	Octaves []uint64
}

// ProfileOctaves is how many octaves a path has at most.
const ProfileOctaves = 39

// The parts of a profile's body; see docs/format.md.
const (
	profileHeadSize = 40
	profilePathSize = 56
)

// parseProfiles reads the body of a metadata event. Threads that are complete are
// returned even with an error.
func parseProfiles(body []byte) ([]Profile, error) {
	le := binary.LittleEndian
	if len(body) < 8 {
		return nil, errors.New("a profile without the number of its threads")
	}
	threads := le.Uint64(body)
	body = body[8:]
	var all []Profile
	for ; threads > 0; threads-- {
		if len(body) < profileHeadSize {
			return all, errors.New("a profile ends before its last thread")
		}
		p := Profile{
			Process: int32(le.Uint32(body)), Thread: int32(le.Uint32(body[4:])),
			First: le.Uint64(body[8:]), Last: le.Uint64(body[16:]), Lost: le.Uint64(body[24:]),
		}
		n := le.Uint64(body[32:])
		body = body[profileHeadSize:]
		if n > uint64(len(body)/profilePathSize) {
			return all, fmt.Errorf("a profile of %d paths in %d bytes", n, len(body))
		}
		p.Paths = make([]ProfilePath, n)
		for i := range p.Paths {
			size, err := p.Paths[i].parse(body, i)
			if err != nil {
				return all, err
			}
			body = body[size:]
		}
		all = append(all, p)
	}
	if len(body) > 0 {
		return all, fmt.Errorf("%d bytes after a profile", len(body))
	}
	return all, nil
}

// parse reads the path at a position, and returns its size.
func (p *ProfilePath) parse(body []byte, at int) (int, error) {
	le := binary.LittleEndian
	if len(body) < profilePathSize {
		return 0, errors.New("a profile ends before its last path")
	}
	id, parent := le.Uint32(body), le.Uint32(body[4:])
	octaves := le.Uint64(body[48:])
	size := profilePathSize + 8*bits.OnesCount64(octaves)
	switch {
	case id < 1 || id > maxRecordedFunc:
		return 0, fmt.Errorf("path %d of a profile is of function %d", at, id)
	case uint64(parent) > uint64(at):
		return 0, fmt.Errorf("path %d of a profile is called by path %d, which is later", at, int64(parent)-1)
	case bits.Len64(octaves) > ProfileOctaves:
		return 0, fmt.Errorf("path %d of a profile has %d octaves, more than %d", at, bits.Len64(octaves), ProfileOctaves)
	case len(body) < size:
		return 0, errors.New("a profile ends before its last path")
	}
	*p = ProfilePath{
		Func: FuncID(id), Parent: int(parent) - 1, Total: le.Uint64(body[8:]), Min: le.Uint64(body[16:]), Max: le.Uint64(body[24:]),
		Open: le.Uint64(body[32:]), OpenTotal: le.Uint64(body[40:]), Octaves: make([]uint64, bits.Len64(octaves)),
	}
	rest := body[profilePathSize:]
	for o := range p.Octaves {
		if octaves>>o&1 == 0 {
			continue
		}
		p.Octaves[o] = le.Uint64(rest)
		p.Count += p.Octaves[o]
		rest = rest[8:]
	}
	for n := len(p.Octaves); n > 0 && p.Octaves[n-1] == 0; n-- { // the mask may say too much
		p.Octaves = p.Octaves[:n-1]
	}
	return size, nil
}

// AppendProfiles appends profiles as the body of a metadata event of kind
// [MetadataProfile].
func AppendProfiles(b []byte, profiles []Profile) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(profiles)))
	for i := range profiles {
		p := &profiles[i]
		b = le.AppendUint32(b, uint32(p.Process))
		b = le.AppendUint32(b, uint32(p.Thread))
		for _, v := range []uint64{p.First, p.Last, p.Lost, uint64(len(p.Paths))} {
			b = le.AppendUint64(b, v)
		}
		for _, path := range p.Paths {
			b = le.AppendUint32(b, uint32(path.Func))
			b = le.AppendUint32(b, uint32(path.Parent+1))
			var octaves uint64
			for o, n := range path.Octaves {
				if n > 0 {
					octaves |= 1 << o
				}
			}
			for _, v := range []uint64{path.Total, path.Min, path.Max, path.Open, path.OpenTotal, octaves} {
				b = le.AppendUint64(b, v)
			}
			for _, n := range path.Octaves {
				if n > 0 {
					b = le.AppendUint64(b, n)
				}
			}
		}
	}
	return b
}
