//go:build linux && amd64

package recorder_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/build"
)

// offTruth has the off-CPU times of a thread of testdata/offcpu.c, by the kernel or a trace.
type offTruth struct {
	name                   string
	tid                    int32
	off, queued            uint64
	voluntary, involuntary uint64
	minor                  uint64
	signals                uint64
	events, outside        uint64 // outside: events longer than the time since the previous record
	recorder               uint64
	shared, short          uint64 // waits for the recorder that share an event with other waits, or are far shorter than 4 ms
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

// switches sums the switch events of each thread between the last marks "from" and "to".
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
				v.recorder += s.RecorderNS
				if s.RecorderNS > 0 && s.Voluntary > 1 {
					v.shared++
				}
				if s.RecorderNS > 0 && s.RecorderNS < 3_600_000 {
					v.short++
				}
				if ns := gap * 1000 / (frequency / 1e6); s.OffNS > ns+ns/100+100_000 { // allow for interrupts
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

// late reports whether events are elsewhere than the time that is missing. On a busy machine, an
// interrupt may come between the readings of two clocks.
func (v offTruth) late() bool { return v.outside > v.events/100 }

// offCases are the workloads to run next to a number of hogs.
var offCases = []struct {
	hogs  string
	works []string
}{
	{"0", []string{"sleep", "fault", "signal", "yield"}},
	{"4", []string{"sleep", "wait", "compute", "signal", "migrate", "quick"}},
}

// checkOff compares the sums of a trace's switch events with the kernel's numbers of the threads,
// and returns the differences.
func checkOff(t *testing.T, path, out string) (wrong []string) {
	t.Helper()
	sums, recording := switches(t, path)
	if p := recording.Process; p.OffCPU != "rseq" || p.NoOffCPU != "" {
		t.Fatalf("got off-CPU source %q, reason %q", p.OffCPU, p.NoOffCPU)
	}
	differ := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	near := func(got, want, slack uint64) bool {
		return got+slack >= want-want/100 && got <= want+want/100+slack
	}
	for _, want := range offTruths(t, out) {
		got := sums[want.tid]
		// For less than 250 µs, the recorder does not read the time in the run queue. It gives a long wait
		// only its share, so a part may be left over.
		if !near(got.off, want.off, 20_000) || got.queued > got.off || !near(got.queued, want.queued, 300_000+want.queued/25) {
			differ("%s: got %d ns off CPU, %d in the run queue, want %d and %d", want.name, got.off, got.queued, want.off, want.queued)
		}
		if got.voluntary != want.voluntary || got.involuntary != want.involuntary {
			differ("%s: got %d voluntary and %d involuntary switches, want %d and %d", want.name, got.voluntary, got.involuntary, want.voluntary, want.involuntary)
		}
		if got.late() {
			differ("%s: %d of %d events are longer than the time since the previous record", want.name, got.outside, got.events)
		}
		if got.events > got.voluntary+got.involuntary || got.minor < want.minor {
			differ("%s: got %d events with %d switches; %d faults, want %d", want.name, got.events, got.voluntary+got.involuntary, got.minor, want.minor)
		}
		if want.name == "signal" && want.signals == 0 || want.name == "sleep" && want.voluntary < 100 || want.name == "page" && (want.voluntary < 50 || want.minor < 50 || want.off < 50*2_000_000) {
			differ("%+v: the workload did not run as planned", want)
		}
	}
	return wrong
}

// With and without more runnable threads than processors, recorded sums match the kernel's. On a
// busy machine, the kernel's own numbers may differ by a time slice: a preempted thread was off the
// processor, but the run queue did not count it. So one of three recordings must match.
func TestSwitches(t *testing.T) {
	for _, c := range offCases {
		recordOff(t, c.hogs, c.works...)
	}
}

// recordOff records workloads of testdata/offcpu.c. One of three recordings must match.
func recordOff(t *testing.T, hogs string, works ...string) {
	t.Helper()
	l := library(t)
	program := buildProgram(t, "clang-22", "offcpu.c", "-O1")
	var wrong []string
	for range 3 {
		out, stderr, traces := recordProgram(t, &l, "", program, append([]string{hogs}, works...)...)
		if stderr != "" || len(traces) != 1 {
			t.Fatalf("%d traces; %s", len(traces), stderr)
		}
		verify(t, traces[0])
		if wrong = checkOff(t, traces[0], out); len(wrong) == 0 {
			break
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// A budget that has room for it records all switches. Otherwise, the runtime soon gives up.
func TestSwitchesWithinBudget(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "offcpu.c", "-O1")
	out, path := variant{program, &l}.runLimited(t, "mode=record,limited=1", 0.5, "0", "sleep")
	sums, recording := switches(t, path)
	if p := recording.Process; p.OffCPU != "rseq" || p.NoOffCPU != "" {
		t.Errorf("a large budget: off-CPU source %q, reason %q", p.OffCPU, p.NoOffCPU)
	}
	for _, want := range offTruths(t, out) {
		got := sums[want.tid]
		if got.voluntary != want.voluntary || got.off < want.off-want.off/50 || got.off > want.off+want.off/50 || got.late() {
			t.Errorf("%s: got %d switches and %d ns off CPU, want %d and %d", want.name, got.voluntary, got.off, want.voluntary, want.off)
		}
	}
	// On a busy machine, the program may end before the observer has looked.
	var wrong string
	for range 5 {
		_, path = variant{program, &l}.runLimited(t, "mode=record,limited=1,control=1", 0.0001, "0", "quick", "quick", "quick", "compute")
		n, _, p := allSwitches(t, path)
		if p.OffCPU == "" && strings.Contains(p.NoOffCPU, "budget") && n > 0 {
			return
		}
		wrong = fmt.Sprintf("%d switches, off-CPU source %q, reason %q", n, p.OffCPU, p.NoOffCPU)
	}
	t.Errorf("a small budget: %s", wrong)
}

// A long wait on a busy machine does not get the run-queue time of the short waits before it, which the
// recorder does not read each time.
func TestSwitchesOfLongWaits(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "offcpu.c", "-O1")
	for _, limited := range []bool{false, true} {
		var path string
		if limited {
			_, path = variant{program, &l}.runLimited(t, "mode=record,limited=1", 0.5, "8", "stall")
		} else {
			_, _, traces := recordProgram(t, &l, "", program, "8", "stall")
			path = traces[0]
		}
		if _, asleep, _ := allSwitches(t, path); asleep < 170*time.Millisecond {
			t.Errorf("budget: %v; a thread slept for 200 ms, and the longest sleep in the trace lasts %v", limited, asleep)
		}
	}
}

// A page fault that waits for its page is a voluntary switch, and one that does not is time on the
// processor. The kernel counts both as minor faults.
func TestSwitchesInPageFaults(t *testing.T) {
	const userModeOnly = 1
	fd, _, err := syscall.Syscall(unix.SYS_USERFAULTFD, userModeOnly, 0, 0)
	if err != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatalf("userfaultfd: %v; with CI=true it must work", err)
		}
		t.Skipf("userfaultfd: %v", err)
	}
	syscall.Close(int(fd))
	recordOff(t, "0", "page", "fault")
}

// A runtime that notices switches only at a later record fails the test above, because events are
// elsewhere than the time that is missing.
func TestSwitchesFindsWhatIsNoticedLate(t *testing.T) {
	const look = "	cmpq	$0, (%rdx)\n	je	4f\n"
	program := buildLinked(t, "clang-22", buildArchive(t, edit{"trampoline_amd64.S", look, ""}), "offcpu.c")
	out, _, traces := recordProgram(t, nil, "", program, "0", "sleep")
	got, _ := switches(t, traces[0])
	for _, want := range offTruths(t, out) {
		if got := got[want.tid]; got.events > 0 && !got.late() || got.events > want.voluntary/2 {
			t.Errorf("got %d events for %d switches, %d outside: the broken runtime passed", got.events, want.voluntary, got.outside)
		}
	}
}

// allSwitches returns the number of voluntary switches in a trace, the longest time off the processor that
// was not spent in the run queue or by the recorder, and the process metadata.
func allSwitches(t *testing.T, path string) (n uint64, asleep time.Duration, p reader.Process) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Payloads {
			if s, ok := reader.ParseSwitch(b.Payloads[i].Data); ok {
				n += uint64(s.Voluntary)
				asleep = max(asleep, time.Duration(s.OffNS-s.QueuedNS-s.RecorderNS))
			}
		}
	}
	return n, asleep, trace.Recording(0).Process
}

