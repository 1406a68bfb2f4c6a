package main

import (
	"bufio"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// In this program, one thread holds a lock for 300 ms at a time. A request that begins after 200 ms of
// these waits for it. Another thread waits for all of that. The program prints its ID, and ends when its
// input does.
const holdingProgram = `
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define RECORDED __attribute__((noinline, xray_always_instrument))
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile int turn;
static int ended(void) { struct pollfd p = {.fd = 0, .events = POLLIN}; return poll(&p, 1, 0) != 0; }
RECORDED void nothing(void) { __asm__ volatile(""); }
RECORDED void later(void) { usleep(300000); turn = 0; __asm__ volatile(""); }
RECORDED void hold(void) { pthread_mutex_lock(&m); turn = 1; later(); pthread_mutex_unlock(&m); }
RECORDED void idle(void) { usleep(1500000); __asm__ volatile(""); }
RECORDED void request(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
static void *holder(void *p) { while (!ended()) { hold(); usleep(20000); } return p; }
static void *waiter(void *p) { while (!ended()) idle(); return p; }
int main(void) {
	pthread_t t[2];
	pthread_create(&t[0], 0, holder, 0);
	pthread_create(&t[1], 0, waiter, 0);
	printf("%d\n", getpid());
	fflush(stdout);
	while (!ended()) {
		while (!turn && !ended()) usleep(100);
		usleep(200000);
		request();
		for (int i = 0; i < 100; i++) nothing();
	}
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	return 0;
}
`

// inTrace returns the numbers of the functions of a trace, by name and column.
func inTrace(t *testing.T, path string) map[string]map[string]float64 {
	t.Helper()
	o := runHere("xray", "account", "-f", "csv", path)
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v\n%s", err, o)
	}
	found := make(map[string]map[string]float64)
	for _, row := range rows[1:] {
		values := make(map[string]float64)
		for i, cell := range row {
			values[rows[0][i]], _ = strconv.ParseFloat(cell, 64)
		}
		found[row[slices.Index(rows[0], "function")]] = values
	}
	return found
}

// Snapshots and traces of watch have the calls that are open where they begin, of all threads, and know that
// these wait.
func TestOpenCallsInCuts(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22", "cc")
	program := filepath.Join(t.TempDir(), "holding")
	if err := os.WriteFile(program+".c", []byte(holdingProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-g", "-fxray-instrument", "-pthread", "-Wl,--build-id", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func(args ...string) (pid string, end func()) {
		cmd := exec.Command("xray", append(args, "--", program)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid, err = bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(pid), func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	check := func(path string, ns float64, functions ...string) {
		t.Helper()
		found := inTrace(t, path)
		for _, fn := range functions {
			row := found[fn]
			if row == nil || row["count"] != 0 || row["total_ns"] < ns || row["on_cpu_ns"] > 0.5*row["self_ns"] && fn != "hold" {
				t.Errorf("%s: %s has %v, want no call that began here, and at least %.0f ns, most of them off the CPU", path, fn, row, ns)
			}
		}
	}
	dir := t.TempDir()

	pid, end := start("record", "-q", "--ring", "1M", "-o", filepath.Join(dir, "ring.xray"))
	until(t, "a snapshot of a second", func() bool {
		path := filepath.Join(dir, "snapshot.xray")
		if o := runHere("xray", "ctl", pid, "snapshot", "--last", "100ms", "-o", path); o.status != 0 {
			return false
		}
		return inTrace(t, path)["idle"]["total_ns"] > 50e6
	})
	check(filepath.Join(dir, "snapshot.xray"), 90e6, "idle")
	end()

	folder := filepath.Join(dir, "slow")
	_, end = start("watch", "-q", "--root", "^request$", "--over", "40ms", "-o", folder)
	slow := func() []string {
		list, err := filepath.Glob(filepath.Join(folder, "*-slow-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// The first call of idle that is recorded begins up to 1.5 s after the recording.
	until(t, "traces of slow requests", func() bool { return len(slow()) >= 9 })
	end()
	idle, held := 0, 0
	for i, path := range slow()[1:] { // the last may have been written when the process had ended
		// On a busy machine, the request may begin so late that the next call of hold begins inside.
		if inTrace(t, path)["request"]["max_ns"] < 200e6 {
			held++
			check(path, 30e6, "hold", "later")
		}
		if row := inTrace(t, path)["idle"]; row != nil && row["count"] == 0 && row["total_ns"] > 40e6 {
			idle++
			check(path, 40e6, "idle")
		}
		if i == 7 && idle == 0 {
			t.Errorf("no trace has the call of idle that was open")
		}
	}
	if held == 0 {
		t.Error("no request began while the lock was held")
	}
}
