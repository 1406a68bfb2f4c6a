//go:build linux && amd64

package recorder_test

import (
	"io"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/symbolize"
)

// A trace that is written after its process has ended has what was read before: the calls, those that are open
// where it begins, and how long these have waited.
func TestTraceOfEndedProcess(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, "clang-22", "watched.c", "-O1")
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startIdle(t, cmd, 1<<20)
	command := func(c string) {
		answer := make([]byte, 1)
		if _, err := io.WriteString(in, c); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, answer); err != nil {
			t.Fatal(err)
		}
	}
	p, err := client.Dial(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	command("r") // main has begun, so its call is not recorded
	mustAsk(t, cmd.Process.Pid, "start mode=record")
	command("w")
	table := namesOf(t, program)
	rings, err := live.Open(t.Context(), p, 1<<20, func(*reader.Trace) (r live.Roots, err error) {
		r.Is = make([]bool, 100)
		for i := range r.Is {
			r.Is[i] = symbolize.Label(table, reader.FuncID(i)) == "request"
		}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rings.Close()
	waiting := 0
	read := func() (calls []live.RootCall) {
		if _, err := rings.Read(t.Context(), func(c live.RootCall) { calls = append(calls, c) }); err != nil {
			t.Fatal(err)
		}
		waiting = rings.NoteWaits()
		return calls
	}
	for read(); waiting == 0; read() {
		time.Sleep(time.Millisecond)
	}
	command("r")
	calls := read()
	if len(calls) != 1 {
		t.Fatalf("got requests %v, want one", calls)
	}
	_ = cmd.Process.Kill()
	_, _ = cmd.Process.Wait()

	path := testenv.WriteFile(t, "live.xray", func(w io.Writer) error {
		return rings.WriteTrace(w, calls[0].Start, rings.Newest(), func(*reader.Recording) {})
	})
	verify(t, path)
	f := readTrace(t, path)
	got := map[string]uint64{}
	for id, n := range f.calls {
		got[symbolize.Label(table, id)] += n
	}
	if got["request"] != 1 || got["work"] != 100 || len(got) != 2 || f.earlier != 1 || f.orphan != 1 || f.unmatched != 0 {
		t.Errorf("got calls %v, %d open at the start and %d at the end, and %d exits without entry", got, f.earlier, f.orphan, f.unmatched)
	}
	if _, asleep, _ := allSwitches(t, path); asleep <= 0 {
		t.Errorf("got waits of %v, want that of idle", asleep)
	}
}
