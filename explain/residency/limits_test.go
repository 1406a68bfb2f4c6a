package residency_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// jsonOf runs the analysis with call paths or with the entries of calls.
func jsonOf(t *testing.T, src calls.Source, run calls.Options, opts residency.Options) (string, error) {
	t.Helper()
	sink, _, err := calls.Run(src, run, func() *residency.Analysis { return residency.New(opts) })
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	doc := &report.Doc{Body: sink.Report(reader.Clock{Frequency: 1e9}).Body(nil, residency.View{})}
	if err := doc.Write(&b, report.Style{Format: report.JSON}); err != nil {
		t.Fatal(err)
	}
	return b.String(), nil
}

// If there are too many call paths, the analysis gives the same results from the entries of calls.
func TestEntriesInsteadOfPaths(t *testing.T) {
	for seed := range uint64(20) {
		src := random(rand.New(rand.NewPCG(seed, 1)), 3)
		opts := residency.Options{To: 5000, Gap: 20, Cells: 30, Top: 5, Wait: waits}
		if seed%2 == 0 {
			opts.Func = func(fn reader.FuncID) bool { return fn == 2 || fn == 4 }
		}
		byPaths, err := jsonOf(t, src, calls.Options{Paths: true}, opts)
		if err != nil {
			t.Fatal(err)
		}
		byEntries, err := jsonOf(t, src, calls.Options{Opens: true}, opts)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byPaths, byEntries); diff != "" {
			t.Fatalf("seed %d: (-paths +entries):\n%s", seed, diff)
		}
	}
	var trace bytes.Buffer
	if _, err := tracegen.Generate(&trace, tracegen.Options{Records: 4_000_000, Random: true, Threads: 2, Functions: 5000}); err != nil {
		t.Fatal(err)
	}
	src, err := reader.OpenReaderAt(bytes.NewReader(trace.Bytes()), int64(trace.Len()), "generated")
	if err != nil {
		t.Fatal(err)
	}
	opts := residency.Options{To: 1e18, Cells: 10, Top: 5}
	if _, err := jsonOf(t, src, calls.Options{Shards: 1, Paths: true}, opts); !errors.Is(err, residency.ErrPaths) {
		t.Errorf("too many call paths: got error %v", err)
	}
}

// Many threads with long lives get fewer cells each. Threads with short lives get as many as
// requested.
func TestFitCells(t *testing.T) {
	lives := func(n int, ticks uint64) (list []residency.Life) {
		for i := range uint64(n) {
			from := i * 7919 % (1e6 - ticks)
			list = append(list, residency.Life{First: from, Last: from + ticks})
		}
		return list
	}
	for _, test := range []struct {
		lives       []residency.Life
		least, most int
	}{
		{lives(10, 999_999), 1000, 1000},
		{lives(300_000, 10), 1000, 1000},
		{lives(100_000, 999_999), 10, 25},
		{lives(10_000_000, 999_999), 1, 2},
		{nil, 1000, 1000},
	} {
		got := residency.FitCells(1000, 0, 1e6, test.lives)
		if got < test.least || got > test.most {
			t.Errorf("%d threads: got %d cells", len(test.lives), got)
		}
	}
}