// 50 sleeps give 50 switches, or the trace says why they are missing, however the program was built
// and whether libc or the runtime registers the rseq areas. The trace always has all calls.
func TestSwitchesElsewhere(t *testing.T) {
	l := library(t)
	archive := buildArchive(t)
	noArea := buildArchive(t, edit{"offcpu.c", "static int libc_has_areas(void) { return ", "static int libc_has_areas(void) { return 0 && "})
	preloaded := func(t *testing.T) (string, *build.Library) {
		return buildProgram(t, "clang-22", "sequences.c", "-O1", "-fxray-instruction-threshold=1"), &l
	}
	linked := func(archive string, flags ...string) func(t *testing.T) (string, *build.Library) {
		return func(t *testing.T) (string, *build.Library) {
			return buildLinked(t, "clang-22", archive, "sequences.c", append(flags, "-fxray-instruction-threshold=1")...), nil
		}
	}
	const off = "GLIBC_TUNABLES=glibc.pthread.rseq=0"
	for _, c := range []struct {
		name          string
		build         func(t *testing.T) (string, *build.Library)
		options, what string
		env           string
		traces        int
		missing       string
	}{
		{"preloaded", preloaded, "", "plain", "", 1, ""},
		{"pruned", preloaded, "mode=prune,threshold=100000", "plain", "", 1, ""},
		{"depth", preloaded, "mode=depth,depth=1", "plain", "", 1, ""},
		{"ring", preloaded, "stream=0", "plain", "", 1, ""},
		{"forked", preloaded, "", "fork", "", 2, ""},
		{"linked", linked(archive), "", "fork", "", 2, ""},
		{"static", linked(archive, "-static"), "", "fork", "", 2, ""},
		{"own pointer", preloaded, "", "pointer", "", 1, ""},
		{"off", preloaded, "offcpu=0", "plain", "", 1, "switched off (offcpu=0)"},
		{"tunable", preloaded, "", "plain", off, 1, "glibc.pthread.rseq=0"},
		{"cleared often", preloaded, "", "often", "", 1, "sequences of its own"},
		// These run as with a libc without rseq areas. The kernel allows one area per
		// thread.
		{"own area", linked(noArea), "", "fork", off, 2, ""},
		{"area of another", linked(noArea), "", "plain", "", 1, "a thread cannot use restartable sequences"},
	} {
		t.Run(c.name, func(t *testing.T) {
			program, l := c.build(t)
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			out, stderr, traces := recordProgram(t, l, c.options, program, c.what)
			want := counted(t, out)
			if stderr != "" || len(traces) != c.traces || c.what == "pointer" && want["foreign"] < 40 {
				t.Fatalf("%d traces; %s%s", len(traces), out, stderr)
			}
			leaves := int64(0)
			for _, path := range traces {
				verify(t, path)
				n, _, p := allSwitches(t, path)
				if c.missing == "" && (n < 50 || n > 60 || p.OffCPU != "rseq" || p.NoOffCPU != "") {
					t.Errorf("got %d switches; off-CPU source %q, reason %q", n, p.OffCPU, p.NoOffCPU)
				}
				if c.missing != "" && (p.OffCPU != "" || !strings.Contains(p.NoOffCPU, c.missing)) {
					t.Errorf("got %d switches; off-CPU source %q, reason %q", n, p.OffCPU, p.NoOffCPU)
				}
			}
			leaves = entries(t, program, traces)["leaf"]
			if c.what == "fork" {
				want["leaf"] = 103
			} else {
				want["leaf"] = want["calls"]
			}
			if leaves != want["leaf"] && c.options != "mode=prune,threshold=100000" {
				t.Errorf("got %d calls, want %d", leaves, want["leaf"])
			}
		})
	}
}

