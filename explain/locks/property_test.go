package locks_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// event is an event of a simulated program.
type event struct {
	tsc  int
	kind string
	fn   int
	arg  int // 0 for none
}

// simulated is a program whose threads take locks in the order of their requests, with the times
// that the simulation counted by lock.
type simulated struct {
	threads                     [][]event
	taken, waited, held, queued []int
}

func simulate(rng *rand.Rand, threads, locks, rounds int) *simulated {
	s := &simulated{
		threads: make([][]event, threads), taken: make([]int, locks), waited: make([]int, locks), held: make([]int, locks),
		queued: make([]int, locks),
	}
	type state struct{ until, phase, lock, asked, got, left int } // phases: 0 works, 1 waits, 2 holds
	all := make([]state, threads)
	owner, queue := make([]int, locks), make([][]int, locks)
	for i := range all {
		all[i] = state{until: rng.IntN(20), left: rounds}
		s.threads[i] = append(s.threads[i], event{0, "enter", 1 + i%3, 0})
	}
	for i := range owner {
		owner[i] = -1
	}
	running := threads
	for now := 0; running > 0; now++ {
		for l := range queue {
			if len(queue[l]) >= 2 {
				s.queued[l]++ // the tick before now
			}
		}
		grant := func(i int) {
			th := &all[i]
			s.threads[i] = append(s.threads[i], event{now, "exit", 10, 0})
			owner[th.lock], th.phase, th.got, th.until = i, 2, now, now+1+rng.IntN(30)
			s.taken[th.lock]++
			s.waited[th.lock] += now - th.asked
		}
		for i := range all {
			th := &all[i]
			if th.left == 0 || th.phase == 1 || th.until != now {
				continue
			}
			if th.phase == 2 {
				s.threads[i] = append(s.threads[i], event{now, "enter", 11, th.lock + 16}, event{now, "exit", 11, 0})
				s.held[th.lock] += now - th.got
				owner[th.lock] = -1
				if q := queue[th.lock]; len(q) > 0 {
					queue[th.lock] = q[1:]
					grant(q[0])
				}
				th.phase, th.until = 0, now+1+rng.IntN(60)
				if th.left--; th.left == 0 {
					s.threads[i] = append(s.threads[i], event{now + 1, "exit", 1 + i%3, 0})
					running--
				}
				continue
			}
			th.phase, th.lock, th.asked = 1, rng.IntN(locks), now
			s.threads[i] = append(s.threads[i], event{now, "enter", 10, th.lock + 16})
			if owner[th.lock] < 0 {
				grant(i)
			} else {
				queue[th.lock] = append(queue[th.lock], i)
			}
		}
	}
	return s
}

func (s *simulated) basic(t *rapid.T) []byte {
	var text strings.Builder
	text.WriteString("xray basic frequency=1000000\n")
	for i, events := range s.threads {
		for _, e := range events {
			where := fmt.Sprintf("tid=%d pid=7\n", i+1)
			if e.arg > 0 {
				fmt.Fprintf(&text, "enter-arg %d tsc=%d %sarg %d %d %s", e.fn, e.tsc+1000, where, e.fn, e.arg, where)
			} else {
				fmt.Fprintf(&text, "%s %d tsc=%d %s", e.kind, e.fn, e.tsc+1000, where)
			}
		}
	}
	return assemble(t, text.String())
}

func (s *simulated) fdr(t *rapid.T) []byte {
	var text strings.Builder
	text.WriteString("xray fdr frequency=1000000\n")
	for i, events := range s.threads {
		for j, e := range events {
			if j%40 == 0 {
				fmt.Fprintf(&text, "thread %d pid=7 wall=1.%06d tsc=%d\n", i+1, j, e.tsc+1000)
			}
			delta := 0
			if j%40 > 0 {
				delta = e.tsc - events[j-1].tsc
			}
			if e.arg > 0 {
				fmt.Fprintf(&text, "enter-arg %d +%d\narg %d\n", e.fn, delta, e.arg)
			} else {
				fmt.Fprintf(&text, "%s %d +%d\n", e.kind, e.fn, delta)
			}
		}
	}
	return assemble(t, text.String())
}

func assemble(t *rapid.T, text string) []byte {
	b, err := tracetext.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return b
}

