//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/convert/fdrdump"
	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
)

// These tests run the writer with testdata/rings.c instead of the rest of the runtime. The program fills
// rings with content that real programs produce only rarely, and prints what it has written.

// compileWith compiles files of testdata and of the runtime into a program.
func compileWith(t *testing.T, output string, files []string, flags ...string) string {
	t.Helper()
	// The go command tracks files that tests read, but not those that compilers read.
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	args := slices.Concat(recorder.CompileFlags(true), []string{"-Werror", "-Iruntime", "-pthread"}, files, flags)
	// The tests' own C needs no special flags.
	args = slices.DeleteFunc(args, func(a string) bool { return a == "-mgeneral-regs-only" })
	return elftest.Build(t, "gcc", output, args...)
}

func buildRings(t *testing.T, flags ...string) string {
	return compileWith(t, "rings", []string{
		"testdata/rings.c", "runtime/writer.c", "runtime/descriptors.c", "runtime/locks.c", "runtime/output.c", "runtime/metadata.c", "runtime/state.c", "runtime/text.c", "runtime/clock.c",
	}, flags...)
}

func TestWriter(t *testing.T) {
	rings := buildRings(t)
	t.Run("SnapshotIsWhatTheRingsHold", func(t *testing.T) { checkSnapshotIsWhatTheRingsHold(t, rings) })
	t.Run("SnapshotSince", func(t *testing.T) { checkSnapshotSince(t, rings) })
	t.Run("SnapshotOfAWrappedRing", func(t *testing.T) { checkSnapshotOfAWrappedRing(t, rings) })
	t.Run("StreamLosesNothing", func(t *testing.T) { checkStreamLosesNothing(t, rings) })
	t.Run("StreamLimit", func(t *testing.T) { checkStreamLimit(t, rings) })
	t.Run("StreamToAFullDevice", func(t *testing.T) { checkStreamToAFullDevice(t, rings) })
	t.Run("SnapshotsOfPruning", func(t *testing.T) { checkSnapshotsOfPruning(t, rings) })
	t.Run("SnapshotsOfRunningThreads", func(t *testing.T) { checkSnapshotsOfRunningThreads(t, rings) })
	t.Run("StockToolsReadTraces", func(t *testing.T) { checkStockToolsReadTraces(t, rings) })
	t.Run("Header", func(t *testing.T) { checkHeader(t, rings) })
}

// said is the output of rings: numbers by name, and calls by function.
type said struct {
	numbers map[string]uint64
	calls   map[reader.FuncID]uint64
}

func runRings(t *testing.T, program string, args ...string) said {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rings %v: %v\n%s", args, err, &stderr)
	}
	s := said{map[string]uint64{}, map[reader.FuncID]uint64{}}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		n, err := strconv.ParseUint(f[len(f)-1], 10, 64)
		if err != nil {
			t.Fatalf("unexpected line from rings: %q", line)
		}
		if f[0] == "call" {
			id, _ := strconv.Atoi(f[1])
			s.calls[reader.FuncID(id)] = n
		} else {
			s.numbers[f[0]] = n
		}
	}
	return s
}

// found counts the contents of a trace.
type found struct {
	calls             map[reader.FuncID]uint64 // entries by function
	args, events      uint64
	sum               uint64 // sum of the upper halves of the arguments
	records           uint64
	earlier           int // calls that were open at the start
	unmatched, orphan int // exits without entry, entries without exit
	backwards         int // backward steps in a thread's time
	first             uint64
	recording         *reader.Recording
}

