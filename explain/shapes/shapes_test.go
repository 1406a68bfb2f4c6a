package shapes_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/shapes"
	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func report(t *testing.T, shards int, opts shapes.Options) *shapes.Report {
	t.Helper()
	var log bytes.Buffer
	if _, err := tracegen.Generate(&log, tracegen.Options{Format: tracegen.FDR, Records: 60_000, Threads: 5, Functions: 100}); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(log.Bytes()), int64(log.Len()), "trace")
	if err != nil {
		t.Fatal(err)
	}
	opts.Root = func(id reader.FuncID) bool { return id%7 == 0 }
	sink, _, err := calls.Run(trace, calls.Options{Shards: shards, Paths: true}, func() *shapes.Analysis { return shapes.New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return sink.Report(reader.Clock{Frequency: tracegen.Frequency})
}

func TestShardingChangesNothing(t *testing.T) {
	for _, exact := range []bool{false, true} {
		one := report(t, 1, shapes.Options{ExactCounts: exact})
		if diff := cmp.Diff(one, report(t, 4, shapes.Options{ExactCounts: exact})); diff != "" {
			t.Errorf("exact %v (-1 shard +4):\n%s", exact, diff)
		}
		if len(one.Shapes) < 10 {
			t.Errorf("exact %v: got only %d shapes", exact, len(one.Shapes))
		}
	}
}

// Only the most common shape has no differences, and every invocation has exactly one shape.
func TestShapesAreApart(t *testing.T) {
	r := report(t, 2, shapes.Options{})
	var sum uint64
	for i, s := range r.Shapes {
		sum += s.Count
		if s.Count > r.Shapes[0].Count {
			t.Errorf("shape %d is more common than the first", i)
		}
		if (len(s.Differences) == 0) != (i == 0) {
			t.Errorf("shape %d has differences %v", i, s.Differences)
		}
	}
	if sum != r.Invocations || r.Full {
		t.Errorf("got %d invocations in shapes, want %d; full %v", sum, r.Invocations, r.Full)
	}
}

// The report says that shapes exceeded the limit, however threads are distributed over shards.
func TestFull(t *testing.T) {
	all := report(t, 1, shapes.Options{})
	for _, shards := range []int{1, 2, 5} {
		for _, c := range []struct {
			limit int
			full  bool
		}{{len(all.Shapes) - 1, true}, {len(all.Shapes), false}} {
			r := report(t, shards, shapes.Options{Limit: c.limit})
			if r.Full != c.full || !r.Full && !cmp.Equal(all, r) {
				t.Errorf("%d shards, limit %d of %d: got full %v", shards, c.limit, len(all.Shapes), r.Full)
			}
		}
	}
}

// A full shard may have no more shapes than the others.
func TestFullInOneShard(t *testing.T) {
	const x, y = "enter 1 +1\nexit 1 +1\n", "enter 1 +1\nenter 2 +1\nexit 2 +1\nexit 1 +1\n"
	trace := texttrace.Open(t, "xray fdr\nthread 1 pid=1 tsc=1000\n"+x+"thread 2 pid=1 tsc=1000\n"+x+y)
	var shards [2]*shapes.Analysis
	for i := range shards {
		run := calls.Options{Shards: 1, Paths: true}
		run.Filter.Thread = func(th reader.Thread) bool { return th.Thread == int32(i+1) }
		opts := shapes.Options{Root: func(id reader.FuncID) bool { return id == 1 }, Limit: 1}
		var err error
		if shards[i], _, err = calls.Run(trace, run, func() *shapes.Analysis { return shapes.New(opts) }); err != nil {
			t.Fatal(err)
		}
	}
	if shards[0].Full() || !shards[1].Full() {
		t.Errorf("got full %v and %v", shards[0].Full(), shards[1].Full())
	}
	if shards[0].Merge(shards[1]); !shards[0].Full() {
		t.Error("got not full after the merge")
	}
}

// If new shapes replace the rarest ones, counts are within the stated error and no common shape is
// missing.
func TestReplace(t *testing.T) {
	for _, exact := range []bool{false, true} {
		all := report(t, 1, shapes.Options{ExactCounts: exact})
		counts := make(map[uint64]uint64)
		for _, s := range all.Shapes {
			counts[s.ID] = s.Count
		}
		for limit := 1; limit < len(all.Shapes); limit += 1 + limit/4 {
			r := report(t, 1, shapes.Options{ExactCounts: exact, Limit: limit, Replace: true})
			if !r.Full || r.Invocations != all.Invocations || len(r.Shapes) != limit {
				t.Fatalf("limit %d: got full %v, %d invocations of %d, %d shapes", limit, r.Full, r.Invocations, all.Invocations, len(r.Shapes))
			}
			kept := make(map[uint64]bool)
			for _, s := range r.Shapes {
				kept[s.ID] = true
				if real := counts[s.ID]; real > s.Count || real < s.Count-s.Error {
					t.Errorf("limit %d: got %[3]d to %[4]d invocations, want %[2]d", limit, real, s.Count-s.Error, s.Count)
				}
				if s.Error > r.Invocations/uint64(limit) {
					t.Errorf("limit %d: a shape of %d to %d of %d invocations replaced a common one", limit, s.Count-s.Error, s.Count, r.Invocations)
				}
			}
			for id, n := range counts {
				if n > r.Invocations/uint64(limit) && !kept[id] {
					t.Errorf("limit %d: missing shape of %d of %d invocations", limit, n, r.Invocations)
				}
			}
		}
		// Without a shortage of room, nothing is replaced.
		r := report(t, 1, shapes.Options{ExactCounts: exact, Limit: len(all.Shapes), Replace: true})
		if diff := cmp.Diff(all, r); diff != "" {
			t.Errorf("(-without +with replacement):\n%s", diff)
		}
	}
}
