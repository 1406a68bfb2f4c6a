package html

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// shown is a call in a page.
type shown struct {
	Func            reader.FuncID
	Start, Duration uint64
	Depth           uint64
	End             calls.End
}

// decode reads a page as its script does. Functions without names get their IDs.
func decode(t rapid.TB, page []byte) (meta, []shown) {
	t.Helper()
	part := func(id string) []byte {
		m := regexp.MustCompile(`<script type="application/[a-z-]+" id="` + id + `">([^<]*)</script>`).FindSubmatch(page)
		if m == nil {
			t.Fatalf("no %s", id)
		}
		return m[1]
	}
	var m meta
	unpack := func(id string) []byte {
		data, err := io.ReadAll(flate.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(part(id)))))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := json.Unmarshal(unpack("meta"), &m); err != nil {
		t.Fatal(err)
	}
	columns := map[string]*bytes.Reader{}
	for _, id := range columnIDs[:5] {
		columns[id] = bytes.NewReader(unpack(id))
	}
	next := func(id string) uint64 {
		v, err := binary.ReadUvarint(columns[id])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var all []shown
	for _, thread := range m.Threads {
		now := uint64(0)
		for range thread.Calls {
			now += next("starts")
			var id int
			if err := json.Unmarshal([]byte(m.Functions[next("funcs")].Name[1:]), &id); err != nil {
				t.Fatal(err)
			}
			all = append(all, shown{reader.FuncID(id), now, next("durations"), next("depths"), calls.End(next("ends"))})
		}
	}
	for id, c := range columns {
		if c.Len() > 0 {
			t.Fatalf("%d extra bytes in %s", c.Len(), id)
		}
	}
	return m, all
}

// eventSource is a calls.Source with one thread.
type eventSource []reader.Event

func (s eventSource) Each(_ int, fn func(int, *reader.Block) error) error {
	return fn(0, &reader.Block{Thread: reader.Thread{Process: 1, Thread: 2}, Events: s})
}

type collector struct {
	shortest uint64
	all      []calls.Call
}

func (c *collector) Calls(b *calls.Batch) error {
	for _, call := range b.Calls {
		if call.Duration >= c.shortest {
			c.all = append(c.all, call)
		}
	}
	return nil
}

func (c *collector) Merge(*collector) {}

// A page has all calls that are long enough, in the order of their entries.
func TestPageHoldsTheCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events eventSource
		tsc := uint64(1000)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			tsc += rapid.Uint64Range(0, 50).Draw(t, "delta")
			events = append(events, reader.Event{
				TSC: tsc, Func: reader.FuncID(rapid.IntRange(1, 4).Draw(t, "func")),
				Kind: rapid.SampledFrom([]reader.Kind{reader.Enter, reader.Enter, reader.Exit}).Draw(t, "kind"),
			})
		}
		shortest := rapid.SampledFrom([]uint64{0, 1, 40, 200}).Draw(t, "shortest")
		opts := &Options{Frequency: 1e9, Base: 1000, MinDuration: shortest}
		got, _, err := calls.Run(events, calls.Options{Shards: 1, Opens: true}, func() *Page { return New(opts) })
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := calls.Run(events, calls.Options{Shards: 1}, func() *collector { return &collector{shortest: shortest} })
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := got.Write(&page, nil); err != nil {
			t.Fatal(err)
		}
		_, inPage := decode(t, page.Bytes())
		var all []shown
		for _, c := range want.all {
			all = append(all, shown{c.Func, c.Start - 1000, c.Duration, uint64(c.Depth), c.End})
		}
		// Of calls that start together, the outer one comes first.
		slices.SortStableFunc(all, func(a, b shown) int { return int(a.Start) - int(b.Start) })
		slices.SortStableFunc(inPage, func(a, b shown) int { return int(a.Start) - int(b.Start) })
		key := func(s shown) [5]uint64 { return [5]uint64{s.Start, s.Duration, s.Depth, uint64(s.Func), uint64(s.End)} }
		for _, list := range [][]shown{all, inPage} {
			slices.SortFunc(list, func(a, b shown) int { x, y := key(a), key(b); return slices.Compare(x[:], y[:]) })
		}
		if diff := gocmp.Diff(all, inPage); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestEventsAndSource(t *testing.T) {
	trace := texttrace.Open(t, "xray fdr version=5\nthread 2 pid=1 wall=1.000020 cpu=0 tsc=1000\nenter 1 +5\ncustom \"hello\" +5\nexit 1 +5\nend-of-buffer\n")
	r, _, err := calls.Run(trace, calls.Options{Shards: 1, Opens: true}, func() *Page { return New(&Options{Base: 1005}) })
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := r.Write(&page, nil); err != nil {
		t.Fatal(err)
	}
	m, _ := decode(t, page.Bytes())
	if want := []metaEvent{{At: 5, Thread: 0, Text: "custom event: hello"}}; m.Unit != "ticks" || !slices.Equal(m.Events, want) {
		t.Errorf("got %+v", m)
	}
	s := newSources(func(string) ([]byte, error) { return []byte("#include\n\nint f()\n{\n\treturn 1;\r\n}\nint g;\n"), nil })
	if got, want := s.at("f.c", 3), "    1  #include\n    2  \n    3  int f()\n    4  {\n    5  \treturn 1;\n    6  }\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got := s.at("f.c", 99); got != "" {
		t.Errorf("line 99: got %q", got)
	}
}

// Calls have their arguments and results, by their number in the page: threads are ordered by their IDs, and calls
// by their entries.
func TestPageHasValues(t *testing.T) {
	t.Parallel()
	trace := texttrace.Open(t, `xray fdr version=5 frequency=1000000000
extents auto
thread 0
metadata process `+"`{\"pid\":7}`"+`
metadata values `+"`"+`{"functions":[{"id":1,"entry":[{"expression":"n","type":"int","kind":"scalar","format":"int","size":4}]}]}`+"`"+`
extents auto
thread 12 pid=7 wall=1.000020 cpu=0 tsc=1000
enter-arg 1 +0
arg 5
exit 1 +1000
extents auto
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 2 +0
enter 2 +0
exit 2 +1
enter-arg 1 +10
arg 6
enter-arg 1 +10
arg 7
exit 1 +100
exit 1 +100
exit 2 +100
`)
	for shortest, want := range map[uint64][]any{
		0: {[]any{2., "n: 6"}, []any{3., "n: 7"}, []any{4., "n: 5"}}, 10: {[]any{1., "n: 6"}, []any{2., "n: 7"}, []any{3., "n: 5"}},
	} {
		opts := &Options{Frequency: 1e9, MinDuration: shortest, Values: calls.ExpressionsOf(trace.Recording(0))}
		got, _, err := calls.Run(trace, calls.Options{Shards: 2, Opens: true}, func() *Page { return New(opts) })
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := got.Write(&page, nil); err != nil {
			t.Fatal(err)
		}
		m, _ := decode(t, page.Bytes())
		var values []any
		for _, v := range m.Values {
			values = append(values, v[:])
		}
		slices.SortFunc(values, func(a, b any) int { return int(a.([]any)[0].(float64) - b.([]any)[0].(float64)) })
		if diff := gocmp.Diff(want, values); diff != "" {
			t.Errorf("calls of at least %d ns: (-want +got):\n%s", shortest, diff)
		}
	}
}
