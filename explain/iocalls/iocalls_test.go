package iocalls_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/internal/test/schedtrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// journal analyzes a recorded program with known calls. See testdata/README.md.
func journal(t *testing.T, shards int) (*iocalls.Report, symbolize.Names) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, filepath.Join("..", "..", "testdata", "journal-recorded.xray"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	opened, err := symbolize.Open(trace, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	names, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards}, iocalls.NewNames)
	if err != nil {
		t.Fatal(err)
	}
	names.Settle(nil)
	opts := iocalls.Options{Names: names, Role: func(fn reader.FuncID) iocalls.Role {
		return iocalls.RoleOf(symbolize.Label(opened.Names, fn))
	}}
	sink, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards, Paths: true}, func() *iocalls.Analysis { return iocalls.New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return sink.Report(reader.Clock{Frequency: 1_000_000_000}), opened.Names
}

func TestJournal(t *testing.T) {
	r, names := journal(t, 1)
	file := func(name string) iocalls.File {
		i := slices.IndexFunc(r.Files, func(f iocalls.File) bool { return strings.HasSuffix(f.Name, name) })
		if i < 0 {
			t.Fatalf("no %s in %+v", name, r.Files)
		}
		return r.Files[i]
	}
	// 64 writes, 4 syncs, 2 opens, 2 closes, 3 reads of pages and 1 of the end.
	if f := file("journal.log"); f.Calls != 76 || f.Written != 64*144 || f.Read != 64*144 || f.Failed != 0 {
		t.Errorf("got %+v", f)
	}
	// 20 requests and answers counted at both ends, a read of the end, and the shutdown.
	if f := file("socket"); f.Calls != 82 || f.Written != 20*(17+2) || f.Read != 20*(17+2) {
		t.Errorf("got %+v", f)
	}
	path := func(list []iocalls.Path, function, caller string) iocalls.Path {
		i := slices.IndexFunc(list, func(p iocalls.Path) bool {
			return symbolize.Label(names, p.Func) == function && len(p.Path) > 0 && symbolize.Label(names, p.Path[len(p.Path)-1]) == caller
		})
		if i < 0 {
			t.Fatalf("no %s by %s in %+v", function, caller, list)
		}
		return list[i]
	}
	if p := path(r.Paths, "fsync", "flushJournal"); p.Calls != 4 || !strings.HasSuffix(p.File, "journal.log") || len(p.Path) != 3 {
		t.Errorf("got %+v", p)
	}
	if p := path(r.Paths, "pread", "verifyPages"); p.Calls != 4 || p.Read != 64*144 {
		t.Errorf("got %+v", p)
	}
	if p := path(r.Waits, "epoll_wait", "ask"); p.Calls != 20 || p.File != "" || r.Wait.Calls != 20 {
		t.Errorf("got %+v", p)
	}
	var sum uint64
	for _, p := range r.Paths {
		sum += p.Ticks
	}
	if sum != r.Total.Ticks {
		t.Errorf("paths sum to %d ticks, want %d as in total", sum, r.Total.Ticks)
	}
}

func TestShardingChangesNothing(t *testing.T) {
	one, _ := journal(t, 1)
	four, _ := journal(t, 4)
	if diff := cmp.Diff(one, four); diff != "" {
		t.Errorf("(-1 shard +4):\n%s", diff)
	}
}

// Off-CPU times belong to the calls in which threads were blocked or waited to run.
func TestTimesOffCPU(t *testing.T) {
	trace := schedtrace.Open(t, []string{"100 +10 200 +20(3) 900 !600/100 910 -20 1000 +21(1) 1700 !650/0 1710 -21 1800 !50/50 1900 -10", "100 +20(4) 150 -20"}, nil)
	off := &reader.Clock{Frequency: 1e9}
	names, _, err := calls.Run(calls.Source(trace), calls.Options{}, iocalls.NewNames)
	if err != nil {
		t.Fatal(err)
	}
	names.Settle(nil)
	opts := iocalls.Options{Names: names, OffCPU: true, Role: func(fn reader.FuncID) iocalls.Role {
		return map[reader.FuncID]iocalls.Role{20: iocalls.Read, 21: iocalls.Wait}[fn]
	}}
	sink, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true, OffCPU: off}, func() *iocalls.Analysis { return iocalls.New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	r := sink.Report(*off)
	if s := r.Total; s.Calls != 2 || s.Blocked != 500 || s.Queued != 100 || s.Ticks != 760 {
		t.Errorf("got %+v", s)
	}
	if s := r.Wait; s.Calls != 1 || s.Blocked != 650 || s.Queued != 0 {
		t.Errorf("got %+v", s)
	}
	if len(r.Files) != 2 || r.Files[0].Name != "descriptor 3" || r.Files[0].Blocked != 500 || r.Files[1].Blocked != 0 {
		t.Errorf("got %+v", r.Files)
	}
}
