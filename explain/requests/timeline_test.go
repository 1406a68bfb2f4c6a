package requests_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// lines are the calls of a source, one line each.
type lines struct {
	list []string
	// The self time of all calls on the threads of requests, and the duration of the requests.
	self, root uint64
}

func (l *lines) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		name := fmt.Sprint(c.Func)
		if s, ok := standIns[c.Func]; ok {
			name = s
		}
		var off calls.Off
		for _, w := range b.Waits {
			if w.Call == i {
				off = w.Self
			}
		}
		l.list = append(l.list, fmt.Sprintf("%d %d+%d %s%s blocked %d", b.Thread.Thread, c.Start, c.Duration, strings.Repeat("  ", int(c.Depth)), name, off.Blocked))
		if b.Thread.Thread < 0 {
			l.self += c.Self
		}
		if c.Func == reader.Request {
			l.root += c.Duration
		}
	}
	return nil
}

func (l *lines) Merge(o *lines) {
	l.list = append(l.list, o.list...)
	l.root += o.root
	l.self += o.self
}

var standIns = map[reader.FuncID]string{
	reader.Request: "request", reader.Suspended: "suspended", reader.ExecutorAwaited: "awaited",
	reader.ExecutorAtMost: "at most", reader.OtherRequest: "other",
}

// timeline makes a timeline of all requests of a trace.
func timeline(t testing.TB, text string, opts requests.Options, within bool) (*requests.Timeline, *requests.Set) {
	t.Helper()
	trace := texttrace.Open(t, text)
	c, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() *requests.Collector { return requests.NewCollector(opts) })
	if err != nil {
		t.Fatal(err)
	}
	set := c.Requests(requests.Choice{})
	var all []*requests.Request
	for i := range set.Requests {
		all = append(all, &set.Requests[i])
	}
	occupants := requests.NewOccupants(all, set)
	if _, _, err = calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() *requests.Occupants { return occupants }); err != nil {
		t.Fatal(err)
	}
	line, err := requests.NewTimeline(trace, set, requests.TimelineOptions{
		Clock: reader.Clock{Frequency: 1_000_000_000}, OffCPU: true, Marks: opts.Marks, Occupants: occupants, Within: within,
	})
	if err != nil {
		t.Fatal(err)
	}
	return line, set
}

