package why

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// A pass over the trace finds descriptors if a cause includes I/O of the C library, and only then.
func TestDescriptors(t *testing.T) {
	trace, err := reader.Open(reader.Options{}, filepath.Join("..", "..", "testdata", "journal-recorded.xray"))
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	opened, err := symbolize.Open(trace, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	id := func(name string) reader.FuncID {
		for fn := range reader.FuncID(1000) {
			if symbolize.Label(opened.Names, fn) == name {
				return fn
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	main, flush, fsync := id("main"), id("flushJournal"), id("fsync")
	everything := make(callSpans)
	for _, info := range trace.Recording(0).Threads {
		thread := reader.Thread{Process: trace.Recording(0).Process.PID, Thread: info.TID}
		everything[thread] = []span{{0, ^uint64(0)}}
	}
	found := &Report{Causes: []Cause{{Func: flush, inside: []reader.FuncID{flush}, calls: everything}}}
	if NewDescriptors(found, trace, opened.Names) != nil {
		t.Error("a cause without I/O needs a pass")
	}
	found.Causes = append(found.Causes, Cause{Kind: NewPath, Func: flush, inside: []reader.FuncID{flush, fsync}, calls: everything})
	newSink := NewDescriptors(found, trace, opened.Names)
	if newSink == nil {
		t.Fatal("a cause with I/O needs no pass")
	}
	for _, shards := range []int{1, 4} {
		found.Causes[1].Descriptors = nil
		all, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards, Paths: true, Roots: func(fn reader.FuncID) bool { return fn == main }}, newSink)
		if err != nil {
			t.Fatal(err)
		}
		all.Add()
		if found.Causes[0].Descriptors != nil {
			t.Errorf("got %+v", found.Causes[0].Descriptors)
		}
		list := found.Causes[1].Descriptors
		i := slices.IndexFunc(list, func(d Descriptor) bool { return d.Func == fsync })
		if i < 0 || list[i].Calls != 4 || list[i].Failed != 0 || !strings.HasSuffix(list[i].Name, "journal.log") {
			t.Errorf("%d shards: got %+v", shards, list)
		}
	}
}
