package requests_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/internal/test/schedtrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/sched"
)

// Functions 10 and 11 have the key as their argument. In request 5, thread 1 waits in 12 for thread
// 2, which works on the same request and wakes it in 13. In request 6, thread 1 waits for thread 2
// in request 7, for an interrupt, and for a thread without a known call.
var (
	wakerThreads = []string{
		"1000 +10(5) 1100 +12 6510 !5300/500 6600 -12 9000 -10 " +
			"20000 +10(6) 20100 +12 21010 !900/10 21020 -12 21100 +12 22000 !800/0 22010 -12 22100 +12 23000 !700/0 23010 -12 24000 -10",
		"2000 +11(5) 2100 +13 6200 -13 6400 -11 20050 +11(7) 21500 -11",
		"100 +14 200 -14",
	}
	wakerSleeps = []schedtrace.Sleep{
		{Thread: 1, Out: 1200, Woken: 6000, In: 6500, By: 2}, {Thread: 1, Out: 20110, Woken: 21000, In: 21010, By: 2},
		{Thread: 1, Out: 21200, Woken: 22000, In: 22000, By: 3, Flags: reader.WokenByInterrupt},
		{Thread: 1, Out: 22300, Woken: 23000, In: 23000, By: 3},
	}
)

func traced(t *testing.T, shards int) (*requests.Set, *requests.Report, requests.View) {
	t.Helper()
	trace := schedtrace.Open(t, wakerThreads, wakerSleeps)
	opts := requests.Options{IDFunc: func(fn reader.FuncID) bool { return fn == 10 || fn == 11 }}
	c, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards}, func() *requests.Collector { return requests.NewCollector(opts) })
	if err != nil {
		t.Fatal(err)
	}
	set := c.Requests(requests.Choice{Wakers: sched.NewLogs(trace)})
	waits := requests.NewWaits(set)
	off := calls.Options{Shards: shards, OffCPU: &reader.Clock{Frequency: 1e9}}
	if _, _, err := calls.Run(calls.Source(trace), off, func() *requests.Waits { return waits }); err != nil {
		t.Fatal(err)
	}
	r := set.Report(reader.Clock{Frequency: 1e9}, requests.Rule{Top: 1, Text: "top:1"})
	r.Show("", 2)
	v := requests.View{Sleeps: requests.NewSleeps(set, r.Shown)}
	off.Paths = true
	v.Trees, _, err = calls.Run(calls.Source(trace), off, func() *requests.Trees { return requests.NewTrees(r.Shown, v.Sleeps) })
	if err != nil {
		t.Fatal(err)
	}
	return set, r, v
}

// A critical path continues in the segment of the same request that ended a wait, and shows off-CPU
// time.
func TestPathFollowsWakers(t *testing.T) {
	for _, shards := range []int{1, 2} {
		set, r, _ := traced(t, shards)
		var got []string
		for i := range set.Requests {
			q := &set.Requests[i]
			for _, p := range q.Path() {
				got = append(got, fmt.Sprintf("%s: %v %d at %d for %d, blocked %d, queued %d", q.Key, p.Kind, p.To, p.Start, p.End-p.Start, p.Off.Blocked, p.Off.Queued))
			}
		}
		want := []string{
			"5: run 10 at 1000 for 1000, blocked 790, queued 0",
			"5: run 11 at 2000 for 4000, blocked 0, queued 0",
			"5: run 10 at 6000 for 3000, blocked 10, queued 500",
			"6: run 10 at 20000 for 4000, blocked 2390, queued 10",
			"7: run 11 at 20050 for 1450, blocked 0, queued 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d shards (-want +got):\n%s", shards, diff)
		}
		for _, s := range r.Steps {
			if s.To == 10 && (s.Off != calls.Off{Blocked: 3190, Queued: 510}) {
				t.Errorf("got %+v", s)
			}
		}
	}
}

// The report says in which call each thread slept and what ended the sleep.
func TestSleeps(t *testing.T) {
	for _, shards := range []int{1, 2} {
		_, r, v := traced(t, shards)
		var out bytes.Buffer
		doc := &report.Doc{Kind: "requests", Clock: r.Clock, Body: r.Body(nil, v)}
		if err := doc.Write(&out, report.Style{Format: report.Text}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		for _, want := range []string{
			"8.000us 59.5% 3.190us 510ns 2 4.000us 4.000us 4.000us 4.000us run #10",
			"100ns 5.500us 5.500us 4.800us 500ns #12",
			"at blocked in woken by thread request in its function",
			"200ns 4.800us #12 thread 7/2 5 #13",
			"110ns 890ns #12 thread 7/2 7 #11",
			"1.200us 800ns #12 interrupt - - -",
			"2.300us 700ns #12 thread 7/3 - -",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("%d shards: no line %q in\n%s", shards, want, out.String())
			}
		}
	}
}
