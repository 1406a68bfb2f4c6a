//go:build linux && amd64

package recorder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/recorder/proc"
)

// startControlled runs testdata/controlled.c with the recorder preloaded and the given options. The
// test fails if the program does not end normally.
func startControlled(t *testing.T, options string) (pid int) {
	t.Helper()
	testenv.Need(t, "clang-14")
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	program := elftest.Build(t, "clang-14", "out", "testdata/controlled.c", "-O1", "-pthread", "-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library.Preload(), recorder.EnvVar+"="+options)
	r := startPiped(t, cmd)
	t.Cleanup(func() { r.end(t) })
	if line := r.line(t); line != "ready" {
		t.Fatalf("the program printed %q", line)
	}
	return cmd.Process.Pid
}

func dial(pid int) (*net.UnixConn, error) {
	name := fmt.Sprintf("@xray-recorder-%d", pid)
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
}

// readAnswer reads an answer into buf. At the end it reads once more, as the client does.
func readAnswer(c *net.UnixConn, buf []byte) (n int, err error) {
	if n, err = c.Read(buf); errors.Is(err, io.EOF) {
		n, err = c.Read(buf)
	}
	return n, err
}

// receive reads an answer, and fails the test if there is none.
func receive(t *testing.T, c *net.UnixConn) map[string]any {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 256<<10)
	n, err := readAnswer(c, buf)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	var answer map[string]any
	if err := json.Unmarshal(buf[:n], &answer); err != nil {
		t.Fatalf("got error %v, answer %q", err, buf[:n])
	}
	return answer
}

// ask sends one request and returns the answer.
func ask(t *testing.T, pid int, line string, files ...*os.File) map[string]any {
	t.Helper()
	c, err := dial(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix([]byte(line), rights, nil); err != nil {
		t.Fatal(err)
	}
	return receive(t, c)
}

func mustAsk(t *testing.T, pid int, line string, files ...*os.File) map[string]any {
	t.Helper()
	answer := ask(t, pid, line, files...)
	if answer["ok"] != true {
		t.Fatalf("%s: %v", line, answer)
	}
	return answer
}

// await repeats the request until good accepts the answer.
func await(t *testing.T, pid int, line string, good func(map[string]any) bool) map[string]any {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		answer := mustAsk(t, pid, line)
		if good(answer) {
			return answer
		}
		if time.Now().After(end) {
			t.Fatalf("%s: timeout; last answer: %v", line, answer)
		}
	}
}

func createFile(t *testing.T) (*os.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.xray")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, path
}

// checkControlled checks that the trace is valid and has two calls of leaf for each call of branch.
func checkControlled(t *testing.T, path string) found {
	t.Helper()
	verify(t, path)
	got := readTrace(t, path)
	if got.records == 0 {
		t.Error("the trace has no records")
	}
	for thread, leaves := range leavesOfBranches(t, path) {
		// The recording may begin and end within a call.
		if len(leaves) > 0 && leaves[0] < 2 {
			leaves = leaves[1:]
		}
		if len(leaves) > 0 && leaves[len(leaves)-1] < 2 {
			leaves = leaves[:len(leaves)-1]
		}
		if i := slices.IndexFunc(leaves, func(n int) bool { return n != 2 }); i >= 0 {
			t.Errorf("thread %v: call %d of %d of branch has %d calls of leaf, want 2", thread, i, len(leaves), leaves[i])
		}
	}
	if got.unmatched > 4 || got.orphan > 4 || got.backwards != 0 {
		t.Errorf("%d exits without entry, %d calls without exit, %d backward time steps", got.unmatched, got.orphan, got.backwards)
	}
	if !got.recording.Process.Complete {
		t.Error("the trace is not complete")
	}
	return got
}

// leavesOfBranches returns, for each thread of the trace of a controlled program, how many
// calls of leaf each completed call of branch has, in order.
func leavesOfBranches(t *testing.T, path string) map[reader.Thread][]int {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	const leaf, branch = 1, 2
	leaves, open, inside := map[reader.Thread][]int{}, map[reader.Thread]int{}, map[reader.Thread]bool{}
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			switch {
			case e.Func == branch && e.Kind.IsEnter():
				open[b.Thread], inside[b.Thread] = 0, true
			case e.Func == branch && e.Kind.IsExit() && inside[b.Thread]:
				leaves[b.Thread] = append(leaves[b.Thread], open[b.Thread])
				inside[b.Thread] = false
			case e.Func == leaf && e.Kind.IsEnter():
				open[b.Thread]++
			}
		}
	}
	return leaves
}

