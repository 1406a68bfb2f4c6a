package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Profile has the sums of a thread's calls by path, as collected during the recording.
type Profile struct {
	// Process and Thread are IDs. Thread is 0 if later threads reused the profile of ended ones.
	Process, Thread int32
	First, Last     uint64 // TSC of the first and the latest entry or exit
	// Lost is the number of calls that are in no sum because there was no memory for them.
	Lost uint64
	// Paths come before the paths below them.
	Paths []ProfilePath
	// Folds are the sums of calls without a path of their own. Their paths are those of
	// the function [Folded] among Paths.
	Folds []ProfileFold
}

// ProfilePath is a function that was called through the path of its parent. Times are in
// ticks.
//
// A path whose function is [Folded] stands for all calls below its parent, direct or
// indirect, that have no path of their own. Its times are those that calls of the parent spent in
// them. It has no Min, Max or Octaves.
type ProfilePath struct {
	Func   FuncID
	Parent int // position in Profile.Paths, before this one; -1 for outermost calls
	// Count is the number of calls that ended, which took Total.
	Count, Total uint64
	Min, Max     uint64 // of these calls; 0 if Count is 0
	// Open is the number of calls that had not ended, and OpenTotal is their time up to the
	// latest entry or exit.
	Open, OpenTotal uint64
	// Octaves counts the calls that ended by the length of their ticks in bits. The last
	// one of ProfileOctaves includes longer calls. Without any, only Count and Total are known, and
	// Min and Max are 0.
	Octaves []uint64
	// Off is the off-CPU time while a call of the path was the innermost one. It
	// is part of Total and OpenTotal.
	Off ProfileOff
}

// ProfileOff is the off-CPU time, in nanoseconds of the kernel's clocks. It is 0
// if the recorder did not notice switches; see [Process.OffCPU].
type ProfileOff struct {
	Switches uint64 // how often the thread was switched out
	Blocked  uint64 // ns in which the thread could not run
	Queued   uint64 // ns in which it could run and waited for a processor
}

// NewProfileOff divides an off-CPU time into the part in the run queue, queued, and the rest.
func NewProfileOff(switches, off, queued uint64) ProfileOff {
	queued = min(queued, off)
	return ProfileOff{Switches: switches, Blocked: off - queued, Queued: queued}
}

// ProfileFold is the calls of a function that have no path of their own. Times are in ticks.
type ProfileFold struct {
	Func FuncID
	// Caller is the function that made the calls: 0 for outermost calls, and [Folded] for
	// callers that the recorder had no room to distinguish.
	Caller FuncID
	// These fields are as in [ProfilePath].
	Count, Total    uint64
	Min, Max        uint64
	Open, OpenTotal uint64
	Octaves         []uint64
	// Inside is the time of the calls that these made.
	Inside uint64
	// Nested is the part of Total in calls made while another call of the function was
	// open, and OpenNested that of OpenTotal.
	Nested, OpenNested uint64
	Off                ProfileOff // as in [ProfilePath]
}

// FoldedCalls is the number of calls that have no path of their own.
func (p *Profile) FoldedCalls() uint64 {
	var n uint64
	for i := range p.Folds {
		n += p.Folds[i].Count + p.Folds[i].Open
	}
	return n
}

// ProfileOctaves is the maximum number of octaves of a path.
const ProfileOctaves = 39

// The parts of a profile's body; see docs/dev/format.md.
const (
	profileHeadSize = 40
	profilePathSize = 56
	profileFoldSize = 24 // in addition to the fields of a path

	profileAnyCaller = math.MaxUint32
	// profileNoOctaves marks calls whose number and time are known, but not their octaves.
	profileNoOctaves = 1 << 63
)

