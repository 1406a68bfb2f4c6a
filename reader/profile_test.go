package reader

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleProfiles() []Profile {
	return []Profile{
		{Process: 7, Thread: 8, First: 1000, Last: 5000, Lost: 2, Paths: []ProfilePath{
			{Func: 1, Parent: -1, Open: 1, OpenTotal: 4000, Octaves: []uint64{}},
			{Func: 2, Parent: 0, Count: 3, Total: 17, Min: 1, Max: 9, Octaves: []uint64{0, 1, 0, 1, 1}},
			{Func: Folded, Parent: 1, Count: 6, Total: 12, Open: 1, OpenTotal: 5},
		}, Folds: []ProfileFold{
			{Func: 2, Caller: 2, Count: 5, Total: 11, Min: 1, Max: 9, Octaves: []uint64{0, 4, 0, 0, 1}, Inside: 3, Nested: 10},
			{Func: 1, Caller: Folded, Count: 1, Total: 1, Min: 1, Max: 1, Octaves: []uint64{0, 1}, Open: 1, OpenTotal: 5, OpenNested: 5},
		}},
		{Process: 7, Paths: []ProfilePath{}},
	}
}

func TestProfilesComeBack(t *testing.T) {
	got, err := parseProfiles(appendProfiles(nil, sampleProfiles()))
	if diff := cmp.Diff(sampleProfiles(), got); diff != "" || err != nil {
		t.Errorf("error %v (-written +read):\n%s", err, diff)
	}
}

// For calls of LLVM's profiling mode, only the number and the time are known.
func TestProfilesWithoutDurations(t *testing.T) {
	profiles := []Profile{{Process: 7, Paths: []ProfilePath{{Func: 3, Parent: -1, Count: 7, Total: 30}},
		Folds: []ProfileFold{{Func: 3, Caller: 1, Count: 1 << 40, Total: 50, Inside: 3}}}}
	got, err := parseProfiles(appendProfiles(nil, profiles))
	if diff := cmp.Diff(profiles, got); diff != "" || err != nil {
		t.Errorf("%v, -written +read:\n%s", err, diff)
	}
}

func TestDamagedProfiles(t *testing.T) {
	whole := appendProfiles(nil, sampleProfiles())
	const firstPath = 8 + profileHeadSize
	const firstFold = firstPath + 3*profilePathSize + 3*8
	put := func(offset int, v uint32) []byte {
		b := slices.Clone(whole)
		binary.LittleEndian.PutUint32(b[offset:], v)
		return b
	}
	for _, test := range []struct {
		name, want string
		body       []byte
		threads    int // number kept
	}{
		{"empty", "without the number", nil, 0},
		{"more threads", "before its last thread", put(0, 3), 2},
		{"cut in a head", "before its last thread", whole[:20], 0},
		{"cut behind the first", "before its last thread", whole[:len(whole)-1], 1},
		{"cut in a path", "ends before", put(8+36, 0)[:firstPath+3*profilePathSize+8], 0},
		{"huge", "a profile declares 4026531841 paths", put(8+32, 0xf0000001), 0},
		{"huge folds", "and 4026531841 folded functions", put(8+36, 0xf0000001), 0},
		{"function too large", "invalid function ID 268435456", put(firstPath, 1<<28), 0},
		{"parent later", "path 0 of a profile is called by path 0", put(firstPath+4, 1), 0},
		{"octaves", "63 octaves", put(firstPath+52, 1<<30), 0},
		{"shortest above longest", "path 1 of a profile: the shortest call takes 10 ticks, the longest 9", put(firstPath+profilePathSize+16, 10), 0},
		{"shortest above longest in a fold", "folded function 0 of a profile: the shortest call takes 10 ticks, the longest 9", put(firstFold+16, 10), 0},
		{"fold of function 0", "invalid IDs: function 0", put(firstFold, 0), 0},
		{"fold of a caller too large", "called by 268435456", put(firstFold+4, 1<<28), 0},
		{"octaves of a fold", "63 octaves", put(firstFold+52, 1<<30), 0},
		{"cut in a fold", "before its last folded function", whole[:firstFold+2*profilePathSize+profileFoldSize+20], 0},
		{"cut in the octaves of a fold", "before its last octave", whole[:firstFold+profilePathSize+profileFoldSize+8], 0},
		{"behind", "3 bytes after", append(slices.Clone(whole), 1, 2, 3), 2},
	} {
		got, err := parseProfiles(test.body)
		if err == nil || !strings.Contains(err.Error(), test.want) || len(got) != test.threads {
			t.Errorf("%s: got %d threads, error %v; want %d, %q", test.name, len(got), err, test.threads, test.want)
		}
	}
}