func TestControl(t *testing.T) {
	pid := startControlled(t, "control=1,start=0")
	status := mustAsk(t, pid, "status")
	if status["recording"] != false || status["mode"] != "off" || status["pid"] != float64(pid) || status["stream"] != nil {
		t.Errorf("wrong status: %v", status)
	}

	stream, path := createFile(t)
	started := mustAsk(t, pid, "start mode=record stream=1", stream)
	if started["functions"] != 2.0 || started["patched"] == 0.0 {
		t.Errorf("wrong answer to start: %v", started)
	}
	if again := ask(t, pid, "start mode=record"); again["ok"] != false {
		t.Errorf("wrong answer to a second start: %v", again)
	}
	s := await(t, pid, "status", func(s map[string]any) bool { return s["threads"].(map[string]any)["live"] == 2.0 })
	if s["recording"] != true || s["mode"] != "record" || s["stream"] == nil {
		t.Errorf("wrong status while recording: %v", s)
	}

	snapshot, snapshotPath := createFile(t)
	written := mustAsk(t, pid, "snapshot last_ns=20000000000", snapshot)
	if got := checkControlled(t, snapshotPath); float64(got.records) != written["records"] {
		t.Errorf("got %d records, want %v as answered", got.records, written)
	}

	mustAsk(t, pid, "stop")
	got := checkControlled(t, path)
	if got.unmatched > 0 {
		t.Errorf("got %d exits without entry in a complete stream, want none", got.unmatched)
	}
	if p := got.recording.Process; p.PID != int32(pid) || len(p.Argv) != 1 || p.Mode != "record" || p.BuildID != got.recording.Objects[0].BuildID {
		t.Errorf("wrong process metadata: %+v", p)
	}
	if n := len(got.recording.Threads); n != 2 {
		t.Errorf("wrong number of threads: %d", n)
	}
	if s := mustAsk(t, pid, "status"); s["recording"] != false || s["patched"] != 0.0 {
		t.Errorf("wrong status after stop: %v", s)
	}

	// No call takes a second, so pruning drops all of them.
	mustAsk(t, pid, "start mode=prune threshold=1000000000")
	if m := mustAsk(t, pid, "threshold 2000000000"); m["threshold_ns"] != 2e9 && m["threshold_ns"] != 2e9-1 {
		t.Errorf("wrong answer to threshold: %v", m)
	}
	if m := mustAsk(t, pid, "mode record"); m["mode"] != "record" {
		t.Errorf("wrong answer to mode: %v", m)
	}
	filter := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(filter, []byte("default off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filter)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if a := mustAsk(t, pid, "filter", f); a["patched"] != 0.0 {
		t.Errorf("wrong answer to an empty filter: %v", a)
	}
	if a := mustAsk(t, pid, "filter"); a["patched"] == 0.0 {
		t.Errorf("wrong answer to removing the filter: %v", a)
	}
	if a := mustAsk(t, pid, "rescan"); a["changed"] != 0.0 {
		t.Errorf("wrong answer to rescan: %v", a)
	}
	if a := mustAsk(t, pid, "objects"); len(a["objects"].([]any)) == 0 {
		t.Errorf("wrong answer to objects: %v", a)
	}
	mustAsk(t, pid, "mode count")
	await(t, pid, "counters reset=1", func(a map[string]any) bool { return a["functions"] == 2.0 && a["calls"] != 0.0 })
	mustAsk(t, pid, "stop")
}

// Invalid requests are refused with an error and change nothing.
func TestControlRefuses(t *testing.T) {
	pid := startControlled(t, "control=1,start=0")
	readOnly, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	file, path := createFile(t)
	forReading, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer forReading.Close()
	pipeOut, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer pipeOut.Close()

	for _, c := range []struct {
		line string
		file *os.File
		want string
	}{
		{"nonsense", nil, "unknown command"},
		{" \n", nil, "unknown command"},
		{"\x00\xff\x01", nil, "unknown command"},
		{"start mode=fast", nil, "mode must be"},
		{"start mode=off", nil, "needs a mode"},
		{"start threshold=5us", nil, "threshold is not a number"},
		{"start threshold=99999999999999999999", nil, "not a number"},
		{"start limit=%zz", nil, "hexadecimal"},
		{"start stream=1", nil, "needs a file"},
		{"start stream=1", pipe, "not a regular file"},
		{"start stream=1", forReading, "not open for writing"},
		{"start speed=1", nil, "speed=1 is not an option of this command"},
		{"start stop=1", nil, "stop=1 is not an option of this command"},
		{"start depth=257", nil, "depth must be between 1 and 256"},
		{"mode on", nil, "not paused"},
		{"mode", nil, "needs a name"},
		{"mode record", nil, "not recording"},
		{"mode depth", nil, "depth"},
		{"threshold soon", nil, "number of nanoseconds"},
		{"filter", pipe, "not a regular file"},
		{"filter", file, ""},
		{"snapshot", nil, "needs a file"},
		{"snapshot", pipe, "not a regular file"},
		{"snapshot", readOnly, "not a regular file"},
		{"snapshot", forReading, "not open for writing"},
		{"snapshot since=-1", file, "not a number"},
		{"status a a a a a a a a a a a a a a a a a", nil, "too many words"},
		{strings.Repeat("status ", 64<<10/7+1), nil, "too long"},
	} {
		var files []*os.File
		if c.file != nil {
			files = append(files, c.file)
		}
		answer := ask(t, pid, c.line, files...)
		text, _ := answer["error"].(string)
		if (answer["ok"] == true) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%.40q: got %v, want error %q", c.line, answer, c.want)
		}
	}
	if s := mustAsk(t, pid, "status"); s["recording"] != false || s["mode"] != "off" {
		t.Errorf("wrong status: %v", s)
	}
}

