//go:build linux && amd64

package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// xray locks finds the locks of servers although none of their functions logs a lock's address, and
// xray io counts the bytes on their sockets.
func TestLibcalls(t *testing.T) {
	if os.Getenv("XRAY_REAL") == "" {
		t.Skip("set XRAY_REAL=1 to run this test")
	}
	for _, p := range programs {
		for _, l := range p.loads {
			least, ok := map[string]uint64{"memcached/server": 4000, "redis/server": 3}[p.name+"/"+l.name]
			if !ok {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				s := startSession(t, l, run{src: p.build(t, instrumented), record: []string{"--libcalls"}})
				if _, err := l.drive(s); err != nil {
					t.Fatalf("%v\n%s", err, s.said())
				}
				if err := errors.Join(endings[0].end(s), s.wait()); err != nil {
					t.Fatal(err)
				}
				checkTraces(t, l, s)
				checkLocks(t, s, least)
			})
		}
	}
}

// checkLocks checks that locks with addresses were taken at least this often, and released as
// often.
func checkLocks(t *testing.T, s *session, least uint64) {
	var taken, holds, moved uint64
	for _, trace := range s.traceFiles(t) {
		var locks struct {
			Locks []struct {
				Address      *string
				Taken, Holds uint64
			}
		}
		var io struct {
			ReadBytes    uint64 `json:"read_bytes"`
			WrittenBytes uint64 `json:"written_bytes"`
		}
		for command, to := range map[string]any{"locks": &locks, "io": &io} {
			out, err := exec.Command(elftest.Xray(t), command, "--top", "0", "--format", "json", trace).Output()
			if err != nil {
				t.Fatalf("%s %s: %v", command, filepath.Base(trace), err)
			}
			if err := json.Unmarshal(out, to); err != nil {
				t.Fatalf("%s %s: %v", command, filepath.Base(trace), err)
			}
		}
		for _, l := range locks.Locks {
			if l.Address == nil {
				t.Errorf("%s: a lock without address, taken %d times", filepath.Base(trace), l.Taken)
			}
			taken += l.Taken
			holds += l.Holds
		}
		moved += min(io.ReadBytes, io.WrittenBytes)
	}
	t.Logf("%d locks taken, %d holds", taken, holds)
	if taken < least || holds+holds/100+2 < taken {
		t.Errorf("got %d locks taken and %d holds, want at least %d", taken, holds, least)
	}
	if moved < 10_000 {
		t.Errorf("got only %d bytes read and written", moved)
	}
}

// TestLibcallsCost prints how much --libcalls adds to the CPU time of recordings, outside budgets and within
// them, and how many calls of the C library there are. Like TestCost, it needs -cost.
func TestLibcallsCost(t *testing.T) {
	if *costRounds < 1 {
		t.Skip("set -cost N to measure")
	}
	var table strings.Builder
	table.WriteString("| program | load | recorded | with --libcalls | million calls of libc a second | unrecorded | 3% | 5% | 3% with --libcalls | 5% with --libcalls |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	eachLoad(t, func(l load) bool { return l.cost }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		seconds := map[string][]float64{}
		for range *costRounds {
			for _, flags := range []string{"--no-libcalls", "--libcalls"} {
				c := measure(t, l, run{src: src, times: *budgetTimes, record: []string{"--ring", "1M", flags}})
				seconds[flags] = append(seconds[flags], c.seconds)
			}
			seconds[""] = append(seconds[""], measure(t, l, run{src: src, times: *budgetTimes}).seconds)
			for _, budget := range budgets {
				for _, flags := range []string{"--no-libcalls", "--libcalls"} {
					c := measure(t, l, run{src: src, times: *budgetTimes, record: []string{"--budget", budget, flags}})
					seconds[budget+flags] = append(seconds[budget+flags], c.seconds)
				}
			}
		}
		without := measure(t, l, run{src: src, record: []string{"--limit", "4G", "--no-libcalls"}})
		with := measure(t, l, run{src: src, record: []string{"--limit", "4G", "--libcalls"}})
		plain, base := median(seconds["--no-libcalls"]), median(seconds[""])
		fmt.Fprintf(&table, "| %s | %s | %.2f s | %.3f | %.2f | %.2f s |", p.name, l.name, plain, median(seconds["--libcalls"])/plain,
			(with.calls-without.calls)/without.seconds/1e6, base)
		for _, flags := range []string{"--no-libcalls", "--libcalls"} {
			for _, budget := range budgets {
				fmt.Fprintf(&table, " %.2f |", median(seconds[budget+flags])/base)
			}
		}
		table.WriteString("\n")
		t.Logf("CPU seconds: %v", seconds)
	})
	fmt.Print(table.String())
}
