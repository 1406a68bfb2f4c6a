package stack

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

type names = testnames.Names

var gigahertz = reader.Clock{Frequency: 1_000_000_000}

// program is a simulated thread and its calls in the order of their ends.
type program struct {
	paths *calls.Paths
	now   uint64
	stack []openCall
	calls []calls.Call
}

type openCall struct {
	fn     reader.FuncID
	path   calls.PathID
	start  uint64
	inside uint64
}

func (p *program) enter(fn reader.FuncID) {
	var parent calls.PathID
	if n := len(p.stack); n > 0 {
		parent = p.stack[n-1].path
	}
	p.stack = append(p.stack, openCall{fn, p.paths.Child(parent, fn), p.now, 0})
}

func (p *program) exit(end calls.End) {
	top := len(p.stack) - 1
	f := p.stack[top]
	p.stack = p.stack[:top]
	d := p.now - f.start
	c := calls.Call{Start: f.start, Duration: d, Self: d - f.inside, Func: f.fn, Path: f.path, Depth: uint32(top), End: end}
	if top > 0 {
		c.Caller = p.stack[top-1].fn
		p.stack[top-1].inside += d
	}
	p.calls = append(p.calls, c)
}

// run interprets a script: a number enters a function, "." exits the innermost one, "!" leaves it
// open, and "+n" advances the clock.
func (p *program) run(script string) *program {
	for _, word := range strings.Fields(script) {
		var n uint64
		switch {
		case word == ".":
			p.exit(calls.Exited)
		case word == "!":
			p.exit(calls.Truncated)
		case word == "~":
			p.exit(calls.Inferred)
		case word[0] == '+':
			fmt.Sscan(word[1:], &n)
			p.now += n
		default:
			fmt.Sscan(word, &n)
			p.enter(reader.FuncID(n))
		}
	}
	return p
}

