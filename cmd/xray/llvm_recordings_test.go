//go:build linux && amd64

package main

import (
	"encoding/csv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

const switchedProgram = `
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#define RECORDED __attribute__((noinline, xray_always_instrument))
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
RECORDED void step(int i) {
	pthread_mutex_lock(&m);
	char *p = malloc(100);
	*(volatile char *)p = 1;
	if (i % 50 == 0) usleep(300);
	free(p);
	pthread_mutex_unlock(&m);
	int f = open("/dev/null", O_WRONLY);
	if (write(f, "x", 1) != 1) abort();
	close(f);
}
RECORDED void *work(void *p) { for (int i = 0; i < 400; i++) step(i); return p; }
RECORDED int main(void) {
	pthread_t t[2];
	for (int i = 0; i < 2; i++) pthread_create(t + i, 0, work, 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	return 0;
}
`

// countsByID returns the calls of functions by their IDs, of a CSV table.
func countsByID(t *testing.T, text, id string) map[string]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v: %.300s", err, text)
	}
	function, count := slices.Index(rows[0], id), slices.Index(rows[0], "count")
	list := make(map[string]string)
	for _, row := range rows[1:] {
		list[row[function]] = row[count]
	}
	return list
}

// llvm-xray reads what xray records, with switches, scheduler events and calls of the C library, and
// sees the same calls.
func TestLLVMReadsRecordings(t *testing.T) {
	testenv.Need(t, "clang-22", "cc", "llvm-xray-14", "llvm-xray-19", "llvm-xray-22")
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program+".c", []byte(switchedProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("clang-22", "-O1", "-pthread", "-fxray-instrument", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, flags := range [][]string{nil, {"--no-offcpu"}, {"--sched=irq"}, {"--libcalls=all"}, {"--sched=irq", "--libcalls=all"}, {"--ring=4M", "--sched", "--libcalls"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			t.Parallel()
			trace := filepath.Join(t.TempDir(), "trace.xray")
			args := append(append([]string{"record", "-q"}, flags...), "-o", trace, program)
			if out, err := exec.Command("xray", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			output := func(command string, args ...string) string {
				t.Helper()
				out, err := exec.Command(command, append(args, trace)...).Output()
				if err != nil {
					t.Errorf("%s %v: %v", command, args, err)
				}
				return string(out)
			}
			yaml := output("xray", "convert", "-f", "yaml")
			const entry = "kind: function-enter"
			entries := strings.Count(yaml, entry)
			if entries < 803 {
				t.Errorf("got %d entries, want at least 803", entries)
			}
			want := countsByID(t, output("xray", "account", "--top", "0", "--format", "csv"), "function_id")
			for _, version := range []string{"14", "19", "22"} {
				llvm := "llvm-xray-" + version
				if got := countsByID(t, output(llvm, "account", "-k", "-f", "csv"), "funcid"); !maps.Equal(got, want) {
					t.Errorf("%s account counts %v, and xray %v", llvm, got, want)
				}
				yaml := output(llvm, "convert", "-f", "yaml")
				if n := strings.Count(yaml, entry); n != entries {
					t.Errorf("%s convert has %d entries, and xray %d", llvm, n, entries)
				}
				if text := output(llvm, "convert", "-f", "trace_event"); !strings.Contains(text, "traceEvents") {
					t.Errorf("%s convert: %.200s", llvm, text)
				}
			}
		})
	}
}
