//go:build linux && amd64

package recorder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/recorder/ring"
)

// many returns short or, with XRAY_SOAK=1, long.
func many(short, long int) string {
	if testenv.Soak() {
		return strconv.Itoa(long)
	}
	return strconv.Itoa(short)
}

// buildPlugins compiles objects that differ only in a number, so they are loaded at the same
// addresses.
func buildPlugins(t *testing.T, n int) []string {
	t.Helper()
	var plugins []string
	for i := range n {
		plugins = append(plugins, elftest.Build(t, "clang-22", "plugin.so", "-O1", "-fPIC", "-shared", "-Wl,--build-id", "-fxray-instrument",
			clangs["clang-22"], fmt.Sprint("-DCOPY=", i), "testdata/plugin.c"))
	}
	return plugins
}

// If signals with recorded handlers interrupt recorded threads, no call is missing or mismatched
// and time never runs backwards.
func TestSignalStorm(t *testing.T) {
	t.Parallel()
	l := library(t)
	checkSignalStorm(t, &l, buildProgram(t, "clang-22", "storms.c", "-O1"), many(1000, 20000), 0)
}

// A record that a handler interrupts is not lost even if the handler fills the chunk. Chunks have
// only 37 records here, and records take long to write, so this happens often. The record counts as
// lost only if handlers of several signals fill two chunks meanwhile.
func TestSignalStormInSmallChunks(t *testing.T) {
	const store = "	STAMP	\\by\n	RESERVE	8\n	movq	%rdx, (%rax)\n"
	archive := buildArchive(t,
		edit{"ring.c", "(uint8_t *)c + XR_CHUNK_HEADER", "(uint8_t *)c + XR_CHUNK_SIZE - 312"},
		edit{"trampoline_amd64.S", store, strings.Replace(store, "movq", ".rept	100\n	pause\n	.endr\n	movq", 1)})
	checkSignalStorm(t, nil, buildLinked(t, "clang-22", archive, "storms.c", "-O1"), "1000", 3)
}

// checkSignalStorm checks that no records are missing except those that the trace counts as lost, at
// most this many.
func checkSignalStorm(t *testing.T, l *build.Library, program, signals string, mostLost uint64) {
	t.Helper()
	out, stderr, traces := recordProgram(t, l, "", program, "signals", signals)
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	f := readTrace(t, traces[0])
	lost := int64(0)
	for _, l := range f.recording.Losses {
		lost += int64(l.Count)
	}
	want, got := counted(t, out), entries(t, program, traces)
	missing := want["handler"] - got["handler"] + want["leaf"] - got["leaf"]
	if want["handler"] == 0 || got["handler"] > want["handler"] || got["leaf"] > want["leaf"] || missing > lost {
		t.Errorf("got calls %v, want %v as the program counted", got, want)
	}
	if int64(f.unmatched+f.orphan) > lost || lost > int64(mostLost) || f.backwards != 0 {
		t.Errorf("%d exits without entry, %d calls without exit, %d backward time steps, losses %v", f.unmatched, f.orphan, f.backwards, f.recording.Losses)
	}
	verify(t, traces[0])
}

// Snapshots of rings that are constantly overwritten lack only records that were being overwritten, so
// calls are incomplete only at the edges.
func TestSnapshotStorm(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	var records uint64
	n := many(30, 1000)
	paths := snapshots(t, &l, program, n)
	for _, path := range paths {
		verify(t, path)
		f := readTrace(t, path)
		if !f.cutAtEdges() {
			t.Errorf("%s: %d exits without entry, %d calls without exit, %d backward time steps", path, f.unmatched, f.orphan, f.backwards)
		}
		records += f.records
	}
	if strconv.Itoa(len(paths)) != n || records < uint64(len(paths))*1000 {
		t.Errorf("got %d records in %d snapshots", records, len(paths))
	}
}

