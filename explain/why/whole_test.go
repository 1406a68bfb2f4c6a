package why_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// A full report in all formats has the same bytes for any number of shards.
func TestShardingChangesNoReport(t *testing.T) {
	p := contended(mutexes{addresses: true})
	explained := func(shards int) string {
		o := options()
		o.Calls.Shards = shards
		r := explain(t, p, o)
		if only(t, r).Holder == nil {
			t.Fatal("got no holder")
		}
		return written(r, names, why.View{Exemplars: 2, All: true, Files: "trace"}, report.Text, report.JSON)
	}
	one := explained(1)
	for _, shards := range []int{2, 3, 4, 5, 8} {
		if diff := cmp.Diff(one, explained(shards)); diff != "" {
			t.Fatalf("%d shards (-1 shard +got):\n%s", shards, diff)
		}
	}
}

// Exemplars have the numbers that other commands give them. Those do not rewrite tail calls, and
// they count calls of all threads.
func TestNumbers(t *testing.T) {
	p := newProgram(3)
	for k, th := range p.threads {
		th.now += uint64(k) * 777
		for i := range 1000 {
			th.event(reader.Enter, handle)
			th.self(300)
			th.event(reader.TailExit, handle)
			if i%3 == 0 { // a tail call; why does not count the handle inside it as an invocation
				th.now += 20
				th.event(reader.Enter, work)
				th.call(handle, 100)
				th.event(reader.Exit, work)
			}
			th.self(3000)
			if slowAt(i) {
				th.call(handle, 100, func() { th.call(query, 50_000) })
			}
		}
	}
	var all []invocation.Key
	_, _, err := calls.Run(p, calls.Options{Shards: 1, Paths: true}, func() *starts { return newStarts(&all) })
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	r := explain(t, p, o)
	list, _ := r.Shown(100)
	if len(list) != 3 {
		t.Fatalf("got %d exemplars", len(list))
	}
	for _, e := range list {
		before := 0
		for _, k := range all {
			if k.Compare(invocation.Key{Start: e.Start, Index: int(e.Thread.Thread) - 100}) <= 0 {
				before++
			}
		}
		if e.Number != uint64(before) {
			t.Errorf("got number %d for the call at %d, want %d", e.Number, e.Start, before)
		}
	}
	// Numbers count all threads even if one is selected.
	o.Calls.Filter.Thread = func(t reader.Thread) bool { return t.Thread == 102 }
	list, _ = explain(t, p, o).Shown(100)
	for _, e := range list {
		if e.Number < 20 || e.Thread.Thread != 102 {
			t.Errorf("got number %d on thread %d", e.Number, e.Thread.Thread)
		}
	}
}

// starts collects the invocations of handle.
type starts struct{ *invocation.Tracker }

func (starts) Merge(*starts) {}

func newStarts(all *[]invocation.Key) *starts {
	return &starts{invocation.NewTracker(invocation.Options{Root: options().Root}, func(v *invocation.Invocation, _ bool) {
		*all = append(*all, v.Key)
	})}
}

// Time below the path depth limit belongs to the last function on the path.
func TestPathDepth(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() {
			t.call(row, 100, func() {
				n := uint64(100)
				if slowAt(i) {
					n = 80_000
				}
				t.call(work, n)
			})
		})
	})
	for depth, want := range []reader.FuncID{work, query, row, work} {
		o := options()
		o.PathDepth = depth
		r := explain(t, p, o)
		if c := only(t, r); c.Kind != why.Slower || c.Func != want || c.Paths[0].Usual.Calls != 1 {
			t.Errorf("depth %d: got %+v", depth, c)
		}
		for _, d := range r.Decomposition {
			if depth > 0 && len(d.Path) > depth+1 {
				t.Errorf("depth %d: got path %v", depth, d.Path)
			}
		}
	}
}

// The report shows only the requested arguments.
func TestArgument(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(th *thread, i int) {
		value, ticks := uint64(i%7), uint64(500)
		if i%60 == 7 {
			value, ticks = 42, 50_000
		}
		th.callArg(row, value, 100)
		th.callArg(work, value, ticks)
	})
	for _, fn := range []reader.FuncID{row, work, parse} {
		o := options()
		o.Argument = func(f reader.FuncID) bool { return f == fn }
		found := false
		for _, a := range only(t, explain(t, p, o)).Associations {
			if a.Kind == "argument" {
				found = true
				if a.Func != fn || a.Value != 42 {
					t.Errorf("got %+v", a)
				}
			}
		}
		if found != (fn != parse) {
			t.Errorf("%s: got arguments found %v", names[fn], found)
		}
	}
}

