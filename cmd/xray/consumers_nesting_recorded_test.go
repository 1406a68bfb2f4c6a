//go:build linux && amd64

package main

import (
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// Each slice in Perfetto is inside the same call as xray says, in a recording of real calls. With
// XRAY_SOAK=1, these are a million.
func TestParentsInTraceProcessor(t *testing.T) {
	t.Parallel()
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