// collect runs scripts as the threads 1, 2, ... of process 7.
func collect(t testing.TB, opts Options, scripts ...string) *Analysis {
	t.Helper()
	a := New(opts)
	paths := calls.NewPaths()
	for i, script := range scripts {
		p := (&program{paths: paths}).run(script)
		b := &calls.Batch{Index: i, Thread: reader.Thread{Process: 7, Thread: int32(i + 1)}, Paths: paths}
		// Batches may end anywhere.
		for at := range p.calls {
			b.Calls = p.calls[at : at+1]
			if err := a.Calls(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a
}

func folded(t testing.TB, r *Report, n symbolize.Names, v FoldedView) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteFolded(&b, n, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const (
	first  = "1 +10 3 +5 . 2 +20 . 2 +30 2 +1 . . +4 ."
	second = "1 +100 2 +7 ~ . 5 +50 2 +1 ."
)

func TestTree(t *testing.T) {
	a := collect(t, Options{}, first, second+" +9 !")
	var got []Frame
	for tree := range a.Report(gigahertz).Trees() {
		got = append(got, tree.Frames...)
	}
	want := []Frame{
		{Func: 1, Parent: -1, Count: 2, Total: 177, Self: 114},
		{Func: 2, Parent: 0, Depth: 1, Count: 3, Total: 58, Self: 57, Leaves: 2, LeafTotal: 27},
		{Func: 2, Parent: 1, Depth: 2, Count: 1, Total: 1, Self: 1, Leaves: 1, LeafTotal: 1},
		{Func: 3, Parent: 0, Depth: 1, Count: 1, Total: 5, Self: 5, Leaves: 1, LeafTotal: 5},
		{Func: 5, Parent: -1, Open: 1, OpenTotal: 60, OpenSelf: 59},
		{Func: 2, Parent: 4, Depth: 1, Count: 1, Total: 1, Self: 1, Leaves: 1, LeafTotal: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestFolded(t *testing.T) {
	n := names{1: "main", 2: "std::sort<a;b>\n(int)", 3: "never"}
	for _, test := range []struct {
		name string
		opts Options
		view FoldedView
		want string
	}{
		{"self time", Options{}, FoldedView{}, `main 114
main;std::sort<a:b>\n(int) 57
main;std::sort<a:b>\n(int);std::sort<a:b>\n(int) 1
main;never 5
#5 59
#5;std::sort<a:b>\n(int) 1
`},
		{"inclusive calls per thread", Options{PerThread: true}, FoldedView{Metric: Count, Inclusive: true}, `thread_1;main 5
thread_1;main;std::sort<a:b>\n(int) 3
thread_1;main;std::sort<a:b>\n(int);std::sort<a:b>\n(int) 1
thread_1;main;never 1
thread_2;main 2
thread_2;main;std::sort<a:b>\n(int) 1
thread_2;#5 2
thread_2;#5;std::sort<a:b>\n(int) 1
`},
	} {
		r := collect(t, test.opts, first, second+" +9 !").Report(gigahertz)
		if diff := cmp.Diff(test.want, folded(t, r, n, test.view)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Stacks of weight zero have no line.
func TestFoldedLeavesZeroOut(t *testing.T) {
	r := collect(t, Options{}, "1 2 +5 . 3 . .").Report(reader.Clock{})
	if got, want := folded(t, r, nil, FoldedView{}), "#1;#2 5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line repeats all callers, so it must not show deep recursion in full.
func TestFoldedDeep(t *testing.T) {
	const depth = 3000
	script := strings.Repeat("1 +1 ", depth) + strings.Repeat(". ", depth-maxFrames) + " 2 +3 . " +
		strings.Repeat(". ", maxFrames) + strings.Repeat("4 ", maxFrames+1) + "+8 " + strings.Repeat(". ", maxFrames+1)
	for _, inclusive := range []bool{false, true} {
		r := collect(t, Options{}, script).Report(reader.Clock{})
		var got []string
		for line := range strings.Lines(folded(t, r, nil, FoldedView{Inclusive: inclusive})) {
			if n := strings.Count(line, ";"); n > maxFrames {
				t.Errorf("inclusive=%t: got a line of %d frames", inclusive, n+1)
			}
			if at := strings.Index(line, deeper); at >= 0 {
				got = append(got, line[at-3:])
			}
		}
		want := []string{fmt.Sprintf("#1;%s %d\n", deeper, depth-maxFrames+3), fmt.Sprintf("#4;%s 8\n", deeper)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("inclusive=%t: (-want +got):\n%s", inclusive, diff)
		}
	}
}

func TestThreadLabels(t *testing.T) {
	for _, test := range []struct {
		threads []reader.Thread
		want    string
	}{
		{[]reader.Thread{{Process: 1, Thread: 2}, {Process: 1, Thread: 3}}, "2 3"},
		{[]reader.Thread{{Process: 1, Thread: 2}, {Process: 2, Thread: 2}}, "1/2 2/2"},
		{[]reader.Thread{{File: 0, Thread: 2}, {File: 1, Thread: 2}}, "1/0/2 2/0/2"},
	} {
		var threads []*thread
		for _, id := range test.threads {
			threads = append(threads, &thread{id: id})
		}
		if got := strings.Join(threadLabels(threads), " "); got != test.want {
			t.Errorf("%v: got %s, want %s", test.threads, got, test.want)
		}
	}
}

func TestBatchErrors(t *testing.T) {
	a := New(Options{})
	if err := a.Calls(&calls.Batch{}); err != ErrNoPaths {
		t.Errorf("without paths: got error %v", err)
	}
	if err := a.Calls(&calls.Batch{Paths: calls.NewPaths()}); err != nil {
		t.Error(err)
	}
	if err := a.Calls(&calls.Batch{Paths: calls.NewPaths()}); err == nil {
		t.Error("another tree of paths was accepted")
	}
}

func TestSumsStayAtTheLargest(t *testing.T) {
	script := fmt.Sprintf("1 +%d . 1 +%d .", uint64(math.MaxUint64), uint64(5))
	a := collect(t, Options{}, script)
	for tree := range a.Report(reader.Clock{}).Trees() {
		if f := tree.Frames[0]; f.Total != math.MaxUint64 || f.Self != math.MaxUint64 || f.LeafTotal != math.MaxUint64 {
			t.Errorf("got %+v", f)
		}
	}
}

// randomScript draws a thread's script.
func randomScript(t *rapid.T) string {
	var b strings.Builder
	depth := 0
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		fmt.Fprintf(&b, "+%d ", rapid.IntRange(0, 100).Draw(t, "ticks"))
		if depth == 0 || rapid.Bool().Draw(t, "enter") {
			fmt.Fprintf(&b, "%d ", rapid.IntRange(1, 4).Draw(t, "function"))
			depth++
		} else {
			b.WriteString(rapid.SampledFrom([]string{". ", ". ", "~ "}).Draw(t, "exit"))
			depth--
		}
	}
	return b.String() + strings.Repeat("! ", depth)
}

// Self times add up to the durations of outermost calls, and the number of shards changes nothing.
func TestSumsAndShards(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var scripts []string
		for range rapid.IntRange(1, 5).Draw(rt, "threads") {
			scripts = append(scripts, randomScript(rt))
		}
		opts := Options{PerThread: rapid.Bool().Draw(rt, "per thread")}
		var roots, self uint64
		shards := make([]*Analysis, rapid.IntRange(1, 3).Draw(rt, "shards"))
		paths := make([]*calls.Paths, len(shards))
		for i := range shards {
			shards[i], paths[i] = New(opts), calls.NewPaths()
		}
		for i, script := range scripts {
			shard := rapid.IntRange(0, len(shards)-1).Draw(rt, "shard")
			p := (&program{paths: paths[shard]}).run(script)
			for _, c := range p.calls {
				if c.Depth == 0 {
					roots += c.Duration
				}
			}
			err := shards[shard].Calls(&calls.Batch{
				Index: i, Thread: reader.Thread{Process: 7, Thread: int32(i + 1)}, Paths: paths[shard], Calls: p.calls,
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		for _, s := range shards[1:] {
			shards[0].Merge(s)
		}
		merged := shards[0].Report(gigahertz)
		for tree := range merged.Trees() {
			for i := range tree.Frames {
				self += Time.own(&tree.Frames[i])
			}
		}
		if self != roots {
			rt.Fatalf("got self times of %d, want %d as of outermost calls", self, roots)
		}

		var want, got []Tree
		for tree := range merged.Trees() {
			got = append(got, Tree{tree.Thread, tree.Label, append([]Frame{}, tree.Frames...)})
		}
		for tree := range collect(t, opts, scripts...).Report(gigahertz).Trees() {
			want = append(want, Tree{tree.Thread, tree.Label, append([]Frame{}, tree.Frames...)})
		}
		// Threads without calls may be listed or not.
		if diff := cmp.Diff(withCalls(want), withCalls(got)); diff != "" {
			rt.Fatalf("%d shards (-one +merged):\n%s", len(shards), diff)
		}
	})
}

func withCalls(trees []Tree) []Tree {
	var some []Tree
	for _, t := range trees {
		if len(t.Frames) > 0 {
			some = append(some, t)
		}
	}
	return some
}

// writeYAML writes a trace that llvm-xray can read, too.
func writeYAML(t testing.TB, frequency uint64, events string) string {
	t.Helper()
	text := fmt.Sprintf("---\nheader:\n  version: 1\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n"+
		"  cycle-frequency: %d\nrecords:\n%s...\n", frequency, events)
	path := filepath.Join(t.TempDir(), "trace.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run analyzes a trace file by the rules of llvm-xray stack.
func run(t testing.TB, path string, opts Options) *Report {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	o := calls.Options{Paths: true, Policy: calls.DeduceOrClear}
	a, _, err := calls.Run(trace, o, func() *Analysis { return New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return a.Report(reader.Clock{Frequency: trace.Header(0).CycleFrequency})
}

func BenchmarkCalls(b *testing.B) {
	for _, perThread := range []bool{false, true} {
		for _, functions := range []int{20, 2000} {
			b.Run(fmt.Sprintf("functions=%d/threads=%t", functions, perThread), func(b *testing.B) {
				p := &program{paths: calls.NewPaths()}
				seed := uint64(1)
				random := func() float64 {
					seed = seed*6364136223846793005 + 1442695040888963407
					return float64(seed>>11) / (1 << 53)
				}
				for len(p.calls) < 1<<16 {
					p.now += 50
					if len(p.stack) == 0 || len(p.stack) < 8 && random() < 0.5 {
						u := random()
						p.enter(reader.FuncID(u*u*u*float64(functions)) + 1)
					} else {
						p.exit(calls.Exited)
					}
				}
				a := New(Options{PerThread: perThread})
				b.ResetTimer()
				for i := 0; i < b.N; i += 512 {
					at := i % (1 << 16)
					a.Calls(&calls.Batch{Calls: p.calls[at : at+512], Paths: p.paths})
				}
			})
		}
	}
}
