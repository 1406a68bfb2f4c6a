//go:build linux && amd64

package recorder_test

import (
	"maps"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// tailSums are the calls of testdata/tailcalls.c by function.
type tailSums struct {
	count map[string]int64 // with those that the recorder dropped
	kept  map[string]int
	slow  map[string]int // whole calls of at least 5 ms
	under map[string]int // slow calls of sleeps, by caller
}

type tailSink struct {
	name func(reader.FuncID) string
	slow uint64
	sums *tailSums
}

func (tailSink) Merge(tailSink) {}

func (s tailSink) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		s.sums.count[s.name(c.Func)]++
		s.sums.kept[s.name(c.Func)]++
		if c.Duration < s.slow || c.Partial() {
			continue
		}
		if s.sums.slow[s.name(c.Func)]++; s.name(c.Func) == "sleeps" {
			s.sums.under[s.name(c.Caller)]++
		}
	}
	return nil
}

func tailSumsOf(t *testing.T, program, path string) *tailSums {
	t.Helper()
	table, trace := openNamed(t, program, path)
	name := func(id reader.FuncID) string {
		switch label := symbolize.Label(table, id); label {
		case "first", "second", "third":
			return "chain"
		case "even", "odd":
			return "loop"
		default:
			return label
		}
	}
	r := trace.Recording(0)
	slow := r.Clock.Frequency / 1000 * 49 / 10 // the clocks of sleeps and of the trace differ a little
	sums := &tailSums{map[string]int64{}, map[string]int{}, map[string]int{}, map[string]int{}}
	options := calls.Options{Shards: 1}
	options.Continue = symbolize.FindTailCalls(table).Continue
	if _, _, err := calls.Run(calls.Source(trace), options, func() tailSink { return tailSink{name, slow, sums} }); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Pruned.Functions {
		sums.count[name(p.Func)] += int64(p.Calls)
	}
	for _, p := range r.Profiles {
		for _, path := range p.Paths {
			sums.count[name(path.Func)] += int64(path.Count)
			if path.Max >= slow {
				sums.slow[name(path.Func)]++
			}
		}
	}
	return sums
}

// A call that goes on in its tail call is as long as both in each mode, as in a full recording.
func TestTailCallsInModes(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "tailcalls.c", "-O2", "-fxray-instruction-threshold=1")
	out, _, traces := recordProgram(t, &l, "mode=record", program, "10")
	want := counted(t, out)
	full := tailSumsOf(t, program, traces[0])
	if !maps.Equal(full.count, want) || full.slow["request"] < 10 || full.slow["chain"] < 30 || full.slow["sleeps"] < 21 {
		t.Fatalf("in full: %v, want %v", full, want)
	}
	for _, options := range []string{"mode=prune,threshold=4000000", "mode=prune,threshold=4000000,offcpu=0", "mode=depth,depth=200,threshold=4000000"} {
		_, stderr, traces := recordProgram(t, &l, options, program, "10")
		got := tailSumsOf(t, program, traces[0])
		if !maps.Equal(got.count, want) || stderr != "" {
			t.Errorf("%s: got calls %v, want %v; %s", options, got.count, want, stderr)
		}
		// Each slow call is kept, with its whole duration.
		if got.slow["request"] < 10 || got.slow["chain"] < 30 || got.slow["sleeps"] < 21 || got.slow["always"] < 1 {
			t.Errorf("%s: got slow calls %v", options, got.slow)
		}
	}
	// Nothing is slow: whatever the calls end in, none is kept but those that are always recorded, with the
	// tail calls in which they go on, and the call around all of them.
	for _, options := range []string{"mode=prune,threshold=1000000000000,offcpu=0", "mode=depth,depth=200,threshold=1000000000000,offcpu=0"} {
		_, stderr, traces := recordProgram(t, &l, options, program)
		got := tailSumsOf(t, program, traces[0])
		if !maps.Equal(got.count, want) || stderr != "" {
			t.Errorf("%s: got calls %v, want %v; %s", options, got.count, want, stderr)
		}
		// A call in which the thread was switched out is kept, too.
		for name, n := range got.kept {
			few := map[string]int{"always": 10, "sleeps": 10, "outer": 1}[name]
			if n < few || n > few+10 {
				t.Errorf("%s: got %d kept calls of %s, want %d", options, n, name, few)
			}
		}
	}
	_, stderr, traces := recordProgram(t, &l, "mode=profile", program, "10")
	got := tailSumsOf(t, program, traces[0])
	// The chain has three paths that are slow, and each way to sleeps has one.
	if !maps.Equal(got.count, want) || got.slow["request"] != 1 || got.slow["chain"] != 3 || got.slow["sleeps"] != 3 || stderr != "" {
		t.Errorf("profile: got %v, want %v; %s", got, want, stderr)
	}
}

// In windows, a call that goes on in its tail call is as long as both, too. It is in the trace if both are.
func TestTailCallsInWindows(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "tailcalls.c", "-O2", "-fxray-instruction-threshold=1")
	for _, mode := range []string{"mode=record", "mode=prune,threshold=4000000"} {
		_, stderr, traces := recordProgram(t, &l, mode+",window=50000000,every=60000000", program, "1")
		got := tailSumsOf(t, program, traces[0])
		if got.under["request"] < 10 || got.under["chain"] < 10 || stderr != "" {
			t.Errorf("%s: got slow calls of sleeps by caller %v; %s", mode, got.under, stderr)
		}
		for caller, calls := range map[string]int{"request": 1, "chain": 3, "always": 1} {
			if got.slow[caller] != calls*got.under[caller] {
				t.Errorf("%s: got %d slow calls of %s, want %d in each of %d tail calls", mode, got.slow[caller], caller, calls, got.under[caller])
			}
		}
	}
}
