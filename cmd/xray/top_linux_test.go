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
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// startWatched starts a program that handles requests until it is told to end.
func startWatched(t *testing.T) (program *exec.Cmd, end func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "end")
	cmd := exec.Command(compileWatched(t), file, "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(t, "its threads", func() bool {
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		return len(threads) == 3
	})
	return cmd, func() {
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// checkAsFound checks that a process has the same file descriptors as before, and that it can be
// recorded.
func checkAsFound(t *testing.T, pid int, descriptors []string) {
	t.Helper()
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("descriptors before and afterwards:\n%q\n%q", descriptors, left)
			t.Log(runHere("xray", "ctl", strconv.Itoa(pid), "status"))
		}
	}()
	until(t, "the recorder to leave", func() bool {
		left = descriptorsOf(t, pid)
		return slices.Equal(left, descriptors)
	})
	o := runHere("xray", "record", "-p", strconv.Itoa(pid), "--duration", "1ms", "-o", filepath.Join(t.TempDir(), "t.xray"))
	if o.status != 0 {
		t.Errorf("it cannot be recorded afterwards: %s", o)
	}
}

func descriptorsOf(t *testing.T, pid int) (list []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name()))
		list = append(list, e.Name()+" "+target)
	}
	return list
}

// --once and --batch write tables whose numbers agree with each other and with the program.
func TestTopTables(t *testing.T) {
	t.Parallel()
	program, end := startWatched(t)
	pid := strconv.Itoa(program.Process.Pid)
	found := descriptorsOf(t, program.Process.Pid)
	o := runHere("xray", "top", pid, "--once", "--interval", "300ms", "--budget", "100", "--sort", "calls")
	if o.status != 0 || !regexp.MustCompile(`(?m)^ *calls/s +self/s .* function\n *[\d,.]+ .* parse$`).MatchString(o.stdout) {
		t.Fatal(o)
	}
	o = runHere("xray", "top", "--once", "-p", pid, "--interval", "300ms", "--budget", "100", "--format", "json")
	var once struct {
		ObservedNS float64 `json:"observed_ns"`
		SeenShare  float64 `json:"seen_share"`
		CostShare  float64 `json:"cost_share"`
		Functions  []struct {
			Function string
			Count    float64
			Rate     float64 `json:"calls_per_second"`
			Total    float64 `json:"total_per_second_ns"`
			P50      float64 `json:"p50_ns"`
			Max      float64 `json:"max_ns"`
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &once); err != nil {
		t.Fatalf("%v\n%s", err, o)
	}
	counts := make(map[string]float64)
	for _, f := range once.Functions {
		counts[f.Function] = f.Count
		if got := f.Count * 1e9 / once.ObservedNS; got < f.Rate*0.999 || got > f.Rate*1.001 {
			t.Errorf("%s: %g calls in %g ns are not %g a second", f.Function, f.Count, once.ObservedNS, f.Rate)
		}
		// There are two threads.
		if f.Total > 2.001e9 || f.P50 > f.Max {
			t.Errorf("%+v", f)
		}
	}
	// At both ends, calls may be cut in each of the threads.
	if h, p := counts["handle"], counts["parse"]; h < 2 || p < 5*h-20 || p > 5*h+20 {
		t.Errorf("%g calls of handle, %g of parse, which it calls 5 times", h, p)
	}
	if once.SeenShare != 1 || once.CostShare <= 0 {
		t.Errorf("seen %g, cost %g", once.SeenShare, once.CostShare)
	}
	o = runHere("xray", "top", pid, "--batch", "--interval", "100ms", "--duration", "2s", "--format", "csv", "--top", "2")
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	if err != nil || o.status != 0 || len(rows) < 5 || rows[0][0] != "interval" || rows[len(rows)-1][0] == rows[1][0] {
		t.Errorf("%v\n%s", err, o)
	}
	checkAsFound(t, program.Process.Pid, found)
	end()
}

// If the program ends, the tables end, and top succeeds.
func TestTopProgramEnds(t *testing.T) {
	t.Parallel()
	program, end := startWatched(t)
	cmd := exec.Command("xray", "top", strconv.Itoa(program.Process.Pid), "--batch", "--interval", "50ms")
	var out, said lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	until(t, "a table", func() bool { return strings.Contains(out.String(), "handle") })
	end()
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "has ended") {
		t.Errorf("%v\n%s", err, &said)
	}
}

// terminal is a tmux session.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal runs a command in a terminal, and then a shell that says its status.
func openTerminal(t *testing.T, width, height int, command string) *terminal {
	t.Helper()
	testenv.Need(t, "tmux")
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "echo before; "+command+"; echo status $?; exec cat")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

// shows waits until the screen matches an expression, and returns the match.
func (term *terminal) shows(expression string) string {
	term.t.Helper()
	re := regexp.MustCompile(expression)
	var screen string
	defer func() {
		if term.t.Failed() {
			term.t.Logf("the screen:\n%s", screen)
		}
	}()
	until(term.t, "the screen to show "+expression, func() bool {
		screen = term.tmux("capture-pane", "-p")
		return re.MatchString(screen)
	})
	return re.FindString(screen)
}

// left waits until the command has ended, and checks that the terminal is as before.
func (term *terminal) left(status int) {
	term.t.Helper()
	term.shows(fmt.Sprintf(`(?m)^before\n(.*\n)*status %d$`, status))
	if got := term.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_flag}"); got != "0 1 0\n" {
		term.t.Errorf("the alternate screen, the cursor and the keypad are %q", got)
	}
	// Characters are echoed and lines are edited again.
	term.press("echoed", "Enter")
	term.shows(`echoed\nechoed`)
}