// Clients that send nothing, disconnect early, or connect in large numbers do not block other
// clients.
func TestControlHostileClients(t *testing.T) {
	pid := startControlled(t, "control=1,stream=0")
	fds := openFiles(t, pid)

	var silent []*net.UnixConn
	for range 40 {
		c, err := dial(pid)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	mustAsk(t, pid, "status")

	// A request split into two packets is two requests. The runtime answers only the first.
	c, err := dial(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"sta", "tus"} {
		if _, err := c.Write([]byte(part)); err != nil && part == "sta" {
			t.Fatal(err)
		}
	}
	if answer := receive(t, c); answer["ok"] != false {
		t.Errorf("half a request: got %v, want an error", answer)
	}
	c.Close()

	// Disconnect before the snapshot is written.
	for range 20 {
		file, _ := createFile(t)
		c, err := dial(pid)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.WriteMsgUnix([]byte("snapshot"), unix.UnixRights(int(file.Fd())), nil); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}

	// Pass more descriptors than a request can hold.
	many := make([]int, 100)
	for i := range many {
		many[i] = int(os.Stderr.Fd())
	}
	if c, err = dial(pid); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.WriteMsgUnix([]byte("status"), unix.UnixRights(many...), nil); err != nil {
		t.Fatal(err)
	}
	if answer := receive(t, c); answer["ok"] != true {
		t.Errorf("with 100 descriptors: got %v, want ok", answer)
	}
	c.Close()

	var wg sync.WaitGroup
	served := make(chan bool, 100)
	for range 100 {
		wg.Go(func() {
			// Clients of a crowd may be disconnected in favor of others. They try
			// again.
			for range 50 {
				if c, err := dial(pid); err == nil {
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					_, _ = c.Write([]byte("status"))
					buf := make([]byte, 256<<10)
					n, _ := readAnswer(c, buf)
					c.Close()
					if n > 0 && json.Valid(buf[:n]) {
						served <- true
						return
					}
				}
				time.Sleep(10 * time.Millisecond)
			}
			served <- false
		})
	}
	wg.Wait()
	for range 100 {
		if !<-served {
			t.Error("a client got no answer")
		}
	}

	for _, c := range silent {
		c.Close()
	}
	s := mustAsk(t, pid, "status")
	if s["recording"] != true || s["mode"] != "record" {
		t.Errorf("wrong status: %v", s)
	}
	mustAsk(t, pid, "status") // ensures that the previous connection is closed
	if now := openFiles(t, pid); now > fds+2 {
		t.Errorf("got %d open files, want about %d as before", now, fds)
	}
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	// Threads may have descriptor tables of their own.
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(paths)
}

// Requests of another user are refused with an error and have no effect.
func TestControlOfAnotherUser(t *testing.T) {
	testenv.NeedOtherUsers(t)
	pid := startControlled(t, "control=1,stream=0")
	if answer := askAs(pid, testenv.Nobody, "stop"); !strings.Contains(answer, "only the user of the process") {
		t.Errorf("got answer %q, want a refusal", answer)
	}
	if s := mustAsk(t, pid, "status"); s["recording"] != true {
		t.Errorf("wrong status: %v", s)
	}
}

// The latest command decides the mode. A new recording does not inherit settings from before it.
func TestControlModes(t *testing.T) {
	pid := startControlled(t, "control=1,start=0")
	steps := []struct {
		command          string
		mode, paused     string
		threshold, depth float64
	}{
		{"start mode=prune threshold=7000", "prune", "", 7000, 0},
		{"mode off", "off", "prune", 7000, 0},
		{"mode on", "prune", "", 7000, 0},
		{"mode off", "off", "prune", 7000, 0},
		{"mode prune", "prune", "", 7000, 0},
		{"mode record", "record", "", 0, 0},
		{"mode prune", "prune", "", 7000, 0},
		{"mode depth depth=3", "depth", "", 0, 3},
		{"mode off", "off", "depth", 0, 3},
		{"mode on", "depth", "", 0, 3},
		{"mode record", "record", "", 0, 0},
		{"mode depth depth=4 threshold=9000", "depth", "", 9000, 4},
		{"mode record depth=0", "record", "", 0, 0},
		{"threshold 3000", "prune", "", 3000, 0},
		{"threshold 0", "record", "", 0, 0},
		{"mode count", "count", "", 0, 0},
		{"stop", "off", "", 0, 0},
		{"start mode=prune", "prune", "", 5000, 0},
		{"stop", "off", "", 0, 0},
		{"start mode=record", "record", "", 0, 0},
	}
	for _, step := range steps {
		mustAsk(t, pid, step.command)
		s := mustAsk(t, pid, "status")
		paused, _ := s["paused"].(string)
		if s["mode"] != step.mode || paused != step.paused || s["depth"] != step.depth ||
			step.mode != "off" && s["threshold_ns"] != step.threshold {
			t.Errorf("%s: got mode %v, paused %q, threshold %v, depth %v, want %v", step.command, s["mode"], paused, s["threshold_ns"], s["depth"], step)
		}
		if on := step.mode != "off"; s["recording"] != on || (s["patched"] != 0.0) != on {
			t.Errorf("%s: got recording %v with %v patched sleds", step.command, s["recording"], s["patched"])
		}
	}
	if a := ask(t, pid, "threshold 5"); a["ok"] != true {
		t.Errorf("wrong answer to threshold: %v", a)
	}
	mustAsk(t, pid, "mode count")
	if a := ask(t, pid, "threshold 5"); a["error"] != "mode count has no threshold" {
		t.Errorf("wrong answer to threshold in count mode: %v", a)
	}
	if a := ask(t, pid, "start"); a["error"] != "it is already recording; stop it first" {
		t.Errorf("wrong answer to start while recording: %v", a)
	}
}

// A recording that belongs to a connection ends when the client disconnects, and its trace is
// complete.
func TestControlHold(t *testing.T) {
	pid := startControlled(t, "control=1,start=0")
	p, err := client.Dial(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	record := func() (*client.Held, string) {
		stream, path := createFile(t)
		_, held, err := p.Hold(t.Context(), "start stream=1", stream)
		if err != nil {
			t.Fatal(err)
		}
		return held, path
	}
	held, path := record()
	for range 40 {
		// This connection is not closed in favor of other clients.
		mustAsk(t, pid, "status")
	}
	if s := await(t, pid, "status", func(s map[string]any) bool { return s["threads"].(map[string]any)["live"] == 2.0 }); s["recording"] != true {
		t.Errorf("wrong status: %v", s)
	}
	held.Close()
	await(t, pid, "status", func(s map[string]any) bool { return s["recording"] == false })
	checkControlled(t, path)

	// A recording that another client has started meanwhile continues.
	held, _ = record()
	mustAsk(t, pid, "stop")
	select {
	case <-held.Over():
	case <-time.After(time.Minute):
		t.Error("the client does not learn that its recording has ended")
	}
	mustAsk(t, pid, "start")
	held.Close()
	time.Sleep(300 * time.Millisecond)
	if s := mustAsk(t, pid, "status"); s["recording"] != true {
		t.Errorf("wrong status: %v", s)
	}
	if _, _, err := p.Hold(t.Context(), "start mode=record"); err == nil {
		t.Error("the client recorded although another one was recording")
	}
}

// Another user can take every name that can be foreseen. The process can be controlled nevertheless.
func TestTakenNames(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-14", "sh", "env")
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	program := elftest.Build(t, "clang-14", "out", "testdata/controlled.c", "-O1", "-pthread", "-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps")
	// The shell's process becomes that of the program.
	cmd := exec.Command("sh", "-c", `read go; exec env "$@"`, "sh", "LD_PRELOAD="+library.Preload(), recorder.EnvVar+"=control=1,start=0", program)
	r := startPiped(t, cmd)
	defer r.end(t)
	pid := strconv.Itoa(cmd.Process.Pid)
	usual := "@xray-recorder-" + pid
	namespace, err := proc.PIDSpace(pid)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 8)
	testenv.AsNobody(t, func() {
		for _, name := range []string{usual, usual + "-" + strconv.FormatUint(namespace, 10), usual + "-1"} {
			l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					conn, err := l.AcceptUnix()
					if err != nil {
						return
					}
					if n, _ := conn.Read(make([]byte, 100)); n > 0 {
						asked <- name
					}
					conn.Close()
				}
			}()
		}
	})
	if _, err := r.stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if line := r.line(t); line != "ready" {
		t.Fatalf("the program printed %q", line)
	}
	p, err := client.Dial(pid)
	if err != nil {
		t.Fatal(err)
	}
	var status client.Status
	if _, err := p.Do(t.Context(), &status, "status"); err != nil || status.PID != cmd.Process.Pid {
		t.Errorf("got status of %d, error %v", status.PID, err)
	}
	list, err := client.List(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(l client.Listening) bool { return l.PID == cmd.Process.Pid && l.Status != nil }) {
		t.Errorf("the process is not listed: %v", err)
	}
	select {
	case name := <-asked:
		t.Errorf("the other user got a command at %s", name)
	default:
	}
}

