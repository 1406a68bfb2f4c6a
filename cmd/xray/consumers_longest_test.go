package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/internal/test/traceprocessor"
)

// Of a timeline that has room for some calls only, Perfetto shows these where they were,
// and what is left out inside of them and beside them.
func TestLongestCallsInTraceProcessor(t *testing.T) {
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	open := func(t *testing.T, args ...string) *traceprocessor.Processor {
		file := filepath.Join(t.TempDir(), "trace")
		produce(t, append(append([]string{"convert", "-o", file}, args...), kvserver...)...)
		trace, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return traceprocessor.Open(t, trace)
	}
	const slices = `select tid, s.ts, s.name, ifnull(p.name, 'nothing') from slice s
		join thread_track t on s.track_id = t.id join thread using (utid) left join slice p on s.parent_id = p.id
		where s.dur > 0 and s.name <> 'calls left out'`
	all := map[string]bool{}
	for _, row := range open(t, "-f", "perfetto").Query(slices) {
		all[fmt.Sprint(row)] = true
	}
	for _, format := range []string{"perfetto", "chrome"} {
		t.Run(format, func(t *testing.T) {
			p := open(t, "-f", format, "--max-calls", "600")
			for _, row := range p.Query(`select name, value from stats where value > 0 and severity in ('error', 'data_loss')`) {
				t.Errorf("Perfetto complains: %v", row)
			}
			rows := p.Query(slices)
			for _, row := range rows {
				if !all[fmt.Sprint(row)] {
					t.Errorf("a call is where it was not: %v", row)
				}
			}
			if len(rows) < 300 || len(rows) > 600 {
				t.Errorf("%d calls", len(rows))
			}
			// Everything is inside of what there is all the time, and beside what is shown.
			for _, row := range p.Query(`select s.ts, s.dur, ifnull(p.name, 'nothing') from slice s left join slice p on s.parent_id = p.id
				where s.name = 'calls left out' and (p.id is null or p.name = s.name)`) {
				t.Errorf("a run of calls left out is in %v", row)
			}
			counted := p.Query(`select sum(c.value) from counter c join track t on c.track_id = t.id where t.name like 'calls left out, each %'`)[0][0]
			if left := float64(len(all) - len(rows)); counted.(float64) < left {
				t.Errorf("%v calls are counted as left out, %v are", counted, left)
			}
			if runs := p.Query(`select count(*) from slice where name = 'calls left out'`)[0][0].(int64); runs < 50 {
				t.Errorf("%d runs of calls left out", runs)
			}
		})
	}
}
