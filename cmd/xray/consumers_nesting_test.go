package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/test/traceprocessor"
)

// nestedFormats are the timelines that Perfetto reads.
var nestedFormats = []string{"perfetto", "chrome", "viztracer"}

// converted writes a trace in another format, and returns the file.
func converted(t *testing.T, format string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "converted")
	produce(t, append([]string{"convert", "-f", format, "-o", file}, args...)...)
	return file
}

// inTraceProcessor loads a file, without complaints.
func inTraceProcessor(t *testing.T, file string) *traceprocessor.Processor {
	t.Helper()
	trace, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := traceprocessor.Open(t, trace)
	for _, row := range p.Query(`select name, value from stats where value > 0 and severity in ('error', 'data_loss')`) {
		t.Errorf("Perfetto complains: %v", row)
	}
	return p
}

// equalTimes has calls that begin or end at the same time, some of which take no time: 1 > 2 > (3, 4),
// 1 > 5; and calls that are open at the end, at the time of an event inside. All times are equal after
// rounding to nanoseconds if a tick is shorter.
const equalTimes = `xray fdr version=5 frequency=%d
thread 21 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 1 +0
enter 2 +0
enter 3 +0
exit 3 +%[2]d
enter 4 +0
exit 4 +1000
exit 2 +0
enter 5 +%[2]d
exit 5 +0
exit 1 +0
enter 6 +0
exit 6 +0
enter 6 +0
enter 7 +%[2]d
exit 7 +0
enter 8 +0
custom "inside" +0
end-of-buffer
zeros auto
`

// Viewers nest calls right, whatever times are equal.
func TestEqualTimesInViewers(t *testing.T) {
	t.Parallel()
	const parents = `select s.name, ifnull(p.name, '') from slice s left join slice p on s.parent_id = p.id
		where s.name not in ('Logging info', 'Calls are missing') order by s.name, 2`
	want := [][]any{{"#1", ""}, {"#2", "#1"}, {"#3", "#2"}, {"#4", "#2"}, {"#5", "#1"}, {"#6", ""}, {"#6", ""}, {"#7", "#6"}, {"#8", "#6"}, {"custom event", "#8"}}
	for _, c := range []struct{ frequency, step int }{{1_000_000_000, 0}, {3_000_000_000, 1}} {
		trace := textTrace(t, fmt.Sprintf(equalTimes, c.frequency, c.step))
		for _, format := range nestedFormats {
			p := inTraceProcessor(t, converted(t, format, trace))
			if diff := cmp.Diff(want, p.Query(parents)); diff != "" {
				t.Errorf("%s, %d Hz (-want +got):\n%s", format, c.frequency, diff)
			}
			for _, row := range p.Query(`select name, ts, dur from slice where ts < 0 or dur < 0`) {
				t.Errorf("%s, %d Hz: negative times: %v", format, c.frequency, row)
			}
		}
	}
}

// Each slice in Perfetto is inside the same call as xray says, in a recording of real calls. With
// XRAY_SOAK=1, these are a million.
func TestParentsInTraceProcessor(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the recorder needs Linux on x86-64")
	}
	calls := "50000"
	if os.Getenv("XRAY_SOAK") == "1" {
		calls = "1000000"
	}
	testenv.Need(t, "clang++-22")
	trace := recordedProgram(t, buildInstrumented(t, "clang++-22", "nested.cc"), "ours", calls)
	want := parentsOf(t, trace)
	for _, format := range nestedFormats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			p := inTraceProcessor(t, converted(t, format, trace))
			got := map[string][2]int64{}
			for _, row := range p.Query(`
				with numbered as (select s.*, row_number() over (order by s.ts, s.depth, s.id) as n
					from slice s join thread_track t on s.track_id = t.id where s.name <> 'in the run queue' and s.name not like 'blocked%')
				select s.name, count(*), sum((s.n * 7919 + ifnull(p.n, 0) * 104729) % 1000003)
				from numbered s left join numbered p on s.parent_id = p.id group by 1`) {
				got[row[0].(string)] = [2]int64{row[1].(int64), row[2].(int64)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("number of calls, and hash of the numbers of calls and their callers (-want +got):\n%s", diff)
			}
		})
	}
}

// parentsOf numbers the calls of a trace of a single thread in the order in which they begin, and
// returns their number, and a hash of their numbers and those of their callers, by function.
func parentsOf(t *testing.T, trace string) map[string][2]int64 {
	t.Helper()
	rows := csv.NewReader(strings.NewReader(produce(t, "convert", "-f", "csv", trace)))
	all, err := rows.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// From the last row to the first, each call comes before its callees, the last of which is first.
	type node struct {
		function string
		callees  []int
	}
	nodes := []node{{}}
	open := []int{0} // by depth, from 1
	for i := len(all) - 1; i > 0; i-- {
		depth, err := strconv.Atoi(all[i][4])
		if err != nil {
			t.Fatal(err)
		}
		open = open[:depth+1]
		caller := open[depth]
		nodes[caller].callees = append(nodes[caller].callees, len(nodes))
		open = append(open, len(nodes))
		nodes = append(nodes, node{function: all[i][3]})
	}
	parents := map[string][2]int64{}
	n := int64(0)
	var visit func(i int, caller int64)
	visit = func(i int, caller int64) {
		own := n
		if i > 0 {
			s := parents[nodes[i].function]
			parents[nodes[i].function] = [2]int64{s[0] + 1, s[1] + (own*7919+caller*104729)%1000003}
		}
		for k := len(nodes[i].callees) - 1; k >= 0; k-- {
			n++
			visit(nodes[i].callees[k], own)
		}
	}
	visit(0, 0)
	return parents
}