// A process says nothing to another user who listens where its observer was. It runs as without an observer.
func TestForeignObserver(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "odd.c", "-O1")
	o := observe.Options{Session: uint64(time.Now().UnixNano()), Key: observe.NewKey()}
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	testenv.AsNobody(t, func() {
		if err := errors.Join(unix.Bind(listener, &unix.SockaddrUnix{Name: "@" + o.Name()}), unix.Listen(listener, 8)); err != nil {
			t.Error(err)
		}
	})
	_, stderr, traces := recordProgram(t, &l, "mode=record,quiet=1,observer="+o.Address()+",session="+strconv.FormatUint(o.Session, 10), program)
	if len(traces) != 1 {
		t.Errorf("the program wrote %d traces itself, want 1\n%s", len(traces), stderr)
	}
	_ = unix.SetNonblock(listener, true)
	for visits := 0; ; visits++ {
		conn, _, err := unix.Accept(listener)
		if err != nil {
			if visits == 0 {
				t.Error("the process did not look for its observer")
			}
			return
		}
		if n, _, err := unix.Recvfrom(conn, make([]byte, 4096), unix.MSG_DONTWAIT); n > 0 {
			t.Errorf("another user got %d bytes, error %v", n, err)
		}
		unix.Close(conn)
	}
}