// parseProfiles reads the body of a metadata event. With an error, it returns the threads
// that are complete.
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
		paths, folds := le.Uint32(body[32:]), le.Uint32(body[36:])
		body = body[profileHeadSize:]
		if uint64(paths)+uint64(folds) > uint64(len(body)/profilePathSize) {
			return all, fmt.Errorf("a profile declares %d paths and %d folded functions in %d bytes, which are too few", paths, folds, len(body))
		}
		p.Paths = make([]ProfilePath, paths)
		for i := range p.Paths {
			size, err := p.Paths[i].parse(body, i)
			if err != nil {
				return all, err
			}
			body = body[size:]
		}
		if folds > 0 {
			p.Folds = make([]ProfileFold, folds)
		}
		for i := range p.Folds {
			size, err := p.Folds[i].parse(body, i)
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

// parse reads the path at an offset, and returns its size.
func (p *ProfilePath) parse(body []byte, at int) (int, error) {
	le := binary.LittleEndian
	if len(body) < profilePathSize {
		return 0, errors.New("a profile ends before its last path")
	}
	id, parent := le.Uint32(body), le.Uint32(body[4:])
	switch {
	case id > maxRecordedFunc:
		return 0, fmt.Errorf("path %d of a profile has invalid function ID %d", at, id)
	case uint64(parent) > uint64(at):
		return 0, fmt.Errorf("path %d of a profile is called by path %d, which is later", at, int64(parent)-1)
	}
	octaves, count, size, err := parseOctaves(body, profilePathSize)
	if err != nil {
		return 0, fmt.Errorf("path %d of a profile: %w", at, err)
	}
	*p = ProfilePath{
		Func: FuncID(id), Parent: int(parent) - 1, Count: count, Total: le.Uint64(body[8:]), Min: le.Uint64(body[16:]), Max: le.Uint64(body[24:]),
		Open: le.Uint64(body[32:]), OpenTotal: le.Uint64(body[40:]), Octaves: octaves,
	}
	if octaves == nil { // only the number of calls and their time are known
		p.Min, p.Max = 0, 0
	}
	if p.Min > p.Max && id != 0 {
		return 0, fmt.Errorf("path %d of a profile: the shortest call takes %d ticks, the longest %d", at, p.Min, p.Max)
	}
	if id == 0 {
		p.Func, p.Count, p.Min, p.Max, p.Octaves = Folded, p.Min, 0, 0, nil
	}
	return size, nil
}

// parse reads the fold at an offset, and returns its size.
func (f *ProfileFold) parse(body []byte, at int) (int, error) {
	le := binary.LittleEndian
	if len(body) < profilePathSize+profileFoldSize {
		return 0, errors.New("a profile ends before its last folded function")
	}
	id, caller := le.Uint32(body), le.Uint32(body[4:])
	if id < 1 || id > maxRecordedFunc || caller > maxRecordedFunc && caller != profileAnyCaller {
		return 0, fmt.Errorf("folded function %d of a profile has invalid IDs: function %d, called by %d", at, id, caller)
	}
	octaves, count, size, err := parseOctaves(body, profilePathSize+profileFoldSize)
	if err != nil {
		return 0, fmt.Errorf("folded function %d of a profile: %w", at, err)
	}
	*f = ProfileFold{
		Func: FuncID(id), Caller: FuncID(caller), Count: count, Total: le.Uint64(body[8:]), Min: le.Uint64(body[16:]), Max: le.Uint64(body[24:]),
		Open: le.Uint64(body[32:]), OpenTotal: le.Uint64(body[40:]), Octaves: octaves,
		Inside: le.Uint64(body[56:]), Nested: le.Uint64(body[64:]), OpenNested: le.Uint64(body[72:]),
	}
	if f.Min > f.Max {
		return 0, fmt.Errorf("folded function %d of a profile: the shortest call takes %d ticks, the longest %d", at, f.Min, f.Max)
	}
	if caller == profileAnyCaller {
		f.Caller = Folded
	}
	return size, nil
}

// parseOctaves reads the number of calls of a row by octave and in total. They follow its
// first bytes. It returns the size of the row including them.
func parseOctaves(row []byte, first int) (octaves []uint64, count uint64, size int, err error) {
	le := binary.LittleEndian
	mask := le.Uint64(row[48:])
	if mask == profileNoOctaves && len(row) >= first+8 {
		return nil, le.Uint64(row[first:]), first + 8, nil
	}
	if bits.Len64(mask) > ProfileOctaves {
		return nil, 0, 0, fmt.Errorf("it has %d octaves, more than %d", bits.Len64(mask), ProfileOctaves)
	}
	size = first + 8*bits.OnesCount64(mask)
	if len(row) < size {
		return nil, 0, 0, errors.New("it ends before its last octave")
	}
	octaves = make([]uint64, bits.Len64(mask))
	rest := row[first:]
	for o := range octaves {
		if mask>>o&1 == 0 {
			continue
		}
		octaves[o] = le.Uint64(rest)
		count += octaves[o]
		rest = rest[8:]
	}
	for n := len(octaves); n > 0 && octaves[n-1] == 0; n-- { // the mask may have too many bits
		octaves = octaves[:n-1]
	}
	return octaves, count, size, nil
}

// appendProfiles appends profiles as the body of a metadata event of kind
// [MetadataProfile].
func appendProfiles(b []byte, profiles []Profile) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(profiles)))
	for i := range profiles {
		p := &profiles[i]
		b = le.AppendUint32(b, uint32(p.Process))
		b = le.AppendUint32(b, uint32(p.Thread))
		for _, v := range []uint64{p.First, p.Last, p.Lost} {
			b = le.AppendUint64(b, v)
		}
		b = le.AppendUint32(b, uint32(len(p.Paths)))
		b = le.AppendUint32(b, uint32(len(p.Folds)))
		for j := range p.Paths {
			b = p.Paths[j].append(b)
		}
		for j := range p.Folds {
			b = p.Folds[j].append(b)
		}
	}
	return b
}

