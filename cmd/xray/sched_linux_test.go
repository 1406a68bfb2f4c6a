package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
)

const schedProgram = `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int turn, pipes[2];
#define RECORDED __attribute__((noinline, xray_always_instrument))
static void spin(long us) {
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000000l + b.tv_nsec - a.tv_nsec < us * 1000);
}
RECORDED void wait_turn(void) { pthread_mutex_lock(&m); while (!turn) pthread_cond_wait(&c, &m); turn--; pthread_mutex_unlock(&m); }
RECORDED void give_turn(void) { pthread_mutex_lock(&m); turn++; pthread_cond_signal(&c); pthread_mutex_unlock(&m); }
RECORDED void read_pipe(void) { char b; if (read(pipes[0], &b, 1) != 1) abort(); }
RECORDED void write_pipe(void) { if (write(pipes[1], "x", 1) != 1) abort(); }
RECORDED void nap(void) { usleep(500); }
RECORDED void work(void) { spin(200); }
static void *waiter(void *p) {
	prctl(PR_SET_NAME, "waiter");
	for (int i = 0; i < 40; i++) { wait_turn(); read_pipe(); }
	return p;
}
static void pin(void) {
	cpu_set_t set, one;
	sched_getaffinity(0, sizeof set, &set);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set)) { CPU_SET(i, &one); break; }
	sched_setaffinity(0, sizeof one, &one);
}
int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "hog")) {
		prctl(PR_SET_NAME, "hogtask");
		pin();
		for (;;) spin(1000000);
	}
	if (argc > 1) { // until it is told to end
		for (int i = 0; i < 20000 && access(argv[1], F_OK); i++) { nap(); work(); }
		return 0;
	}
	pthread_t t;
	if (pipe(pipes)) abort();
	prctl(PR_SET_NAME, "signaller");
	pthread_create(&t, 0, waiter, 0);
	for (int i = 0; i < 40; i++) { spin(1000); give_turn(); spin(1000); write_pipe(); }
	pthread_join(t, 0);
	pin();
	for (int i = 0; i < 500; i++) work();
	return 0;
}
`

// schedTest returns a program, or skips the test if the kernel's tracer is not usable.
func schedTest(t *testing.T) (program string) { return compileSched(t, schedProgram) }

func compileSched(t *testing.T, text string) (program string) {
	t.Helper()
	testenv.Need(t, "clang-22", "cc", "unshare")
	kinds, _ := os.ReadFile("/proc/filesystems")
	if os.Getuid() != 0 || !bytes.Contains(kinds, []byte("tracefs")) {
		if os.Getenv("CI") == "true" {
			t.Fatal("not root, or no tracefs; CI=true requires both")
		}
		t.Skip("not root, or no tracefs")
	}
	dir := t.TempDir()
	program = filepath.Join(dir, "prog")
	source := program + ".c"
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-fxray-instrument", "-pthread", source, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// instances returns the tracer instances that xray has created.
func instances(t *testing.T) []string {
	t.Helper()
	const list = `d=/sys/kernel/tracing; [ -d $d/instances ] || mount -t tracefs nodev $d; ls $d/instances`
	out, err := exec.Command("unshare", "-m", "sh", "-c", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return !strings.HasPrefix(name, "xray-") })
}

// instanceOf returns the tracer instance of a process, or "".
func instanceOf(t *testing.T, pid int) string {
	for _, name := range instances(t) {
		if strings.HasPrefix(name, "xray-"+strconv.Itoa(pid)+"-") {
			return name
		}
	}
	return ""
}

func startXray(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("xray", args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(25 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("timeout: waiting for %s", what)
		}
	}
}

// childNamed returns a child of a process whose command line contains a word.
func childNamed(parent int, word string) int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(parent), "-f", word).Output()
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	// Before they execute a program, all children have the parent's arguments, by which pgrep may have found one.
	args := func(pid int) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return string(text)
	}
	if own := args(pid); own == args(parent) || !strings.Contains(own, word) {
		return 0
	}
	return pid
}