// pruned returns a program whose calls shorter than 5000 ticks were dropped. Some requests make so
// many short calls of row that query is slower, and some of these calls are long enough to be kept.
func pruned() *program {
	p := newProgram(4)
	for i, th := range p.threads {
		th.now += uint64(i) * 1_000_000
	}
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 8000, func() {
			t.call(sort, 7000)
			if slowAt(i) {
				t.self(60_000)
				for range 3 {
					t.call(row, 5000)
				}
			} else if i%40 == 0 {
				t.call(row, 5000)
			}
		})
	})
	for _, th := range p.threads {
		var kept []reader.Event
		for i, e := range th.events {
			if e.Func != parse {
				kept = append(kept, th.events[i])
			}
		}
		th.events, th.args = kept, nil
		for i := range kept {
			kept[i].Side = false
			if kept[i].Kind == reader.EnterArg {
				kept[i].Kind = reader.Enter
			}
		}
	}
	return p
}

// If the recorder dropped most calls of a function, their time belongs to the callers.
func TestPrunedLeaves(t *testing.T) {
	for _, known := range []uint64{0, 5000} {
		o := options()
		o.Pruned = known
		r := explain(t, pruned(), o)
		c := only(t, r)
		if c.Kind != why.Slower || c.Func != query || len(c.Along) > 0 {
			t.Errorf("got %+v", c)
		}
		for _, d := range r.Decomposition {
			if d.Path[len(d.Path)-1] == row {
				t.Errorf("row has its own part: %+v", d)
			}
		}
		want := "The recorder dropped calls shorter than 5.000us"
		if known == 0 {
			want = "No call is shorter than 5.000us, so the recorder probably dropped short calls"
		}
		if len(r.Warnings) == 0 || !strings.HasPrefix(r.Warnings[0], want) {
			t.Errorf("wrong warnings: %q", r.Warnings)
		}
	}
}

// If the root itself was pruned, the report warns that its usual calls are missing.
func TestPrunedRoot(t *testing.T) {
	o := options()
	o.Pruned = 10_000
	r := explain(t, pruned(), o)
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "Calls of the root that are shorter than 10.00us are missing") {
		t.Errorf("wrong warnings: %q", r.Warnings)
	}
}

// damaged is an FDR log of a thread with 300 requests in three blocks. The second block is damaged
// inside a request, whose exit is missing.
func damaged(t *testing.T) *reader.Trace {
	t.Helper()
	var text strings.Builder
	text.WriteString("xray fdr\n")
	now := 1000
	for block := range 3 {
		fmt.Fprintf(&text, "thread 1 pid=1 tsc=%d\n", now)
		for i := range 100 {
			took := 1000 + 7*i
			if i%20 == 19 {
				took = 90_000
			}
			fmt.Fprintf(&text, "enter 2 +10\nenter 4 +10\nexit 4 +%d\n", took)
			now += took + 20
			if block == 1 && i == 79 {
				text.WriteString("bytes ff0f0f0f0f0f0f0f\n")
			}
			text.WriteString("exit 2 +10\n")
			now += 10
		}
	}
	return texttrace.Open(t, text.String())
}

// A request with missing records is not counted, and later requests are not nested in it.
func TestTorn(t *testing.T) {
	o := options()
	o.Slow = why.Rule{Ticks: 50_000, Text: ">50us"}
	r := explain(t, damaged(t), o)
	// 100 and 79 requests before the damage, 100 after it. One in twenty of these is slow.
	if r.Invocations != 279 || r.Slow.Count != 13 {
		t.Errorf("got %d invocations, %d slow ones, want 279 and 13", r.Invocations, r.Slow.Count)
	}
	if want := "1 call of the root was ignored because records are missing inside."; len(r.Warnings) == 0 ||
		!strings.Contains(strings.Join(r.Warnings, "\n"), want) {
		t.Errorf("wrong warnings: %q", r.Warnings)
	}
	if r.Longest > 100_000 {
		t.Errorf("got a longest call of %d ticks", r.Longest)
	}
}