func (p *ProfilePath) append(b []byte) []byte {
	fn, least, unspread := p.Func, p.Min, p.Count
	if fn == Folded {
		fn, least, unspread = 0, p.Count, 0
	}
	b = appendRow(b, uint32(fn), uint32(p.Parent+1), []uint64{p.Total, least, p.Max, p.Open, p.OpenTotal, octaveMask(p.Octaves, unspread)})
	return appendOctaves(b, p.Octaves, unspread)
}

func (f *ProfileFold) append(b []byte) []byte {
	caller := uint32(f.Caller)
	if f.Caller == Folded {
		caller = profileAnyCaller
	}
	b = appendRow(b, uint32(f.Func), caller, []uint64{
		f.Total, f.Min, f.Max, f.Open, f.OpenTotal, octaveMask(f.Octaves, f.Count), f.Inside, f.Nested, f.OpenNested,
	})
	return appendOctaves(b, f.Octaves, f.Count)
}

func appendRow(b []byte, fn, parent uint32, fields []uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(b, fn), parent)
	for _, v := range fields {
		b = le.AppendUint64(b, v)
	}
	return b
}

// octaveMask returns which octaves of count calls have calls.
func octaveMask(octaves []uint64, count uint64) (mask uint64) {
	for o, n := range octaves {
		if n > 0 {
			mask |= 1 << o
		}
	}
	if mask == 0 && count > 0 {
		return profileNoOctaves
	}
	return mask
}

func appendOctaves(b []byte, octaves []uint64, count uint64) []byte {
	if octaveMask(octaves, count) == profileNoOctaves {
		return binary.LittleEndian.AppendUint64(b, count)
	}
	for _, n := range octaves {
		if n > 0 {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

// profileOffSize is the size of a row of [MetadataProfileOff].
const profileOffSize = 32

// profileOffFold marks rows of folded functions.
const profileOffFold = 1 << 31

// setProfileOff applies the off-CPU times to the profiles that were read before.
// It leaves out rows of paths that do not exist.
func (r *Recording) setProfileOff(body []byte) error {
	le := binary.LittleEndian
	var err error
	if n := len(body) % profileOffSize; n > 0 {
		err = fmt.Errorf("%d bytes after the last row", n)
	}
	for ; len(body) >= profileOffSize; body = body[profileOffSize:] {
		profile, path := le.Uint32(body), le.Uint32(body[4:])
		off := r.profileOff(profile, path)
		if off == nil {
			err = fmt.Errorf("profile %d has no path %#x", profile, path)
			continue
		}
		*off = NewProfileOff(le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:]))
	}
	return err
}

// profileOff returns nil if there is no such path.
func (r *Recording) profileOff(profile, path uint32) *ProfileOff {
	if uint64(profile) >= uint64(len(r.Profiles)) {
		return nil
	}
	p, at := &r.Profiles[profile], int(path&^uint32(profileOffFold))
	switch {
	case path&profileOffFold == 0 && at < len(p.Paths):
		return &p.Paths[at].Off
	case path&profileOffFold != 0 && at < len(p.Folds):
		return &p.Folds[at].Off
	}
	return nil
}

func (r *Recording) addProfileOff(add func([]byte)) {
	var b []byte
	row := func(profile int, path uint32, off *ProfileOff) {
		if *off != (ProfileOff{}) {
			b = appendRow(b, uint32(profile), path, []uint64{off.Switches, off.Blocked + off.Queued, off.Queued})
		}
	}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		for j := range p.Paths {
			row(i, uint32(j), &p.Paths[j].Off)
		}
		for j := range p.Folds {
			row(i, uint32(j)|profileOffFold, &p.Folds[j].Off)
		}
	}
	if b != nil {
		add(b)
	}
}