// top shows functions and their details, and leaves the terminal and the process as they were.
func TestTopScreen(t *testing.T) {
	t.Parallel()
	program, end := startWatched(t)
	pid := program.Process.Pid
	found := descriptorsOf(t, pid)
	dir := t.TempDir()
	term := openTerminal(t, 80, 24, fmt.Sprintf("cd %s; xray top %d --interval 200ms", dir, pid))
	term.shows(`requests \d+ .* calls/s(.*\n)+ calls/s↓self/s total/s .* function\n(.*\n)* +[\d.k]+ .* handle`)
	term.press("/", "^parse", "Enter")
	term.shows(`(?m)function\n +[\d.k]+ .* parse\n\n`)
	term.press("Enter")
	term.shows(`(?m)^parse\n(.*\n)*.* callers\n +[\d.k]+ +\d\S+ handle\n.* callees\n.* durations\n +[\d.k]+ .* to .*█`)
	term.press("Escape")
	term.shows(`function\n`)
	term.press("Escape")
	term.shows(`(?m) handle$`)
	term.press("Tab")
	term.shows(`(?m)call tree\n(.*\n)*.*\+ handle$`)
	// The key unfolds the paths that the latest interval has.
	unfolded := regexp.MustCompile(`(?m)- handle\n(.*\n)*.* {4}parse$`)
	until(t, "all paths to be unfolded", func() bool {
		term.press("*")
		return unfolded.MatchString(term.tmux("capture-pane", "-p"))
	})
	term.press("Tab")
	term.shows(`(?m)thread .*\n(.*\n)*.* \d+/\d+ requests`)
	term.press("Tab", "f")
	term.shows(`FROZEN`)
	term.press("w")
	saved := strings.Fields(term.shows(`(?m)^wrote .*xray$`))[1]
	if o := runHere("xray", "account", "--func", "^handle$", filepath.Join(dir, saved)); o.status != 0 || !strings.Contains(o.stdout, "handle") {
		t.Error(o)
	}
	term.press("f")
	term.shows(`^requests`)
	// A terminal may become narrow, or wide again.
	term.tmux("resize-window", "-x", "40", "-y", "10")
	term.shows(`(?m)^ calls/s↓self/s.* function\n(.*\n)* +[\d.k]+ .* handle`)
	term.tmux("resize-window", "-x", "100", "-y", "30")
	term.shows(`calls/s↓self/s total/s  cpu/s block/s`)
	term.press("q")
	term.left(0)
	checkAsFound(t, pid, found)
	end()
}

// However top ends, the terminal and the process are as they were.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	program, end := startWatched(t)
	pid := program.Process.Pid
	found := descriptorsOf(t, pid)
	pidFile := filepath.Join(t.TempDir(), "pid")
	for _, c := range []struct {
		name string
		end  func(*terminal)
	}{
		{"Ctrl-C", func(term *terminal) { term.press("C-c") }},
		{"SIGTERM", func(*terminal) {
			text, err := os.ReadFile(pidFile)
			if err != nil {
				t.Fatal(err)
			}
			top, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			if err := syscall.Kill(top, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		term := openTerminal(t, 80, 24, fmt.Sprintf("sh -c 'echo $$ >%s; exec xray top %d --interval 100ms'", pidFile, pid))
		term.shows(`(?m) handle$`)
		c.end(term)
		term.left(0)
		checkAsFound(t, pid, found)
	}
	// If the process ends, its last data stay on the screen.
	term := openTerminal(t, 60, 20, fmt.Sprintf("xray top %d --interval 100ms", pid))
	term.shows(`(?m) handle`)
	end()
	term.shows(`(?m)^requests(.*\n)+process \d+ has ended$`)
	term.press("q")
	term.left(0)
}

// tui browses a recorded trace in the same way, with source code.
func TestTUI(t *testing.T) {
	t.Parallel()
	program := compileWatched(t)
	trace := filepath.Join(t.TempDir(), "trace.xray")
	if out, err := exec.Command("xray", "record", "-o", trace, "--", program, "/", "50").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	term := openTerminal(t, 80, 24, fmt.Sprintf("xray tui --source-root %s %s", filepath.Dir(program), trace))
	term.shows(`(?m)^ +calls +↓self +total(.*\n)+ +500 .* parse$`)
	term.press("/", "^handle", "Enter")
	term.shows(`(?m)function\n +100 .* handle\n\n`)
	term.press("l")
	term.shows(`Slowest calls of handle\n100 calls on 2 threads: median`)
	term.press("Escape")
	term.shows(`(?m)function\n +100`)
	term.press("s")
	term.shows(`(?m)^ +\d+  RECORDED void handle\(int i\) \{`)
	term.press("q")
	term.left(0)
}

// Without a terminal, or without one that can be used, the error says what to do.
func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	program, end := startWatched(t)
	pid := strconv.Itoa(program.Process.Pid)
	cmd := exec.Command("xray", "top", pid)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(said.String(), "use --once or --batch") {
		t.Errorf("%v\n%s", err, &said)
	}
	term := openTerminal(t, 80, 24, "TERM=unheard-of xray top "+pid)
	term.shows(`cannot use the terminal(.*\n)*.*--once or --batch`)
	end()
}