func linesOf(t testing.TB, src calls.Source, shards int) *lines {
	t.Helper()
	l, _, err := calls.Run(src, calls.Options{Shards: shards, OffCPU: &reader.Clock{Frequency: 1_000_000_000}}, func() *lines { return new(lines) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A request on the timeline is a call with the calls of its parts and its waits, and what ran instead is inside
// the waits. The other threads have the rest.
func TestTimeline(t *testing.T) {
	const resumed, ready = 1, 2
	text := "xray fdr\n" +
		"thread 1 pid=7 tsc=1000\nenter 1 +0\n" + part(5, ready) + " +5\n" + part(5, ready) + " +1095\nexit 1 +1\n" + // 1005, 2100
		"thread 2 pid=7 tsc=1000\nenter 1 +0\nenter 9 +0\n" +
		mark(5, "GET") + " +10\nenter 2 +0\nexit 2 +20\n" + mark(0, "") + " +0\nexit 9 +2\n" + // 1010 to 1030
		"enter 3 +968\n" + part(6, resumed) + " +0\nenter 4 +0\nexit 4 +100\n" + mark(0, "") + " +0\nexit 3 +0\n" + // 2000 to 2100
		"enter 7 +0\nexit 7 +50\nenter 9 +5\n" + part(5, resumed) + " +5\nenter 8 +0\nexit 8 +20\n" + mark(0, "") + " +0\nexit 9 +1\nexit 1 +1\n" // 2160 to 2180
	line, _ := timeline(t, text, requests.Options{Marks: true}, true)
	want := []string{
		"-1 1005+1175 request blocked 0",
		"-1 1005+5   awaited blocked 5",
		"-1 1010+20     2 blocked 0",
		"-1 1010+20   9 blocked 0", // the call that began the request
		"-1 1030+1070   suspended blocked 1070",
		"-1 2100+50     7 blocked 0",
		"-1 2100+60   awaited blocked 10",
		"-1 2160+20     8 blocked 0",
		"-1 2160+20   9 blocked 0",
		"-2 2000+100       4 blocked 0",
		"-2 2000+100     3 blocked 0",
		"-2 2000+100   1 blocked 0",
		"-2 2000+100 request blocked 0",
		"1 1000+1101 1 blocked 0",
		// What is outside of the requests: the calls around them are divided.
		"2 1000+10   9 blocked 0",
		"2 1000+10 1 blocked 0",
		"2 1030+2   9 blocked 0",
		"2 1030+970 1 blocked 0",
		"2 2100+50   7 blocked 0",
		"2 2100+60 1 blocked 0",
		"2 2155+5   9 blocked 0",
		"2 2180+1   9 blocked 0",
		"2 2180+2 1 blocked 0",
	}
	got := linesOf(t, line, 1).list
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ran := line.Ran(func(reader.Thread, uint64) bool { return true }, false)
	// Of the waits of 5, 5, 100 and 60, the executor was in 7 for 50.
	if ran.Self != 7 || ran.Covered < 0.75 || ran.Covered > 0.8 || ran.Other != 0 {
		t.Errorf("got %+v", ran)
	}
}

// What an executor did for other requests has their class, if there is one.
func TestRanForClasses(t *testing.T) {
	const resumed, ready = 1, 2
	for _, c := range []struct{ first, second, want string }{{"PUT", "PUT", "PUT"}, {"PUT", "POST", ""}, {"", "", ""}} {
		text := "xray fdr\n" +
			"thread 1 pid=7 tsc=1000\nenter 1 +0\n" + part(5, ready) + " +5\n" + part(5, ready) + " +1000\nexit 1 +1\n" +
			"thread 2 pid=7 tsc=1000\nenter 1 +0\n" + mark(5, "GET") + " +10\nenter 2 +0\nexit 2 +20\n" + mark(0, "") + " +0\n" +
			mark(6, c.first) + " +970\nenter 4 +0\nexit 4 +60\n" + mark(0, "") + " +0\n" +
			mark(7, c.second) + " +0\nenter 4 +0\nexit 4 +60\n" + mark(0, "") + " +0\n" +
			part(5, resumed) + " +0\nenter 8 +0\nexit 8 +20\n" + mark(0, "") + " +0\nexit 1 +1\n"
		line, _ := timeline(t, text, requests.Options{Marks: true}, true)
		ran := line.Ran(func(reader.Thread, uint64) bool { return true }, false)
		if ran.Self != 4 || ran.Other < 0.9 || ran.OtherClass != c.want {
			t.Errorf("%+v: got %+v", c, ran)
		}
	}
}

// The self times of the calls of requests add up to the durations of the requests, with any number of shards.
func TestTimelineAddsUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var b strings.Builder
		b.WriteString("xray fdr\n")
		for thread := range rapid.IntRange(1, 3).Draw(r, "threads") {
			fmt.Fprintf(&b, "thread %d pid=7 tsc=1000\n", thread+1)
			depth := []int{}
			for range rapid.IntRange(0, 30).Draw(r, "events") {
				after := rapid.IntRange(0, 20).Draw(r, "after")
				switch rapid.IntRange(0, 5).Draw(r, "kind") {
				case 0, 1:
					fn := rapid.IntRange(1, 4).Draw(r, "function")
					fmt.Fprintf(&b, "enter %d +%d\n", fn, after)
					depth = append(depth, fn)
				case 2:
					if n := len(depth) - 1; n >= 0 {
						fmt.Fprintf(&b, "exit %d +%d\n", depth[n], after)
						depth = depth[:n]
					}
				case 3:
					fmt.Fprintf(&b, "%s +%d\n", mark(uint64(rapid.IntRange(0, 3).Draw(r, "id")), ""), after)
				default:
					what := byte(rapid.IntRange(1, 2).Draw(r, "what"))
					fmt.Fprintf(&b, "%s +%d\n", part(uint64(rapid.IntRange(1, 3).Draw(r, "id")), what), after)
				}
			}
			for _, fn := range slices.Backward(depth) {
				fmt.Fprintf(&b, "exit %d +1\n", fn)
			}
			fmt.Fprintf(&b, "%s +1\n", mark(0, ""))
		}
		for _, within := range []bool{false, true} {
			line, set := timeline(t, b.String(), requests.Options{Marks: true}, within)
			want := uint64(0)
			for i := range set.Requests {
				want += set.Requests[i].Duration()
			}
			one := linesOf(t, line, 1)
			if one.root != want || one.self != want {
				t.Fatalf("requests take %d, their calls %d, in themselves %d:\n%s", want, one.root, one.self, b.String())
			}
			many := linesOf(t, line, 3)
			slices.Sort(one.list)
			slices.Sort(many.list)
			if diff := gocmp.Diff(one.list, many.list); diff != "" {
				t.Fatalf("one and three shards differ:\n%s", diff)
			}
		}
	})
}
