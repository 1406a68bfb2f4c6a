//go:build linux && amd64

package attach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// object is loaded. Its function is slow, so that the attaching process can be killed in the
// meantime.
const object = `
#include <stdint.h>
#include <unistd.h>
int32_t late_data __attribute__((section(".data"))) = 0;
void visit(const char *text, int32_t *result)
{
	for (int i = 0; i < 200; i++)
		usleep(1000 * (text[0] == 's'));
	*result = late_data ? text[1] : -1;
}
`

// sleeper prints what it does in floating point and whether its system calls are interrupted.
const sleeper = `
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
static void run(int signal)
{
	volatile double x = 1;
	for (int i = 0; i < 400; i++) {
		double y = x * 1.5, z = x / 3;
		errno = 0;
		int r = poll(NULL, 0, 5);
		x = y - z;
		printf("%d %d %g\n", r, errno, x / (y - z));
		if (x > 1e100)
			x = 1;
	}
}
int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, run);
	if (argc < 2)
		run(0);
	else
		raise(SIGUSR1);
	return 0;
}
`

// build compiles a source in a folder of its own.
func build(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	testenv.Need(t, "gcc")
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path+".c", []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append([]string{"-O1", path + ".c", "-o", path}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// start starts the sleeper. end waits for its end and returns lines that it should not print.
func start(t *testing.T, args ...string) (pid int, end func() []string) {
	t.Helper()
	cmd := exec.Command(build(t, "sleeper", sleeper), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	return cmd.Process.Pid, func() (wrong []string) {
		n := 1
		for lines.Scan() {
			n++
			if lines.Text() != "0 0 1" {
				wrong = append(wrong, lines.Text())
			}
		}
		if err := cmd.Wait(); err != nil || n != 400 {
			t.Errorf("%v after %d lines", err, n)
		}
		return wrong
	}
}

func options(t *testing.T, argument string) Options {
	return Options{Object: build(t, "object", object, "-shared", "-fPIC"), Late: "late_data", Function: "visit", Argument: argument}
}

func TestMain(m *testing.M) {
	// The attaching process, which is killed, is a separate process.
	if pid, _ := strconv.Atoi(os.Getenv("ATTACH_TO")); pid != 0 {
		_, _ = Load(context.Background(), pid, Options{Object: os.Getenv("ATTACH_OBJECT"), Late: "late_data", Function: "visit", Argument: "s!"})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func loadedIn(pid int) bool {
	maps, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	return bytes.Contains(maps, []byte("/memfd:"+objectName))
}

// An object is loaded once, and its function called as often as asked for.
func TestLoad(t *testing.T) {
	pid, end := start(t)
	o := options(t, "qA")
	for _, want := range []string{"qA", "qB", "qC"} {
		o.Argument = want
		got, err := Load(context.Background(), pid, o)
		if err != nil || got != int32(want[1]) {
			t.Fatalf("%d, %v", got, err)
		}
	}
	maps, err := mapsOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(maps, func(m mapping) bool { return !m.executable() || !strings.HasPrefix(m.path, "/memfd:") })); n != 1 {
		t.Errorf("loaded %d times", n)
	}
	other := o
	other.Object = build(t, "other", strings.Replace(object, "200", "100", 1)+"int more(void) { return 1; }\n", "-shared", "-fPIC")
	var failed *FailedError
	if _, err := Load(context.Background(), pid, other); err == nil || errors.As(err, &failed) || !strings.Contains(err.Error(), "another version") {
		t.Errorf("another object: %v", err)
	}
	if wrong := end(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// A server may do all of its work in a signal handler that interrupted a system call.
func TestLoadInHandler(t *testing.T) {
	pid, end := start(t, "handler")
	got, err := Load(context.Background(), pid, options(t, "qA"))
	if err != nil || got != 'A' {
		t.Errorf("%d, %v", got, err)
	}
	if wrong := end(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// If the attaching process is killed, the thread completes the call and continues.
func TestKilledMeanwhile(t *testing.T) {
	pid, end := start(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ATTACH_TO="+strconv.Itoa(pid), "ATTACH_OBJECT="+options(t, "").Object)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); !loadedIn(pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed in time")
	}
	// The call in which the thread was is made again.
	if wrong := end(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// The memory of a process is as hostile as the process.
func FuzzImage(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self[:1<<16])
	f.Fuzz(func(t *testing.T, memory []byte) {
		m := mapping{end: uint64(len(memory)), perms: "r--p", path: "/x"}
		for _, img := range readImages(bytes.NewReader(memory), []mapping{m}) {
			p := newProcess([]image{img}, "/x")
			p.libc = &p.images[0]
			img.readFrames(bytes.NewReader(memory))
			p.images[0] = img
			var r registers
			r.set(dwarfRSP, 64)
			r.set(dwarfRIP, img.entry)
			stack, _, err := p.unwind(bytes.NewReader(memory), r)
			if err == nil {
				p.whyUnsafe(stack, false)
			}
		}
	})
}

func FuzzMaps(f *testing.F) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(maps)
	f.Fuzz(func(t *testing.T, text []byte) {
		maps, err := readMaps(bytes.NewReader(text))
		if err == nil && len(maps) > len(text) {
			t.Error("more mappings than text")
		}
	})
}