// written returns the report of a trace, and its text in all formats.
func written(t *rapid.T, trace []byte, shards int) (*locks.Report, string) {
	tr, err := reader.OpenReaderAt(bytes.NewReader(trace), int64(len(trace)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := locks.Analyze(tr, locks.Options{Function: describe, Clock: reader.Clock{Frequency: 1_000_000}, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b, r, names, locks.View{Top: 1, Paths: 1}); err != nil {
		t.Fatal(err)
	}
	return r, b.String()
}

// write writes a report in all formats.
func write(w io.Writer, r *locks.Report, names symbolize.Names, v locks.View) error {
	doc := &report.Doc{Clock: r.Clock, Names: names, Start: r.First, Body: r.Body(names, v)}
	for _, format := range report.Formats {
		if err := doc.Write(w, report.Style{Format: format}); err != nil {
			return err
		}
	}
	return nil
}

// The analysis finds what the simulation counted, whatever the trace format and number of shards.
func TestSimulatedPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := simulate(rng, rapid.IntRange(1, 8).Draw(t, "threads"), rapid.IntRange(1, 3).Draw(t, "locks"), rapid.IntRange(1, 30).Draw(t, "rounds"))
		basic := s.basic(t)
		r, one := written(t, basic, 1)
		if _, three := written(t, basic, 3); one != three {
			t.Errorf("(-1 shard +3):\n%s", cmp.Diff(one, three))
		}
		fromFDR, _ := written(t, s.fdr(t), 2)
		for _, r := range []*locks.Report{r, fromFDR} {
			seen := 0
			for _, l := range r.Locks {
				i := int(l.Address) - 16
				blame := 0
				for _, b := range l.Blame {
					blame += int(b.Ticks)
				}
				got := []int{int(l.Waits.Count), int(l.Waits.Sum.Lo), int(l.Holds.Count), int(l.Holds.Sum.Lo), int(l.Queued.Ticks), blame}
				want := []int{s.taken[i], s.waited[i], s.taken[i], s.held[i], s.queued[i], s.waited[i]}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("lock %d: taken, waited, holds, held, queued, blame (-want +got):\n%s", i, diff)
				}
				seen += s.taken[i]
			}
			for _, n := range s.taken {
				seen -= n
			}
			if seen != 0 || r.Gaps+r.Orphans+r.Handed > 0 || len(r.Stuck) > 0 {
				t.Errorf("got a difference of %d calls, %d gaps, %d orphans, %d handed over", seen, r.Gaps, r.Orphans, r.Handed)
			}
		}
	})
}

// Any input gives a report or an error, and the number of shards changes neither.
func FuzzAnalyze(f *testing.F) {
	for _, text := range []string{
		"xray fdr\nthread 1 pid=7 tsc=100\nenter-arg 10 +1\narg 16\nexit 10 +1\nenter 14 +1\nexit 14 +5\nexit 11 +1\nexit 1 +1\n",
		"xray fdr\nthread 1 pid=7 tsc=100\nexit 10 +1\nexit 11 +1\nenter 12 +1\ntail-exit 10 +1\nenter 13 +1\ntail-exit 13 +1\n" +
			"thread 2 pid=7 tsc=50\nenter 11 +0\nexit 11 +0\nenter 5 +0\nenter 30 +0\nexit 30 +0\nexit 5 +1\n",
		"xray basic\nenter 10 tsc=100\nexit 10 tsc=50\nexit 11 tsc=20\nenter 20 tsc=10\nenter 10 tsc=18446744073709551615\n",
	} {
		b, err := tracetext.Parse(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, trace []byte) {
		var first string
		for _, shards := range []int{1, 2} {
			tr, err := reader.OpenReaderAt(bytes.NewReader(trace), int64(len(trace)), "trace")
			if err != nil {
				return
			}
			opts := locks.Options{Shards: shards, Limit: 3, Function: func(fn reader.FuncID) locks.Function { return describe(fn & 31) }}
			r, _, err := locks.Analyze(tr, opts)
			if err != nil {
				return
			}
			var b bytes.Buffer
			if err := write(&b, r, nil, locks.View{}); err != nil {
				t.Fatal(err)
			}
			if shards > 1 && b.String() != first {
				t.Errorf("(-1 shard +2):\n%s", cmp.Diff(first, b.String()))
			}
			first = b.String()
		}
	})
}
