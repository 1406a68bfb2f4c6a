package calls_test

import (
	"errors"
	"testing"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// holder holds 1000 bytes for each function, and as much for each function of each thread.
type holder struct {
	functions map[reader.FuncID]bool
	cells     map[[2]int32]bool
}

func newHolder() *holder {
	return &holder{functions: map[reader.FuncID]bool{}, cells: map[[2]int32]bool{}}
}

func (h *holder) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		h.functions[b.Calls[i].Func] = true
		h.cells[[2]int32{int32(b.Index), int32(b.Calls[i].Func)}] = true
	}
	return nil
}

func (h *holder) Merge(o *holder) {
	for fn := range o.functions {
		h.functions[fn] = true
	}
	for c := range o.cells {
		h.cells[c] = true
	}
}

func (h *holder) Memory() int64 { return 1000 * int64(len(h.functions)+len(h.cells)) }

// Whether a run needs too much memory does not depend on the number of shards: what several of them
// hold counts once. Unmatched exits are reported once, and path budgets are independent.
func TestMemory(t *testing.T) {
	trace := random(t, tracegen.Options{Records: 100_000, Random: true, Threads: 8, Functions: 100, Seed: 3})
	all, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1}, newHolder)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.functions) != 100 || len(all.cells) != 800 {
		t.Fatalf("the trace has %d functions and %d cells", len(all.functions), len(all.cells))
	}
	const stacks = 8 * 256 * 48 // the open calls of the threads
	for _, shards := range []int{1, 2, 5} {
		for _, budget := range []int{0, 1000, 1 << 20} {
			for _, unmatched := range []bool{false, true} {
				reported := uint64(0)
				run := func(most int64) (*holder, *calls.Stats, error) {
					opts := calls.Options{Shards: shards, Memory: most}
					if budget > 0 {
						opts.Paths, opts.Budget = true, calls.NewPathBudget(budget)
					}
					if unmatched {
						reported = 0
						opts.Unmatched = func(*calls.Unmatched) error { reported++; return nil }
						opts.Shards = 1 // not concurrently
					}
					return calls.Run(calls.Source(trace), opts, newHolder)
				}
				sink, stats, err := run(all.Memory() + stacks)
				if err != nil || sink.Memory() != all.Memory() {
					t.Errorf("%d shards, budget %d: %v", shards, budget, err)
				} else if unmatched && reported != stats.Unmatched {
					t.Errorf("%d of %d unmatched exits were reported", reported, stats.Unmatched)
				}
				var over *calls.MemoryError
				if _, _, err := run(all.Memory() - 1); !errors.As(err, &over) || over.Limit != all.Memory()-1 {
					t.Errorf("%d shards, budget %d: error %v", shards, budget, err)
				}
			}
		}
	}
}

// Open calls count, however few a sink keeps of them.
func TestMemoryOfStacks(t *testing.T) {
	var threads blocks
	for i := range 4 {
		b := &reader.Block{Thread: thread(i), Index: i}
		for j := range 1000 {
			b.Events = append(b.Events, reader.Event{TSC: uint64(j), Kind: reader.Enter, Func: 1})
		}
		threads = append(threads, b)
	}
	for _, shards := range []int{1, 3} {
		for _, most := range []int64{10_000, 10 << 20} {
			_, _, err := calls.Run(threads, calls.Options{Shards: shards, Memory: most}, func() *collector { return &collector{} })
			if over := errors.As(err, new(*calls.MemoryError)); over != (most < 20_000) {
				t.Errorf("%d shards, %d bytes: error %v", shards, most, err)
			}
		}
	}
}

var _ = []calls.MemoryUser{(*account.Analysis)(nil), (*holder)(nil)}