// The page loads nothing, escapes names, and shows shares as bars.
func TestHTML(t *testing.T) {
	evil := testnames.Names{
		handle: `handle<"a" & 'b'>`, query: `</style><script src="https://example.org/x.js">`,
		flush: "flush\x1b[1m\nme", sort: "<img src=x>", lock: "lock", row: "{{.}}",
	}
	r := explain(t, contended(mutexes{addresses: true}), options())
	page := written(r, evil, why.View{Exemplars: 2, All: true, Files: "'a b<c'.xray"}, report.HTML)
	for _, bad := range []string{"<script", "<img", "\x1b", "@import", "url(", "<link", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	share := fmt.Sprintf("%.1f%%", 100*r.Causes[0].Share)
	for _, want := range []string{
		fmt.Sprintf(`<td class="n part" style="--part: %s">%[1]s</td>`, share), `<h2>1. It waits for the lock in lock`,
		"handle&lt;&quot;a&quot; &amp; 'b'&gt; &gt; &lt;/style&gt;&lt;script", "it is in &lt;img src=x&gt; (", "<pre>xray slice --around", `flush\x1b[1m\nme`, "'a b&lt;c'.xray",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// If threads are stopped more often in one function but for the same time as elsewhere, that is
// because they are stopped some time after they wake up. It is not a cause.
func TestPhaseIsNotNamed(t *testing.T) {
	program := func(inRow uint64) *program {
		p := newProgram(4)
		p.requests(3000, func(t *thread, i int) {
			at := -1
			if slowAt(i) {
				at = 0
				if t.rng.IntN(10) >= 6 {
					at = 1 + t.rng.IntN(3)
				}
			}
			for k, fn := range []reader.FuncID{row, query, work, sort} {
				t.call(fn, 1000, func() {
					switch {
					case k == at && at == 0:
						t.now += inRow + t.rng.Uint64N(inRow)
					case k == at:
						t.now += 50_000 + t.rng.Uint64N(50_000)
					}
				})
			}
		})
		return p
	}
	if r := explain(t, program(50_000), options()); len(r.Causes) != 0 {
		t.Errorf("got %+v", r.Causes)
	}
	// Stopped as often, but longer there: this is a cause.
	if c := only(t, explain(t, program(200_000), options())); c.Func != row {
		t.Errorf("got %+v", c)
	}
}

// A larger cause does not hide a smaller one.
func TestSecondCause(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		n := uint64(500)
		if i%250 == 100 {
			n = 30_000
		}
		t.call(work, n)
		if i%166 == 60 {
			t.call(rebuild, 60_000)
		}
	})
	r := explain(t, p, options())
	if len(r.Causes) != 2 || r.Causes[0].Func != rebuild || r.Causes[1].Func != work || r.Causes[1].Kind != why.Slower {
		t.Errorf("got %+v", r.Causes)
	}
}

// The pass that chooses the root finds what passes over its paths find: its durations and its slowest calls.
func TestChosenRootIsMeasured(t *testing.T) {
	p := contended(mutexes{addresses: true})
	for _, shards := range []int{1, 3} {
		o := options()
		o.Root, o.RootLabel, o.PrunedKnown, o.Slowest, o.Calls.Shards = nil, "", true, 7, shards
		chosen := explain(t, p, o)
		found := chosen.Slowest
		o.Root = func(fn reader.FuncID) bool { return fn == chosen.Root }
		given := explain(t, p, o)
		given.Candidates, chosen.Slowest = chosen.Candidates, nil
		view := why.View{Exemplars: 2, All: true, Files: "trace"}
		if diff := cmp.Diff(written(given, names, view, report.JSON), written(chosen, names, view, report.JSON)); diff != "" {
			t.Errorf("%d shards (-given +chosen):\n%s", shards, diff)
		}

		opts := slowest.Options{Root: o.Root, Top: o.Slowest}
		search, _, err := calls.Run(p, calls.Options{Paths: true, Roots: o.Root}, func() *slowest.Search { return slowest.NewSearch(opts) })
		if err != nil {
			t.Fatal(err)
		}
		trees := func(found *slowest.Found) *slowest.Report {
			trees, _, err := calls.Run(p, calls.Options{Paths: true, Roots: o.Root}, func() *slowest.Trees { return slowest.NewTrees(found) })
			if err != nil {
				t.Fatal(err)
			}
			return trees.Report(o.Clock)
		}
		if diff := cmp.Diff(trees(search.Found()), trees(slowest.NewFound(opts, found))); diff != "" || len(found.List) != o.Slowest {
			t.Errorf("%d shards: got %d calls (-search +chosen):\n%s", shards, len(found.List), diff)
		}
	}
}
