package calls_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// enters and leaves makes a block with a record every 10 ticks: entries of functions, and exits of
// negative ones.
func enters(fns ...int) *reader.Block {
	b := &reader.Block{}
	for i, fn := range fns {
		e := reader.Event{TSC: 100 + 10*uint64(i), Func: reader.FuncID(max(fn, -fn)), Kind: reader.Enter}
		if fn < 0 {
			e.Kind = reader.Exit
		}
		b.Events = append(b.Events, e)
	}
	return b
}

// told lists calls as text, in the order in which they end.
type told []string

func (l *told) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		*l = append(*l, fmt.Sprintf("%d in %d at %d: %d %v", c.Func, c.Caller, c.Depth, c.Duration, c.End))
	}
	return nil
}

func (l *told) Merge(*told) {}

// next says that each function calls only the next one, and that 4 calls any.
func next(from, to reader.FuncID) bool { return from+1 == to || to == 4 }

func tell(t *testing.T, b *reader.Block, opts calls.Options) (told, *calls.Stats) {
	t.Helper()
	var first told
	var stats *calls.Stats
	opts.Shards = 1
	for i, src := range []calls.Source{blocks{b}, packed{blocks{b}, false}, packed{blocks{b}, true}} {
		got, s, err := calls.Run(src, opts, func() *told { return new(told) })
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first, stats = *got, s
		} else if diff := gocmp.Diff(first, *got); diff != "" {
			t.Fatalf("packed (-want +got):\n%s", diff)
		}
	}
	return first, stats
}

// An entry ends the open calls that cannot have made it. Without that, they last until their caller
// ends.
func TestLeft(t *testing.T) {
	b := enters(1, 2, 3, 4, -4, 2, 3, -3, -2, -1)
	got, stats := tell(t, b, calls.Options{Nested: true, Paths: true, Code: calls.Code{CanCall: next}})
	want := told{
		"4 in 3 at 3: 10 exited", "3 in 2 at 2: 30 left", "2 in 1 at 1: 40 left",
		"3 in 2 at 2: 10 exited", "2 in 1 at 1: 30 exited", "1 in 0 at 0: 90 exited",
	}
	if diff := gocmp.Diff(want, got); diff != "" || stats.Left != 2 || stats.Unmatched != 0 {
		t.Errorf("%+v (-want +got):\n%s", stats, diff)
	}
	got, stats = tell(t, b, calls.Options{})
	if stats.Left != 0 || stats.Inferred != 2 || got[len(got)-1] != "1 in 0 at 0: 90 exited" {
		t.Errorf("got %+v: %q", stats, got)
	}
}

// Nothing ends if no open call can have made the entry. Outermost calls may be of any function.
func TestNotLeft(t *testing.T) {
	got, stats := tell(t, enters(2, 3, 7, 8, -8, -7, -3, -2, 7, -7), calls.Options{Code: calls.Code{CanCall: next}})
	want := told{"8 in 7 at 3: 10 exited", "7 in 3 at 2: 30 exited", "3 in 2 at 1: 50 exited", "2 in 0 at 0: 70 exited", "7 in 0 at 0: 10 exited"}
	if diff := gocmp.Diff(want, got); diff != "" || stats.Left != 0 {
		t.Errorf("%+v (-want +got):\n%s", stats, diff)
	}
}

// All open calls end if none of them can lead to the entry, not even by calls that the trace lacks.
func TestAllLeft(t *testing.T) {
	code := calls.Code{CanCall: next, CanReach: func(from, to reader.FuncID) bool { return from < to }}
	// 7 may be called by 6, which 2 or 3 may have called. 2 is called by 1 alone.
	got, stats := tell(t, enters(2, 3, 7, -7, 2, 3, 2, -2), calls.Options{Code: code})
	want := told{"7 in 3 at 2: 10 exited", "3 in 2 at 1: 30 left", "2 in 0 at 0: 40 left", "3 in 2 at 1: 10 left", "2 in 0 at 0: 20 left", "2 in 0 at 0: 10 exited"}
	if diff := gocmp.Diff(want, got); diff != "" || stats.Left != 4 || stats.Unmatched != 0 {
		t.Errorf("%+v (-want +got):\n%s", stats, diff)
	}
	// They went on after all. That happens once.
	got, stats = tell(t, enters(4, 2, -2, -4, 4, 2, -2, -4), calls.Options{Code: code})
	want = told{"4 in 0 at 0: 10 left", "2 in 0 at 0: 10 exited", "2 in 4 at 1: 10 exited", "4 in 0 at 0: 30 exited"}
	if diff := gocmp.Diff(want, got); diff != "" || stats.Left != 1 || stats.Unmatched != 1 {
		t.Errorf("%+v (-want +got):\n%s", stats, diff)
	}
}

// If a call that was considered left returns after all, it is not considered left again.
func TestLeftInError(t *testing.T) {
	for _, alias := range []bool{false, true} {
		opts := calls.Options{Code: calls.Code{CanCall: next}}
		if alias {
			opts.Alias = func(fn reader.FuncID) reader.FuncID { return fn + 10 }
		}
		got, stats := tell(t, enters(1, 2, 3, 2, -2, -3, -2, 2, 3, 2, -2, -3, -2, -1), opts)
		if stats.Left != 2 || stats.Unmatched != 2 || stats.Inferred != 0 {
			t.Errorf("alias %v: got %+v, %q", alias, stats, got)
		}
	}
}
