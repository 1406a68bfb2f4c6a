package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/watch"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// This program handles requests in two threads until a file appears, but at least the given number in
// each. It prints how many of them it made slow. Further arguments: one request in this many is slow,
// and the pause between requests in microseconds.
const watchedProgram = `
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define RECORDED __attribute__((noinline, xray_always_instrument))
static atomic_int slow;
static const char *end;
static int least, rate = 200, pause_us = 200;
RECORDED void parse(int i) { for (volatile int k = 0; k < 2000; k++) ; }
RECORDED void stall(int late) { if (late) { usleep(150000); slow++; } }
RECORDED void handle(int i) { for (int k = 0; k < 5; k++) parse(k); stall(i % rate == 150); }
static void *work(void *p) {
	for (int i = 0; i < least || access(end, F_OK); i++) { handle(i); usleep(pause_us); }
	return p;
}
int main(int argc, char **argv) {
	pthread_t t[2];
	end = argv[1], least = atoi(argv[2]);
	if (argc > 3) rate = atoi(argv[3]);
	if (argc > 4) pause_us = atoi(argv[4]);
	for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	usleep(500000); /* so that watch sees all requests */
	printf("%d\n", slow);
	return 0;
}
`

func compileWatched(t *testing.T) (program string) {
	t.Helper()
	testenv.Need(t, "clang-22", "cc")
	program = filepath.Join(t.TempDir(), "requests")
	if err := os.WriteFile(program+".c", []byte(watchedProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-g", "-fxray-instrument", "-pthread", "-Wl,--build-id", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// readFolder returns the traces of a folder, and how many calls of stall took at least 150 ms.
func readFolder(t *testing.T, dir string) (entries []watch.Entry, stalls int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "_index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var e watch.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	o := runHere("xray", "slowest", "--root", "^stall$", "--top", "100000", "-f", "csv", dir)
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v\n%s", err, o)
	}
	column := slices.Index(rows[0], "duration_ns")
	for _, row := range rows[1:] {
		if ns, err := strconv.ParseFloat(row[column], 64); err != nil || ns < 150e6 {
			return entries, stalls // in descending order
		}
		stalls++
	}
	return entries, stalls
}

// checkWhy checks that why finds the cause without being told what to look for.
func checkWhy(t *testing.T, dir string) {
	t.Helper()
	if o := runHere("xray", "why", dir); o.status != 0 || !regexp.MustCompile(`(?m)^CAUSE \(\d+% of the lost time\): it is blocked longer in stall\.`).MatchString(o.stdout) {
		t.Errorf("why does not name the cause: %s", o)
	}
}

// watch writes a trace of every slow request of a program that it runs, and the program behaves as
// it does alone.
func TestWatchProgram(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	dir, seen := filepath.Join(t.TempDir(), "slow"), filepath.Join(t.TempDir(), "seen")
	cmd := exec.Command("xray", "watch", "--root", "^handle$", "--over", "100ms", "-o", dir, "--exec", "echo >>"+seen, "--", program, "/", "1000")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	planted, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil || planted != 10 {
		t.Fatalf("the program says %q, want 10", &out)
	}
	entries, stalls := readFolder(t, dir)
	if stalls != planted {
		t.Errorf("%d stalls in the traces, want %d\n%s", stalls, planted, &said)
	}
	calls, slow, usual := 0, 0, 0
	for _, e := range entries {
		if calls += e.Calls; e.Slow {
			slow++
		} else {
			usual++
		}
	}
	if calls < planted || usual == 0 {
		t.Errorf("%d slow calls, %d traces of usual ones; want %d and some", calls, usual, planted)
	}
	commands, err := os.ReadFile(seen)
	if n := bytes.Count(commands, []byte("\n")); err != nil || n != slow {
		t.Errorf("--exec ran for %d of %d traces (%v)", n, slow, err)
	}
	checkWhy(t, dir)
}

// A program that watch runs waits until it is watched.
func TestWatchFirstCall(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22", "cc")
	program := filepath.Join(t.TempDir(), "first")
	const source = `#include <unistd.h>
__attribute__((noinline)) void handle(int i) { usleep(i ? 100 : 300000); }
int main(void) { for (int i = 0; i < 2000; i++) handle(i); usleep(500000); return 0; }`
	cmd := exec.Command("clang-22", "-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-xc", "-", "-o", program)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, command := range [][]string{{program}, {"sh", "-c", "exec " + program}} {
		dir := filepath.Join(t.TempDir(), "slow")
		o := runHere(slices.Concat([]string{"xray", "watch", "--root", "^handle$", "--over", "250ms", "-o", dir, "--"}, command)...)
		if o.status != 0 || !strings.Contains(o.stderr, "xray: 2,000 calls of ^handle$, 1 slow") {
			t.Errorf("watch %s did not see all 2,000 calls: %s", command, o)
		}
	}
}

// watch attaches to each process with a name, and leaves them as they were when it ends.
func TestWatchByName(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	dir := filepath.Join(t.TempDir(), "slow")
	name := "requests" + strconv.Itoa(os.Getpid())
	if err := os.Rename(program, filepath.Join(filepath.Dir(program), name)); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(filepath.Dir(program), name)
	w := exec.Command("xray", "watch", "--wait-for", name, "--root", "^handle$", "--over", "100ms", "-o", dir)
	var said lockedBuffer
	w.Stderr = &said
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	for run := 1; run <= 2; run++ {
		end := filepath.Join(t.TempDir(), "end")
		cmd := exec.Command(program, end, "400")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		until(t, fmt.Sprintf("traces of process %d", run), func() bool {
			_, after, _ := strings.Cut(said.String(), fmt.Sprintf("watching process %d ", cmd.Process.Pid))
			return strings.Count(after, "handle took") >= 2
		})
		if run == 2 {
			_ = w.Process.Signal(syscall.SIGINT)
			if err := w.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &said)
			}
		}
		if err := os.WriteFile(end, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) == "0" {
			t.Errorf("the program: %v, %q", err, &out)
		}
	}
	entries, _ := readFolder(t, dir)
	processes := make(map[int]bool)
	for _, e := range entries {
		processes[e.Process] = true
	}
	if len(processes) != 2 {
		t.Errorf("traces of %d processes, want 2\n%s", len(processes), &said)
	}
	checkWhy(t, dir)
}

