package main

import (
	"bytes"
	"encoding/csv"
	"errors"
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

const busyProgram = `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static const char *end;
static long counted[3];
__attribute__((noinline, xray_always_instrument)) void leaf(void) { __asm__ volatile(""); }
static void *work(void *to)
{
	long *n = to;
	while (access(end, F_OK)) {
		for (int i = 0; i < 5000; i++, ++*n)
			leaf();
		usleep(200);
	}
	return 0;
}
int main(int argc, char **argv)
{
	pthread_t t[3];
	end = argv[argc - 1];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], 0, work, &counted[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	printf("%ld\n", counted[0] + counted[1] + counted[2]);
	return 0;
}
`

const spacesProgram = `
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline, xray_always_instrument)) void leaf(void) { __asm__ volatile(""); }
static void work(int n) { while (n--) leaf(); }
static int is_ok(int child) { int status; return waitpid(child, &status, 0) == child && !status; }
/* Each process is the first one of a PID namespace of its own. */
static int nest(int depth)
{
	work(100);
	if (!depth)
		return 1;
	if (unshare(CLONE_NEWPID))
		return 0;
	int child = fork();
	if (!child)
		_exit(!nest(depth - 1));
	return is_ok(child);
}
int main(void)
{
	int ok = nest(3);
	work(100);
	return !ok;
}
`

// compiledProgram compiles a program.
func compiledProgram(t *testing.T, source string) string {
	t.Helper()
	testenv.Need(t, "clang-22", "cc", "pgrep")
	program := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(program+".c", []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-pthread", "-fxray-instrument", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// leafCalls returns the calls of leaf in a trace, with those that have not ended.
func leafCalls(t *testing.T, trace string) (calls int) {
	t.Helper()
	out, err := exec.Command("xray", "account", "--func", "^leaf$", "--format", "csv", trace).Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%s: %v, %d rows", trace, err, len(rows))
	}
	for i, column := range rows[0] {
		if column == "count" || column == "open" {
			n, _ := strconv.Atoi(rows[1][i])
			calls += n
		}
	}
	return calls
}

// If the process that writes the trace ends early, by any signal, the program writes what that one has not
// written, and nothing else. So the two traces have each call once.
func TestObserverEndsEarly(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			program := compiledProgram(t, busyProgram)
			var printed bytes.Buffer
			cmd := exec.Command("xray", "record", "-o", program+".xray", program, program+".end")
			cmd.Stdout = &printed
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			size := func(name string) int64 {
				info, err := os.Stat(name)
				if err != nil {
					return 0
				}
				return info.Size()
			}
			until(t, "the trace grows", func() bool { return size(program+".xray") > 1<<20 })
			observer := childNamed(cmd.Process.Pid, "observe")
			if err := syscall.Kill(observer, signal); err != nil {
				t.Fatal(err)
			}
			var rest []string
			until(t, "the program writes the rest", func() bool {
				rest, _ = filepath.Glob(program + ".xray.*")
				return len(rest) == 1 && size(rest[0]) > 1<<20
			})
			if err := os.WriteFile(program+".end", nil, 0o666); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // fails, because its partner ended early
			want, err := strconv.Atoi(strings.TrimSpace(printed.String()))
			if err != nil {
				t.Fatal(err)
			}
			info, err := exec.Command("xray", "info", rest[0]).Output()
			if err != nil {
				t.Fatal(err)
			}
			// The chunk that was being written when the observer was killed has at most 4,096 calls.
			unsure := 0
			if bytes.Contains(info, []byte("may be missing")) && signal == syscall.SIGKILL {
				unsure = 4096
			}
			if got := leafCalls(t, program+".xray") + leafCalls(t, rest[0]); got > want || got < want-unsure {
				t.Errorf("got %d calls, want %d, of which %d may be missing\n%s", got, want, unsure, info)
			}
		})
	}
}

