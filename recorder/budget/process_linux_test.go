//go:build linux && amd64

package budget

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
)

// The calls before a budget begins are not those of its first round.
func TestBudgetOfEarlierCalls(t *testing.T) {
	t.Parallel()
	program := elftest.Build(t, "clang-22", "budget", "-I../runtime", "-fxray-instrument", "-fno-xray-link-deps",
		"../testdata/budget.c", "-O2", "-fxray-instruction-threshold=1", "-pthread")
	l, err := build.Runtime(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "1000000000")
	options := recorder.Options{Ring: 16 << 20, Idle: true}
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+l.Preload(), options.Environment())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, err := client.Dial(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for err = errors.New("not started"); err != nil; time.Sleep(time.Millisecond) {
		_, err = p.Do(t.Context(), nil, "start mode=record limited=30000")
	}
	mem, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	image, root, _, err := client.FindRoot(mem, p)
	if err != nil {
		t.Fatal(err)
	}
	counts := func() (n uint64) {
		s := &processMemory{image: image, root: root, slots: make(map[uint64]uint32)}
		s.threads(func(_, _ uint32, words func(func(id, calls uint64))) {
			words(func(_, calls uint64) { n += calls })
		})
		return n
	}
	for counts() < 1000 {
		time.Sleep(time.Millisecond)
	}
	b, err := Open(t.Context(), p, image, root, new(reader.Recording), 0.03, false)
	if err != nil {
		t.Fatal(err)
	}
	known := uint64(0)
	for _, s := range b.slots {
		for _, calls := range s.counts {
			known += calls
		}
	}
	if known < 1000 {
		t.Errorf("the budget leaves out %d calls before it", known)
	}
	b.Start()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
