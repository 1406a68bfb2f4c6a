package shapes_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/clock"
	"github.com/xray-tools/xray/internal/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/shapes"
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
	return sink.Report(clock.Clock{Frequency: tracegen.Frequency})
}

func TestShardingChangesNothing(t *testing.T) {
	for _, exact := range []bool{false, true} {
		one := report(t, 1, shapes.Options{ExactCounts: exact})
		if diff := cmp.Diff(one, report(t, 4, shapes.Options{ExactCounts: exact})); diff != "" {
			t.Errorf("exact %v (-1 shard +4):\n%s", exact, diff)
		}
		if len(one.Shapes) < 10 {
			t.Errorf("exact %v: only %d shapes", exact, len(one.Shapes))
		}
	}
}

// Only the commonest shape differs in nothing from it, and every invocation has
// one shape.
func TestShapesAreApart(t *testing.T) {
	r := report(t, 2, shapes.Options{})
	var sum uint64
	for i, s := range r.Shapes {
		sum += s.Count
		if s.Count > r.Shapes[0].Count {
			t.Errorf("shape %d is commoner than the first", i)
		}
		if (len(s.Differences) == 0) != (i == 0) {
			t.Errorf("shape %d differs in %v", i, s.Differences)
		}
	}
	if sum != r.Invocations || r.Others != 0 {
		t.Errorf("%d invocations in shapes, %d in others, %d in all", sum, r.Others, r.Invocations)
	}
}

// What is not kept apart is counted.
func TestLimit(t *testing.T) {
	all := report(t, 1, shapes.Options{})
	for _, shards := range []int{1, 3} {
		r := report(t, shards, shapes.Options{Limit: 5})
		sum := r.Others
		for _, s := range r.Shapes {
			sum += s.Count
		}
		if len(r.Shapes) != 5 || r.Others == 0 || sum != all.Invocations || r.Invocations != all.Invocations {
			t.Errorf("%d shards: %d shapes, %d others, %d of %d invocations", shards, len(r.Shapes), r.Others, sum, all.Invocations)
		}
	}
}
