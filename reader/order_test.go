package reader_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// genTrace draws a basic or FDR log as text, and its events in time order. step draws the time
// between records of a thread.
func genTrace(r *rand.Rand, fdr bool, threads, records int, step func() int64) (text string, want []string) {
	type event struct {
		key    int64 // the largest timestamp of the thread so far
		thread int
		text   string
	}
	var all []event
	var basic strings.Builder
	blocks := make([]strings.Builder, threads)
	tsc, key := make([]int64, threads), make([]int64, threads)
	thread := 0
	for i := range records {
		if i < threads {
			thread = i
			tsc[thread] = 1000 + r.Int64N(3)
			fmt.Fprintf(&blocks[thread], "thread %d pid=1 tsc=%d\n", thread+1, tsc[thread])
		} else if r.IntN(3) == 0 {
			thread = r.IntN(threads)
		}
		now := max(0, tsc[thread]+step())
		if now < tsc[thread] || now-tsc[thread] > 1<<31 {
			fmt.Fprintf(&blocks[thread], "tsc-wrap %d\n", now)
			tsc[thread] = now
		}
		kind, fdrArg, basicArg, arg := "enter", "", "", ""
		if i%7 == 0 {
			kind, arg = "enter-arg", fmt.Sprintf(" arg=%d", i)
			fdrArg = fmt.Sprintf("arg %d\n", i)
			basicArg = fmt.Sprintf("arg %d %d tid=%d pid=1\n", i+1, i, thread+1)
		}
		fmt.Fprintf(&blocks[thread], "%s %d +%d\n%s", kind, i+1, now-tsc[thread], fdrArg)
		fmt.Fprintf(&basic, "%s %d tsc=%d tid=%d pid=1\n%s", kind, i+1, now, thread+1, basicArg)
		tsc[thread], key[thread] = now, max(key[thread], now)
		all = append(all, event{key[thread], thread, fmt.Sprintf("1/%d cpu0 %s #%d @%d%s", thread+1, kind, i+1, now, arg)})
	}
	text = "xray basic\n" + basic.String()
	if fdr {
		text = "xray fdr\n"
		for i := range blocks {
			text += blocks[i].String()
		}
		slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.thread, b.thread) })
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.key, b.key) })
	for _, e := range all {
		want = append(want, e.text)
	}
	return text, want
}

// windowEvents collects the events of a trace in the order in which EachByTime passes them on.
func windowEvents(t *testing.T, tr *reader.Trace, n int) []string {
	t.Helper()
	var lines []string
	err := tr.EachByTime(n, nil, func(_ int, w *reader.Window) {
		for _, i := range w.Order {
			b := &reader.Block{Thread: w.Threads[w.Owners[i]], Events: []reader.Event{w.Events[i]}}
			for _, a := range w.ArgsOf(i) {
				b.Args = append(b.Args, reader.Arg{Value: a.Value})
			}
			if p := w.PayloadOf(i); p.Data != nil {
				b.Payloads = []reader.Payload{{Type: p.Type, Data: p.Data}}
			}
			w.Out = append(append(w.Out, line(b, 0)...), '\n')
		}
	}, func(w *reader.Window) error {
		lines = append(lines, strings.Split(strings.TrimSuffix(string(w.Out), "\n"), "\n")...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Random traces of several windows with equal times, clocks that step back or stand still, and
// pauses longer than a window.
func TestTimeOrderIsStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	steps := map[string]func() int64{
		"ties":    func() int64 { return r.Int64N(3) },
		"still":   func() int64 { return 0 },
		"back":    func() int64 { return r.Int64N(100) - 20 },
		"pauses":  func() int64 { return r.Int64N(1<<r.IntN(34) + 1) },
		"uneven":  func() int64 { return r.Int64N(1 << r.IntN(20)) },
		"extreme": func() int64 { return r.Int64N(1<<r.IntN(60)) / 1000 },
	}
	for name, step := range steps {
		for _, fdr := range []bool{false, true} {
			for _, threads := range []int{1, 3, 100} {
				t.Run(fmt.Sprintf("%s/fdr=%v/threads=%d", name, fdr, threads), func(t *testing.T) {
					text, want := genTrace(r, fdr, threads, 9_000, step)
					tr := open(t, text)
					check := func(how string, got []string) {
						t.Helper()
						if !slices.Equal(want, got) { // which is faster than a difference
							t.Fatalf("%s (-want +got):\n%.2000s", how, gocmp.Diff(want, got))
						}
					}
					check("blocks", events(t, tr, reader.TimeOrder))
					for n := range 3 {
						check(fmt.Sprint(n+1, " goroutines"), windowEvents(t, tr, n+1))
					}
				})
			}
		}
	}
}

// Payloads come with their events, and count toward the size of a window.
func TestWindowPayloads(t *testing.T) {
	var text strings.Builder
	text.WriteString("xray fdr\n")
	for thread := range 3 {
		fmt.Fprintf(&text, "thread %d pid=1 tsc=%d\nenter 1 +0\n", thread+1, 10+thread)
		for i := range 100 {
			fmt.Fprintf(&text, "custom %q +3\ntyped %d %q +0\n", strings.Repeat(fmt.Sprint(thread, i), 20_000), i, fmt.Sprint(i))
		}
	}
	tr := open(t, text.String())
	want := events(t, tr, reader.ThreadOrder)
	got := windowEvents(t, tr, 2)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%d events were changed", len(got))
	}
	err := tr.EachByTime(1, nil, func(_ int, w *reader.Window) {
		size := 0
		for _, p := range w.Payloads {
			size += len(p.Data)
		}
		if size > 6<<20 { // a full window and one more block of each thread
			t.Errorf("got a window with %d bytes of payloads", size)
		}
	}, func(*reader.Window) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// An error in any part ends the pass.
func TestEachByTimeErrors(t *testing.T) {
	text, _ := genTrace(rand.New(rand.NewPCG(1, 2)), true, 3, 50_000, func() int64 { return 1 })
	tr := open(t, text)
	for n := range 3 {
		calls := 0
		err := tr.EachByTime(n+1, nil, func(int, *reader.Window) {}, func(*reader.Window) error {
			calls++
			return fmt.Errorf("call %d", calls)
		})
		if err == nil || err.Error() != "call 1" {
			t.Errorf("%d goroutines: got error %v", n+1, err)
		}
	}
}