// A process that is the first one of a PID namespace is recorded like others, and its observer ends with it.
func TestPIDNamespaces(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can create namespaces")
	}
	program := compiledProgram(t, spacesProgram)
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Skipf("no PID namespaces here: %v %s", err, out)
	}
	// xray record waits until the traces of all processes that have ended are complete.
	cmd := exec.Command("xray", "record", "-q", "-o", program+"-%p.xray", program)
	mark := "XRAY_TEST=" + program
	cmd.Env = append(os.Environ(), mark)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	traces, _ := filepath.Glob(program + "-*.xray*")
	calls := 0
	for _, trace := range traces {
		calls += leafCalls(t, trace)
		if info, err := exec.Command("xray", "info", trace).Output(); err != nil || bytes.Contains(info, []byte("did not end normally")) {
			t.Errorf("%s: %v\n%s", trace, err, info)
		}
	}
	if len(traces) != 4 || calls != 500 {
		t.Errorf("got %d calls in %d traces, want 500 in 4", calls, len(traces))
	}
	until(t, "the observer ends", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		return !slices.ContainsFunc(all, func(path string) bool {
			environment, _ := os.ReadFile(path)
			return bytes.Contains(environment, []byte(mark+"\x00"))
		})
	})
}

const edgesProgram = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
__attribute__((noinline, xray_always_instrument)) void leaf(void) { __asm__ volatile(""); }
static void *work(void *unused) { leaf(); return unused; }
int main(int argc, char **argv)
{
	int n = atoi(argv[2]);
	if (!strcmp(argv[1], "calls"))
		while (n--)
			leaf();
	if (!strcmp(argv[1], "exec")) {
		char left[16];
		leaf();
		snprintf(left, sizeof left, "%d", n - 1);
		if (n)
			execl(argv[0], argv[0], "exec", left, NULL);
	}
	if (!strcmp(argv[1], "addresses")) {
		struct rlimit limit = {(rlim_t)n << 20, (rlim_t)n << 20};
		leaf();
		if (setrlimit(RLIMIT_AS, &limit))
			return 2;
		for (int i = 0; i < 20; i++) {
			pthread_t t;
			if (pthread_create(&t, 0, work, 0) || pthread_join(t, 0))
				return 3;
		}
	}
	return 0;
}
`

// On a full disk, the trace says how many records are missing, compressed or not.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "unshare", "mount")
	program := compiledProgram(t, edgesProgram)
	const made = 400000
	for _, flag := range []string{"--compress", "--no-follow"} {
		dir := t.TempDir()
		out, err := exec.Command("unshare", "-rm", "sh", "-c", `mount -t tmpfs -o size=512k none "$0" || exit 99
			xray record "$3" -o "$0/t.xray" "$1" calls "$2" 2>&1; xray account --format csv --func "^leaf$" "$0/t.xray"`, dir, program, strconv.Itoa(made), flag).Output()
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 99 {
			t.Skip("no mounts here")
		}
		found := regexp.MustCompile(`lost: ([\d,]+) \(write-error\)`).FindSubmatch(out)
		if err != nil || found == nil {
			t.Fatalf("%s: %v\n%s", flag, err, out)
		}
		lost, _ := strconv.Atoi(strings.ReplaceAll(string(found[1]), ",", ""))
		rows, err := csv.NewReader(bytes.NewReader(out[bytes.Index(out, []byte("count,")):])).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		calls, _ := strconv.Atoi(rows[1][0])
		// The records include some of times off CPU.
		if least := 2 * (made - calls); lost < least-2 || lost > least+least/100 || calls == 0 {
			t.Errorf("%s: %d of %d calls are in the trace, and %d records are said to be missing", flag, calls, made, lost)
		}
	}
}

// A process that executes many programs in turn has a trace for each.
func TestManyExecs(t *testing.T) {
	t.Parallel()
	program := compiledProgram(t, edgesProgram)
	if out, err := exec.Command("xray", "record", "-q", "-o", program+".xray", program, "exec", "29").CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	traces, _ := filepath.Glob(program + ".xray*")
	calls := 0
	for _, trace := range traces {
		calls += leafCalls(t, trace)
	}
	if len(traces) != 30 || calls != 30 {
		t.Errorf("got %d calls in %d traces, want 30 in 30", calls, len(traces))
	}
}

// A program that limits its address space can create threads as it can unrecorded.
func TestAddressLimit(t *testing.T) {
	t.Parallel()
	program := compiledProgram(t, edgesProgram)
	for _, megabytes := range []string{"80", "200", "1000"} {
		if out, err := exec.Command("xray", "record", "-q", "-o", program+".xray", program, "addresses", megabytes).CombinedOutput(); err != nil {
			t.Errorf("%s MB: %v\n%s", megabytes, err, out)
		}
	}
}
