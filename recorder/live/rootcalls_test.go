package live

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// chunkOf returns a chunk with these records after its header.
func chunkOf(words ...uint64) []byte {
	data := make([]byte, ring.ChunkHeader)
	for _, w := range words {
		data = binary.LittleEndian.AppendUint64(data, w)
	}
	return data
}

func functionWord(kind, id, tsc uint64) uint64 { return tsc<<32 | id<<4 | kind<<1 }

func stampWords(tsc uint64) []uint64 { return []uint64{ring.RecordStamp<<1 | 1, tsc<<1 | 1} }

// scanOf follows these roots in thread 5. Function 2 may end with a tail call of 3, and 3 with a tail
// call of 4.
func scanOf(roots []bool) rootScan {
	s := rootScan{tid: 5}
	s.setRoots(&Roots{Is: roots, Targets: []reader.FuncID{3, 4}, Continues: func(from, to reader.FuncID) bool {
		return from == 2 && to == 3 || from == 3 && to == 4
	}})
	return s
}

func TestRootScan(t *testing.T) {
	const enter, exit, tail, root, other = 0, ring.FunctionExit, ring.FunctionTail, 2, 9
	words := slices.Concat(stampWords(7<<32), []uint64{
		functionWord(exit, root, 1), // entered before the ring began
		functionWord(enter, other, 2), functionWord(enter, root, 3), functionWord(enter, root, 4),
		functionWord(exit, root, 5), // a recursion is part of its outermost call
	}, stampWords(8<<32), []uint64{
		functionWord(exit, root, 6),
		functionWord(enter, root, 7), functionWord(tail, root, 9), functionWord(exit, other, 10),
		functionWord(enter, root, 11),
	})
	want := []RootCall{{root, 5, 7<<32 | 3, 8<<32 | 6}, {root, 5, 8<<32 | 7, 8<<32 | 9}}
	data := chunkOf(words...)
	// The records arrive one after another.
	for step := 8; step <= len(data); step += 8 {
		s := scanOf([]bool{root: true})
		var got []RootCall
		at := ring.ChunkHeader
		for end := ring.ChunkHeader; end < len(data); {
			end = min(end+step, len(data))
			at = s.scan(data[:end], at, true, func(c RootCall) { got = append(got, c) })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d bytes at a time:\n%s", step, diff)
		}
		if len(s.open) != 1 || at != len(data) {
			t.Errorf("%d bytes at a time: %d open calls, want 1; read up to %d of %d", step, len(s.open), at, len(data))
		}
	}
}

