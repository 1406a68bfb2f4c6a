//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/symbolize"
)

// ignoredCalls is an analysis that ignores calls, to get only the statistics.
type ignoredCalls struct{}

func (ignoredCalls) Calls(*calls.Batch) error { return nil }
func (ignoredCalls) Merge(ignoredCalls)       {}

// Within a budget, functions that are called often are not recorded, and their calls are counted or
// estimated. Recorded entries and exits match, also with recursion, signals and longjmp.
func TestBudget(t *testing.T) {
	program := buildProgram(t, "clang-22", "budget.c", "-O2", "-fxray-instruction-threshold=1")
	l := library(t)
	out, path := variant{program, &l}.runLimited(t, "mode=record,limited=1", 0.03)
	want := counted(t, out)
	table := namesOf(t, program)
	f := readTrace(t, path)
	b := &f.recording.Budget
	if b.Share != 30000 || len(b.Changes) == 0 {
		t.Errorf("got a budget of %d millionths and %d changes", b.Share, len(b.Changes))
	}
	listed := make(map[string]reader.BudgetFunction)
	for _, of := range b.Functions {
		listed[symbolize.Label(table, of.Func)] = of
	}
	recorded := make(map[string]int64)
	for id, n := range f.calls {
		recorded[symbolize.Label(table, id)] += int64(n)
	}
	for name, n := range want {
		of := listed[name]
		exact, all := recorded[name]+int64(of.Counted), recorded[name]+int64(of.Counted+of.Estimated)
		switch {
		case of.OffNS == 0 && exact != n:
			t.Errorf("%s was never off: %d calls recorded and %d counted, want %d", name, recorded[name], of.Counted, n)
		case exact > n:
			t.Errorf("%s: %d calls recorded and %d counted of %d", name, recorded[name], of.Counted, n)
		case of.OffNS > 0 && (all < n/3 || all > 3*n+1000):
			t.Errorf("%s: about %d calls, want %d: %+v", name, all, n, of)
		}
	}
	if n := recorded["often"]; n > want["often"]/2 || listed["often"].OffNS == 0 {
		t.Errorf("%d of %d calls of often were recorded", n, want["often"])
	}
	if recorded["kept"] != want["kept"] || recorded["rarely"] == 0 {
		t.Errorf("%d calls of kept and %d of rarely were recorded", recorded["kept"], recorded["rarely"])
	}
	checkBalanced(t, path)
}

// checkBalanced checks that entries and exits of a trace match.
func checkBalanced(t *testing.T, path string) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	_, stats, err := calls.Run(calls.Source(trace), calls.Options{}, func() ignoredCalls { return ignoredCalls{} })
	if err != nil || stats.Unmatched+stats.Inferred > 0 || stats.Left == 0 {
		t.Errorf("%v; %d exits without a call, %d calls without an exit, %d left", err, stats.Unmatched, stats.Inferred, stats.Left)
	}
}

// A runtime that records exits of calls that it has not recorded fails the test above.
func TestBudgetFindsExitsTooMany(t *testing.T) {
	archive := buildArchive(t, edit{"budget.c", "	return open;\n", "	return 1;\n"}, edit{"trampoline_amd64.S", "6:	ja	5f\n	CALL_WITH_RDX", "6:	CALL_WITH_RDX"})
	program := buildLinked(t, "clang-22", archive, "budget.c", "-fxray-instruction-threshold=1")
	_, path := variant{program, nil}.runLimited(t, "mode=record,limited=1", 0.03)
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	_, stats, err := calls.Run(calls.Source(trace), calls.Options{}, func() ignoredCalls { return ignoredCalls{} })
	if err != nil || stats.Unmatched+stats.Inferred == 0 {
		t.Errorf("the broken runtime passed: %v", err)
	}
}

// Without its observer, a process has no budget and records nothing.
func TestBudgetNeedsAnObserver(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "budget.c", "-O2", "-fxray-instruction-threshold=1")
	_, stderr, traces := recordProgram(t, &l, "limited=1,observer=xray-observer-of-nobody", program, "1")
	if len(traces) != 0 || stderr == "" {
		t.Errorf("got %d traces; stderr: %s", len(traces), stderr)
	}
}

// An observer sends its commands over one connection, which is not closed in favor of other clients.
func TestBudgetCommandsShareAConnection(t *testing.T) {
	o := observe.Options{Session: uint64(time.Now().UnixNano()), Key: observe.NewKey(), Output: filepath.Join(t.TempDir(), "%p"), Budget: 0.03}
	ob, _ := startObserver(t, o)
	t.Cleanup(func() { awaitIdle(ob) })
	pid := startControlled(t, "mode=record,limited=1,control=1,observer="+o.Address()+",session="+strconv.FormatUint(o.Session, 10))
	c, err := dial(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, command := range []string{"budget", "budget sample=1000", "budget"} {
		if _, err := c.Write([]byte(command)); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if answer := receive(t, c); answer["ok"] != true {
			t.Fatalf("%s: %v", command, answer)
		}
		for range 20 {
			mustAsk(t, pid, "status")
		}
	}
	// After another command, the connection is closed.
	if _, err := c.Write([]byte("status")); err != nil {
		t.Fatal(err)
	}
	receive(t, c)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the connection is still open after status: %d bytes, %v", n, err)
	}
}

