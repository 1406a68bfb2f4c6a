package calls_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// fiberBlocks are blocks of one thread with fibers.
type fiberBlocks struct{ blocks }

func (fiberBlocks) Fiber(th reader.Thread, number uint32) (reader.Thread, int, error) {
	return th.OfFiber(number), int(number), nil
}

// ofStacks has the calls and the blocked time of each stack.
type ofStacks map[int32][]string

func (s ofStacks) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		s[b.Thread.Fiber()] = append(s[b.Thread.Fiber()], fmt.Sprintf("#%d depth %d: %d to %d, %v", c.Func, c.Depth, c.Start, c.Start+c.Duration, c.End))
	}
	for _, a := range b.Args {
		s[b.Thread.Fiber()] = append(s[b.Thread.Fiber()], fmt.Sprintf("#%d with %d", b.Calls[a.Call].Func, a.Value))
	}
	for _, g := range b.Gaps {
		s[b.Thread.Fiber()] = append(s[b.Thread.Fiber()], fmt.Sprintf("blocked %d to %d in #%d", g.To-g.Blocked, g.To, g.Func))
	}
	return nil
}

func (s ofStacks) Merge(ofStacks) {}

// However a thread switches between stacks, and wherever blocks end, each stack has its own calls, with their arguments.
func TestFibers(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		type open struct {
			fn    reader.FuncID
			start uint64
		}
		stacks := make([][]open, 4)
		want := make(ofStacks)
		left, seen := make([]uint64, len(stacks)), make([]bool, len(stacks)) // when the stack ceased to run, and whether it has records
		var list blocks
		b := &reader.Block{}
		on, tsc := 0, uint64(10)
		add := func(e reader.Event) {
			e.TSC = tsc
			b.Events = append(b.Events, e)
		}
		note := func(format string, args ...any) {
			want[int32(on)] = append(want[int32(on)], fmt.Sprintf(format, args...))
		}
		for range 300 {
			tsc += 1 + rnd.Uint64N(9)
			if rnd.IntN(20) == 0 {
				list, b = append(list, b), &reader.Block{}
			}
			switch s := stacks[on]; {
			case rnd.IntN(4) == 0:
				to := rnd.IntN(len(stacks))
				b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: reader.AppendStack(nil, uint32(to), 1<<40)})
				add(reader.Event{Kind: reader.Custom, Side: true})
				if to == on { // as at the beginning of a chunk
					seen[on] = true
					break
				}
				if seen[on] {
					left[on] = tsc
				}
				on, seen[to] = to, true
				if left[to] > 0 {
					innermost := reader.FuncID(0)
					if n := len(stacks[to]); n > 0 {
						innermost = stacks[to][n-1].fn
					}
					note("blocked %d to %d in #%d", left[to], tsc, innermost)
				}
			case len(s) > 0 && rnd.IntN(2) == 0:
				seen[on] = true
				last := s[len(s)-1]
				add(reader.Event{Func: last.fn, Kind: reader.Exit})
				stacks[on] = s[:len(s)-1]
				note("#%d depth %d: %d to %d, %v", last.fn, len(s)-1, last.start, tsc, calls.Exited)
				if last.fn%5 == 0 {
					note("#%d with %d", last.fn, last.start)
				}
			default:
				seen[on] = true
				fn := reader.FuncID(1 + rnd.IntN(30))
				e := reader.Event{Func: fn, Kind: reader.Enter}
				if fn%5 == 0 {
					e.Kind, e.Side = reader.EnterArg, true
					b.Args = append(b.Args, reader.Arg{Event: len(b.Events), Value: tsc})
				}
				stacks[on] = append(s, open{fn, tsc})
				add(e)
			}
		}
		list = append(list, b)
		for k, s := range stacks {
			if len(s) > 0 {
				want[int32(k)] = append(want[int32(k)], fmt.Sprintf("%d open", len(s)))
			}
		}
		got, stats, err := calls.Run(fiberBlocks{list}, calls.Options{Shards: 1, OffCPU: &reader.Clock{Frequency: 1e9}}, func() ofStacks { return ofStacks{} })
		if err != nil {
			t.Fatal(err)
		}
		if stats.Unmatched+stats.Inferred+stats.Stacks != 0 {
			t.Fatalf("seed %d: %+v", seed, stats)
		}
		for k, lines := range got {
			closed := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return len(line) > 9 && line[len(line)-9:] == "truncated" })
			// Arguments of open calls are passed with them.
			if n := len(lines) - len(closed); n > 0 {
				closed = append(closed, fmt.Sprintf("%d open", n))
			}
			for _, o := range stacks[k] {
				if i := slices.Index(closed, fmt.Sprintf("#%d with %d", o.fn, o.start)); i >= 0 {
					closed = slices.Delete(closed, i, i+1)
				}
			}
			slices.Sort(closed)
			slices.Sort(want[k])
			if diff := gocmp.Diff(want[k], closed); diff != "" {
				t.Fatalf("seed %d, stack %d (-want +got):\n%s", seed, k, diff)
			}
		}
	}
}

// If a source cannot tell fibers apart, the calls are mixed, and the run says so.
func TestFibersOfUnknownSources(t *testing.T) {
	b := &reader.Block{
		Events:   []reader.Event{{TSC: 1, Func: 1, Kind: reader.Enter}, {TSC: 2, Kind: reader.Custom, Side: true}, {TSC: 3, Func: 2, Kind: reader.Enter}},
		Payloads: []reader.Payload{{Event: 1, Data: reader.AppendStack(nil, 1, 0)}},
	}
	if _, stats, err := calls.Run(blocks{b}, calls.Options{Shards: 1}, func() ofStacks { return ofStacks{} }); err != nil || stats.Stacks != 1 {
		t.Errorf("got %+v, %v", stats, err)
	}
}
