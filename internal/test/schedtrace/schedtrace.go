// Package schedtrace makes small traces of threads that sleep and wake each other.
package schedtrace

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// Sleep is a time in which a thread slept. Threads have the IDs 1, 2 and so on, in process 7.
type Sleep struct {
	Thread         int
	Out, Woken, In uint64
	By             int // the thread that woke it, or 0 for another process
	Flags          reader.SchedFlags
}

// Open returns a trace at 1 GHz. Each string is a thread. Its words alternate between times and
// events: "100 +10" enters function 10 at 100, "+10(16)" with an argument, "-10" leaves it, and
// "!400/50" notices 400 ns off CPU, 50 of them in the run queue.
func Open(t *testing.T, threads []string, sleeps []Sleep) *reader.Trace {
	t.Helper()
	other := uint32(len(threads) + 1)
	r := &reader.Recording{Process: reader.Process{PID: 7, OffCPU: "rseq"}}
	for i := range threads {
		r.Threads = append(r.Threads, reader.ThreadInfo{PID: 7, TID: int32(i + 1)})
		r.Sched.Tasks = append(r.Sched.Tasks, reader.Task{PID: 7, TID: int32(i + 1), Name: "thread"})
	}
	r.Sched.Tasks = append(r.Sched.Tasks, reader.Task{PID: 30, TID: 30, Name: "other"})
	var events []reader.SchedEvent
	for _, s := range sleeps {
		task, by := uint32(s.Thread), uint32(s.By)
		if by == 0 {
			by = other
		}
		events = append(events, reader.SchedEvent{TSC: s.Out, Task: task, Other: other, Kind: reader.Switched, State: 'S'},
			reader.SchedEvent{TSC: s.Woken, Task: by, Other: task, Kind: reader.Waking, Flags: s.Flags},
			reader.SchedEvent{TSC: s.In, Task: other, Other: task, Kind: reader.Switched, State: 'R'})
	}
	if len(events) > 0 {
		r.Sched.Parts = []reader.SchedPart{{From: 1, To: 1 << 40, Events: events}}
	}
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 1e9, Recorder: true}, tracewrite.Options{Recording: r})
	for i, thread := range threads {
		b := &reader.Block{Thread: reader.Thread{Process: 7, Thread: int32(i + 1)}, Index: i}
		words := strings.Fields(thread)
		for ; len(words) > 1; words = words[2:] {
			if err := add(b, words[0], words[1]); err != nil {
				t.Fatalf("%s %s: %v", words[0], words[1], err)
			}
		}
		if err := w.Block(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(out.Bytes()), int64(out.Len()), "trace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	return trace
}

func add(b *reader.Block, at, what string) error {
	tsc, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		return err
	}
	e := reader.Event{TSC: tsc}
	if what[0] == '!' {
		var s reader.Switch
		if _, err := fmt.Sscanf(what, "!%d/%d", &s.OffNS, &s.QueuedNS); err != nil {
			return err
		}
		e.Kind, e.Side, s.Voluntary = reader.Custom, true, 1
		b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: reader.AppendSwitch(nil, s)})
		b.Events = append(b.Events, e)
		return nil
	}
	name, arg, logged := strings.Cut(strings.TrimSuffix(what[1:], ")"), "(")
	fn, err := strconv.Atoi(name)
	if err != nil {
		return err
	}
	e.Func = reader.FuncID(fn)
	if what[0] == '-' {
		e.Kind = reader.Exit
	}
	if logged {
		value, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return err
		}
		e.Kind, e.Side = reader.EnterArg, true
		b.Args = append(b.Args, reader.Arg{Event: len(b.Events), Value: value})
	}
	b.Events = append(b.Events, e)
	return nil
}
