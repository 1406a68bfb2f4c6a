//go:build linux && amd64

package locks_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// For a program without sleds, locks are found from its calls of the C library.
func TestLibc(t *testing.T) {
	testenv.Need(t, "gcc", "ar")
	dir := t.TempDir()
	program := filepath.Join(dir, "libcalls")
	compile := exec.Command("gcc", "-O1", "-w", filepath.Join("..", "..", "recorder", "testdata", "libcalls.c"), "-o", program, "-pthread")
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	library, err := build.Runtime(context.Background(), "gcc")
	if err != nil {
		t.Fatal(err)
	}
	entry, _, err := build.PreloadEnvironment(library, "", "locks")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "locks")
	cmd.Env = append(os.Environ(), entry, recorder.EnvVar+"=output="+dir+"/trace")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	trace, err := reader.Open(reader.Options{}, filepath.Join(dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	opened, err := symbolize.Open(trace, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	r, _, err := locks.Analyze(trace, locks.Options{Clock: reader.Clock{Frequency: 1_000_000_000}, Function: locks.ByName(opened.Names, nil, nil, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Orphans != 0 || r.Handed != 0 || r.Gaps != 0 || len(r.Stuck) != 0 {
		t.Errorf("got %d unlocks without a lock, %d by another thread, %d holds without an end, %d stuck", r.Orphans, r.Handed, r.Gaps, len(r.Stuck))
	}
	type counts struct{ waits, tries, holds uint64 }
	got := map[string]counts{}
	for _, l := range r.Locks {
		name := symbolize.Label(opened.Names, l.Func)
		got[name] = counts{l.Waits.Count, l.Tries, l.Holds.Count}
	}
	// Failed attempts take no lock, and each wait for a condition splits a hold in two.
	want := map[string]counts{
		"pthread_mutex_lock": {1003, 0, got["pthread_mutex_lock"].holds}, "pthread_rwlock_rdlock": {1, 0, 1},
		"pthread_spin_lock": {1, 0, 1}, "sem_wait": {1, 0, 0},
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: got %+v, want %+v", name, got[name], n)
		}
	}
	if n := got["pthread_mutex_lock"].holds; n < 1005 || n > 1010 {
		t.Errorf("got %d holds of the mutex", n)
	}
}

// If a wrapper leaves through a tail call, the lock belongs to the function that logs its address.
func TestTailCallOfLogged(t *testing.T) {
	r := analyze(t, open(t, trace(t, "100 +4 110 +20 120 ~20 130 +10(16) 140 -10 150 +21 160 ~21 170 +11(16) 180 -11 190 -4")), locks.Options{})
	if len(r.Locks) != 1 || !r.Locks[0].Logged || r.Locks[0].Waits.Count != 1 || r.Locks[0].Holds.Count != 1 || r.Orphans != 0 {
		t.Errorf("got %+v, %d unlocks without a lock", r.Locks, r.Orphans)
	}
	// Without such a function, the wrapper takes the lock.
	r = analyze(t, open(t, trace(t, "100 +4 110 +20 120 ~20 130 +2 140 -2 150 +21 160 ~21 190 -4")), locks.Options{})
	if len(r.Locks) != 1 || r.Locks[0].Logged || r.Locks[0].Waits.Count != 1 || r.Locks[0].Holds.Count != 1 {
		t.Errorf("got %+v", r.Locks)
	}
}
