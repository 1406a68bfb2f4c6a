//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/core"
)

// llvmProgram compiles testdata/llvm.cc with LLVM's own runtime.
func llvmProgram(t *testing.T, clang string, flags ...string) string {
	t.Helper()
	testenv.Need(t, clang, "strip")
	return elftest.Build(t, clang, "llvm", append([]string{
		"-O1", "-x", "c++", "testdata/llvm.cc", "-pthread", "-lstdc++", "-lm", "-fxray-instrument", "-fxray-instruction-threshold=1",
	}, flags...)...)
}

// basicEnvironment starts basic mode, with a log in dir.
func basicEnvironment(dir string) []string {
	return []string{
		"XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic xray_logfile_base=" + filepath.Join(dir, "log."),
		"XRAY_BASIC_OPTIONS=func_duration_threshold_us=0",
	}
}

// onlyLog returns the only log of a process.
func onlyLog(t *testing.T, c *core.Core, mode string) (l *core.Log, trace []byte) {
	t.Helper()
	if len(c.Logs()) != 1 || len(c.Rings()) > 0 || c.Logs()[0].Mode() != mode {
		t.Fatalf("got %d rings, logs %v", len(c.Rings()), c.Logs())
	}
	l = c.Logs()[0]
	var b bytes.Buffer
	if err := l.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	return l, b.Bytes()
}

// readBytes reads a trace of a program of testdata/llvm.cc.
func readBytes(t *testing.T, trace []byte) found {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(path, trace, 0o600); err != nil {
		t.Fatal(err)
	}
	if trace[2] == byte(reader.FDR) {
		verify(t, path)
	}
	return readTrace(t, path)
}

// checkCalls checks that a trace has this many calls of branch, each with two calls of leaf.
func checkCalls(t *testing.T, trace []byte, branches uint64) {
	t.Helper()
	got := readBytes(t, trace)
	if got.calls[idBranch] != branches || got.calls[idLeaf] != 2*branches || got.unmatched+got.orphan+got.backwards != 0 {
		t.Errorf("got calls %v, want %d of branch; %d exits without entry, %d calls without exit, %d backward time steps",
			got.calls, branches, got.unmatched, got.orphan, got.backwards)
	}
}

func TestLLVMRuntime(t *testing.T) {
	for _, test := range []struct {
		clang  string
		flags  []string
		checks []func(*testing.T, string)
	}{
		{"clang-14", nil, []func(*testing.T, string){checkBuffersAfterAbort, checkTypedEvents, checkBasicRecords}},
		{"clang-19", []string{"-no-pie"}, []func(*testing.T, string){checkBuffersAfterFault, checkBasicRecords}},
		// Basic mode does not start in static programs.
		{"clang-22", []string{"-static"}, []func(*testing.T, string){checkBuffersAfterFault, checkProcessBuffers}},
		{"clang-22", []string{"-s"}, []func(*testing.T, string){checkBuffersAfterAbort, checkBasicRecords, checkProcessBuffers, checkProcessRecords}},
		{"clang-22", nil, []func(*testing.T, string){checkFrequency, checkBuffersAreWhatTheRuntimeWrites, checkBuffersOfABusyProcess}},
	} {
		t.Run(fmt.Sprint(test.clang, test.flags), func(t *testing.T) {
			t.Parallel()
			program := llvmProgram(t, test.clang, test.flags...)
			for _, check := range test.checks {
				check(t, program)
			}
		})
	}
}

// manyBuffers are options for FDR mode with so many buffers that none is overwritten.
const manyBuffers = "func_duration_threshold_us=0:buffer_size=4096:buffer_max=200"

// A core has all records that FDR mode has not overwritten: those of running threads, each in several
// buffers,
func checkBuffersAfterAbort(t *testing.T, program string) {
	path, _ := crash(t, nil, program, "a", "3", "2000", manyBuffers)
	checkAllBuffers(t, program, path)
}

