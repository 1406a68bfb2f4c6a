package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
)

const parseProgram = `
#include <unistd.h>
__attribute__((noinline, xray_always_instrument)) void parse(void) { __asm__ volatile(""); }
__attribute__((xray_always_instrument)) int main(int argc, char **argv) {
	while (access(argv[1], F_OK))
		;
	for (int i = 0; i < 300000; i++)
		parse();
	return argc != 2;
}
`

// If the process that writes the trace is stopped, the program waits for it. This time is not
// attributed to functions as blocked.
func TestStoppedObserver(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22", "cc", "pgrep")
	dir := t.TempDir()
	program, begin := filepath.Join(dir, "prog"), filepath.Join(dir, "begin")
	if err := os.WriteFile(program+".c", []byte(parseProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-fxray-instrument", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := startXray(t, "record", "-q", "-o", program+".xray", program, begin)
	pid, observer := "", 0
	until(t, "the program", func() bool {
		out, _ := exec.Command("pgrep", "-x", "-P", strconv.Itoa(cmd.Process.Pid), "prog").Output()
		pid, observer = strings.TrimSpace(string(out)), childNamed(cmd.Process.Pid, "observe")
		return pid != "" && observer != 0 && exec.Command("xray", "ctl", pid, "status").Run() == nil
	})
	_ = syscall.Kill(observer, syscall.SIGSTOP)
	if err := os.WriteFile(begin, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	// The program sleeps only to wait for the observer.
	until(t, "the program waits", func() bool {
		stat, _ := os.ReadFile("/proc/" + pid + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "S")
	})
	time.Sleep(100 * time.Millisecond)
	_ = syscall.Kill(observer, syscall.SIGCONT)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("xray", "account", "--format", "json", program+".xray").Output()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Functions []struct {
			SelfNS     float64 `json:"self_ns"`
			OnCPUNS    float64 `json:"on_cpu_ns"`
			BlockedNS  float64 `json:"blocked_ns"`
			RecorderNS float64 `json:"recorder_ns"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Functions) != 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	var recorder, blocked float64
	for _, f := range report.Functions {
		recorder += f.RecorderNS
		blocked += f.BlockedNS
		if f.OnCPUNS > f.SelfNS-f.RecorderNS {
			t.Errorf("got %+v", f)
		}
	}
	// It wakes up now and then to look, and may then be in the run queue for long.
	if recorder < 20e6 || blocked > recorder/2 {
		t.Errorf("wrong sums of times:\n%s", out)
	}
}