// A snapshot of a process has the share that its observer keeps.
func TestShareInASnapshot(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "controlled.c", "-O1", "-fxray-instruction-threshold=1")
	options := recorder.Options{Settings: recorder.Settings{Budget: 0.03}, Ring: 1 << 20, Output: recorder.EscapeTemplate(t.TempDir()) + "/%p", Session: uint64(time.Now().UnixNano())}
	o := observe.For(&options)
	options.Observer = o.Address()
	_, settle := startObserver(t, o)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+l.Preload(), options.Environment())
	r := startPiped(t, cmd)
	if line := r.line(t); line != "ready" {
		t.Fatalf("the program printed %q", line)
	}
	p, err := client.Dial(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := p.Data(t.Context(), "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	if b := trace.Recording(0).Budget; b.Share != 30000 {
		t.Errorf("got a budget of %d millionths", b.Share)
	}
	r.end(t)
	if _, err := settle(); err != nil {
		t.Error(err)
	}
}

// startIdle starts a program with rings of this size, which does not record until a command starts it.
// It returns when the program accepts commands, and kills it at the end of the test.
func startIdle(t *testing.T, cmd *exec.Cmd, ring int64, preload ...string) {
	t.Helper()
	l := library(t)
	options := recorder.Options{Ring: ring, Idle: true}
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+strings.Join(append([]string{l.Preload()}, preload...), ":"), options.Environment())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := dial(cmd.Process.Pid)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A running process gets a budget for as long as its rings are read. Existing threads record balanced
// entries and exits each time, and everything in recordings without a budget in between.
func TestBudgetOfRunningProcess(t *testing.T) {
	program := buildProgram(t, "clang-22", "budget.c", "-O2", "-fxray-instruction-threshold=1")
	cmd := exec.Command(program, "1000000000")
	startIdle(t, cmd, 16<<20)
	for round := range 2 {
		often, path := recordLive(t, cmd.Process.Pid, " limited=30000")
		checkBalanced(t, path)
		// A thread that records everything overwrites chunks before they are read, so the entries of exits
		// are soon missing.
		if often.recorded == 0 || often.recorded > often.counted/10 || often.lost > 0 {
			t.Errorf("round %d: %d of %d calls were recorded, and %d chunks were overwritten", round, often.recorded, often.counted, often.lost)
		}
		if often, _ := recordLive(t, cmd.Process.Pid, ""); often.recorded < 100000 {
			t.Errorf("round %d: %d calls were recorded without a budget", round, often.recorded)
		}
	}
}

// liveCalls are calls of a function in a live recording.
type liveCalls struct {
	recorded, counted int64
	lost              uint64 // chunks of all threads that were overwritten before they were read
}

// recordLive records a process for a moment. It returns the calls of its function often, and the path
// of a trace of its rings.
func recordLive(t *testing.T, pid int, options string) (often liveCalls, path string) {
	t.Helper()
	ctx := t.Context()
	p, err := client.Dial(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	from := ring.ReadTSC() // the rings also have earlier records
	mustAsk(t, pid, "start mode=record"+options)
	var id reader.FuncID
	rings, err := live.Open(ctx, p, 64<<20, func(trace *reader.Trace) (r live.Roots, err error) {
		opened, err := symbolize.Open(trace, nil, symbolize.Search{})
		if err != nil {
			return r, err
		}
		defer opened.Close()
		r.Is = make([]bool, 1000)
		for i := range r.Is {
			name := symbolize.Label(opened.Names, reader.FuncID(i))
			r.Is[i] = name == "catcher"
			if name == "often" {
				id = reader.FuncID(i)
			}
		}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rings.Close()
	if options != "" {
		if err := rings.Limit(ctx, 0.03); err != nil {
			t.Fatal(err)
		}
	}
	// The rings have calls and chunks of earlier recordings, which may be overwritten before they are read.
	if _, err := rings.Read(ctx, func(live.RootCall) {}); err != nil {
		t.Fatal(err)
	}
	roots := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) || roots == 0; time.Sleep(time.Millisecond) {
		s, err := rings.Read(ctx, func(live.RootCall) { roots++ })
		if err != nil {
			t.Fatal(err)
		}
		often.lost += s.Lost
	}
	mustAsk(t, pid, "stop")
	if _, err := rings.Read(ctx, func(live.RootCall) {}); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "live.xray")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := rings.WriteTrace(out, from, rings.Newest(), func(*reader.Recording) {}); err != nil {
		t.Fatal(err)
	}
	f := readTrace(t, path)
	often.recorded = int64(f.calls[id])
	for _, of := range f.recording.Budget.Functions {
		if of.Func == id {
			often.counted = often.recorded + int64(of.Counted+of.Estimated)
		}
	}
	return often, path
}
