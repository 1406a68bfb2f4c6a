package locks_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// names are the functions in the traces below.
var names = testnames.Names{
	1: "main", 2: "serve", 3: "flush", 4: "work", 5: "Guard",
	10: "Mutex::lock", 11: "Mutex::unlock", 12: "Mutex::try_lock", 13: "Mutex::lock_shared", 14: "wait", 15: "pthread_cond_wait",
	20: "Wrapper::lock", 21: "Wrapper::unlock", 30: "Raii::lock",
}

func describe(fn reader.FuncID) locks.Function {
	switch fn {
	case 5:
		return locks.Function{Constructor: true}
	case 10, 20, 30:
		return locks.Function{Role: locks.Lock, Class: names[fn][:4]}
	case 11, 21:
		return locks.Function{Role: locks.Unlock, Class: names[fn][:4]}
	case 12:
		return locks.Function{Role: locks.TryLock, Class: "Mute"}
	case 13:
		return locks.Function{Role: locks.Lock, Class: "Mute", Shared: true}
	case 14:
		return locks.Function{Role: locks.Condition}
	case 15:
		return locks.Function{Role: locks.Condition, Libc: true}
	}
	return locks.Function{}
}

func open(t *testing.T, trace []byte) *reader.Trace {
	t.Helper()
	tr, err := reader.OpenReaderAt(bytes.NewReader(trace), int64(len(trace)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func analyze(t *testing.T, tr *reader.Trace, opts locks.Options) *locks.Report {
	t.Helper()
	opts.Function, opts.Clock = describe, reader.Clock{Frequency: 1_000_000_000}
	r, _, err := locks.Analyze(tr, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// trace writes threads one after another. A word is an event of a function, preceded by a time,
// with an argument in parentheses: "100 +10(16)" enters Mutex::lock at 100, "-10" leaves it, "~10"
// leaves it by a tail call.
func trace(t *testing.T, threads ...string) []byte {
	t.Helper()
	var text strings.Builder
	text.WriteString("xray basic\n")
	for i, thread := range threads {
		words := strings.Fields(thread)
		for ; len(words) > 1; words = words[2:] {
			where := fmt.Sprintf("tsc=%s tid=%d pid=7\n", words[0], i+1)
			kind, rest := words[1][0], words[1][1:]
			fn, arg, logged := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
			word := map[byte]string{'+': "enter", '-': "exit", '~': "tail-exit"}[kind]
			if logged {
				word = "enter-arg"
			}
			fmt.Fprintf(&text, "%s %s %s", word, fn, where)
			if logged {
				fmt.Fprintf(&text, "arg %s %s tid=%d pid=7\n", fn, arg, i+1)
			}
		}
	}
	b, err := tracetext.Parse(text.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return b
}

// summary returns text that the tests below compare: a line for each lock and for other
// results.
func summary(r *locks.Report) string {
	var b strings.Builder
	for i, l := range r.Locks {
		name := names[l.Func]
		if l.Logged {
			name = fmt.Sprint(l.Address)
		}
		fmt.Fprintf(&b, "%d %s: %d waits %d, %d contended, %d holds %d", i, name, l.Waits.Count, l.Waits.Sum.Lo, l.Contended, l.Holds.Count,
			l.Holds.Sum.Lo)
		if l.Tries > 0 {
			fmt.Fprintf(&b, ", %d tries", l.Tries)
		}
		b.WriteByte('\n')
		for _, p := range l.HoldPaths {
			fmt.Fprintf(&b, "  held %d by %v, in %v\n", p.Ticks, p.Path, p.Self)
		}
		for _, x := range l.Blame {
			fmt.Fprintf(&b, "  %v waited %d for %v\n", x.Waiter, x.Ticks, x.Holder)
		}
		for _, c := range l.Convoys {
			fmt.Fprintf(&b, "  convoy at %d for %d, %d waits, %d at a time, first %d, held by %d %v\n", c.Start, c.Ticks, c.Waits, c.Most,
				c.First.Thread, c.Holder.Thread, c.Path)
		}
	}
	for _, e := range r.Edges {
		fmt.Fprintf(&b, "%d while %d: %d\n", e.Taken, e.Held, e.Count)
	}
	for _, c := range r.Cycles {
		fmt.Fprintf(&b, "cycle of %d\n", len(c.Edges))
	}
	for _, o := range r.Stuck {
		fmt.Fprintf(&b, "thread %d stuck in %d since %d, held by %d %v\n", o.Thread.Thread, o.Lock, o.Start, o.Holder.Thread, o.HolderPath)
	}
	if r.Gaps+r.Orphans+r.Handed > 0 {
		fmt.Fprintf(&b, "%d gaps, %d orphans, %d handed\n", r.Gaps, r.Orphans, r.Handed)
	}
	return b.String()
}

func TestLocks(t *testing.T) {
	for _, c := range []struct {
		name    string
		threads []string
		want    string
	}{
		{"queue behind a holder", []string{
			"1000 +1 1100 +10(16) 1150 -10 1160 +3 11160 -3 11170 +11(16) 11200 -11 11210 -1",
			"1500 +2 1600 +10(16) 11320 -10 11330 +11(16) 11360 -11 11370 -2",
			"1600 +2 1700 +10(16) 11360 -10 11370 +11(16) 11400 -11 11410 -2",
		}, `0 16: 3 waits 19430, 2 contended, 3 holds 10130
  held 10050 by [1], in [{3 10000} {11 30}]
  held 80 by [2], in [{11 60}]
  [2] waited 19100 for [1]
  [2] waited 40 for [2]
  convoy at 1700 for 9620, 2 waits, 2 at a time, first 2, held by 1 [1]
`},
		// The waiter gets the lock while the holder is still returning from unlock.
		{"unlock returns late", []string{
			"100 +1 110 +10(16) 120 -10 200 +11(16) 300 -11 310 -1",
			"105 +2 130 +10(16) 210 -10 220 +11(16) 230 -11 240 -2",
		}, `0 16: 2 waits 90, 0 contended, 2 holds 200
  held 180 by [1], in [{11 100}]
  held 20 by [2], in [{11 10}]
  [2] waited 80 for [1]
`},
		{"recursion is one hold", []string{
			"100 +1 110 +10(16) 120 -10 130 +10(16) 140 -10 150 +11(16) 160 -11 200 +11(16) 210 -11 220 -1",
		}, `0 16: 2 waits 20, 0 contended, 1 holds 90
  held 90 by [1], in [{11 20} {10 10}]
`},
		{"a wait for a condition gives the lock back", []string{
			"100 +1 110 +10(16) 120 -10 130 +14 500 -14 510 +11(16) 520 -11 600 -1",
			"200 +2 210 +10(16) 220 -10 300 +11(16) 310 -11 320 -2",
		}, `0 16: 2 waits 20, 0 contended, 3 holds 120
  held 90 by [2], in [{11 10}]
  held 30 by [1], in [{11 10}]
`},
		{"a function that is only named like a condition", []string{
			"100 +1 105 +14 110 +10(16) 120 -10 130 +15 500 -15 510 +11(16) 520 -11 530 -14 600 -1",
		}, `0 16: 1 waits 10, 0 contended, 2 holds 30
  held 30 by [1 14], in [{11 10}]
`},
		{"readers share", []string{
			"100 +1 110 +13(16) 120 -13 500 +11(16) 510 -11 600 -1",
			"200 +2 210 +13(16) 220 -13 400 +11(16) 410 -11 420 -2",
			"300 +3 310 +10(16) 520 -10 530 +11(16) 540 -11 550 -3",
		}, `0 16: 3 waits 230, 0 contended, 3 holds 600
  held 390 by [1], in [{11 10}]
  held 190 by [2], in [{11 10}]
  held 20 by [3], in [{11 10}]
  [3] waited 200 for [1]
`},
		{"try_lock counts once it is given back", []string{
			"100 +1 110 +12(16) 120 -12 200 +11(16) 210 -11 300 +12(16) 310 -12 400 -1",
		}, `0 16: 0 waits 0, 0 contended, 1 holds 90, 1 tries
  held 90 by [1], in []
`},
		{"given back by another thread", []string{
			"100 +1 110 +10(16) 120 -10 500 -1",
			"200 +2 210 +11(16) 220 -11 300 -2",
			"250 +2 260 +11(32) 270 -11 300 -2",
		}, `0 16: 1 waits 10, 0 contended, 1 holds 100
  held 100 by [1], in []
0 gaps, 1 orphans, 1 handed
`},
		{"tail calls wait until the next event", []string{
			"100 +1 110 +10(16) 120 ~10 400 +4 410 -4 420 +11(16) 425 ~11 600 -1",
		}, `0 16: 1 waits 290, 0 contended, 1 holds 25
  held 25 by [1], in [{4 10} {11 5}]
`},
		{"the innermost that logs its argument", []string{
			"100 +1 105 +20 110 +10(16) 120 -10 125 +10(32) 130 -10 135 -20 150 +21 155 +11(16) 160 -11 170 +11(32) 180 -11 190 -21 200 -1",
		}, `0 16: 1 waits 10, 0 contended, 1 holds 40
  held 40 by [1], in [{10 5} {11 5}]
1 32: 1 waits 5, 0 contended, 1 holds 50
  held 50 by [1], in [{11 15}]
1 while 0: 1
`},
		{"what is around it is no lock", []string{
			"100 +1 105 +20 110 +10(16) 120 -10 5125 -20 5130 +11(16) 5160 -11 5200 -1",
			"200 +2 205 +20 210 +10(32) 220 -10 5225 -20 5230 +11(32) 5260 -11 5300 -2",
		}, `0 16: 1 waits 10, 0 contended, 1 holds 5040
  held 5040 by [1], in [{11 30}]
1 32: 1 waits 10, 0 contended, 1 holds 5040
  held 5040 by [2], in [{11 30}]
`},
		{"the outermost where none logs", []string{
			"100 +1 105 +20 110 +10 120 -10 125 -20 150 +21 155 +11 160 -11 170 -21 200 -1",
		}, `0 Wrapper::lock: 1 waits 20, 0 contended, 1 holds 45
  held 45 by [1], in [{21 15} {11 5}]
`},
		{"without unlock functions to the end of the caller", []string{
			"100 +1 105 +5 110 +30(16) 120 -30 125 -5 130 +4 180 -4 200 -1 300 +2 310 -2",
		}, `0 16: 1 waits 10, 0 contended, 1 holds 80
  held 80 by [1], in [{4 50}]
`},
		{"without unlock functions, in a loop", []string{
			"100 +1 110 +30 120 -30 150 +30 160 -30 170 +4 180 -4 200 -1",
		}, `0 Raii::lock: 2 waits 20, 0 contended, 2 holds 70
  held 70 by [1], in [{4 10} {30 10}]
1 gaps, 0 orphans, 0 handed
`},
		{"an unlock is missing", []string{
			"100 +1 110 +10(16) 120 -10 300 +10(16) 310 -10 320 +11(16) 330 -11 400 -1",
			"150 +2 160 +10(16) 170 -10 180 +11(16) 190 -11 200 -2",
		}, `0 16: 3 waits 30, 0 contended, 3 holds 90
  held 70 by [1], in [{11 10}]
  held 20 by [2], in [{11 10}]
  [2] waited 10 for [1]
1 gaps, 0 orphans, 0 handed
`},
		// An exception leaves the lock function.
		{"no exit of its own", []string{"100 +1 110 +10(16) 500 -1 600 +2 700 -2"}, ""},
		{"deadlock", []string{
			"100 +1 110 +10(16) 120 -10 200 +10(32)",
			"100 +2 115 +10(32) 125 -10 210 +10(16)",
			"100 +3 900 -3",
		}, `0 16: 1 waits 10, 0 contended, 0 holds 0
1 32: 1 waits 10, 0 contended, 0 holds 0
thread 1 stuck in 1 since 200, held by 2 [2]
thread 2 stuck in 0 since 210, held by 1 [1]
`},
		{"opposite orders", []string{
			"100 +1 110 +10(16) 120 -10 130 +10(32) 140 -10 150 +11(32) 160 -11 170 +11(16) 180 -11 190 -1",
			"200 +2 210 +10(32) 220 -10 230 +10(16) 240 -10 250 +11(16) 260 -11 270 +11(32) 280 -11 290 -2",
		}, `0 16: 2 waits 20, 0 contended, 2 holds 80
  held 60 by [1], in [{11 20} {10 10}]
  held 20 by [2], in [{11 10}]
1 32: 2 waits 20, 0 contended, 2 holds 80
  held 60 by [2], in [{11 20} {10 10}]
  held 20 by [1], in [{11 10}]
1 while 0: 1
0 while 1: 1
cycle of 2
`},
		{"opposite orders of one thread", []string{
			"100 +1 110 +10(16) 120 -10 130 +10(32) 140 -10 150 +11(32) 160 -11 170 +11(16) 180 -11 " +
				"210 +10(32) 220 -10 230 +10(16) 240 -10 250 +11(16) 260 -11 270 +11(32) 280 -11 290 -1",
		}, `0 16: 2 waits 20, 0 contended, 2 holds 80
  held 80 by [1], in [{11 30} {10 10}]
1 32: 2 waits 20, 0 contended, 2 holds 80
  held 80 by [1], in [{11 30} {10 10}]
1 while 0: 1
0 while 1: 1
`},
		// Each thread also takes each pair of locks in both orders.
		{"a cycle of threads that make shorter cycles", []string{
			inOrder(16, 32, 100) + inOrder(32, 16, 200),
			inOrder(32, 48, 300) + inOrder(48, 32, 400) + inOrder(48, 16, 500) + inOrder(16, 48, 600),
		}, `0 16: 4 waits 40, 0 contended, 4 holds 160
  held 160 by [1], in [{11 60} {10 20}]
1 32: 4 waits 40, 0 contended, 4 holds 160
  held 160 by [1], in [{11 60} {10 20}]
2 48: 4 waits 40, 0 contended, 4 holds 160
  held 160 by [1], in [{11 60} {10 20}]
1 while 0: 1
2 while 0: 1
0 while 1: 1
2 while 1: 1
0 while 2: 1
1 while 2: 1
cycle of 3
cycle of 3
`},
		{"no lock functions", []string{"100 +1 200 -1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := summary(analyze(t, open(t, trace(t, c.threads...)), locks.Options{}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// inOrder takes two locks, one inside the other.
func inOrder(outer, inner, at int) string {
	return fmt.Sprintf("%d +1 %d +10(%d) %d -10 %d +10(%d) %d -10 %d +11(%d) %d -11 %d +11(%d) %d -11 %d -1 ",
		at, at+10, outer, at+20, at+30, inner, at+40, at+50, inner, at+60, at+70, outer, at+80, at+90)
}

// Waits are selected by thread and start. Holders may be outside of the selection.
func TestChoice(t *testing.T) {
	tr := open(t, trace(t,
		"1000 +1 1100 +10(16) 1150 -10 11170 +11(16) 11200 -11 11210 -1",
		"1500 +2 1600 +10(16) 11320 -10 11330 +11(16) 11360 -11 11370 -2"))
	want := `0 16: 1 waits 9720, 1 contended, 1 holds 40
  held 40 by [2], in [{11 30}]
  [2] waited 9600 for [1]
`
	for _, opts := range []locks.Options{
		{Thread: func(th reader.Thread) bool { return th.Thread == 2 }},
		{From: 1600},
	} {
		if diff := cmp.Diff(want, summary(analyze(t, tr, opts))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if r := analyze(t, tr, locks.Options{To: 1600}); r.Locks[0].Waits.Count != 1 || r.Locks[0].Waits.Sum.Lo != 50 {
		t.Errorf("until 1600: got %s", summary(r))
	}
}

// A backward clock step loses no waits or holds.
func TestClockStepsBack(t *testing.T) {
	threads := func(step int) []string {
		return []string{
			fmt.Sprintf("2000 +1 2100 +10(16) 2150 -10 %d +11(16) %d -11 %d -1", 12170-step, 12200-step, 12210-step),
			fmt.Sprintf("2500 +2 2600 +10(16) 2610 -10 2620 +11(16) 2630 -11 %d +4 %d +10(16) %d -10 %d +11(16) %d -11 %d -4",
				12210-step, 12220-step, 12320-step, 12330-step, 12360-step, 12370-step),
		}
	}
	straight := analyze(t, open(t, trace(t, threads(0)...)), locks.Options{})
	r := analyze(t, open(t, trace(t, threads(11_000)...)), locks.Options{})
	if len(r.Locks) != 1 || r.Locks[0].Waits.Count != 3 || straight.Locks[0].Waits.Count != 3 {
		t.Errorf("got\n%swant as without the step:\n%s", summary(r), summary(straight))
	}
}

// Locks beyond the limit share one entry.
func TestLimit(t *testing.T) {
	var thread strings.Builder
	for i := range 10 {
		now := 100 * (i + 1)
		fmt.Fprintf(&thread, "%d +10(%d) %d -10 %d +11(%d) %d -11 ", now, 16*(i+1), now+10, now+20, 16*(i+1), now+30)
	}
	r := analyze(t, open(t, trace(t, thread.String())), locks.Options{Limit: 4})
	taken := uint64(0)
	for _, l := range r.Locks {
		taken += l.Waits.Count
	}
	if len(r.Locks) != 5 || taken != 10 || !r.Dropped {
		t.Errorf("got %d locks, taken %d times, dropped %v", len(r.Locks), taken, r.Dropped)
	}
}

// Waits that met no holder define how long an uncontended wait takes, even if they are few.
func TestContended(t *testing.T) {
	threads := make([]strings.Builder, 3)
	for round := range 5 {
		start := 1000 + 1_000_000*round
		// Thread 1 gets the lock at once, in 2 µs, and holds it for 50 µs.
		for i, times := range [][4]int{{0, 2000, 52_000, 52_001}, {20_000, 52_001, 60_000, 60_001}, {30_000, 60_001, 70_000, 70_001}} {
			fmt.Fprintf(&threads[i], "%d +10(16) %d -10 %d +11(16) %d -11 ", start+times[0], start+times[1], start+times[2], start+times[3])
		}
	}
	r := analyze(t, open(t, trace(t, threads[0].String(), threads[1].String(), threads[2].String())), locks.Options{})
	if l := r.Locks[0]; l.Waits.Count != 15 || l.Contended != 10 {
		t.Errorf("got %d of %d waits contended, want 10 of 15", l.Contended, l.Waits.Count)
	}
}

// Locks that are never released take bounded time and memory.
func TestNeverUnlocked(t *testing.T) {
	var thread strings.Builder
	const n = 20_000
	for i := range n {
		fmt.Fprintf(&thread, "%d +10 %d -10 ", 10*i, 10*i+5)
	}
	fmt.Fprintf(&thread, "%d +21 %d -21", 10*n, 10*n+1) // of another class
	thread.WriteString(fmt.Sprintf(" %d +11(5) %d -11", 10*n+5, 10*n+6))
	r := analyze(t, open(t, trace(t, thread.String())), locks.Options{})
	if l := r.Locks[0]; l.Waits.Count != n || r.Gaps < n-100 || r.Orphans != 1 || l.Holds.Count != 1 {
		t.Errorf("got %d waits, %d gaps, %d orphans, %d holds", l.Waits.Count, r.Gaps, r.Orphans, l.Holds.Count)
	}
}
