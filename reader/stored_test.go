package reader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// Names and source code are in as many events as they need.
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
			t.Errorf("kind %q is in %d events", kind, n)
		}
	}
	text, ok := tr.Source("a.c")
	lines := strings.Split(string(text), "\n")
	if !ok || len(lines) != 80 || lines[1] != "" || lines[78] != want.Sources[39].Text {
		t.Errorf("%d lines of source", len(lines))
	}
	if text, ok := tr.Source("b.c"); text != nil || !ok {
		t.Errorf("source %q of a file that was not packed", text)
	}
}

// Of two events about one function the later counts, whichever has more.
func TestStoredLastCounts(t *testing.T) {
	b := text(t, metadata(reader.MetadataFunctions, `{"functions":[{"id":2,"name":"b"},{"id":1,"name":"old"}]}`),
		metadata(reader.MetadataFunctions, `{"functions":[{"id":1,"name":"a"}]}`))
	got, err := openBytes(t, b).Functions()
	want := []reader.NamedFunction{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// Many short passages far down in their files would be many lines.
func TestStoredLinesAreBounded(t *testing.T) {
	r := sample()
	r.Sources = nil
	for i := range 20 {
		r.Sources = append(r.Sources, reader.SourceText{File: fmt.Sprintf("%02d.c", i), First: reader.MaxSourceLines, Text: "}"})
	}
	tr := openBytes(t, write(r))
	if n := len(tr.Recording(0).Sources); n != 16 {
		t.Errorf("%d passages are kept, want 16", n)
	}
	if got := tr.Losses().Samples(); len(got) != 1 || !strings.Contains(got[0].Detail, "source of 16.c") {
		t.Errorf("losses %v", got)
	}
}

func TestFunctionsOfSeveral(t *testing.T) {
	one, more := sample(), sample()
	more.Functions = append(more.Functions[1:], reader.NamedFunction{ID: 12, Name: "more"})
	got, err := several(t, one, more).Functions()
	if err != nil || len(got) != 3 {
		t.Errorf("%d functions, %v; want 3", len(got), err)
	}
	more.Functions[0].Name = "other"
	if _, err := several(t, one, more).Functions(); err == nil || !strings.Contains(err.Error(), "analyse them one by one") {
		t.Errorf("ids that mean two functions: %v", err)
	}
}
