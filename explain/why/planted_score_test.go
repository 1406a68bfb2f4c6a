//go:build linux && amd64

package why_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// busy keeps a number of other processes computing until the test ends.
func busy(t *testing.T, hogs int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	for range hogs {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
}

// Next to programs that compete for the processors, why finds the same causes and names no others.
func TestPlantedBesideHogs(t *testing.T) {
	if os.Getenv("XRAY_SOAK") != "1" {
		t.Skip("set XRAY_SOAK=1 to record all programs next to competing ones")
	}
	testenv.Need(t, "sh")
	programs := make(map[string]string)
	for _, p := range plantedPrograms {
		programs[p.name] = compileRequests(t, p.name)
	}
	programs["steady"], programs["busy"] = compileRequests(t, "steady"), compileRequests(t, "busy")
	const runs = 3
	for _, hogs := range []int{0, 2, 4} {
		t.Run(map[int]string{0: "none", 2: "two", 4: "four"}[hogs], func(t *testing.T) {
			busy(t, hogs)
			right, wrong, silent := 0, 0, 0
			for range runs {
				for _, p := range plantedPrograms {
					run := ours.run(t, programs[p.name])
					truth := readTruth(t, run.said)
					switch r := run.explain(t, p.slow); {
					case len(r.Causes) == 0:
						silent++
						t.Logf("%s: no cause\n%s", p.name, run.text(r))
					case truth[0].find(r, run.names) == 0:
						right++
					default:
						wrong++
						t.Logf("%s: want %v, got\n%s", p.name, truth[0], run.text(r))
					}
				}
				// Without its cause, backend waits for threads that are not in the trace and may be preempted.
				for name, env := range map[string][]string{"steady": nil, "busy": nil, "backend": {"PLANTED_NOTHING=1"}} {
					run := ours.run(t, programs[name], env...)
					if r := run.explain(t, why.Rule{}); len(r.Causes) > 0 {
						t.Errorf("%s: unexpected cause %s\n%s", name, short(run.names, r.Causes[0].Func), run.text(r))
					}
				}
			}
			all := right + wrong + silent
			t.Logf("%d of %d right, %d wrong, %d without a cause", right, all, wrong, silent)
			if 100*right < 90*all {
				t.Errorf("%d of %d right", right, all)
			}
		})
	}
}
