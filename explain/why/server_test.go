//go:build linux && amd64

package why_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// A server holds the lock of its journal while it waits for the disk, which is slow now and then.
// Threads that store something wait for the lock.
func TestServerOnASlowDisk(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "go")
	dir := t.TempDir()
	source := func(name string) string { return filepath.Join("testdata", "server", name) }
	program := compilePlanted(t, "kv", source("kv.cc"), source("store.cc"))
	disk, load := filepath.Join(dir, "slowdisk.so"), filepath.Join(dir, "load")
	command(t, "cc", "-shared", "-fPIC", "-O2", "-o", disk, source("slowdisk.c"))
	command(t, "go", "build", "-o", load, "./"+source("load"))

	server := exec.Command(program, filepath.Join(dir, "journal"))
	server.Env = append(os.Environ(), ours.environment(t, dir, disk)...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	var port int
	var journal uint64
	if _, err := fmt.Fscanf(bufio.NewReader(out), "port %d\njournal 0x%x\n", &port, &journal); err != nil {
		t.Fatal(err)
	}
	command(t, load, "-address", fmt.Sprintf("127.0.0.1:%d", port), "-keys", "2000", "-requests", "800", "-pause", "1ms")
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}

	run := openPlanted(t, dir, program, "")
	r := run.explain(t, over5ms)
	want := truth{"lock-wait", []string{"function=Mutex::lock", fmt.Sprintf("lock=%#x", journal), "holder=Journal::sync", "evidence=address"}}
	if want.find(r, run.names) != 0 {
		t.Errorf("want cause %v, got\n%s", want, run.text(r))
	}
}

// command runs a program that must succeed.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if said, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, said)
	}
}