// and of threads that have ended.
func checkBuffersAfterFault(t *testing.T, program string) {
	path, _ := crashBy(t, syscall.SIGSEGV, nil, program, "sl", "3", "2000", manyBuffers)
	checkAllBuffers(t, program, path)
}

func checkAllBuffers(t *testing.T, program, path string) {
	t.Helper()
	c := openCore(t, path)
	l, trace := onlyLog(t, c, "FDR")
	checkCalls(t, trace, 3*2000+100)
	size, blocks := binary.LittleEndian.Uint64(trace[16:]), len(blocksOf(t, trace))
	if len(l.Notes()) > 0 || c.Program() != program || size != 4096 || blocks < 3*24 {
		t.Errorf("got notes %q, program %q, buffers of %d bytes, %d of them used", l.Notes(), c.Program(), size, blocks)
	}
}

// Only the program's file tells where the runtime keeps the frequency of the TSC.
func checkFrequency(t *testing.T, program string) {
	place := filepath.Join(t.TempDir(), "program")
	run := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	run("cp", program, place)
	path, _ := crash(t, nil, place, "a", "1", "10", manyBuffers)
	c := openCore(t, path)
	for _, file := range []struct {
		is   []string // the command that puts it in the program's place
		want uint64
	}{
		{[]string{"true"}, 1e9},
		{[]string{"strip", place}, 0},
		{[]string{"cp", "/proc/self/exe", place}, 0},
		{[]string{"rm", place}, 0},
	} {
		run(file.is...)
		if got := c.TicksPerSecond(); got != file.want {
			t.Errorf("%q: got a clock of %d Hz, want %d", file.is, got, file.want)
		}
	}
}

// From the same buffers, the runtime and the core reader write the same blocks, even if the runtime has
// overwritten the oldest buffers.
func checkBuffersAreWhatTheRuntimeWrites(t *testing.T, program string) {
	for _, buffers := range []string{"200", "10"} {
		path, _ := crash(t, nil, program, "al", "3", "2000", "func_duration_threshold_us=0:buffer_size=4096:buffer_max="+buffers, "finalize")
		l, got := onlyLog(t, openCore(t, path), "FDR")
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "xray-log.*"))
		if len(files) != 1 {
			t.Fatalf("got logs %q", files)
		}
		want, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if a, b := blocksOf(t, got), blocksOf(t, want); !slices.Equal(a, b) || len(a) < 10 {
			t.Errorf("%s buffers: got %d blocks, the runtime wrote %d", buffers, len(a), len(b))
		}
		// The runtime does not set all bytes of the header.
		if a, b := got[:4], want[:4]; !bytes.Equal(a, b) || got[4]&3 != want[4]&3 || !bytes.Equal(got[8:24], want[8:24]) {
			t.Errorf("got header %x, the runtime wrote %x", got[:32], want[:32])
		}
		notes := strings.Join(l.Notes(), "; ")
		if !strings.Contains(notes, "ended its recording") || strings.Contains(notes, "overwritten") != (buffers == "10") {
			t.Errorf("%s buffers: got notes %q", buffers, notes)
		}
	}
}

// The runtime underestimates the size of typed events and truncates the blocks of its file. The core
// reader does not.
func checkTypedEvents(t *testing.T, program string) {
	path, _ := crash(t, nil, program, "at", "1", "10", "func_duration_threshold_us=0:buffer_size=4096")
	_, trace := onlyLog(t, openCore(t, path), "FDR")
	const idTyped = 4
	got := readBytes(t, trace)
	if got.calls[idTyped] != 1000 || got.events != 1000 || got.calls[idBranch] != 110 || got.unmatched+got.orphan != 0 {
		t.Errorf("got calls %v, %d events, %d exits without entry, %d calls without exit", got.calls, got.events, got.unmatched, got.orphan)
	}
}