// The program may be in a container, whose files watch does not see under the recorded paths.
func TestWatchOtherMounts(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "unshare")
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	program := compileWatched(t)
	hidden, end := t.TempDir(), filepath.Join(t.TempDir(), "end")
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs none "$1" && cp "$2" "$1" && exec "$1"/requests "$3" 400`, "sh", hidden, program, end)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := strconv.Itoa(cmd.Process.Pid)
	until(t, "the program", func() bool {
		exe, _ := os.Readlink("/proc/" + pid + "/exe")
		return filepath.Base(exe) == "requests"
	})
	dir := filepath.Join(t.TempDir(), "slow")
	o := runHere("xray", "watch", "-p", pid, "--root", "^handle$", "--over", "100ms", "-o", dir, "--duration", "3s")
	if o.status != 0 || !strings.Contains(o.stderr, "handle took") {
		t.Error(o)
	}
}

// With --wait-for, watch reports each process that it cannot watch once, even with --quiet.
func TestWatchByNameRefused(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "setpriv", "cc")
	if os.Geteuid() != 0 {
		t.Skip("other users have no capabilities to drop")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	// An interruption of a compilation is another message.
	if out, err := exec.Command("xray", "runtime", "install", t.TempDir()).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(t.TempDir(), "a-long-name-"+strconv.Itoa(os.Getpid()))
	if out, err := exec.Command("cp", sleep, program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, c := range []struct {
		as       []string
		expected string
	}{
		{nil, "no function is instrumented"},
		{[]string{"setpriv", "--bounding-set=-all"}, "CAP_SYS_PTRACE"},
	} {
		args := append(c.as, "xray", "watch", "--wait-for", filepath.Base(program), "--root", "^handle$",
			"-o", filepath.Join(t.TempDir(), "slow"), "--quiet")
		said := filepath.Join(t.TempDir(), "said")
		file, err := os.Create(said)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := exec.Command(args[0], args[1:]...)
		w.Stderr = file
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if text, _ := os.ReadFile(said); len(text) > 0 {
				break
			}
		}
		time.Sleep(2 * time.Second) // it tries again meanwhile
		_ = w.Process.Signal(os.Interrupt)
		err = w.Wait()
		if text, _ := os.ReadFile(said); err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), c.expected) {
			t.Errorf("%v, want one line with %q\n%s", err, c.expected, text)
		}
	}
}

// systemd understands the unit in docs/deploy.md.
func TestWatchUnit(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "systemd-analyze")
	doc, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	unit := regexp.MustCompile(`(?s)    \[Unit\].*?WantedBy=[^\n]*`).FindString(string(doc))
	unit = strings.ReplaceAll(strings.ReplaceAll(unit, "\n    ", "\n")[4:], "/usr/local/bin/xray ", "/bin/true ")
	path := filepath.Join(t.TempDir(), "xray-watch.service")
	if err := os.WriteFile(path, []byte(unit), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput(); err != nil || bytes.Contains(out, []byte(path)) {
		t.Errorf("%v\n%s\n%s", err, out, unit)
	}
}

// The program may be a script. If nothing in it can be watched, watch says so while it runs.
func TestWatchScript(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	for _, c := range []struct {
		root, script, expected string
		status                 int
	}{
		{"^handle$", "$0 $1 1; exit 0", "handle took", 0},
		{"^handle$", "sleep 1; exec $0 $1 1", "handle took", 0},
		{"^handle$", "until [ -e $1 ]; do sleep 0.1; done", "no function is instrumented: .* Waiting for a child process with instrumented functions", 1},
		{"^handle$", "exit 0", "^xray: the program ended before xray could watch it\n$", 1},
		{"^handle$", "exit 3", "^xray: the program ended before xray could watch it\n$", 3},
		{"^other$", "exec $0 $1 1", "no function in .*/requests matches --root", 1},
	} {
		dir, end := filepath.Join(t.TempDir(), "slow"), filepath.Join(t.TempDir(), "end")
		w := exec.Command("xray", "watch", "--root", c.root, "--over", "100ms", "-o", dir, "--", "sh", "-c", c.script, program, end)
		var said lockedBuffer
		w.Stderr = &said
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Process.Kill() })
		until(t, c.expected, func() bool { return regexp.MustCompile(c.expected).MatchString(said.String()) })
		if err := os.WriteFile(end, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(); w.ProcessState.ExitCode() != c.status {
			t.Errorf("%s: %v\n%s", c.script, err, &said)
		}
		if _, err := os.Stat(dir); err == nil && c.status != 0 {
			t.Errorf("%s: an empty folder stays", c.script)
		}
	}
}

// A second watch of a process ignores records from the first in the rings, and does not report them as
// lost.
func TestWatchAgain(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	end := filepath.Join(t.TempDir(), "end")
	cmd := exec.Command(program, end, "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	watchFor := func(dir, duration string) output {
		t.Helper()
		o := runHere("xray", "watch", "-p", strconv.Itoa(cmd.Process.Pid), "--root", "^handle$", "--over", "100ms", "--ring", "128K", "-o", dir, "--duration", duration)
		if o.status != 0 {
			t.Fatal(o)
		}
		return o
	}
	watchFor(filepath.Join(t.TempDir(), "first"), "2s")
	between := time.Now()
	dir := filepath.Join(t.TempDir(), "second")
	o := watchFor(dir, "2s")
	entries, stalls := readFolder(t, dir)
	if stalls == 0 || strings.Contains(o.stderr, "overwritten") {
		t.Errorf("%d slow calls\n%s", stalls, o)
	}
	for _, e := range entries {
		if e.Time.Before(between) {
			t.Errorf("a trace of a call that began %v before the second watch", between.Sub(e.Time))
		}
	}
	// The duration begins when the process is watched.
	if o := watchFor(filepath.Join(t.TempDir(), "third"), "1ms"); !strings.Contains(o.stderr, "watching") {
		t.Errorf("watched for a millisecond: %s", o)
	}
}

// If --root selects nothing, watch refuses before it changes the process. It does not refuse if the names
// are in another file.
func TestWatchChecksRoot(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "strip")
	program := compileWatched(t)
	stripped, end := filepath.Join(t.TempDir(), "requests"), filepath.Join(t.TempDir(), "end")
	if out, err := exec.Command("strip", program, "-o", stripped).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sysroot := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sysroot, filepath.Dir(stripped)), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(sysroot, stripped)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program, root, symbols string
		status                 int
		loaded                 bool
	}{
		{program, "^other$", "", 1, false},
		{program, "^handle$", "", 0, true},
		{stripped, "^handle$", "", 1, false},
		{stripped, "^handle$", filepath.Dir(program), 0, true},
		{stripped, "^other$", filepath.Dir(program), 1, false},
		{stripped, "^handle$", sysroot, 0, true},
		{stripped, "^other$", sysroot, 1, true},
	} {
		cmd := exec.Command(c.program, end, "1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid, dir := strconv.Itoa(cmd.Process.Pid), filepath.Join(t.TempDir(), "slow")
		args := []string{"xray", "watch", "-p", pid, "--root", c.root, "-o", dir, "--duration", "10s"}
		if c.symbols != "" {
			args = append(args, "--symbols", c.symbols)
		}
		w := exec.Command(args[0], args[1:]...)
		var said lockedBuffer
		w.Stderr = &said
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		if c.status == 0 {
			until(t, "watch to watch", func() bool { return strings.Contains(said.String(), "watching process") })
			_ = w.Process.Signal(syscall.SIGINT)
		}
		_ = w.Wait()
		maps, err := os.ReadFile("/proc/" + pid + "/maps")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if loaded := bytes.Contains(maps, []byte("/memfd:xray-recorder")); err != nil || loaded != c.loaded || w.ProcessState.ExitCode() != c.status {
			t.Errorf("%+v: the recorder is in the process: %t, %v\n%s", c, loaded, err, &said)
		}
		refused := strings.Contains(said.String(), "no function in "+c.program+" matches --root \""+c.root+"\"")
		if _, err := os.Stat(dir); refused != (c.status != 0) || refused == (err == nil) {
			t.Errorf("%+v: %v\n%s", c, err, &said)
		}
	}
}

// If no trace fits into --disk, watch keeps one, and says once how large it is and what to do.
func TestWatchLittleDisk(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	dir := filepath.Join(t.TempDir(), "slow")
	said, err := exec.Command("xray", "watch", "--root", "^handle$", "--over", "100ms", "-o", dir, "--disk", "1K", "--", program, "/", "1000").CombinedOutput()
	warning := regexp.MustCompile(`(?m)^xray: warning: a trace takes [\d.]+ kB, more than --disk allows for all traces together, so xray keeps only one trace\. Use a larger --disk$`)
	if n := len(warning.FindAll(said, -1)); err != nil || n != 1 {
		t.Errorf("%v, %d warnings, want 1:\n%s", err, n, said)
	}
	if traces, err := filepath.Glob(filepath.Join(dir, "*-slow-*.xray")); err != nil || len(traces) != 1 {
		t.Errorf("got traces %q (%v), want one of a slow call", traces, err)
	}
	if o := runHere("xray", "account", "--func", "^stall$", dir); o.status != 0 || !strings.Contains(o.stdout, "stall") {
		t.Errorf("account: %s", o)
	}
}

// For minutes, each slow request has its trace, and the memory of watch does not grow. With
// XRAY_SOAK=1, it takes half an hour, with more requests per second.
func TestWatchSoak(t *testing.T) {
	length, rate, pauseUS := 2*time.Minute, 500, 1000
	if os.Getenv("XRAY_SOAK") != "" {
		length, rate, pauseUS = 30*time.Minute, 40000, 200
	}
	program := compileWatched(t)
	dir, end := filepath.Join(t.TempDir(), "slow"), filepath.Join(t.TempDir(), "end")
	cmd := exec.Command("xray", "watch", "--root", "^handle$", "--over", "100ms", "-o", dir, "--traces", "0", "--",
		program, end, strconv.Itoa(10*rate), strconv.Itoa(rate), strconv.Itoa(pauseUS))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	began := time.Now()
	t.Parallel() // the program runs while this test waits for its turn
	time.Sleep(time.Until(began.Add(length)))
	if err := os.WriteFile(end, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	_, stalls := readFolder(t, dir)
	t.Logf("%s: %d stalls found; the program says %s", &said, stalls, &out)
	if strconv.Itoa(stalls) != strings.TrimSpace(out.String()) {
		t.Errorf("%d stalls in the traces, want %s", stalls, &out)
	}
	const most = 1 << 30
	if rss := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; rss > most {
		t.Errorf("watch took %d bytes of memory", rss)
	}
	checkWhy(t, dir)
}

// lockedBuffer may be read while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Within a budget, watch leaves out a function that is called all the time, and says so, but finds every
// slow request and its cause.
func TestWatchBudget(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22", "cc")
	dir := filepath.Join(t.TempDir(), "slow")
	program, end := filepath.Join(t.TempDir(), "requests"), filepath.Join(t.TempDir(), "end")
	source := strings.Replace(watchedProgram, ", xray_always_instrument", "", 1)
	source = strings.Replace(source, "RECORDED void parse(int i) { for (volatile int k = 0; k < 2000; k++) ; }", `
