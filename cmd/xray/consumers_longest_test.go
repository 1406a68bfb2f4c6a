package main

import (
	"fmt"
	"testing"

	"github.com/xray-tools/xray/internal/test/traceprocessor"
)

// If a timeline has room only for some calls, Perfetto shows these at their original positions, and
// runs of "calls omitted" inside them and beside them.
func TestLongestCallsInTraceProcessor(t *testing.T) {
	t.Parallel()
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	open := func(t *testing.T, format string, args ...string) *traceprocessor.Processor {
		return inTraceProcessor(t, converted(t, format, append(args, kvserver...)...))
	}
	const slices = `select tid, s.ts, s.name, ifnull(p.name, 'nothing') from slice s
		join thread_track t on s.track_id = t.id join thread using (utid) left join slice p on s.parent_id = p.id
		where s.dur > 0 and s.name <> 'calls omitted'`
	all := map[string]bool{}
	for _, row := range open(t, "perfetto").Query(slices) {
		all[fmt.Sprint(row)] = true
	}
	for _, format := range []string{"perfetto", "chrome"} {
		t.Run(format, func(t *testing.T) {
			p := open(t, format, "--max-calls", "600")
			rows := p.Query(slices)
			for _, row := range rows {
				if !all[fmt.Sprint(row)] {
					t.Errorf("call not in the full timeline: %v", row)
				}
			}
			if len(rows) < 300 || len(rows) > 600 {
				t.Errorf("got %d calls, want 300 to 600", len(rows))
			}
			// Outside of shown calls nothing is left out: main is always shown, so each
			// run has a parent.
			for _, row := range p.Query(`select s.ts, s.dur, ifnull(p.name, 'nothing') from slice s left join slice p on s.parent_id = p.id
				where s.name = 'calls omitted' and (p.id is null or p.name = s.name)`) {
				t.Errorf("a run of calls omitted has no call as parent: %v", row)
			}
			counted := p.Query(`select sum(c.value) from counter c join track t on c.track_id = t.id where t.name like 'calls omitted, each %'`)[0][0]
			if left := float64(len(all) - len(rows)); counted.(float64) < left {
				t.Errorf("the counter has %v calls omitted, want at least %v", counted, left)
			}
			if runs := p.Query(`select count(*) from slice where name = 'calls omitted'`)[0][0].(int64); runs < 50 {
				t.Errorf("got %d runs of calls omitted, want at least 50", runs)
			}
		})
	}
}