// blocksOf returns the blocks of an FDR log, sorted by their bytes.
func blocksOf(t *testing.T, trace []byte) (blocks []string) {
	t.Helper()
	for rest := trace[32:]; len(rest) > 0; {
		size := 16 + binary.LittleEndian.Uint64(rest[1:])
		if rest[0] != 0x0f || size > uint64(len(rest)) {
			t.Fatalf("no block at offset %d", len(trace)-len(rest))
		}
		blocks = append(blocks, string(rest[16:size]))
		rest = rest[size:]
	}
	slices.Sort(blocks)
	return blocks
}

// The log of basic mode and the core together have all records.
func checkBasicRecords(t *testing.T, program string) {
	for _, end := range []string{"a", "al"} {
		dir := t.TempDir()
		path, _ := crash(t, basicEnvironment(dir), program, end, "3", "2000", "")
		_, rest := onlyLog(t, openCore(t, path), "basic")
		checkCalls(t, append(logIn(t, dir), rest[32:]...), 3*2000+100)
	}
}

// logIn returns the only basic log in a folder.
func logIn(t *testing.T, dir string) []byte {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "log.*"))
	if len(files) != 1 {
		t.Fatalf("got logs %q", files)
	}
	written, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func openProcess(t *testing.T, pid int) *core.Core {
	t.Helper()
	c, err := core.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A running program is read from outside.
func checkProcessBuffers(t *testing.T, program string) {
	pid := waitingFor(t, nil, program, "w", "3", "2000", manyBuffers)
	_, trace := onlyLog(t, openProcess(t, pid), "FDR")
	checkCalls(t, trace, 3*2000+100)
}

func checkProcessRecords(t *testing.T, program string) {
	dir := t.TempDir()
	pid := waitingFor(t, basicEnvironment(dir), program, "w", "3", "2000", "")
	_, rest := onlyLog(t, openProcess(t, pid), "basic")
	checkCalls(t, append(logIn(t, dir), rest[32:]...), 3*2000+100)
}

// waitingFor runs a program until it prints that it waits, and returns its process ID.
func waitingFor(t *testing.T, env []string, program string, args ...string) int {
	t.Helper()
	return startReady(t, env, program, args...).Process.Pid
}

// A trace that is read while threads record has no gaps: from a thread's first record in the trace on,
// it has all calls.
func checkBuffersOfABusyProcess(t *testing.T, program string) {
	for _, threshold := range []string{"0", "1"} {
		pid := waitingFor(t, nil, program, "wbl", "1", "100", "buffer_size=16384:buffer_max=100:func_duration_threshold_us="+threshold)
		calls, read := 0, 0
		for try := 0; read < 5 && try < 100; try++ {
			c, err := core.OpenProcess(pid)
			if errors.Is(err, core.ErrReused) {
				continue // the machine was too busy to read fast enough
			}
			if err != nil {
				t.Fatal(err)
			}
			_, trace := onlyLog(t, c, "FDR")
			calls += checkSequences(t, trace)
			read++
			c.Close()
		}
		if calls == 0 {
			t.Error("no calls")
		}
	}
}

// checkSequences checks that each thread's calls have no gaps, and returns the number of calls of leaf.
// In a thread, their arguments are n, n+1, n+1, n+2, n+2 and so on.
func checkSequences(t *testing.T, data []byte) (calls int) {
	t.Helper()
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	last := make(map[reader.Thread]uint64)
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range b.Args {
			if n, ok := last[b.Thread]; ok && a.Value != n && a.Value != n+1 {
				t.Fatalf("thread %d: leaf(%d) after leaf(%d)", b.Thread.Thread, a.Value, n)
			}
			last[b.Thread] = a.Value
			calls++
		}
	}
	if n := trace.Losses().Count(); n != 0 {
		first, _ := trace.Losses().First()
		t.Errorf("%d losses, the first: %v", n, first)
	}
	return calls
}