// A profile attributes off-CPU time to the path of the innermost call, with and without an observer.
func TestSwitchesInProfiles(t *testing.T) {
	l := library(t)
	check := func(t *testing.T, out, path string) {
		trace, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
		want, r := uint64(counted(t, out)["off"]), trace.Recording(0)
		if len(r.Profiles) != 1 || r.Process.OffCPU != "rseq" {
			t.Fatalf("got %d profiles; off-CPU source %q, reason %q", len(r.Profiles), r.Process.OffCPU, r.Process.NoOffCPU)
		}
		var off, switches uint64
		for _, p := range r.Profiles[0].Paths {
			// nap is the outermost call and calls others.
			if p.Parent >= 0 && p.Off.Blocked > want/10 {
				t.Errorf("function %d: got %d ns blocked, want hardly any", p.Func, p.Off.Blocked)
			}
			off += p.Off.Blocked + p.Off.Queued
			switches += p.Off.Switches
		}
		// A preemption may fall between two calls.
		if switches < 200 || off > want+want/100 || off < want-want/10 {
			t.Errorf("got %d ns off CPU in %d switches, want %d in 200", off, switches, want)
		}
	}
	program := buildProgram(t, "clang-22", "sequences.c", "-O1", "-fxray-instruction-threshold=1")
	out, _, traces := recordProgram(t, &l, "mode=profile", program, "nap")
	check(t, out, traces[0])
	out, path := runObserved(t, l, "mode=profile", program, "nap")
	check(t, out, path)
}