// snapshots runs storms.c, which takes n snapshots while two threads overwrite their rings.
func snapshots(t *testing.T, l *build.Library, program, n string) []string {
	t.Helper()
	dir := t.TempDir()
	if _, stderr, _ := recordProgram(t, l, "start=0,ring=131072", program, "snapshots", n, dir); stderr != "" {
		t.Error(stderr)
	}
	paths, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// cutAtEdges reports whether a snapshot of storms.c misses calls only at its beginning and end.
func (f *found) cutAtEdges() bool {
	const deepest = 12 // open calls in each of two threads
	return f.unmatched <= 2*deepest && f.orphan <= 2*deepest && f.backwards == 0
}

// A runtime whose threads reuse chunks while these are copied fails the test above. The edits
// remove the thread's lock, the check of the chunk's number, and the second read.
func TestSnapshotStormFindsTornChunks(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t,
		// Let threads continue meanwhile, however busy the machine is.
		edit{"writer.c", "		dst[i] = src[i];\n", `{
			if (i == n / 2) { int64_t nap[2] = {0, 2000000}; xr_sys2(SYS_nanosleep, (intptr_t)nap, 0); }
			dst[i] = src[i]; }`},
		edit{"writer.c", "	xr_lock_one(XR_LOCK_THREAD, &t->lock);\n	const struct xr_chunk *c = chunk_then(trace, t, number);\n	if (c) {", "	const struct xr_chunk *c = chunk_then(trace, t, number);\n	if (c) {"},
		edit{"writer.c", "	xr_unlock_one(XR_LOCK_THREAD, &t->lock);\n	return result;", "	return result;"},
		edit{"writer.c", "if (__atomic_load_n(&c->seq, __ATOMIC_RELAXED) == seq)", ""},
		edit{"writer.c", "while (same < n && dst[same] == src[same])", "while (same < n)"},
	)
	program := buildLinked(t, "clang-22", archive, "storms.c", "-O1")
	for range 50 { // at least every second run shows it
		for _, path := range snapshots(t, nil, program, "30") {
			if f := readTrace(t, path); !f.cutAtEdges() {
				return
			}
		}
	}
	t.Error("the broken runtime passed")
}

// The slow path needs little stack, even though it writes to the file.
func TestSmallStack(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	for _, options := range []string{"mode=record", "mode=record,stream=0", "mode=count", "mode=profile", "mode=depth,depth=3"} {
		out, stderr, traces := recordProgram(t, &l, options, program, "stack")
		if stderr != "" {
			t.Errorf("%s: %s", options, stderr)
		}
		if got := entries(t, program, traces); options == "mode=record" && got["leaf"] != counted(t, out)["leaf"] {
			t.Errorf("%s: got calls %v, want %s as the program counted", options, got, out)
		}
	}
}

// New threads reuse the rings of threads that ended.
func TestThreadsDoNotAddUp(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	for _, options := range []string{"", ",stream=0"} {
		out, stderr, traces := recordProgram(t, &l, "ring=131072,budget=1000000"+options, program, "churn", many(3000, 100000))
		want, got := counted(t, out), entries(t, program, traces)
		// 3,000 threads with a chunk each would need 200 MB.
		if stderr != "" || want["peak"] > 32<<10 {
			t.Errorf("%q: got a peak of %d KB; stderr: %s", options, want["peak"], stderr)
		}
		if options == "" && got["leaf"] != want["leaf"] {
			t.Errorf("got %d calls of leaf, want %d", got["leaf"], want["leaf"])
		}
	}
}

// Objects are opened and closed, even at the same addresses, while sleds are switched.
func TestPluginStorm(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	args := append([]string{"plugins", many(500, 30000)}, buildPlugins(t, 3)...)
	out, stderr, _ := recordProgram(t, &l, "start=0,control=1", program, args...)
	n := counted(t, out)
	if stderr != "" || n["toggles"] < 10 || n["again"] == 0 {
		t.Errorf("wrong result %v; stderr: %s", n, stderr)
	}
}

// The recorder leaves an object alone if its file was replaced.
func TestReplacedFile(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	out, stderr, _ := recordProgram(t, &l, "start=0", program, append([]string{"replaced", "0"}, buildPlugins(t, 2)...)...)
	if counted(t, out)["refused"] != 1 || !strings.Contains(stderr, "its file is not the one that is mapped") {
		t.Errorf("%s%s", out, stderr)
	}
}

