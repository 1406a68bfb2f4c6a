//go:build linux && amd64

package recorder

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// offTruth is what the kernel says of a thread of testdata/offcpu.c, or a trace.
type offTruth struct {
	name                   string
	tid                    int32
	off, queued            uint64
	voluntary, involuntary uint64
	minor                  uint64
	signals                uint64
	events, outside        uint64 // outside: longer than the time since the record before
}

func offTruths(t *testing.T, out string) []offTruth {
	t.Helper()
	var all []offTruth
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		var v offTruth
		if _, err := fmt.Sscan(s.Text(), &v.name, &v.tid, &v.off, &v.queued, &v.voluntary, &v.involuntary, &v.minor, &v.signals); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		all = append(all, v)
	}
	return all
}

// switches sums up the switch events of each thread between the last marks "from" and "to".
func switches(t *testing.T, path string) (map[int32]offTruth, *reader.Recording) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	sums, ends, latest := map[int32]offTruth{}, map[int32]offTruth{}, map[int32]uint64{}
	frequency := trace.Recording(0).Clock.Frequency
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		payloads := b.Payloads
		for i := range b.Events {
			e, thread := &b.Events[i], b.Thread.Thread
			v, gap := sums[thread], e.TSC-latest[thread]
			latest[thread] = e.TSC
			if len(payloads) == 0 || payloads[0].Event != i {
				continue
			}
			data := payloads[0].Data
			payloads = payloads[1:]
			mark, _ := reader.ParseMark(data)
			switch s, ok := reader.ParseSwitch(data); {
			case ok:
				v.events++
				v.off += s.OffNS
				v.queued += s.QueuedNS
				v.voluntary += uint64(s.Voluntary)
				v.involuntary += uint64(s.Involuntary)
				v.minor += uint64(s.MinorFaults)
				if ns := gap * 1000 / (frequency / 1e6); s.OffNS > ns+ns/100+100_000 { // interrupts are in between
					v.outside++
				}
			case mark.Text == "from":
				v = offTruth{}
			case mark.Text == "to":
				ends[thread] = v
			}
			sums[thread] = v
		}
	}
	return ends, trace.Recording(0)
}

// offCases are what is done beside how many hogs.
var offCases = []struct {
	hogs  string
	works []string
}{
	{"0", []string{"sleep", "fault", "signal", "yield"}},
	{"4", []string{"sleep", "wait", "compute", "signal", "migrate", "quick"}},
}

// checkOff holds the sums of a trace's switch events against what the kernel says of the
// threads.
func checkOff(t *testing.T, path, out string) {
	t.Helper()
	sums, recording := switches(t, path)
	if p := recording.Process; p.OffCPU != "rseq" || p.NoOffCPU != "" {
		t.Fatalf("off the processor: %q, %q", p.OffCPU, p.NoOffCPU)
	}
	near := func(got, want, slack uint64) bool {
		return got+slack >= want-want/100 && got <= want+want/100+slack
	}
	for _, want := range offTruths(t, out) {
		got := sums[want.tid]
		// Of less than 250 us the run queue is not asked for.
		if !near(got.off, want.off, 20_000) || got.queued > got.off || !near(got.queued, want.queued, 300_000) {
			t.Errorf("%s: %d ns off the processor, %d in the run queue, want %d and %d", want.name, got.off, got.queued, want.off, want.queued)
		}
		if got.voluntary != want.voluntary || got.involuntary != want.involuntary {
			t.Errorf("%s: %d and %d switches, want %d and %d", want.name, got.voluntary, got.involuntary, want.voluntary, want.involuntary)
		}
		if got.outside != 0 {
			t.Errorf("%s: %d of %d events are not where the time is missing", want.name, got.outside, got.events)
		}
		if got.events > got.voluntary+got.involuntary || got.minor < want.minor {
			t.Errorf("%s: %d events with %d switches; %d faults, want %d", want.name, got.events, got.voluntary+got.involuntary, got.minor, want.minor)
		}
		if want.name == "signal" && want.signals == 0 || want.name == "sleep" && want.voluntary < 100 {
			t.Errorf("%+v: the program does not do what it should", want)
		}
	}
}

// Idle and beside more threads than there are processors, the sums of what is recorded are
// what the kernel counts.
func TestSwitches(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "offcpu.c", "-O1")
	for _, c := range offCases {
		out, stderr, traces := recordProgram(t, &l, "", program, append([]string{c.hogs}, c.works...)...)
		if stderr != "" || len(traces) != 1 {
			t.Fatalf("%d traces; %s", len(traces), stderr)
		}
		checkOff(t, traces[0], out)
		verify(t, traces[0])
	}
}

// Switches that are noticed at some later record are not where the time is missing.
func TestSwitchesFindsWhatIsNoticedLate(t *testing.T) {
	const look = "	cmpq	$0, (%rdx)\n	je	4f\n"
	program := buildLinked(t, "clang-22", buildArchive(t, edit{"trampoline_amd64.S", look, ""}), "offcpu.c")
	out, _, traces := recordProgram(t, nil, "", program, "0", "sleep")
	got, _ := switches(t, traces[0])
	for _, want := range offTruths(t, out) {
		if got := got[want.tid]; got.outside == 0 || got.events > want.voluntary/2 {
			t.Errorf("%d events of %d switches, %d outside: nothing was found", got.events, want.voluntary, got.outside)
		}
	}
}