func TestSchedSaysWho(t *testing.T) {
	t.Parallel()
	program := schedTest(t)
	hog := exec.Command(program, "hog")
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hog.Process.Kill(); _ = hog.Wait() }()
	path := program + ".xray"
	var tr *reader.Trace
	var r *reader.Recording
	for tries := 1; ; tries++ {
		out, err := exec.Command("xray", "record", "--sched", "-o", path, program).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if tr, err = reader.Open(reader.Options{}, path); err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		// A busy machine may not leave xray enough time to read all events before the kernel overwrites them.
		if r = tr.Recording(0); r.Sched.Lost() == 0 || tries == 3 {
			break
		}
	}
	log := sched.New(r)
	if log == nil || r.Sched.Lost() > 0 {
		t.Fatalf("got %d scheduler events, %d lost; reason %q", r.Sched.Events(), r.Sched.Lost(), r.Process.NoSched)
	}
	checkWoken(t, r, log)
	signaller := r.Process.PID
	var waited, queued, byHog, byUnknown uint64
	main := log.Thread(signaller)
	for i, off := 0, main.Off(0, ^uint64(0)); i < len(off); i++ {
		// Skip waits in which the thread moved to another CPU: the recorder does not say
		// who ran on the first one.
		stayed := off[i].Runnable() && off[i].OutCPU == off[i].InCPU
		if stayed && off[i].In != 0 {
			waited += off[i].In - off[i].Out
		}
		for _, run := range main.Instead(&off[i], 0, ^uint64(0)) {
			if stayed {
				queued += run.To - run.From
				if run.Task.TID < 0 {
					byUnknown += run.To - run.From
				}
				if run.Task == (reader.Task{PID: int32(hog.Process.Pid), TID: int32(hog.Process.Pid), Name: "hogtask"}) {
					byHog += run.To - run.From
				}
			}
		}
	}
	if ms := byHog * 1000 / r.Clock.Frequency; ms < 10 || queued != waited || byUnknown > queued/10 {
		t.Errorf("the hog ran for %d ms instead of the program; of %d ticks in the run queue, %d are attributed, %d of these to an unknown task", ms, waited, queued, byUnknown)
	}
	if r.Process.OffCPU != "" {
		checkPerfetto(t, path)
	}
	checkLanes(t, path, tr, log)
	// The kernel's clock and the trace's agree: a thread records nothing while it does not run.
	records, asleep := 0, 0
	for block, err := range tr.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		thread := log.Thread(block.Thread.Thread)
		for i := range block.Events {
			tsc := block.Events[i].TSC
			records++
			for _, o := range thread.Off(tsc, tsc+1) {
				if o.In != 0 && o.Out < tsc && tsc < o.In {
					asleep++
				}
			}
		}
	}
	if records < 1000 || asleep > 0 {
		t.Errorf("%d of %d records have a time at which their thread did not run", asleep, records)
	}
}

// checkPerfetto checks that the timeline names who ran and who woke the waiter, and that flows
// connect the two threads.
func checkPerfetto(t *testing.T, path string) {
	t.Helper()
	out := path + ".pftrace"
	if o := runHere("xray", "convert", "-f", "perfetto", "-o", out, path); o.status != 0 {
		t.Fatal(o)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"woken by signaller", "behind hogtask", "wakes thread "} {
		if !bytes.Contains(data, []byte(text)) {
			t.Errorf("no %q in the timeline", text)
		}
	}
	ends := make(map[uint64]int) // by flow
	var find func(data []byte, path ...protowire.Number)
	find = func(data []byte, path ...protowire.Number) {
		for len(data) > 0 {
			field, kind, n := protowire.ConsumeTag(data)
			size := protowire.ConsumeFieldValue(field, kind, data[max(0, n):])
			if n < 0 || size < 0 {
				t.Fatal("the timeline is not a valid protobuf message")
			}
			value := data[n : n+size]
			switch {
			case field != path[0]:
			case kind == protowire.Fixed64Type:
				id, _ := protowire.ConsumeFixed64(value)
				ends[id]++
			default:
				inner, _ := protowire.ConsumeBytes(value)
				find(inner, path[1:]...)
			}
			data = data[n+size:]
		}
	}
	find(data, 1, 11, 47) // packet, track event, flow
	whole := 0
	for _, n := range ends {
		if n == 2 {
			whole++
		}
	}
	if whole < 10 || whole < len(ends) {
		t.Errorf("%d of %d flows have two ends", whole, len(ends))
	}
}

