package requests_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

func collect(t testing.TB, text string, shards int, opts requests.Options) *requests.Collector {
	t.Helper()
	trace := texttrace.Open(t, text)
	c, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards}, func() *requests.Collector { return requests.NewCollector(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// short describes a request: key#number class, and its segments as thread:function[start,end).
func short(r *requests.Request) string {
	s := fmt.Sprintf("%s#%d %s", r.Key, r.Number, r.Class)
	for _, g := range r.Segments {
		s += fmt.Sprintf(" %d:%d[%d,%d)", g.Thread.Thread, g.Func, g.Start, g.End)
	}
	return s
}

func all(set *requests.Set) (list []string) {
	for i := range set.Requests {
		list = append(list, short(&set.Requests[i]))
	}
	return list
}

func byArgument(fn reader.FuncID) bool { return fn < 10 }

// Functions below 10 have the key as argument. 2 hands over to 3 in another thread.
const twoThreads = `xray fdr
thread 1 pid=7 tsc=1000
enter-arg 2 +0
arg 41
exit 2 +10
enter 20 +0
enter-arg 2 +10
arg 42
enter-arg 3 +1
arg 42
exit 3 +1
enter-arg 4 +1
arg 99
exit 4 +1
custom "class=put" +0
exit 2 +6
exit 20 +0
enter-arg 5 +0
arg 7
thread 2 pid=7 tsc=1005
enter-arg 3 +0
arg 41
exit 3 +40
enter-arg 3 +5
arg 42
exit 3 +10
`

func TestSegmentsOfCalls(t *testing.T) {
	opts := requests.Options{IDFunc: byArgument, ClassEvent: regexp.MustCompile(`class=(\w+)`)}
	set := collect(t, twoThreads, 1, opts).Requests(requests.Choice{})
	want := []string{
		"41#1  1:2[1000,1010) 2:3[1005,1045)",
		"42#1 put 1:2[1020,1030) 2:3[1050,1060)",
		"99#1  1:4[1023,1024)",
	}
	if diff := gocmp.Diff(want, all(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if set.Cut != 1 || set.Threads != 2 || set.Segments != 5 || set.Reused != 0 {
		t.Errorf("got %+v", set)
	}
	path := set.Requests[1].Path()
	var kinds []string
	for _, p := range path {
		kinds = append(kinds, fmt.Sprintf("%v %d", p.Kind, p.End))
	}
	// The thread worked on 41 until 1045.
	if got := strings.Join(kinds, " "); got != "run 1030 queue 1045 handoff 1050 run 1060" {
		t.Errorf("path of 42: got %s", got)
	}
	// Requests are selected by their start.
	set = collect(t, twoThreads, 2, opts).Requests(requests.Choice{From: 1001, To: 1023})
	if diff := gocmp.Diff(want[1:2], all(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSegmentsOfEvents(t *testing.T) {
	text := `xray fdr
thread 1 pid=7 tsc=1000
custom "req=1" +0
enter 1 +0
enter 2 +5
custom "req=17 get" +5
exit 2 +10
custom "req=18" +10
custom "req=18" +1
custom "req=19" +9
custom "done" +5
exit 1 +5
`
	set := collect(t, text, 1, requests.Options{
		IDEvent: regexp.MustCompile(`^req=(\d+)`), ClassEvent: regexp.MustCompile(`get|post`),
	}).Requests(requests.Choice{})
	want := []string{"17#1 get 1:2[1005,1020)", "18#1  1:1[1030,1040)", "19#1  1:1[1040,1050)"}
	if diff := gocmp.Diff(want, all(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if set.Outside != 1 {
		t.Errorf("got %d events outside of calls", set.Outside)
	}
}

func mark(id uint64, text string) string {
	b := []byte("XRYM\x01\x00\x11\x00")
	for i := range 8 {
		b = append(b, byte(id>>(8*i)))
	}
	return fmt.Sprintf("custom %q", string(b)+text)
}

func TestSegmentsOfMarks(t *testing.T) {
	text := "xray fdr\nthread 1 pid=7 tsc=1000\nenter 1 +0\n" +
		mark(5, "GET") + " +10\nenter 2 +5\nexit 2 +5\nenter 3 +0\nenter 4 +0\nexit 4 +10\nexit 3 +0\n" +
		mark(6, "PUT") + " +0\nenter 2 +0\nexit 2 +5\n" + mark(0, "") + " +5\n" +
		mark(7, "") + " +5\nexit 1 +5\n"
	set := collect(t, text, 1, requests.Options{Marks: true}).Requests(requests.Choice{})
	// The longest direct callee names a segment.
	want := []string{"5#1 GET 1:3[1010,1030)", "6#1 PUT 1:2[1030,1040)"}
	if diff := gocmp.Diff(want, all(set)); diff != "" || set.Cut != 1 {
		t.Errorf("%d cut, (-want +got):\n%s", set.Cut, diff)
	}
}

func part(id uint64, what byte) string {
	b := []byte("XRYM\x01\x00\x1e\x00")
	for i := range 8 {
		b = append(b, byte(id>>(8*i)))
	}
	return fmt.Sprintf("custom %q", append(b, what, 0, 0, 0))
}

// Parts of a request that are resumed belong to it, however long they waited. Its waits are divided where
// it could go on.
func TestResumedParts(t *testing.T) {
	const resumed, ready = 1, 2
	text := "xray fdr\nthread 1 pid=7 tsc=1000\nenter 1 +0\n" +
		part(5, ready) + " +5\n" + // 1005: posted
		part(6, ready) + " +995\n" + // 2000
		part(5, ready) + " +0\n" + // 2000: its timer has ended
		"exit 1 +1\n" +
		"thread 2 pid=7 tsc=1000\nenter 1 +0\n" +
		mark(5, "GET") + " +10\nenter 2 +0\nexit 2 +20\n" + mark(0, "") + " +0\n" + // 1010 to 1030
		part(6, resumed) + " +970\nenter 2 +0\nexit 2 +100\n" + mark(0, "") + " +0\n" + // 2000 to 2100
		part(5, resumed) + " +10\nenter 2 +0\nexit 2 +20\n" + mark(0, "") + " +0\nexit 1 +1\n" // 2110 to 2130
	set := collect(t, text, 1, requests.Options{Marks: true}).Requests(requests.Choice{Pause: 100})
	want := []string{"5#1 GET 2:2[1010,1030) 2:2[2110,2130)", "6#1  2:2[2000,2100)"}
	if diff := gocmp.Diff(want, all(set)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	var kinds []string
	for _, p := range set.Requests[0].Path() {
		kinds = append(kinds, fmt.Sprintf("%v %d", p.Kind, p.End))
	}
	if got, want := strings.Join(kinds, " "), "handoff 1010 run 1030 suspended 2000 queue 2100 handoff 2110 run 2130"; got != want {
		t.Errorf("got path %s, want %s", got, want)
	}
	if r := &set.Requests[0]; r.Start != 1005 || set.Bounds != 0 || set.Waits != 2 {
		t.Errorf("started at %d, %d of %d waits are bounds", r.Start, set.Bounds, set.Waits)
	}
}

// The key of parts may be used again: a segment that is not resumed begins the next request.
func TestReusedKeysOfParts(t *testing.T) {
	const resumed = 1
	text := "xray fdr\nthread 1 pid=7 tsc=1000\nenter 1 +0\n"
	for range 3 {
		text += mark(5, "GET") + " +10\n" + mark(0, "") + " +10\n" + part(5, resumed) + " +500\n" + mark(0, "") + " +10\n"
	}
	set := collect(t, text+"exit 1 +1\n", 1, requests.Options{Marks: true}).Requests(requests.Choice{Pause: 100})
	want := []string{
		"5#1 GET 1:1[1010,1020) 1:1[1520,1530)", "5#2 GET 1:1[1540,1550) 1:1[2050,2060)", "5#3 GET 1:1[2070,2080) 1:1[2580,2590)",
	}
	if diff := gocmp.Diff(want, all(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A key that comes back after a long pause is a new request if it begins like one.
func TestReusedKeys(t *testing.T) {
	var b strings.Builder
	b.WriteString("xray fdr\nthread 1 pid=7 tsc=1000\n")
	call := func(fn, key, after int) {
		fmt.Fprintf(&b, "enter-arg %d +%d\narg %d\nexit %d +10\n", fn, after, key, fn)
	}
	for range 3 {
		call(2, 1, 1000)
		call(3, 1, 20) // of the same request
	}
	call(3, 1, 1000) // a late part of the last request
	call(2, 2, 0)
	call(2, 2, 30) // too soon for another request
	set := collect(t, b.String(), 1, requests.Options{IDFunc: byArgument}).Requests(requests.Choice{})
	var got []string
	for i := range set.Requests {
		got = append(got, fmt.Sprintf("%s#%d %d", set.Requests[i].Key, set.Requests[i].Number, len(set.Requests[i].Segments)))
	}
	if want := []string{"1#1 2", "1#2 2", "1#3 3", "2#1 2"}; !slices.Equal(got, want) || set.Reused != 1 {
		t.Errorf("got %v, want %v; %d reused", got, want, set.Reused)
	}
	// A thread that did nothing else was not busy.
	if path := set.Requests[0].Path(); path[1].Kind != requests.Handoff {
		t.Errorf("got path %+v, want a handoff", path)
	}
	set = collect(t, b.String(), 1, requests.Options{IDFunc: byArgument}).Requests(requests.Choice{Pause: 5000})
	if len(set.Requests) != 2 {
		t.Errorf("with long pauses: got %v", all(set))
	}
}

func TestPath(t *testing.T) {
	seg := func(fn reader.FuncID, start, end, busy uint64) requests.Segment {
		return requests.Segment{Func: fn, Start: start, End: end, Busy: busy}
	}
	for _, c := range []struct {
		name     string
		segments []requests.Segment
		want     string
	}{
		{"one", []requests.Segment{seg(1, 10, 20, 0)}, "run 1 10-20"},
		{
			"a queue and a handoff", []requests.Segment{seg(1, 10, 20, 0), seg(2, 40, 50, 35)},
			"run 1 10-20, queue 1>2 20-35, handoff 1>2 35-40, run 2 40-50",
		},
		{
			"busy all the time", []requests.Segment{seg(1, 10, 20, 0), seg(2, 40, 50, 40)},
			"run 1 10-20, queue 1>2 20-40, run 2 40-50",
		},
		{
			"busy before", []requests.Segment{seg(1, 10, 20, 0), seg(2, 40, 50, 15)},
			"run 1 10-20, handoff 1>2 20-40, run 2 40-50",
		},
		{
			"side by side, the later counts", []requests.Segment{seg(1, 10, 30, 0), seg(2, 20, 60, 0), seg(3, 25, 40, 0)},
			"run 1 10-20, run 2 20-60",
		},
		{
			"the latest that was running", []requests.Segment{seg(1, 10, 90, 0), seg(2, 20, 45, 0), seg(3, 40, 100, 0)},
			"run 1 10-20, run 2 20-40, run 3 40-100",
		},
		{
			"begun at once", []requests.Segment{seg(1, 10, 20, 0), seg(2, 10, 30, 0), seg(3, 10, 10, 0)},
			"run 2 10-30",
		},
	} {
		r := requests.Request{Segments: c.segments, Start: c.segments[0].Start}
		for _, s := range c.segments {
			r.End = max(r.End, s.End)
		}
		var words []string
		for _, p := range r.Path() {
			from := ""
			if p.From != 0 {
				from = fmt.Sprintf("%d>", p.From)
			}
			words = append(words, fmt.Sprintf("%v %s%d %d-%d", p.Kind, from, p.To, p.Start, p.End))
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// If one shard must drop keys, all shards drop the same keys, and no more than a single shard
// would.
func TestTooManySegments(t *testing.T) {
	opts := requests.Options{IDFunc: byArgument, Most: 10, Always: "5"}
	one := requests.NewCollector(opts)
	shards := []*requests.Collector{requests.NewCollector(opts), requests.NewCollector(opts)}
	for thread, n := range []int{4, 40} {
		b := &calls.Batch{Index: thread, Thread: reader.Thread{Thread: int32(thread)}}
		for i := range n {
			b.Calls = append(b.Calls, calls.Call{Func: 1, Start: uint64(100 * i), Duration: uint64(10 + i), Args: true})
			b.Args = append(b.Args, calls.Arg{Call: i, Value: uint64(i)})
		}
		for _, c := range []*requests.Collector{one, shards[thread]} {
			if err := c.Calls(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	shards[0].Merge(shards[1])
	want, got := one.Requests(requests.Choice{}), shards[0].Requests(requests.Choice{})
	if diff := gocmp.Diff(all(want), all(got)); diff != "" || got.Every != want.Every {
		t.Errorf("got one key in %[2]d from two shards, want %[1]d (-one +two):\n%[3]s", want.Every, got.Every, diff)
	}
	if want.Every < 4 || want.Segments == 0 || want.Segments > 10 {
		t.Errorf("one key in %d: got %v", want.Every, all(want))
	}
	if !slices.ContainsFunc(want.Requests, func(r requests.Request) bool { return r.Key == "5" }) {
		t.Errorf("key 5 is missing from %v", all(want))
	}
}

// Very long keys are dropped like too many segments.
func TestTooLongKeys(t *testing.T) {
	opts := requests.Options{IDEvent: regexp.MustCompile(`.*`)}
	one := requests.NewCollector(opts)
	shards := []*requests.Collector{requests.NewCollector(opts), requests.NewCollector(opts)}
	for thread, n := range []int{20, 1150} {
		b := &calls.Batch{Index: thread, Thread: reader.Thread{Thread: int32(thread)}}
		for i := range n {
			start := uint64(100 * i)
			key := bytes.Repeat([]byte{'a' + byte(i%26)}, 60_000)
			b.Events = append(b.Events, calls.Event{TSC: start + 5, Kind: reader.Custom, Depth: 1, Data: fmt.Appendf(nil, "%d-%d-%s", thread, i, key)})
			b.Calls = append(b.Calls, calls.Call{Func: 1, Start: start, Duration: 10})
		}
		for _, c := range []*requests.Collector{one, shards[thread]} {
			if err := c.Calls(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	shards[0].Merge(shards[1])
	want, got := one.Requests(requests.Choice{}), shards[0].Requests(requests.Choice{})
	if !slices.Equal(all(want), all(got)) || got.Every != want.Every {
		t.Errorf("got one key in %[2]d from two shards, want %[1]d", want.Every, got.Every)
	}
	held := 0
	for _, r := range want.Requests {
		held += len(r.Key)
	}
	if want.Every < 2 || held > 64<<20 || held < 10<<20 {
		t.Errorf("one key in %d: got %d bytes", want.Every, held)
	}
}

// random returns a trace of several threads that work on random requests.
func random(t *rapid.T) string {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var b strings.Builder
	b.WriteString("xray fdr\n")
	keys, deepest := 1+r.IntN(20), 1+r.IntN(3)
	for thread := range 1 + r.IntN(4) {
		fmt.Fprintf(&b, "thread %d pid=7 tsc=%d\n", thread+1, 1000+r.IntN(50))
		var open []int
		for range r.IntN(60) {
			if len(open) > 0 && (len(open) == deepest || r.IntN(2) == 0) {
				fmt.Fprintf(&b, "exit %d +%d\n", open[len(open)-1], r.IntN(20))
				open = open[:len(open)-1]
				continue
			}
			fn := 1 + r.IntN(5)
			open = append(open, fn)
			fmt.Fprintf(&b, "enter-arg %d +%d\narg %d\n", fn, r.IntN(20), r.IntN(keys))
		}
	}
	return b.String()
}

// Parts of a critical path follow each other from start to end, so sums are exact. The number of
// shards changes nothing, even if requests are dropped.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := random(t)
		opts := requests.Options{IDFunc: func(fn reader.FuncID) bool { return fn < 4 }, Most: rapid.IntRange(1, 200).Draw(t, "most"), Always: "3"}
		choice := requests.Choice{Pause: rapid.Uint64Range(0, 100).Draw(t, "pause")}
		var outputs [2]bytes.Buffer
		for i, shards := range []int{1, 3} {
			trace := texttrace.Open(t, text)
			o := calls.Options{Shards: shards}
			c, _, err := calls.Run(calls.Source(trace), o, func() *requests.Collector { return requests.NewCollector(opts) })
			if err != nil {
				t.Fatal(err)
			}
			found := c.Requests(choice).Report(reader.Clock{}, requests.Rule{Quantile: 0.9, Text: "p90"})
			found.Show("", 3)
			o.Paths = true
			trees, _, err := calls.Run(calls.Source(trace), o, func() *requests.Trees { return requests.NewTrees(found.Shown, nil) })
			if err != nil {
				t.Fatal(err)
			}
			view := requests.View{Trees: trees}
			doc := &report.Doc{Kind: "requests", Body: found.Body(nil, view)}
			for _, format := range report.Formats {
				if err := doc.Write(&outputs[i], report.Style{Format: format}); err != nil {
					t.Fatal(err)
				}
			}
			check(t, found)
		}
		if diff := gocmp.Diff(outputs[0].String(), outputs[1].String()); diff != "" {
			t.Fatalf("(-1 shard +3):\n%s", diff)
		}
	})
}

func check(t *rapid.T, report *requests.Report) {
	for i := range report.Requests {
		r := &report.Requests[i]
		now := r.Start
		for _, p := range r.Path() {
			if p.Start != now || p.End < p.Start {
				t.Fatalf("wrong part %+v of %+v", p, r)
			}
			now = p.End
		}
		if now != r.End {
			t.Fatalf("the path of %+v ends at %d", r, now)
		}
	}
	c := &report.Slow
	more := 0.0
	for _, s := range c.Steps {
		more += s.SlowMean - s.UsualMean
	}
	if d := more - (c.SlowMean - c.UsualMean); len(c.Steps) > 0 && (d > 1e-6 || d < -1e-6) {
		t.Fatalf("got steps that explain %g of %+v", more, c)
	}
}

// Keys that several threads work on at once in one function may not identify requests. A function that hands
// over to another one overlaps with it, and a call inside another one of its function is part of that.
func TestSharedKeys(t *testing.T) {
	for _, test := range []struct {
		name, text string
		shared     int
		most       string
		threads    int
	}{
		{"none", twoThreads, 0, "", 0},
		{"nested", "xray fdr\nthread 1 pid=7 tsc=1000\nenter-arg 2 +0\narg 5\nenter-arg 2 +1\narg 5\nexit 2 +5\nexit 2 +5\n" +
			"thread 2 pid=7 tsc=1011\nenter-arg 2 +0\narg 5\nexit 2 +5\n", 0, "", 0},
		{"three threads", "xray fdr\nthread 1 pid=7 tsc=1000\nenter-arg 2 +0\narg 5\nexit 2 +50\nenter-arg 2 +50\narg 6\nexit 2 +50\n" +
			"thread 2 pid=7 tsc=1010\nenter-arg 2 +0\narg 5\nexit 2 +50\n" +
			"thread 3 pid=7 tsc=1020\nenter-arg 2 +0\narg 5\nexit 2 +50\n" +
			"thread 4 pid=7 tsc=1055\nenter-arg 2 +0\narg 5\nexit 2 +20\nenter-arg 2 +50\narg 6\nexit 2 +50\n", 2, "5", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := collect(t, test.text, 2, requests.Options{IDFunc: byArgument}).Requests(requests.Choice{})
			if set.Shared != test.shared || set.MostShared != test.most || set.MostThreads != test.threads {
				t.Errorf("%d keys are shared, most %q by %d threads; want %d, %q by %d",
					set.Shared, set.MostShared, set.MostThreads, test.shared, test.most, test.threads)
			}
		})
	}
}
