package reader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// Names and source code use as many events as they need.
func TestStoredInManyEvents(t *testing.T) {
	want := sample()
	want.Functions, want.Sources = nil, nil
	for i := range 10_000 {
		want.Functions = append(want.Functions, reader.NamedFunction{ID: reader.FuncID(i + 1), Name: fmt.Sprintf("f%d", i)})
	}
	for i := range 40 {
		want.Sources = append(want.Sources, reader.SourceText{File: "a.c", First: int32(1 + 2*i), Text: strings.Repeat("x", 100_000)})
	}
	b := write(want)
	tr := openBytes(t, b)
	if diff := cmp.Diff(want, tr.Recording(0)); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
	for _, kind := range []string{"\x0a", "\x0b"} {
		if n := strings.Count(string(b), reader.MetadataHead+kind+"\x00"); n < 3 {
			t.Errorf("kind %q: got %d events, want several", kind, n)
		}
	}
	text, ok := tr.Source("a.c")
	lines := strings.Split(string(text), "\n")
	if !ok || len(lines) != 80 || lines[1] != "" || lines[78] != want.Sources[39].Text {
		t.Errorf("%d lines of source", len(lines))
	}
	if text, ok := tr.Source("b.c"); text != nil || !ok {
		t.Errorf("got source %q for a file that was not packed", text)
	}
}