// Time that a thread waits for the recorder is separate from the thread's own waits, even between
// the same two records.
func TestRecorderBlocks(t *testing.T) {
	const stream, slow = "			xr_above.stream(t, 0);\n	} else {", `			xr_above.stream(t, 0);
		struct timespec disk = {0, 4000000};
		xr_sys2(SYS_nanosleep, (intptr_t)&disk, 0);
	} else {`
	const slept = 4_000_000
	program := buildLinked(t, "clang-22", buildArchive(t, edit{"ring.c", stream, slow}), "offcpu.c")
	out, _, traces := recordProgram(t, nil, "", program, "0", "quick")
	want := offTruths(t, out)[0]
	sums, _ := switches(t, traces[0])
	got := sums[want.tid]
	if got.off+want.off/100 < want.off || got.voluntary != want.voluntary {
		t.Errorf("%d ns off CPU and %d switches, want %d and %d", got.off, got.voluntary, want.off, want.voluntary)
	}
	if chunks := got.recorder / slept; chunks < 3 || got.shared == 0 {
		t.Errorf("%d ns for the recorder, %d times between two waits of the program", got.recorder, got.shared)
	}
	// The program waits 3000 times.
	if own := got.off - got.queued - got.recorder; own < 3000*1000 || got.short != 0 {
		t.Errorf("%d ns blocked by the program; %d waits for the recorder are too short", own, got.short)
	}
}

// After a restart, a recording also notices the first switch of a thread.
func TestSwitchesAfterRestarts(t *testing.T) {
	program := buildLinked(t, "clang-22", buildArchive(t), "restarts.c")
	path := filepath.Join(t.TempDir(), "trace")
	recordProgram(t, nil, "stream=0", program, "30", path)
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	naps := 0
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Payloads {
			if s, ok := reader.ParseSwitch(b.Payloads[i].Data); ok && s.Voluntary > 0 && s.OffNS >= 1_900_000 {
				naps++
			}
		}
	}
	if naps != 30 {
		t.Errorf("%d of 30 sleeps are in the trace", naps)
	}
}
