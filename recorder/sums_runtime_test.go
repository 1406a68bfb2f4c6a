//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/symbolize"
)

// checkPruned compares the calls of testdata/pruned.c, both kept and summed, with what the program
// counted.
func checkPruned(t *testing.T, program, output, path string) {
	t.Helper()
	table := namesOf(t, program)
	f := readTrace(t, path)
	p := &f.recording.Pruned
	got, left := map[string]int64{}, map[string]reader.PrunedFunction{}
	for id, n := range f.calls {
		got[symbolize.Label(table, id)] += int64(n)
	}
	kept := maps.Clone(got)
	for _, one := range p.Functions {
		name := symbolize.Label(table, one.Func)
		left[name] = one
		got[name] += int64(one.Calls)
	}
	if want := counted(t, output); !maps.Equal(got, want) {
		t.Errorf("got %v kept and %v pruned, want %v as the program counted", kept, left, want)
	}
	if left["kept"].Calls+left["lengthy"].Calls != 0 || left["caller"].Calls == 0 || left["logged"].Calls == 0 || left["recursive"].Calls == 0 {
		t.Errorf("wrong pruned calls: %v", left)
	}
	if p.From == 0 || p.To <= p.From {
		t.Errorf("wrong time range of the sums: %d to %d", p.From, p.To)
	}
	// Three threads spend nearly all their time in lengthy, whose callees are pruned.
	if most := 3 * (p.To - p.From); left["caller"].Ticks == 0 || left["caller"].Ticks > most || left["quick"].Ticks > most {
		t.Errorf("got %d ticks of caller, want up to %d", left["caller"].Ticks, most)
	}
}

// The sums include every pruned call and its time: in a stream, in rings, under an observer, in
// signal handlers, and in a process that is killed.
func TestPrunedCallsAreSummedUp(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "pruned.c", "-O2", "-fxray-instruction-threshold=1")
	for _, options := range []string{
		"mode=prune,threshold=10000000", "mode=prune,threshold=10000000,stream=0,ring=4194304", "mode=depth,depth=100,threshold=10000000",
	} {
		out, stderr, traces := recordProgram(t, &l, options, program)
		if stderr != "" || len(traces) != 1 {
			t.Fatalf("%s: got %d traces; stderr: %s", options, len(traces), stderr)
		}
		checkPruned(t, program, out, traces[0])
	}
	for _, end := range []string{"", "killed"} {
		out, path := runObserved(t, l, "mode=prune,threshold=10000000", program, end)
		checkPruned(t, program, out, path)
	}
}

// runObserved runs a program under an observer. It returns what the program printed and its trace.
func runObserved(t *testing.T, l build.Library, options, program string, args ...string) (stdout, trace string) {
	t.Helper()
	return variant{program, &l}.runObserved(t, options, args...)
}

func (f variant) runObserved(t *testing.T, options string, args ...string) (stdout, trace string) {
	t.Helper()
	return f.runLimited(t, options, 0, args...)
}

// startObserver runs an observer. settle waits until no program is recorded, and ends the observer.
func startObserver(t *testing.T, o observe.Options) (ob *observe.Observer, settle func() (*observe.Result, error)) {
	t.Helper()
	ob, err := observe.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- ob.Run(ctx) }()
	return ob, func() (*observe.Result, error) {
		awaitIdle(ob)
		observed := ob.Settle()
		cancel()
		return observed, <-done
	}
}

func awaitIdle(ob *observe.Observer) {
	for !ob.Idle() {
		time.Sleep(10 * time.Millisecond)
	}
}

// runLimited is runObserved with a budget; 0 is none.
func (f variant) runLimited(t *testing.T, options string, budget float64, args ...string) (stdout, trace string) {
	t.Helper()
	out, traces := f.runUnder(t, observe.Options{Budget: budget}, options, args...)
	return out, traces[0]
}

// runUnder runs a program under an observer. It returns what the program printed and its traces.
func (f variant) runUnder(t *testing.T, o observe.Options, options string, args ...string) (stdout string, traces []string) {
	t.Helper()
	o.Session, o.Key, o.Output = uint64(time.Now().UnixNano()), observe.NewKey(), filepath.Join(t.TempDir(), "%p")
	_, settle := startObserver(t, o)
	cmd := exec.Command(f.program, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Env = append(os.Environ(), recorder.EnvVar+"=observer="+o.Address()+",session="+strconv.FormatUint(o.Session, 10)+","+options)
	if f.library != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+f.library.Preload())
	}
	_ = cmd.Run() // the program may kill itself
	observed, err := settle()
	if err != nil || len(observed.Traces) == 0 {
		t.Fatalf("%v; %+v", err, observed)
	}
	for _, trace := range observed.Traces {
		traces = append(traces, trace.Path)
	}
	return out.String(), traces
}

// After a restart, a recording has its own sums.
func TestSumsOfOneRecording(t *testing.T) {
	program := buildLinked(t, "clang-22", library(t).Archive(), "sums.c", "-fxray-instruction-threshold=1")
	dir := t.TempDir()
	if out, err := exec.Command(program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, want := range []uint64{1000, 30} {
		f := readTrace(t, filepath.Join(dir, strconv.Itoa(i)))
		if p := f.recording.Pruned; p.Calls()+f.calls[1] != want {
			t.Errorf("recording %d: got %d calls pruned and %d kept, want %d", i, p.Calls(), f.calls[1], want)
		}
	}
}

// A core also has the sums.
func TestCoreOfPrunedCalls(t *testing.T) {
	program, env := crashProgram(t, "mode=prune,threshold=1000000000", prunable...)
	path, _ := crash(t, env, program, "a", "700")
	f := readTrace(t, traceFile(t, openCore(t, path), 0))
	calls := maps.Clone(f.calls)
	for _, p := range f.recording.Pruned.Functions {
		calls[p.Func] += p.Calls
	}
	if calls[idLeaf] != 1600 || calls[idBranch] != 800 || f.recording.Pruned.Calls() == 0 {
		t.Errorf("got calls %v, of which %d pruned", calls, f.recording.Pruned.Calls())
	}
}

// A trampoline that does not count what it prunes fails the tests above.
func TestSumsFindWhatIsForgotten(t *testing.T) {
	archive := buildArchive(t, edit{"trampoline_amd64.S", "	incq	(%rax)\n", ""})
	program := buildLinked(t, "clang-22", archive, "pruned.c", "-fxray-instruction-threshold=1")
	_, _, traces := recordProgram(t, nil, "mode=prune,threshold=10000000", program)
	if n := readTrace(t, traces[0]).recording.Pruned.Calls(); n != 0 {
		t.Errorf("the broken runtime passed: %d calls were counted", n)
	}
}