RECORDED void hot(void) { for (volatile int k = 0; k < 20; k++) ; }
RECORDED void parse(int i) { for (volatile int k = 0; k < 2000; k++) hot(); }`, 1)
	if err := os.WriteFile(program+".c", []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-pthread", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, end, "1", "400")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	w := exec.Command("xray", "watch", "-p", strconv.Itoa(cmd.Process.Pid), "--budget", "5%", "--root", "^handle$", "--over", "100ms", "-o", dir)
	var said lockedBuffer
	w.Stderr = &said
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	until(t, "traces", func() bool { return strings.Count(said.String(), "handle took") >= 6 })
	second := exec.Command("xray", "watch", "-p", strconv.Itoa(cmd.Process.Pid), "--budget", "5%", "--root", "^handle$", "--duration", "10s", "-o", t.TempDir())
	if text, err := second.CombinedOutput(); err == nil || !strings.Contains(string(text), "another xray watch or xray record already controls its budget: stop that one first") {
		t.Errorf("a second watch with a budget was not refused: %v, %s", err, text)
	}
	if o := runHere("xray", "top", "--once", strconv.Itoa(cmd.Process.Pid)); o.status != 1 || !strings.Contains(o.stderr, "within a budget, but top needs all calls") {
		t.Errorf("top: %s", o)
	}
	_ = w.Process.Signal(syscall.SIGINT)
	if err := w.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &said)
	}
	if err := os.WriteFile(end, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
	_, stalls := readFolder(t, dir)
	if stalls < 6 {
		t.Errorf("%d calls of stall in the traces\n%s", stalls, &said)
	}
	o := runHere("xray", "why", dir)
	// The budget may have no room for off-CPU times.
	if o.status != 0 || !regexp.MustCompile(`(?m)^CAUSE \(\d+% of the lost time\): (stall itself is slower|it is blocked longer in stall)`).MatchString(o.stdout) {
		t.Errorf("why does not name the cause: %s", o)
	}
	if o := runHere("xray", "account", dir); !strings.Contains(o.stdout+o.stderr, "budget of 5% of the CPU time") {
		t.Errorf("account does not say what is missing: %s", o)
	}
}