// A tail call is part of the call, and so is a tail call of the called function, if the binary has such
// a jump.
func TestRootScanTailCalls(t *testing.T) {
	const enter, exit, tail = 0, ring.FunctionExit, ring.FunctionTail
	for _, c := range []struct {
		name  string
		words []uint64
		want  []RootCall
	}{
		{"continued", []uint64{
			functionWord(enter, 2, 1), functionWord(tail, 2, 2), functionWord(enter, 3, 2), functionWord(enter, 9, 3), functionWord(exit, 9, 4),
			functionWord(enter, 3, 5), functionWord(exit, 3, 6), functionWord(tail, 3, 7), functionWord(enter, 4, 8), functionWord(exit, 4, 9),
		}, []RootCall{{2, 5, 1, 9}}},
		{"no such jump", []uint64{functionWord(enter, 2, 1), functionWord(tail, 2, 2), functionWord(enter, 4, 3), functionWord(exit, 4, 9)}, []RootCall{{2, 5, 1, 2}}},
		{"of another function", []uint64{functionWord(enter, 2, 1), functionWord(tail, 2, 2), functionWord(enter, 9, 3)}, []RootCall{{2, 5, 1, 2}}},
		{"no call", []uint64{functionWord(enter, 2, 1), functionWord(tail, 2, 2), functionWord(exit, 3, 3)}, []RootCall{{2, 5, 1, 2}}},
		{"the next call of the root", []uint64{
			functionWord(enter, 2, 1), functionWord(tail, 2, 2), functionWord(enter, 2, 3), functionWord(exit, 2, 4),
		}, []RootCall{{2, 5, 1, 2}, {2, 5, 3, 4}}},
		{"without a root", []uint64{functionWord(enter, 3, 1), functionWord(tail, 3, 2), functionWord(enter, 4, 3), functionWord(exit, 4, 4)}, nil},
	} {
		s := scanOf([]bool{2: true})
		var got []RootCall
		s.scan(chunkOf(c.words...), ring.ChunkHeader, false, func(c RootCall) { got = append(got, c) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// A chunk can be read up to a record that its thread has not finished, until the record is complete or
// the thread has left the chunk.
func TestRootScanIncomplete(t *testing.T) {
	data := chunkOf(append(stampWords(1<<32), functionWord(0, 2, 1), 0, functionWord(ring.FunctionExit, 2, 9))...)
	s := scanOf([]bool{2: true})
	count := 0
	each := func(RootCall) { count++ }
	at := s.scan(data, ring.ChunkHeader, true, each)
	if at != len(data)-16 || count != 0 {
		t.Fatalf("read up to %d of %d with %d calls, want to stop at the incomplete record", at, len(data), count)
	}
	if at = s.scan(data, at, false, each); at != len(data) || count != 1 {
		t.Errorf("read up to %d of %d with %d calls, want 1 call of a chunk that is complete", at, len(data), count)
	}
}

// Calls of an earlier recording are ignored. A call that is open when it stops does not hide calls of
// the next recording.
func TestRootScanOfAnotherRecording(t *testing.T) {
	words := append(stampWords(1<<32),
		functionWord(0, 2, 1), functionWord(ring.FunctionExit, 2, 2), functionWord(0, 2, 3), functionWord(0, 2, 4),
		functionWord(0, 2, 6), functionWord(ring.FunctionExit, 2, 7), functionWord(0, 2, 8))
	s := scanOf([]bool{2: true})
	s.begin(1<<32 | 5)
	var got []RootCall
	s.scan(chunkOf(words...), ring.ChunkHeader, false, func(c RootCall) { got = append(got, c) })
	if diff := cmp.Diff([]RootCall{{2, 5, 1<<32 | 6, 1<<32 | 7}}, got); diff != "" {
		t.Error(diff)
	}
	if len(s.open) != 1 {
		t.Errorf("%d open calls, want that of the latest recording", len(s.open))
	}
	if s.begin(1<<32 | 9); len(s.open) != 0 {
		t.Errorf("%d open calls of a recording that is over", len(s.open))
	}
}

// The end of a recursion is found even if it is deeper than the limit.
func TestRootScanDeep(t *testing.T) {
	var words []uint64
	for range maxOpenRoots + 10 {
		words = append(words, functionWord(0, 2, 1))
	}
	for range maxOpenRoots + 10 {
		words = append(words, functionWord(ring.FunctionExit, 2, 3))
	}
	s := scanOf([]bool{2: true})
	var got []RootCall
	s.scan(chunkOf(words...), ring.ChunkHeader, false, func(c RootCall) { got = append(got, c) })
	if diff := cmp.Diff([]RootCall{{Func: 2, TID: 5, Start: 1, End: 3}}, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzRootScan(f *testing.F) {
	f.Add(chunkOf(append(stampWords(1<<32), functionWord(0, 2, 1), functionWord(1, 2, 3))...), uint16(70))
	f.Fuzz(func(t *testing.T, data []byte, part uint16) {
		if len(data) > ring.ChunkSize {
			return
		}
		s := scanOf([]bool{1: true, 2: true, 3: true})
		each := func(c RootCall) {
			if c.End < c.Start || int(c.Func) >= len(s.roots.Is) {
				t.Errorf("a call that cannot be: %+v", c)
			}
		}
		at := min(ring.ChunkHeader, len(data))
		half := min(int(part), len(data))
		if half > at {
			next := s.scan(data[:half], at, true, each)
			if next < at || next > half {
				t.Fatalf("read from %d to %d of %d", at, next, half)
			}
			at = next
		}
		if at = s.scan(data, at, false, each); at > len(data) {
			t.Errorf("read up to %d of %d", at, len(data))
		}
	})
}

// A call that is open when a window ends is forgotten, and a record outside of windows is ignored.
func TestRootScanWindows(t *testing.T) {
	const enter, exit, root = 0, ring.FunctionExit, 2
	words := []uint64{
		functionWord(exit, root, 10), // entered before the window
		functionWord(enter, root, 11), functionWord(exit, root, 12),
		functionWord(enter, root, 13), // open at the end
		functionWord(exit, root, 30),  // of the call at 25, while sleds are being switched on
		functionWord(exit, root, 41),  // entered before the second window
		functionWord(enter, root, 42), functionWord(enter, root, 43), functionWord(exit, root, 44), functionWord(exit, root, 45),
		functionWord(enter, root, 46), functionWord(exit, root, 47),
		functionWord(enter, root, 48), functionWord(exit, root, 61), // known only after an update
	}
	s := scanOf([]bool{root: true})
	s.windows = &windows{list: []reader.RecordedWindow{{From: 10, To: 20}, {From: 40}}, asOf: 46}
	updates := 0
	s.windows.more = func() {
		updates++
		s.windows.list = []reader.RecordedWindow{{From: 10, To: 20}, {From: 40, To: 50}, {From: 60, To: 70}}
		s.windows.asOf = 80
	}
	var got []RootCall
	s.scan(chunkOf(words...), ring.ChunkHeader, false, func(c RootCall) { got = append(got, c) })
	want := []RootCall{{root, 5, 11, 12}, {root, 5, 42, 45}, {root, 5, 46, 47}}
	if diff := cmp.Diff(want, got); diff != "" || updates != 1 || len(s.open) != 0 {
		t.Errorf("%d updates, %d open calls\n%s", updates, len(s.open), diff)
	}
	s.scan(chunkOf(functionWord(enter, root, 65)), ring.ChunkHeader, false, func(RootCall) {})
	if s.expire(); len(s.open) != 0 {
		t.Error("a call of a window that has ended is still open")
	}
}