func readTrace(t *testing.T, path string) found {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	f := found{calls: map[reader.FuncID]uint64{}, first: math.MaxUint64, recording: trace.Recording(0)}
	stacks := map[reader.Thread][]reader.FuncID{}
	last := map[reader.Thread]uint64{}
	entering := map[reader.Thread]uint32{}
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		f.args += uint64(len(b.Args))
		for _, a := range b.Args {
			f.sum += a.Value >> 32
		}
		cuts := map[int]reader.Cut{}
		for _, p := range b.Payloads {
			if c, ok := reader.ParseCut(p.Data); ok {
				cuts[p.Event] = c
			}
		}
		for i := range b.Events {
			e := &b.Events[i]
			if c, ok := cuts[i]; ok {
				entering[b.Thread] = c.Records
				continue
			}
			if _, ok := b.Edge(i); ok {
				continue
			}
			if entering[b.Thread] > 0 {
				entering[b.Thread]--
				if stack := stacks[b.Thread]; e.Kind.IsExit() {
					stacks[b.Thread] = stack[:len(stack)-1]
				} else {
					f.earlier++
					stacks[b.Thread] = append(stack, e.Func)
				}
				continue
			}
			f.records++
			f.first = min(f.first, e.TSC)
			if e.TSC < last[b.Thread] {
				f.backwards++
			}
			last[b.Thread] = e.TSC
			stack := stacks[b.Thread]
			switch {
			case e.Kind.IsEnter():
				f.calls[e.Func]++
				stack = append(stack, e.Func)
			case e.Kind.IsExit() && len(stack) > 0 && stack[len(stack)-1] == e.Func:
				stack = stack[:len(stack)-1]
			case e.Kind.IsExit():
				f.unmatched++
			default:
				f.events++
			}
			stacks[b.Thread] = stack
		}
	}
	for _, s := range stacks {
		f.orphan += len(s)
	}
	if n := trace.Losses().Count(); n != 0 {
		first, _ := trace.Losses().First()
		t.Errorf("%s: %d losses, the first: %v", path, n, first)
	}
	return f
}

// verify checks the blocks of a trace against LLVM's rules.
func verify(t *testing.T, path string) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var v fdrdump.Verifier
	blocks := 0
	for r, err := range trace.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == reader.BufferExtents {
			if blocks > 0 {
				if err := v.End(); err != nil {
					t.Errorf("offset %#x: %v", r.Offset, err)
				}
			}
			blocks++
			v = fdrdump.Verifier{}
		}
		if err := v.Record(r.Kind); err != nil {
			t.Errorf("offset %#x: %v", r.Offset, err)
		}
	}
	if err := v.End(); err != nil {
		t.Error(err)
	}
}

func checkExact(t *testing.T, path string, want said) found {
	t.Helper()
	verify(t, path)
	got := readTrace(t, path)
	if diff := cmp.Diff(want.calls, got.calls); diff != "" {
		t.Errorf("calls (-recorded +read):\n%s", diff)
	}
	if got.sum != want.numbers["sum"] {
		t.Errorf("sum of the arguments' upper halves: got %#x, want %#x", got.sum, want.numbers["sum"])
	}
	if got.args != want.numbers["argument"] || got.events != want.numbers["event"] {
		t.Errorf("got %d arguments and %d events, want %d and %d", got.args, got.events, want.numbers["argument"], want.numbers["event"])
	}
	if got.unmatched != 0 || got.orphan != 0 || uint64(got.backwards) != want.numbers["back"] {
		t.Errorf("%d exits without entry, %d calls without exit, %d backward time steps of %d", got.unmatched, got.orphan, got.backwards, want.numbers["back"])
	}
	if got.recording == nil {
		t.Fatal("the trace has no recorder metadata")
	}
	if !got.recording.Process.Complete {
		t.Error("the metadata do not say that the recording is complete")
	}
	return got
}

