package cli

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 8 << 20: 100, 16 << 20: 50, 25 << 20: 30, 1 << 30: 25, 1 << 62: 25} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: got %d%%, want %d%%", live, got, want)
		}
	}
}

// A large heap gets little headroom, and a small one gets the default again.
func TestLimit(t *testing.T) {
	if os.Getenv("HEADROOM_TEST") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestLimit$")
		cmd.Env = append(os.Environ(), "HEADROOM_TEST=1", "GOGC=")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	LimitMemory()
	current := func() int {
		for range 5 {
			runtime.GC()
			runtime.Gosched()
		}
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	keep := make([]byte, 128<<20)
	for range 100 {
		if current() == 25 {
			break
		}
	}
	if p := current(); p != 25 {
		t.Errorf("128 MB in use: got %d%%", p)
	}
	runtime.KeepAlive(keep)
	keep = nil
	for range 100 {
		if current() == 100 {
			return
		}
	}
	t.Errorf("nothing in use: got %d%%", current())
}
