package why_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"pgregory.net/rapid"
)

// drawReport draws a report with causes of all kinds, whose shares add up to 1 with the rest.
func drawReport(t *rapid.T) *why.Report {
	function := rapid.SampledFrom([]reader.FuncID{handle, query, row, work, rebuild, flush})
	left := 1.0
	share := func() float64 {
		s := left * rapid.Float64Range(0, 1).Draw(t, "share")
		left -= s
		return s
	}
	fraction := func() float64 { return rapid.Float64Range(0, 1).Draw(t, "fraction") }
	r := &why.Report{Root: handle, Invocations: 1000, Kept: 20, Median: 10, P99: 1000}
	r.Slow, r.Usual = why.Cohort{Rule: "p99", Count: 20, Mean: 1e6}, why.Cohort{Rule: "p25..p75", Count: 500, Mean: 10}
	n := rapid.IntRange(0, 4).Draw(t, "causes")
	for i := range n {
		c := why.Cause{
			Kind: why.Kind(rapid.IntRange(0, int(why.Wait)).Draw(t, "kind")), Func: function.Draw(t, "function"), Share: share(), Low: 0, High: 1,
			Dominates: rapid.IntRange(1, 20).Draw(t, "dominates"), ByChance: rapid.Bool().Draw(t, "chance"), Chance: fraction(), Blocked: fraction(),
			Incident: rapid.IntRange(1, n).Draw(t, "incident"),
		}
		c.Paths = []why.CausePath{{Path: []reader.FuncID{handle, query, c.Func}, Usual: why.Amount{Calls: fraction(), Ticks: 100}, Affected: why.Amount{Calls: 1e6, Ticks: 1e6}}}
		if rapid.Bool().Draw(t, "held") {
			c.Holder = &why.Holder{
				Evidence: why.Evidence(rapid.IntRange(0, 3).Draw(t, "evidence")), Self: function.Draw(t, "self"), Scope: function.Draw(t, "scope"),
				Covered: fraction(), SelfShare: fraction(), Expected: fraction(), Blocked: fraction(), Queued: fraction(), Cause: rapid.IntRange(0, i+1).Draw(t, "cause"),
			}
		}
		if rapid.Bool().Draw(t, "used") {
			c.Descriptors = []why.Descriptor{{Func: function.Draw(t, "caller"), Name: "pipe", Calls: 100, Failed: uint64(rapid.IntRange(0, 100).Draw(t, "failed"))}}
		}
		r.Causes = append(r.Causes, c)
	}
	if rapid.Bool().Draw(t, "off CPU") {
		r.Preempted = &why.Preempted{Share: share(), Recorder: share(), Slow: 100, Usual: 10}
		r.Interrupted = &why.Interrupted{Share: share(), Slow: 100, Usual: 10}
	}
	r.Rest = left
	if rapid.Bool().Draw(t, "suspect") {
		r.Suspects = []why.Suspect{{Kind: why.Slower, Func: work, Share: share(), Dominates: 1, Doubt: why.Doubt(rapid.IntRange(0, int(why.Unheld)).Draw(t, "doubt"))}}
	}
	return r
}

// The head of any report has only shares from 0 to 100 %, an answer in its second line, at most two commands,
// and no line of more than 100 columns.
func TestHead(t *testing.T) {
	share := regexp.MustCompile(`([-\d.]+)%`)
	rapid.Check(t, func(rt *rapid.T) {
		r := drawReport(rt)
		text := written(r, names, why.View{Files: "trace"}, report.Text)
		for _, m := range share.FindAllStringSubmatch(text, -1) {
			if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < 0 || x > 100 {
				rt.Fatalf("a share is %s:\n%s", m[0], text)
			}
		}
		lines := strings.Split(text, "\n")
		for _, line := range lines {
			if len(line) > 100 {
				rt.Fatalf("a line has %d columns: %s", len(line), line)
			}
		}
		if !regexp.MustCompile(`^(CAUSE|PROBABLY|No function explains) ?`).MatchString(lines[1]) {
			rt.Fatalf("the second line has no answer:\n%s", text)
		}
		if n := strings.Count(text, "xray "); n > 2+strings.Count(text, "`xray record`")+strings.Count(text, "xray assumes") {
			rt.Fatalf("%d commands:\n%s", n, text)
		}
	})
}

// Calls that wait for a lock and the call inside which it is held are one incident.
func TestIncidentIsOneCause(t *testing.T) {
	r := &why.Report{Clock: options().Clock, Root: handle, Invocations: 6000, Kept: 176, Rest: 0.01}
	r.Slow, r.Usual = why.Cohort{Rule: "p99", Count: 176, Mean: 40_000_000}, why.Cohort{Rule: "p25..p75", Count: 3000, Mean: 9000}
	r.Preempted = &why.Preempted{}
	path := func(fns ...reader.FuncID) []why.CausePath {
		return []why.CausePath{{Path: fns, Affected: why.Amount{Calls: 1, Ticks: 40_000_000}}}
	}
	r.Causes = []why.Cause{
		{Kind: why.LockWait, Func: lock, Share: 0.74, Low: 0.7, Dominates: 132, Incident: 1, Paths: path(handle, query, lock),
			Holder: &why.Holder{Scope: query, Self: flush, Covered: 1, SelfShare: 1, Blocked: 1, Cause: 2}},
		{Kind: why.Blocked, Func: flush, Share: 0.25, Low: 0.2, Dominates: 44, Incident: 1, Paths: path(handle, query, flush),
			Descriptors: []why.Descriptor{{Func: flush, Name: "pipe", Calls: 44}}},
	}
	view := why.View{Files: "trace", Library: func(fn reader.FuncID) bool { return fn == flush || fn == lock }}
	text := written(r, names, view, report.Text)
	for _, want := range []string{
		`^handle\(int\): 176 of 6,000 calls \(p99\) take 40\.00ms instead of 9\.000us\.\n`,
		`\nCAUSE \(99% of the lost time\): flush\(\) \(pipe\) blocks while query\(\) holds the lock\.\n`,
		`\n   25%  44 calls are blocked in flush\(\), 40\.00ms each\n   74%  132 calls wait in Mutex::lock\(\), 40\.00ms each; query\(\) holds it for 100%`,
		`\nwhere   query\(\), a\.cc:4:1: handle\(int\) > query\(\) > flush\(\)\n`,
		`\nnext    xray io trace\n`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "ALSO") {
		t.Errorf("one incident is told as two:\n%s", text)
	}
}
