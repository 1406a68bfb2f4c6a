//go:build linux && amd64

package harmless

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
)

func TestMain(m *testing.M) { elftest.Main(m) }

// soak reports whether tests should try everything, however long that takes.
func soak() bool { return os.Getenv("XRAY_SOAK") == "1" }

// A mode is a way to record.
type mode struct {
	name  string
	flags []string
	exact bool // account shows all calls that were made
	// commands of ctl are sent in turn while the program runs.
	commands [][]string
	within   []string // a program that runs xray
}

var modes = []mode{
	{name: "file", exact: true},
	{name: "ring", flags: []string{"--ring", "64M"}, exact: true},
	{name: "count", flags: []string{"--count"}, exact: true},
	{name: "profile", flags: []string{"--profile"}, exact: true},
	{name: "libcalls", flags: []string{"--libcalls=all"}, exact: true},
	{name: "compress", flags: []string{"--compress"}, exact: true},
	{name: "prune", flags: []string{"--prune", "2us"}},
	{name: "depth", flags: []string{"--depth", "3"}},
	{name: "budget", flags: []string{"--budget", "5%"}},
	{name: "window", flags: []string{"--window", "2ms/5ms"}},
	{name: "switched", commands: [][]string{{"mode", "off"}, {"mode", "count"}, {"mode", "record"}, {"mode", "profile"}, {"mode", "prune", "1us"}, {"mode", "depth", "2"}, {"stop"}, {"start"}}},
}

// An outcome is what a program printed and its exit status.
type outcome struct {
	stdout string
	status int // of the shell: 128 and the signal, if a signal ended it
}

// A program may hang if its recorder is faulty.
const limit = 2 * time.Minute

// run runs a command to its end, in a directory of its own.
func run(t *testing.T, command ...string) (outcome, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o := outcome{out.String(), cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.status = 128 + int(ws.Signal())
	}
	return o, errs.String()
}

// record runs a program in a mode, and returns its traces as well.
func record(t *testing.T, m mode, program ...string) (o outcome, stderr string, traces []string) {
	t.Helper()
	pattern := filepath.Join(t.TempDir(), "%p.xray")
	var switching sync.WaitGroup
	ended := make(chan struct{})
	if m.commands != nil {
		switching.Go(func() { sendCommands(t, pattern, m.commands, ended) })
	}
	command := slices.Concat(m.within, []string{elftest.Xray(t), "record", "-q", "-o", pattern}, m.flags, []string{"--"}, program)
	o, stderr = run(t, command...)
	close(ended)
	switching.Wait()
	return o, stderr, traceFiles(t, pattern)
}

// traceFiles returns the traces that a pattern for xray record -o has led to.
func traceFiles(t *testing.T, pattern string) []string {
	t.Helper()
	traces, err := filepath.Glob(strings.ReplaceAll(pattern, "%p", "*") + "*") // a process that executes others has several
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

// sendCommands sends commands to the first process that writes a trace, again and again until the
// program has ended.
func sendCommands(t *testing.T, pattern string, commands [][]string, ended chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		if traces := traceFiles(t, pattern); len(traces) > 0 {
			pid := strings.TrimSuffix(filepath.Base(traces[0]), ".xray")
			// It may fail, since the process may have ended.
			_ = exec.Command(elftest.Xray(t), append([]string{"ctl", pid}, commands[i%len(commands)]...)...).Run()
		}
	}
}

// accounted returns the calls by function. Functions have their linkage names, without what
// optimizations append.
func accounted(t *testing.T, traces ...string) map[string]int64 {
	t.Helper()
	calls := map[string]int64{}
	for _, trace := range traces { // of different programs
		out, err := exec.Command(elftest.Xray(t), "account", "--format", "csv", "--names", "mangled", trace).Output()
		if err != nil {
			t.Fatalf("account %s: %v", trace, err)
		}
		rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		if err != nil || len(rows) == 0 {
			t.Fatalf("account %s: %v", trace, err)
		}
		column := func(row []string, key string) string { return row[slices.Index(rows[0], key)] }
		for _, row := range rows[1:] {
			name := column(row, "function")
			if i := strings.IndexAny(name, ".@"); i > 0 { // @ begins the suffix of vectorcall
				name = name[:i]
			}
			for _, key := range []string{"count", "open"} {
				n, err := strconv.ParseInt(column(row, key), 10, 64)
				if err != nil && column(row, key) != "" {
					t.Fatal(err)
				}
				calls[name] += n
			}
		}
	}
	return calls
}

// counted parses the lines "NAME NUMBER" by which programs say how often each function was called.
func counted(stdout string) map[string]int64 {
	calls := map[string]int64{}
	for line := range strings.Lines(stdout) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n > 0 && name != "sum" {
			calls[name] += n
		}
	}
	return calls
}

// differences lists the functions with other numbers of calls than were counted. Generated functions
// that begin with a loop, which jumps to the entry, may be left off.
func differences(counted, recorded map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		if strings.HasPrefix(name, "loop") && recorded[name] == 0 {
			continue
		}
		if counted[name] != recorded[name] {
			list = append(list, fmt.Sprintf("%s: %d calls counted, %d recorded", name, counted[name], recorded[name]))
		}
	}
	return strings.Join(list, "\n")
}

// difference compares outcomes without and with the recorder, up to a line that varies.
func difference(want, got outcome, varies string) string {
	if got.status != want.status {
		return fmt.Sprintf("status %d, unrecorded %d", got.status, want.status)
	}
	if varies != "" {
		want.stdout, _, _ = strings.Cut(want.stdout, varies)
		got.stdout, _, _ = strings.Cut(got.stdout, varies)
	}
	if got.stdout == want.stdout {
		return ""
	}
	a, b := strings.SplitAfter(want.stdout, "\n"), strings.SplitAfter(got.stdout, "\n")
	i := 0
	for i < min(len(a), len(b))-1 && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("line %d is %q, unrecorded %q", i+1, b[i], a[i])
}