// A program that may be executed but not read runs unrecorded.
func TestUnreadableProgram(t *testing.T) {
	testenv.NeedOtherUsers(t)
	l := library(t)
	dir := t.TempDir()
	// All folders of this test are in a folder that only root can enter.
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), l.Install(dir)); err != nil {
		t.Fatal(err)
	}
	installed, err := build.Installed(dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "storms")
	data, err := os.ReadFile(buildProgram(t, "clang-22", "storms.c", "-O1"))
	if err := errors.Join(err, os.WriteFile(program, data, 0o711)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "leaf", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testenv.Nobody, Gid: testenv.Nobody}}
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+installed.Preload(), recorder.EnvVar+"=output=/dev/null/none")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("another user cannot reach %s: %v", program, err)
	}
	if err != nil || !strings.Contains(string(out), "leaf 100\n") || !strings.Contains(string(out), "cannot open its file: permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Each process has its own trace, and children do not change their parent's.
func TestSpawnedProcesses(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", "-O1")
	out, stderr, traces := recordProgram(t, &l, "", program, "spawn")
	if stderr != "" || len(traces) != 2 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	if got, want := entries(t, program, traces)["leaf"], counted(t, out)["leaf"]; got != want {
		t.Errorf("got %d calls of leaf, want %d", got, want)
	}
	checkProcesses(t, traces)

	// The daemon is a child. Its parent ends by _exit.
	out, stderr, traces = recordProgram(t, &l, "", program, "daemon")
	if stderr != "" || len(traces) != 2 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	if got, want := entries(t, program, traces)["leaf"], counted(t, out)["leaf"]; got != want {
		t.Errorf("daemon: got %d calls of leaf, want %d", got, want)
	}
	checkProcesses(t, traces)
}

// Children reuse the entries, slots and rings of children that have ended, and no records are lost or
// damaged. Rings have two chunks.
func TestForkStorm(t *testing.T) {
	t.Parallel()
	l := library(t)
	f := variant{buildProgram(t, "clang-22", "storms.c", "-O1"), &l}
	for _, rings := range []bool{false, true} {
		out, traces := f.runUnder(t, observe.Options{Rings: rings}, "ring=131072", "forks", many(60, 600))
		for _, path := range traces {
			if f := readTrace(t, path); len(f.recording.Losses) != 0 || f.backwards != 0 || len(f.calls) == 0 {
				t.Errorf("rings %v: calls %v, %d backward time steps, losses %v", rings, f.calls, f.backwards, f.recording.Losses)
			}
		}
		if got, want := entries(t, f.program, traces)["leaf"], counted(t, out)["leaf"]; !rings && got != want {
			t.Errorf("got %d calls of leaf in %d traces, want %d", got, len(traces), want)
		}
	}
}

// A process that is killed while it takes a chunk loses only what the chunk overwrites.
func TestKilledBetweenChunks(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"	if (!clean && number > t->fresh)", "	t->taken = number;\n"} {
		archive := buildArchive(t, edit{"ring.c", when, "	if (number == 6) xr_sys2(SYS_kill, xr_root.pid, 9);\n" + when})
		f := variant{buildLinked(t, "clang-22", archive, "storms.c", "-O1"), nil}
		for _, rings := range []bool{false, true} {
			_, traces := f.runUnder(t, observe.Options{Rings: rings}, "ring=131072", "leaf", "100000")
			got := readTrace(t, traces[0])
			chunks, overwritten := 5, uint64(0)
			if rings {
				chunks, overwritten = 1, 4
			}
			perChunk := (ring.ChunkSize - ring.ChunkHeader - 16) / 16
			if calls := int(got.calls[1]); calls < chunks*(perChunk-100) || calls > chunks*perChunk || len(got.recording.Losses) != 0 || got.recording.Threads[0].Overwritten != overwritten {
				t.Errorf("rings %v: got %d calls, threads %v, losses %v", rings, calls, got.recording.Threads, got.recording.Losses)
			}
		}
	}
}

// Rings of threads that have ended are emptied when they are too large in total. Their records count as
// lost, and nothing counts as damage.
func TestEmptiedRings(t *testing.T) {
	l := library(t)
	f := variant{buildProgram(t, "clang-22", "storms.c", "-O1"), &l}
	_, traces := f.runUnder(t, observe.Options{Rings: true}, "ring=131072,budget=400000", "churn", "100")
	if f := readTrace(t, traces[0]); len(f.recording.Losses) != 1 || f.recording.Losses[0].Cause != "ended-thread" || f.backwards != 0 || len(f.calls) == 0 {
		t.Errorf("got calls %v, losses %v", f.calls, f.recording.Losses)
	}
}

// checkProcesses checks that each trace has the ID of its process in its name.
func checkProcesses(t *testing.T, traces []string) {
	t.Helper()
	for _, path := range traces {
		f := readTrace(t, path)
		if name := filepath.Base(path); f.recording == nil || strconv.Itoa(int(f.recording.Process.PID)) != name {
			t.Errorf("%s: wrong process in %+v", name, f.recording)
		}
	}
}

