package tracewrite_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// recordedThreads writes a trace as a recorder does: some threads with random ids and
// starts, with calls of function 3 and marks. It returns the number of calls.
func recordedThreads(t *testing.T, random *rand.Rand, recording *reader.Recording) (trace []byte, calls int) {
	t.Helper()
	const first = 1_000_000_007
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 2_000_000_000, ConstantTSC: true, NonstopTSC: true},
		tracewrite.Options{Recording: recording, First: first})
	for i := range 1 + random.IntN(20) {
		thread := reader.Thread{Process: 4242, Thread: 4242 + random.Int32N(100_000)}
		tsc := uint64(first)
		if i > 0 {
			tsc += random.Uint64N(5_000_000_000)
		}
		b := &reader.Block{Thread: thread}
		for range 1 + random.IntN(1000) {
			b.Events = append(b.Events, reader.Event{TSC: tsc, Func: 3, Kind: reader.Enter})
			if random.IntN(10) == 0 {
				b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events),
					Data: tracewrite.AppendMark(nil, reader.Mark{Request: true, ID: tsc, Text: "a\x00b"})})
				b.Events = append(b.Events, reader.Event{TSC: tsc, Func: 3, Kind: reader.Custom, Side: true})
			}
			tsc += 1 + random.Uint64N(1000)
			b.Events = append(b.Events, reader.Event{TSC: tsc, Func: 3, Kind: reader.Exit})
			tsc += 1 + random.Uint64N(1000)
			calls++
		}
		if err := w.Block(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), calls
}

// Every llvm-xray reads traces with a recording without --keep-going, and counts all calls.
// It accepts few traces with several threads.
func TestLLVMReadsRecordings(t *testing.T) {
	recording := &reader.Recording{
		Process: reader.Process{PID: 4242, Exe: "/usr/bin/server", Argv: []string{"server", "\x01 \"x\""}, Recorder: "1", Complete: true},
		Objects: []reader.Object{{First: 1, Count: 10, Path: "/usr/bin/server", BuildID: "00ff"}},
		Threads: []reader.ThreadInfo{{PID: 4242, TID: 4242, Name: "server"}},
		Clock: reader.RecordedClock{Frequency: 2_000_000_000, Anchors: []reader.Anchor{
			{TSC: 1, Raw: 1, Real: 1}, {TSC: 1000, Raw: 600, Real: 600}}},
		Losses:    []reader.RecordedLoss{{Cause: "limit", Count: 1}},
		Addresses: make([]uint64, 5000),
		Counters:  []reader.Counter{{Func: 3, Calls: 9}},
		Changes:   []reader.Change{{TSC: 5, What: "stop"}},
		Profiles: []reader.Profile{{Process: 7, Thread: 8, First: 1000, Last: 5000, Lost: 2, Paths: []reader.ProfilePath{
			{Func: 1, Parent: -1, Open: 1, OpenTotal: 4000, Octaves: []uint64{}},
			{Func: 2, Parent: 0, Count: 3, Total: 17, Min: 1, Max: 9, Octaves: []uint64{0, 1, 0, 1, 1}},
		}}},
		Functions: []reader.NamedFunction{{ID: 3, Name: "_Z5servev", File: "server.cc", Line: 12, Address: 0x1010, Object: "server"}},
		Sources:   []reader.SourceText{{File: "server.cc", First: 10, Text: "void serve() {\n}"}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 5 {
		trace, calls := recordedThreads(t, random, recording)
		path := filepath.Join(t.TempDir(), "trace.xray")
		if err := os.WriteFile(path, trace, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, llvm := range []string{"llvm-xray-14", "llvm-xray-19", "llvm-xray-22"} {
			t.Run(fmt.Sprintf("%d/%s", round, llvm), func(t *testing.T) {
				testenv.Need(t, llvm)
				out, err := exec.Command(llvm, "account", "-f", "csv", path).CombinedOutput()
				if err != nil {
					t.Fatalf("account: %v\n%s", err, out)
				}
				rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
				if err != nil || len(rows) != 2 || rows[1][1] != strconv.Itoa(calls) {
					t.Errorf("got counts %q, error %v; want %d calls", rows, err, calls)
				}
				for _, how := range [][]string{
					{"convert", "-f", "yaml"}, {"convert", "-f", "trace_event"}, {"graph"}, {"stack"},
				} {
					if out, err := exec.Command(llvm, append(how, path)...).CombinedOutput(); err != nil {
						t.Errorf("%q: %v\n%s", how, err, out)
					}
				}
			})
		}
	}
}