func checkSnapshotIsWhatTheRingsHold(t *testing.T, rings string) {
	for _, threads := range []int{1, 2, 30} {
		t.Run(fmt.Sprint("threads=", threads), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.xray")
			want := runRings(t, rings, "snapshot", path, fmt.Sprint(threads), fmt.Sprint(threads), "20000", "64")
			got := checkExact(t, path, want)
			if got.records != want.numbers["records"] {
				t.Errorf("got %d records, want %d as the snapshot counted", got.records, want.numbers["records"])
			}
			if size := uint64(fileSize(t, path)); size != want.numbers["bytes"] {
				t.Errorf("got %d bytes, want %d as the snapshot counted", size, want.numbers["bytes"])
			}
			names := map[string]bool{}
			for _, th := range got.recording.Threads {
				names[th.Name] = true
			}
			if len(names) != threads {
				t.Errorf("wrong thread names: %v", names)
			}
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func checkSnapshotSince(t *testing.T, rings string) {
	path := filepath.Join(t.TempDir(), "a.xray")
	all := filepath.Join(t.TempDir(), "all.xray")
	runRings(t, rings, "snapshot", all, "5", "3", "20000", "64", "0")
	since := runRings(t, rings, "snapshot", path, "5", "3", "20000", "64", "60")
	verify(t, path)
	got, whole := readTrace(t, path), readTrace(t, all)
	if got.first < since.numbers["since"] {
		t.Errorf("got a record at %d, before %d", got.first, since.numbers["since"])
	}
	if got.records == 0 || got.records >= whole.records || got.earlier == 0 || got.unmatched > 0 || got.orphan > 0 {
		t.Errorf("got %d of %d records, %d calls that began earlier, %d exits without entry, %d calls without exit",
			got.records, whole.records, got.earlier, got.unmatched, got.orphan)
	}
	if got.records != since.numbers["records"] || got.backwards != 0 {
		t.Errorf("got %d records, want %d; %d backward time steps", got.records, since.numbers["records"], got.backwards)
	}
}

// A ring that wrapped holds the latest chunks. Calls are missing only at its beginning.
func checkSnapshotOfAWrappedRing(t *testing.T, rings string) {
	path := filepath.Join(t.TempDir(), "a.xray")
	want := runRings(t, rings, "snapshot", path, "9", "2", "40000", "2", "0")
	verify(t, path)
	got := readTrace(t, path)
	if got.records < 10000 || got.records != want.numbers["records"] {
		t.Errorf("got %d records, want %d and at least 10000", got.records, want.numbers["records"])
	}
	if got.unmatched > 2*25 || got.orphan != 0 || got.backwards != 0 {
		t.Errorf("%d exits without entry, %d calls without exit, %d backward time steps", got.unmatched, got.orphan, got.backwards)
	}
}

func checkStreamLosesNothing(t *testing.T, rings string) {
	for _, threads := range []int{1, 3, 30} {
		t.Run(fmt.Sprint("threads=", threads), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.xray")
			want := runRings(t, rings, "stream", path, fmt.Sprint(threads), fmt.Sprint(threads), "60000", "2")
			got := checkExact(t, path, want)
			lost := []reader.RecordedLoss{{Cause: "interrupted", Count: 2}}
			if diff := cmp.Diff(lost, got.recording.Losses); diff != "" || want.numbers["dropped"] != 2 {
				t.Errorf("%d records dropped; losses (-want +got):\n%s", want.numbers["dropped"], diff)
			}
		})
	}
}

func checkStreamLimit(t *testing.T, rings string) {
	path := filepath.Join(t.TempDir(), "a.xray")
	want := runRings(t, rings, "limit", path, "3", "4", "60000", "2", "500000")
	verify(t, path)
	got := readTrace(t, path)
	if size := fileSize(t, path); size > 500000+8192 {
		t.Errorf("%d bytes", size)
	}
	checkLost(t, got, want, "size-limit")
}

// If a write reaches the file size limit, the runtime removes the partial block. Earlier blocks and
// the small metadata remain a valid trace. The signal for the limit does not kill the program.
func checkStreamToAFullDevice(t *testing.T, rings string) {
	testenv.Need(t, "prlimit")
	path := filepath.Join(t.TempDir(), "a.xray")
	want := runRings(t, "prlimit", "--fsize=300000", rings, "stream", path, "3", "4", "60000", "2")
	verify(t, path)
	got := readTrace(t, path)
	if got.records == 0 || got.backwards != 0 || !got.recording.Process.Complete {
		t.Errorf("got %d records, %d backward time steps, complete %v", got.records, got.backwards, got.recording.Process.Complete)
	}
	checkLost(t, got, want, "write-error")
}

// lost returns the number of losses of one cause.
func (f *found) lost(cause string) uint64 {
	for _, l := range f.recording.Losses {
		if l.Cause == cause {
			return l.Count
		}
	}
	return 0
}

// checkLost checks that all missing records are counted under one cause.
func checkLost(t *testing.T, got found, want said, cause string) {
	t.Helper()
	lost := got.lost(cause)
	var entries uint64
	for _, n := range want.calls {
		entries += n
	}
	// Each call is two records.
	if recorded := 2*entries + want.numbers["event"]; lost == 0 || got.records+lost != recorded {
		t.Errorf("got %d records and %d counted as lost, want %d in all", got.records, lost, recorded)
	}
}

func checkSnapshotsOfRunningThreads(t *testing.T, rings string) {
	base := filepath.Join(t.TempDir(), "a.xray")
	snapshots := 60
	if testing.Short() {
		snapshots = 10
	}
	want := runRings(t, rings, "live", base, fmt.Sprint(snapshots), "4")
	var records uint64
	for i := range snapshots {
		path := fmt.Sprint(base, ".", i)
		verify(t, path)
		got := readTrace(t, path)
		records += got.records
		// In each of two threads, two calls may have begun before the snapshot, and two may still
		// be open. The same is true where a chunk was overwritten while it was copied.
		most := 4 + 2*int(got.lost("torn-chunk"))
		if got.unmatched > most || got.orphan > most || got.backwards != 0 {
			t.Errorf("%s: %d exits without entry, %d calls without exit, %d backward time steps; losses: %v", path, got.unmatched, got.orphan, got.backwards, got.recording.Losses)
		}
	}
	if records != want.numbers["records"] || records == 0 {
		t.Errorf("got %d records, want %d", records, want.numbers["records"])
	}
	if torn := want.numbers["torn"]; torn > uint64(2*snapshots) {
		t.Errorf("%d chunks were torn in %d snapshots", torn, snapshots)
	}
}

// A thread may overwrite pruned records while they are copied. A snapshot must still be a state
// that existed at one moment.
func checkSnapshotsOfPruning(t *testing.T, rings string) {
	const snapshots = 200
	base := filepath.Join(t.TempDir(), "a.xray")
	runRings(t, rings, "flip", base, fmt.Sprint(snapshots))
	for i := range snapshots {
		got := readTrace(t, fmt.Sprint(base, ".", i))
		if got.calls[5]+got.calls[7] > 1 || got.calls[6] > got.calls[5] || got.calls[8] > got.calls[7] {
			t.Errorf("snapshot %d: wrong calls %v", i, got.calls)
		}
	}
}

// llvm-xray loads threads in the order of the hashes of their IDs, sorts their blocks with an
// inconsistent comparison, and refuses records older than the first.
func checkStockToolsReadTraces(t *testing.T, rings string) {
	versions := []string{"14", "19", "22"}
	for _, v := range versions {
		testenv.Need(t, "llvm-xray-"+v)
	}
	for _, threads := range []int{1, 2, 7, 30} {
		path := filepath.Join(t.TempDir(), "a.xray")
		// For up to 16 blocks, std::sort uses insertion sort, which hides a wrong order.
		// The single thread has more blocks.
		calls := "2000"
		if threads == 1 {
			calls = "80000"
		}
		want := runRings(t, rings, "stream", path, fmt.Sprint(1000+threads), fmt.Sprint(threads), calls, "2")
		for _, v := range versions {
			tool := "llvm-xray-" + v
			account, err := exec.Command(tool, "account", "--format=csv", path).Output()
			if err != nil {
				t.Errorf("%s, %d threads: account: %v", tool, threads, err)
				continue
			}
			if diff := cmp.Diff(want.calls, csvCounts(t, account)); diff != "" {
				t.Errorf("%s, %d threads: account (-recorded +counted):\n%s", tool, threads, diff)
			}
			if threads == 1 {
				continue
			}
			for _, args := range [][]string{
				{"convert", "-f=yaml", "-o", os.DevNull, path}, {"convert", "-f=trace_event", "-o", os.DevNull, path},
				{"graph", "-o", os.DevNull, path}, {"stack", path},
			} {
				if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
					t.Errorf("%s %v, %d threads: %v\n%.300s", tool, args, threads, err, out)
				}
			}
		}
	}
}

func csvCounts(t *testing.T, data []byte) map[reader.FuncID]uint64 {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[reader.FuncID]uint64{}
	for _, row := range rows[1:] {
		id, _ := strconv.Atoi(row[0])
		n, _ := strconv.ParseUint(row[1], 10, 64)
		counts[reader.FuncID(id)] = n
	}
	return counts
}

// The header's last bytes identify the recorder's files.
func checkHeader(t *testing.T, rings string) {
	path := filepath.Join(t.TempDir(), "a.xray")
	runRings(t, rings, "stream", path, "1", "1", "10", "2")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if v, kind := binary.LittleEndian.Uint16(data), binary.LittleEndian.Uint16(data[2:]); v != 5 || kind != 1 {
		t.Errorf("got version %d, type %d", v, kind)
	}
	if mark := string(data[24:32]); mark != reader.RecorderMark {
		t.Errorf("wrong mark %q", mark)
	}
	// At the end, the stream has measured the frequency better and corrects the header.
	got := readTrace(t, path)
	if f := binary.LittleEndian.Uint64(data[8:]); f != got.recording.Clock.Frequency || f == 0 {
		t.Errorf("got %d Hz in the header, %d in the metadata", f, got.recording.Clock.Frequency)
	}
}