// Calls that exceptions leave have no exits. No other records are missing. Static C++ programs can be linked
// with the recorder.
func TestExceptions(t *testing.T) {
	t.Parallel()
	l := library(t)
	linked := []string{"-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive", "-pthread", "-ldl"}
	for clang, flag := range clangs {
		for _, way := range []string{"preload", "-static", "-static-pie"} {
			t.Run(clang+"/"+way, func(t *testing.T) {
				t.Parallel()
				cxx := strings.Replace(clang, "clang", "clang++", 1)
				args, preload := []string{"-O1", "-fxray-instrument", flag, "testdata/thrown.cc"}, &l
				if way != "preload" {
					args, preload = slices.Concat(args, []string{way, "-fPIE"}, linked), nil
				}
				program := elftest.Build(t, cxx, "thrown", args...)
				for _, options := range []string{"mode=record", "mode=depth,depth=100"} {
					out, stderr, traces := recordProgram(t, preload, options, program)
					want, got := counted(t, out), entries(t, program, traces)
					for name, n := range want {
						if got[name] != n {
							t.Errorf("%s: got %d calls of %s, want %d", options, got[name], name, n)
						}
					}
					if f := readTrace(t, traces[0]); f.backwards != 0 || stderr != "" {
						t.Errorf("%s: %d backward time steps; %s", options, f.backwards, stderr)
					}
				}
			})
		}
	}
}

// Pruning keeps each call that lasts at least the threshold, and its callers. It drops the others.
func TestPruneKeepsWhatIsLong(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "storms.c", append(prunable, "-O1")...)
	snapshot := filepath.Join(t.TempDir(), "pruned.xray")
	t.Setenv("SNAPSHOT", snapshot)
	out, stderr, _ := recordProgram(t, &l, "start=0", program, "prune", many(2000, 30000))
	if stderr != "" {
		t.Fatal(stderr)
	}
	want, got := counted(t, out), entries(t, program, []string{snapshot})
	if got["some_time"] < want["longer"] || got["some_time"] > want["longer"]+want["longer"]/2 || got["around"] < got["some_time"] {
		t.Errorf("got calls %v, want those around %d long ones", got, want["longer"])
	}
	short := 0
	leaves := leafDurations(t, snapshot)
	for _, ticks := range leaves {
		if ticks < uint64(want["threshold"]) {
			short++
		}
	}
	// Pruning does not look back across a stamp, and each chunk begins with one.
	if len(leaves) == 0 || short > len(leaves)/1000+2 {
		t.Errorf("%d of %d calls without callees are shorter than the threshold", short, len(leaves))
	}
}

// leafDurations returns the durations of all calls without callees, in ticks.
func leafDurations(t *testing.T, path string) []uint64 {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var durations []uint64
	last := map[reader.Thread]reader.Event{}
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			if before, ok := last[b.Thread]; ok && e.Kind.IsExit() && before.Kind.IsEnter() && before.Func == e.Func {
				durations = append(durations, e.TSC-before.TSC)
			}
			last[b.Thread] = e
		}
	}
	return durations
}

// Reading rings while threads write to them never goes out of bounds.
func TestSnapshotsWithSanitizers(t *testing.T) {
	t.Parallel()
	// With address randomization, the program may be where older sanitizers want their heap.
	rings := buildRings(t, "-no-pie", "-g", "-fsanitize=address,undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=all")
	for _, check := range []struct {
		name string
		run  func(*testing.T, string)
	}{
		{"Snapshot", checkSnapshotIsWhatTheRingsHold}, {"Wrapped", checkSnapshotOfAWrappedRing},
		{"Stream", checkStreamLosesNothing}, {"Running", checkSnapshotsOfRunningThreads},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, rings) })
	}
}

// A process replaces its metadata for the observer, while a thread of a forked child that records its
// first call publishes the parent's metadata.
func TestMetadataOfAChild(t *testing.T) {
	slow := edit{"arena.c", "	xr_copy((void *)self->text[at], ", "	for (int i = 0; i < 100000; i++)\n		__builtin_ia32_pause();\n	xr_copy((void *)self->text[at], "}
	program := buildLinked(t, "clang-22", buildArchive(t, slow), "published.c", "-fxray-instruction-threshold=1")
	out, _ := variant{program, nil}.runUnder(t, observe.Options{}, "mode=record")
	if out != "20\n" {
		t.Errorf("not all children ended well: %q of 20", out)
	}
}