// checkLanes checks that Perfetto finds the same times on CPU, waits and wake-ups as the log has, the
// CPU time that account has, and that calls are on the same threads.
func checkLanes(t *testing.T, path string, tr *reader.Trace, log *sched.Log) {
	t.Helper()
	p := inTraceProcessor(t, converted(t, "perfetto", path))
	number := func(query string, args ...any) int64 {
		n, _ := p.Query(fmt.Sprintf("select ifnull((%s), 0)", fmt.Sprintf(query, args...)))[0][0].(int64)
		return n
	}
	if n := number(`select count(*) from slice s join thread_track k on s.track_id = k.id where utid not in (select utid from sched)`); n > 0 {
		t.Errorf("%d slices are on threads that never ran", n)
	}
	if n := number(`select count(*) from (select tid from thread group by 1 having count(*) > 1)`); n > 0 {
		t.Errorf("%d threads are there more than once", n)
	}
	r, first := tr.Recording(0), ^uint64(0)
	for block, err := range tr.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range block.Events {
			first = min(first, block.Events[i].TSC)
		}
	}
	pid := r.Process.PID
	for tid := range log.All() {
		var blocked, queued, waits, byMain uint64
		for _, o := range log.Thread(tid).Off(first, ^uint64(0)) {
			if o.In == 0 || o.Doubtful {
				continue
			}
			ready, start := cmp.Or(o.Ready(), o.In), max(o.Out, first)
			blocked, queued, waits = blocked+max(ready, start)-start, queued+o.In-max(ready, start), waits+1
			if o.Waker.TID == pid && o.Woken >= first {
				byMain++
			}
		}
		for what, ticks := range map[string]uint64{"not like 'R%'": blocked, "in ('R', 'R+')": queued} {
			got := number(`select sum(dur) from thread_state join thread using (utid) where tid = %d and dur > 0 and state %s`, tid, what)
			if want := int64(reader.Clock{Frequency: r.Clock.Frequency}.Nanos(ticks)); max(got-want, want-got) > int64(waits)+1 {
				t.Errorf("thread %d: states %s take %d ns, and in the trace %d", tid, what, got, want)
			}
		}
		got := number(`select count(*) from thread_state s join thread t using (utid) join thread w on s.waker_utid = w.utid where t.tid = %d and w.tid = %d`, tid, pid)
		if uint64(got) != byMain {
			t.Errorf("thread %d was woken by the first thread %d times, and in the trace %d times", tid, got, byMain)
		}
	}
	if n := number(`select count(*) from sched join thread using (utid) join process using (upid) where thread.name = 'hogtask' and process.name like 'hogtask (outside%%'`); n == 0 {
		t.Error("the hog never ran")
	}
	if r.Process.OffCPU == "" {
		return
	}
	var account struct {
		Functions []struct {
			CPU float64 `json:"on_cpu_ns"`
		}
	}
	if err := json.Unmarshal([]byte(produce(t, "account", "--format", "json", "--thread", strconv.Itoa(int(pid)), path)), &account); err != nil {
		t.Fatal(err)
	}
	cpu := 0.0
	for _, f := range account.Functions {
		cpu += f.CPU
	}
	got := number(`with calls as (select utid, ts, ts + dur as end from slice s join thread_track k on s.track_id = k.id join thread using (utid) where depth = 0 and tid = %d)
		select sum(min(s.ts + s.dur, end) - max(s.ts, calls.ts)) from sched s join calls using (utid) where s.ts < end and s.ts + s.dur > calls.ts`, pid)
	if math.Abs(float64(got)-cpu) > 0.05*cpu {
		t.Errorf("the first thread ran for %d ns, and for %.0f ns according to account", got, cpu)
	}
}

