//go:build linux && amd64

package locks_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// A real program has the convoy that it was written to have.
func TestProgram(t *testing.T) {
	testenv.Need(t, "clang++-22")
	dir := t.TempDir()
	program := filepath.Join(dir, "locks")
	compile := exec.Command("clang++-22", "-std=c++17", "-O2", "-pthread", "-fxray-instrument",
		filepath.Join("..", "..", "testdata", "src", "locks.cc"), "-o", program)
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic verbosity=0 xray_logfile_base="+dir+"/log.",
		"XRAY_BASIC_OPTIONS=func_duration_threshold_us=0")
	said, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var address [4]uint64
	if _, err := fmt.Sscanf(string(said), "%v %v %v %v", &address[0], &address[1], &address[2], &address[3]); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	logs, _ := filepath.Glob(dir + "/log.*")
	trace, err := reader.Open(reader.Options{}, logs...)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	frequency, err := trace.CycleFrequency()
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := locks.Analyze(trace, locks.Options{Clock: reader.Clock{Frequency: frequency}, Function: func(fn reader.FuncID) locks.Function {
		switch symbolize.Label(table, fn) {
		case "Mutex::lock()":
			return locks.Function{Role: locks.Lock, Class: "Mutex"}
		case "Mutex::unlock()":
			return locks.Function{Role: locks.Unlock, Class: "Mutex"}
		}
		return locks.Function{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	find := func(address uint64) *locks.LockReport {
		i := slices.IndexFunc(r.Locks, func(l locks.LockReport) bool { return l.Logged && l.Address == address })
		if i < 0 {
			t.Fatalf("no lock at %#x in %+v", address, r.Locks)
		}
		return &r.Locks[i]
	}
	last := func(path []reader.FuncID) string {
		name, _, _ := strings.Cut(symbolize.Label(table, path[len(path)-1]), "(")
		return name
	}
	journal, statistics := find(address[0]), find(address[1])
	if journal.Waits.Count != 4 || journal.Holds.Count != 4 || statistics.Waits.Count != 50 || statistics.Holds.Count != 50 {
		t.Errorf("wrong counts: journal taken %d times, held %d times; statistics %d and %d", journal.Waits.Count, journal.Holds.Count,
			statistics.Waits.Count, statistics.Holds.Count)
	}
	if most := journal.Convoys[0]; most.Most != 3 || most.Waits != 3 || !most.Held || last(most.Path) != "flushJournal" {
		t.Errorf("wrong longest convoy: %+v", most)
	}
	// On a busy machine any thread may be stopped anywhere, so the test does not check which is
	// longest.
	blamed := slices.ContainsFunc(journal.Blame, func(b locks.Blame) bool {
		return last(b.Waiter) == "appendJournal" && last(b.Holder) == "flushJournal" && b.Ticks > frequency/1000
	})
	if !blamed {
		t.Errorf("wrong blame: %+v", journal.Blame)
	}
	if len(statistics.Blame) > 0 || len(statistics.Convoys) > 0 {
		t.Errorf("statistics: unexpected blame or convoys: %+v, %+v", statistics.Blame, statistics.Convoys)
	}
	spent := slices.ContainsFunc(journal.HoldPaths, func(p locks.PathReport) bool {
		return last(p.Path) == "flushJournal" && slices.ContainsFunc(p.Self, func(s locks.SelfReport) bool {
			return last([]reader.FuncID{s.Func}) == "mergeRuns" && s.Ticks > frequency/1000
		})
	})
	if !spent {
		t.Errorf("wrong holds: %+v", journal.HoldPaths)
	}
	if len(r.Cycles) != 1 || len(r.Cycles[0].Edges) != 2 {
		t.Fatalf("wrong cycles: %+v", r.Cycles)
	}
	for _, e := range r.Cycles[0].Edges {
		if held := r.Locks[e.Held].Address; held != address[2] && held != address[3] {
			t.Errorf("wrong cycle: %+v", r.Cycles[0])
		}
	}
}