// If two events describe one function, the later one counts, even if the earlier has more.
func TestStoredLastCounts(t *testing.T) {
	b := text(t, metadata(reader.MetadataFunctions, `{"functions":[{"id":2,"name":"b"},{"id":1,"name":"old"}]}`),
		metadata(reader.MetadataFunctions, `{"functions":[{"id":1,"name":"a"}]}`))
	got, err := openBytes(t, b).Functions()
	want := []reader.NamedFunction{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// The number of lines is limited: short passages far down in their files would need many.
func TestStoredLinesAreBounded(t *testing.T) {
	r := sample()
	r.Sources = nil
	for i := range 20 {
		r.Sources = append(r.Sources, reader.SourceText{File: fmt.Sprintf("%02d.c", i), First: reader.MaxSourceLines, Text: "}"})
	}
	tr := openBytes(t, write(r))
	if n := len(tr.Recording(0).Sources); n != 16 {
		t.Errorf("got %d passages, want 16", n)
	}
	if got := tr.Losses().Samples(); len(got) != 1 || !strings.Contains(got[0].Detail, "source of 16.c") {
		t.Errorf("got losses %v", got)
	}
}

func TestFunctionsOfSeveral(t *testing.T) {
	one, more := sample(), sample()
	more.Functions = append(more.Functions[1:], reader.NamedFunction{ID: 12, Name: "more"})
	got, err := several(t, one, more).Functions()
	if err != nil || len(got) != 3 {
		t.Errorf("got %d functions, %v; want 3", len(got), err)
	}
	for _, change := range []func(*reader.NamedFunction){
		func(f *reader.NamedFunction) { f.Name = "other" },
		func(f *reader.NamedFunction) { f.BuildID = "00fe" },
		func(f *reader.NamedFunction) { f.Address++ },
	} {
		other := *more
		other.Functions = slices.Clone(more.Functions)
		change(&other.Functions[0])
		if _, err := several(t, one, &other).Functions(); err == nil || !strings.Contains(err.Error(), "analyze them separately") {
			t.Errorf("%+v in one trace and %+v in the other: got error %v", one.Functions[1], other.Functions[0], err)
		}
	}
}

// Values out of range are dropped, and the rest is kept.
func TestStoredRanges(t *testing.T) {
	b := text(t, metadata(reader.MetadataFunctions, `{"functions":[{"id":0},{"id":-1},{"id":268435456},{"id":1,"line":-1},{"id":2,"column":-1},{"id":3},{"id":268435455}]}`),
		metadata(reader.MetadataSources, fmt.Sprintf(`{"sources":[{"file":"a","first":0},{"file":"b","first":%d,"text":"x\ny"},{"file":"c","first":%[1]d,"text":"x"}]}`, reader.MaxSourceLines)))
	tr := openBytes(t, b)
	var ids []reader.FuncID
	for _, f := range tr.Recording(0).Functions {
		ids = append(ids, f.ID)
	}
	if !slices.Equal(ids, []reader.FuncID{3, 268435455}) {
		t.Errorf("got functions %v", ids)
	}
	if s := tr.Recording(0).Sources; len(s) != 1 || s[0].File != "c" {
		t.Errorf("got sources %+v", s)
	}
	if n := tr.Losses().Count(); n != 2 {
		t.Errorf("got %d losses, want 2", n)
	}
}

// If passages overlap, the first one is shown.
func TestSourceOverlaps(t *testing.T) {
	r := sample()
	r.Sources = []reader.SourceText{{File: "a.c", First: 2, Text: "two\nthree"}, {File: "a.c", First: 3, Text: "3\n4"}, {File: "a.c", First: 5, Text: "five"}}
	if got, _ := openBytes(t, write(r)).Source("a.c"); string(got) != "\ntwo\nthree\n\nfive\n" {
		t.Errorf("got source %q", got)
	}
}

// The number of objects is limited, because each has its own table.
func TestStoredObjectsAreBounded(t *testing.T) {
	r := sample()
	r.Functions = nil
	for i := range 1<<14 + 3 {
		r.Functions = append(r.Functions, reader.NamedFunction{ID: reader.FuncID(i + 1), Object: fmt.Sprint(i)})
	}
	tr := openBytes(t, write(r))
	if n := len(tr.Recording(0).Functions); n != 1<<14 {
		t.Errorf("got %d functions, want %d", n, 1<<14)
	}
	if got := tr.Losses().Samples(); len(got) != 1 || !strings.Contains(got[0].Detail, "3 functions belong to more than 16384 objects") {
		t.Errorf("got losses %v", got)
	}
}

// Packed names do not apply to a trace whose recorder names other binaries.
func TestFunctionsOfUnpacked(t *testing.T) {
	foreign, recorded := &reader.Recording{Functions: sample().Functions[:1]}, sample()
	recorded.Functions = nil
	check := func(text string) {
		t.Helper()
		got, err := several(t, foreign, recorded).Functions()
		if text == "" && (err != nil || len(got) != 1) {
			t.Errorf("got %d functions, %v", len(got), err)
		}
		if text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("got %d functions, %v; want %q", len(got), err, text)
		}
	}
	check("")
	recorded.Objects[0].BuildID = "00fe"
	check("packed with names of binaries other than those of")
	recorded.Objects[0].BuildID, foreign.Functions[0].BuildID = "", ""
	check("packed with names of binaries other than those of") // unknown, so refused
	recorded.Objects[0].BuildID, foreign.Functions[0].BuildID = "00ff", "00ff"
	recorded.Objects[0].Count = 2
	check("packed with names of binaries other than those of")

	packed := sample()
	recorded.Objects[0].Path = "/usr/bin/other"
	if _, err := several(t, packed, recorded).Functions(); err == nil || !strings.Contains(err.Error(), "share ID") {
		t.Errorf("recorded from different programs: got error %v", err)
	}
}

// Exits without an entry are as expected only if all records since the recording began are there.
func TestWhole(t *testing.T) {
	process := reader.Process{PID: 1, Exe: "/bin/a", Complete: true}
	for _, c := range []struct {
		recording reader.Recording
		want      bool
	}{
		{reader.Recording{Process: process, Threads: []reader.ThreadInfo{{TID: 1}}}, true},
		{reader.Recording{Process: process, Threads: []reader.ThreadInfo{{TID: 1, Overwritten: 1}}}, false},
		{reader.Recording{Process: process, Threads: []reader.ThreadInfo{{TID: 1, Dropped: 1}}}, false},
		{reader.Recording{Process: process, Losses: []reader.RecordedLoss{{Cause: "no-memory", Count: 1}}}, false},
		{reader.Recording{Process: reader.Process{PID: 1}}, false},
	} {
		if got := c.recording.Whole(); got != c.want {
			t.Errorf("%+v: got %v", c.recording, got)
		}
	}
}