// checkWoken checks that the signaller woke the waiter 40 times by the condition variable and 40
// times by the pipe. On a busy machine it may be fewer, because the waiter comes too late to sleep.
func checkWoken(t *testing.T, r *reader.Recording, log *sched.Log) {
	t.Helper()
	signaller, waiter := r.Process.PID, int32(0)
	for _, info := range r.Threads {
		if info.Name == "waiter" {
			waiter = info.TID
		}
	}
	woken, others := 0, 0
	off := log.Thread(waiter).Off(0, ^uint64(0))
	for _, o := range off {
		if o.Woken != 0 && o.In != 0 && !(o.Out < o.Woken && o.Woken <= o.In) {
			t.Errorf("out of order: %+v", o)
		}
		switch {
		case o.State != 'S' || o.In == 0:
		case o.Waker.TID == signaller && o.Waker.PID == signaller && !o.Interrupt:
			woken++
		default:
			others++
		}
	}
	if woken < 10 || others > woken/4 { // the recorder and the kernel wake it, too
		t.Errorf("the signaller woke the waiter (%d) %d times, want up to 80; others %d times, want far fewer; it was off CPU %d times",
			waiter, woken, others, len(off))
	}
}

// merge-sched gives the same result from files of perf and ftrace if --clock names the clock they
// were recorded with.
func TestMergeSched(t *testing.T) {
	program := schedTest(t)
	testenv.Need(t, "perf")
	t.Chdir(filepath.Dir(program))
	const script = `set -e
[ -d /sys/kernel/tracing/instances ] || mount -t tracefs nodev /sys/kernel/tracing
i=/sys/kernel/tracing/instances/merge-$$
mkdir $i
trap 'echo 0 >$i/tracing_on; rmdir $i' EXIT
echo x86-tsc >$i/trace_clock
echo 64000 >$i/buffer_size_kb
for e in sched/sched_switch sched/sched_waking irq/irq_handler_entry irq/irq_handler_exit irq/softirq_entry irq/softirq_exit; do
	echo 1 >$i/events/$e/enable
done
perf record -q -a -k CLOCK_MONOTONIC -m 16M -e 'sched:sched_switch,sched:sched_waking,irq:irq_handler_*,irq:softirq_entry,irq:softirq_exit' -o perf.data -- xray record -q -o t.xray ./prog
echo 0 >$i/tracing_on
cat $i/trace >ftrace.txt
perf script --ns -i perf.data >perf.txt
`
	// On a busy machine, perf may not get enough time, and buffers may be too small.
	for tries, missing := 1, true; missing && tries <= 3; tries++ {
		if out, err := exec.Command("unshare", "-m", "sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		missing = false
		for _, path := range []string{"perf.txt", "ftrace.txt"} {
			events, err := readSchedText(path)
			if err != nil {
				t.Fatal(err)
			}
			missing = missing || events.Missing > 0
		}
	}
	for _, c := range []struct {
		args []string
		says string // "" for success
	}{
		{[]string{"perf.txt", "--clock", "monotonic"}, ""},
		{[]string{"ftrace.txt"}, ""},
		{[]string{"perf.txt", "--clock", "realtime"}, "was it recorded at the same time and with this clock?"},
		{[]string{"ftrace.txt", "--clock", "monotonic"}, "its times are ticks"},
		{[]string{"perf.txt", "--clock", "x86-tsc"}, "its times are seconds"},
		{[]string{"perf.txt"}, "--clock"},
	} {
		o := runHere(append([]string{"xray", "merge-sched", "t.xray", "-o", "merged.xray"}, c.args...)...)
		if c.says != "" {
			if o.status == 0 || !strings.Contains(o.stderr, c.says) {
				t.Errorf("%v: %s", c.args, o)
			}
			continue
		}
		if o.status != 0 {
			t.Errorf("%v: %s", c.args, o)
			continue
		}
		tr, err := reader.Open(reader.Options{}, "merged.xray")
		if err != nil {
			t.Fatal(err)
		}
		if tr.Losses().Count() > 0 {
			t.Errorf("losses: %v", tr.Losses().Samples())
		}
		r := tr.Recording(0)
		checkWoken(t, r, sched.New(r))
		if n := r.Sched.Interrupts(); n == 0 {
			t.Errorf("%v: no interrupts", c.args)
		}
		tr.Close()
	}
	// merge-sched detects a clock that is slightly off: threads seem to record while they do not
	// run.
	text, err := os.ReadFile("ftrace.txt")
	if err != nil {
		t.Fatal(err)
	}
	shifted := regexp.MustCompile(` (\d{9,}): sched_`).ReplaceAllFunc(text, func(m []byte) []byte {
		n, _ := strconv.ParseUint(string(m[1:len(m)-len(": sched_")]), 10, 64)
		return []byte(fmt.Sprintf(" %d: sched_", n+3_000_000))
	})
	if err := os.WriteFile("shifted.txt", shifted, 0o666); err != nil {
		t.Fatal(err)
	}
	if o := runHere("xray", "merge-sched", "t.xray", "-o", "merged.xray", "shifted.txt"); o.status == 0 || !strings.Contains(o.stderr, "threads that were not running") {
		t.Errorf("clock 3,000,000 ticks off: want an error, got %s", o)
	}
}

// TestSchedInstanceRemoved checks that no tracer instance stays in the kernel, however a recording
// ends.
func TestSchedInstanceRemoved(t *testing.T) {
	t.Parallel()
	program := schedTest(t)
	for _, c := range []struct {
		name string
		kill func(xray, observer int)
		next bool // only the next recording removes the instance
	}{
		{"normal end", func(int, int) {}, false},
		{"SIGINT", func(xray, _ int) { _ = syscall.Kill(-xray, syscall.SIGINT) }, false},
		{"SIGKILL of record", func(xray, _ int) { _ = syscall.Kill(xray, syscall.SIGKILL) }, false},
		{"SIGKILL of both", func(xray, observer int) {
			_ = syscall.Kill(xray, syscall.SIGKILL)
			_ = syscall.Kill(observer, syscall.SIGKILL)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := filepath.Join(t.TempDir(), "end")
			cmd := startXray(t, "record", "-q", "--sched", "-o", end+".xray", program, end)
			observer, name := 0, ""
			until(t, "an instance", func() bool {
				observer = childNamed(cmd.Process.Pid, "observe")
				if observer != 0 {
					name = instanceOf(t, observer)
				}
				return name != ""
			})
			c.kill(cmd.Process.Pid, observer)
			if err := os.WriteFile(end, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if c.next {
				// On a busy machine, a killed process keeps its files for a while.
				until(t, "the observer's end", func() bool {
					files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", observer))
					return err != nil || len(files) == 0
				})
				if instanceOf(t, observer) == "" {
					t.Error("the instance was removed before the next recording")
				}
				if out, err := exec.Command("xray", "record", "-q", "--sched", "-o", end+"2.xray", program, end).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			until(t, "no instance", func() bool { return instanceOf(t, observer) == "" })
		})
	}
}

// The scheduler events of a running process can be recorded. If the recording is killed, the
// process keeps running.
func TestSchedOfRunningProcess(t *testing.T) {
	t.Parallel()
	program := schedTest(t)
	end := filepath.Join(t.TempDir(), "end")
	cmd := startXray(t, "record", "-q", "-o", end+".xray", program, end)
	pid := 0
	until(t, "the program", func() bool {
		pid = childNamed(cmd.Process.Pid, program)
		return pid != 0 && exec.Command("xray", "ctl", strconv.Itoa(pid), "stop").Run() == nil
	})
	events := func(path string) uint64 {
		tr, err := reader.Open(reader.Options{}, path)
		if err != nil {
			return 0
		}
		defer tr.Close()
		if tr.Losses().Count() > 0 {
			t.Errorf("losses: %v", tr.Losses().Samples())
		}
		log := sched.New(tr.Recording(0))
		if log == nil {
			return 0
		}
		var naps uint64
		for _, o := range log.Thread(int32(pid)).Off(0, ^uint64(0)) {
			if o.State == 'S' && o.Interrupt {
				naps++ // the timer woke it
			}
		}
		return naps
	}
	// The busier the machine is, the less the program runs.
	var n uint64
	for i, duration := range []string{"300ms", "3s", "30s"} {
		path := end + strconv.Itoa(i) + ".xray"
		if out, err := exec.Command("xray", "record", "--sched", "-p", strconv.Itoa(pid), "--duration", duration, "-o", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if n = events(path); n >= 50 {
			break
		}
	}
	if n < 50 {
		t.Errorf("the timer woke the program %d times, want at least 50", n)
	}
	killed, _ := recordProcess(t, strconv.Itoa(pid), end+"killed.xray", "--sched")
	follower := childNamed(killed.Process.Pid, "follow-sched")
	if follower == 0 || instanceOf(t, follower) == "" {
		t.Fatalf("process %d does not read events", follower)
	}
	before := waitsOf(t, pid)
	until(t, "the program to wait often", func() bool { return waitsOf(t, pid) >= before+150 })
	_ = killed.Process.Kill()
	until(t, "no instance", func() bool { return instanceOf(t, follower) == "" })
	until(t, "the events", func() bool { return events(end+"killed.xray") >= 50 })
	if err := os.WriteFile(end, nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

// waitsOf returns how often the first thread of a process has waited.
func waitsOf(t *testing.T, pid int) (n int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatalf("%v: %s", err, status)
	}
	return n
}

// Without permission to trace the scheduler, the recording continues without these events.
func TestSchedWithoutRight(t *testing.T) {
	t.Parallel()
	program := schedTest(t)
	testenv.Need(t, "setpriv")
	path := program + ".xray"
	end := filepath.Join(t.TempDir(), "end")
	if err := os.WriteFile(end, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	// Root can use tracefs wherever it is mounted.
	const script = `umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
exec setpriv --bounding-set=-sys_admin,-dac_override --inh-caps=-sys_admin,-dac_override xray record --sched -o "$@"`
	out, err := exec.Command("unshare", "-m", "sh", "-c", script, "sh", path, program, end).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("xray: --sched: ")) || !bytes.Contains(out, []byte("run xray as root")) ||
		bytes.Count(out, []byte("--sched")) != 1 || !bytes.Contains(out, []byte("1 call of")) && !bytes.Contains(out, []byte("0 calls")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if o := runHere("xray", "info", path); !strings.Contains(o.stdout, "The scheduler's events were not recorded: ") {
		t.Errorf("info does not say that scheduler events are missing:\n%s", o)
	}
}

const interruptProgram = `
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#define RECORDED __attribute__((noinline, xray_always_instrument))
static int in, out;
static struct sockaddr_in to;
RECORDED void send_all(void) {
	char text[1000] = {0};
	for (int i = 0; i < 20; i++) sendto(out, text, sizeof text, 0, (void *)&to, sizeof to);
}
RECORDED void compute(void) { for (volatile int i = 0; i < 20000; i++); }
int main(void) {
	socklen_t size = sizeof to;
	in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
	to.sin_family = AF_INET, to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(in, (void *)&to, sizeof to) || getsockname(in, (void *)&to, &size)) abort();
	for (int i = 0; i < 200; i++) { compute(); send_all(); }
	return 0;
}
`

// The kernel receives packets that a program sends to itself in a softirq, on the sending thread. The
// trace, account and the timeline show it.
func TestSchedInterrupts(t *testing.T) {
	t.Parallel()
	program := compileSched(t, interruptProgram)
	path := program + ".xray"
	if out, err := exec.Command("xray", "record", "--sched=irq", "-o", path, program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tr, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	r := tr.Recording(0)
	if r.Sched.Interrupts() == 0 || r.Sched.Lost() > 0 {
		t.Fatalf("got %d scheduler events, %d interrupts, %d lost; reason %q", r.Sched.Events(), r.Sched.Interrupts(), r.Sched.Lost(), r.Process.NoSched)
	}
	received := 0
	for _, in := range sched.New(r).Thread(r.Process.PID).Interrupts(0, ^uint64(0)) {
		if in.Source.InterruptLabel() == "softirq NET_RX" {
			received++
		}
		if in.From >= in.To || in.Self > in.To-in.From {
			t.Errorf("got interrupt %+v", in)
		}
	}
	// Under load, ksoftirqd does this work.
	if received < 40 {
		t.Errorf("got %d times softirq NET_RX, want about one for each of 4000 calls", received)
	}
	if r.Process.OffCPU == "" {
		return
	}
	o := runHere("xray", "account", "--format", "json", path)
	interrupted := make(map[string]uint64)
	for _, m := range regexp.MustCompile(`(?s)"interrupted_ns": (\d+).*?"function": "(\w+)"`).FindAllStringSubmatch(o.stdout, -1) {
		interrupted[m[2]], _ = strconv.ParseUint(m[1], 10, 64)
	}
	if interrupted["send_all"] == 0 {
		t.Errorf("send_all was not interrupted:\n%s", o.stdout)
	}
	o = runHere("xray", "account", "--sort", "interrupted", "--top", "1", "--format", "json", path)
	most := slices.MaxFunc(slices.Collect(maps.Keys(interrupted)), func(a, b string) int { return cmp.Compare(interrupted[a], interrupted[b]) })
	if !strings.Contains(o.stdout, fmt.Sprintf(`"function": %q`, most)) {
		t.Errorf("the first by interrupted should be %s:\n%s", most, o)
	}
	p := inTraceProcessor(t, converted(t, "perfetto", path))
	const query = `select count(*) from slice s join track t on s.track_id = t.id where t.name = 'interrupts' and s.name = 'softirq NET_RX' and s.dur > 0`
	if got := p.Query(query)[0][0].(int64); got < int64(received)/2 {
		t.Errorf("the timeline has softirq NET_RX %d times, and the trace %d times", got, received)
	}
}

// A snapshot has the scheduler events of its time span, and the trace at the end has them, too.
func TestSchedInSnapshot(t *testing.T) {
	t.Parallel()
	program := schedTest(t)
	stop, path, whole, last := program+".stop", program+".xray", program+".whole.xray", program+".last.xray"
	recording := startXray(t, "record", "-q", "--ring", "4M", "--sched", "-o", path, program, stop)
	pid := 0
	until(t, "the program", func() bool { pid = childNamed(recording.Process.Pid, stop); return pid > 0 })
	events := func(path string) (n uint64, from, to uint64) {
		tr, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		r := tr.Recording(0)
		from, to = r.Sched.Span()
		if lost := tr.Losses(); lost.Records() > 0 {
			t.Errorf("%s: %+v", path, lost)
		}
		// In a millisecond, the thread may not have been switched.
		if log := sched.New(r); path != last && log != nil && len(log.Thread(r.Process.PID).Off(0, ^uint64(0))) == 0 {
			t.Errorf("%s: the thread was never off CPU", path)
		}
		return r.Sched.Events(), from, to
	}
	var n, from, to uint64
	var o output
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("process %d, %d events: %s", pid, n, o)
		}
	})
	until(t, "100 events", func() bool {
		if o = runHere("xray", "ctl", strconv.Itoa(pid), "snapshot", "-o", whole); o.status == 0 {
			n, from, to = events(whole)
		}
		return n >= 100
	})
	o = runHere("xray", "ctl", strconv.Itoa(pid), "snapshot", "--last", "1ms", "-o", last)
	if o.status != 0 {
		t.Fatal(o)
	}
	if lastN, lastFrom, lastTo := events(last); lastFrom <= from || lastTo <= to || !strings.Contains(o.stdout, fmt.Sprintf("; %s scheduler event", label.Grouped(lastN))) && lastN > 0 {
		t.Errorf("the last millisecond is from %d to %d, and the snapshot before from %d to %d; said %s", lastFrom, lastTo, from, to, o.stdout)
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := recording.Wait(); err != nil {
		t.Fatal(err)
	}
	if finalN, finalFrom, _ := events(path); finalN < n || finalFrom > from {
		t.Errorf("the trace has %d events from %d on, and the snapshot had %d from %d on", finalN, finalFrom, n, from)
	}
}
