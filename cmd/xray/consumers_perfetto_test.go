package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sumsOfSlices selects the count and times of slices by name.
const sumsOfSlices = `
	with inside as (select parent_id as id, sum(dur) as dur from slice group by 1)
	select s.name, count(*), sum(s.dur - ifnull(inside.dur, 0)),
		sum(iif(exists(select 1 from ancestor_slice(s.id) a where a.name = s.name), 0, s.dur))
	from slice s join thread_track t on s.track_id = t.id left join inside on inside.id = s.id
	where s.dur > 0 or s.name not in ('custom event') group by 1`

// wrongCounters compares the counter of open calls with the calls that are open. It looks at
// samples after which the thread records nothing for a millisecond or ends.
const wrongCounters = `
	with samples as (
		select t.utid, c.ts, c.value, lead(c.ts) over (partition by c.track_id order by c.ts, c.id) as next
		from counter c join thread_counter_track t on c.track_id = t.id where t.name = 'open calls'),
	open as (
		select utid, ts, value, (select count(*) from slice s join thread_track t on s.track_id = t.id
			where t.utid = samples.utid and s.ts <= samples.ts and s.ts + s.dur > samples.ts) as n
		from samples where next is null or next - ts >= 1000000)
	select tid, ts, value, n from open join thread using (utid) where value <> n`

// Perfetto finds the same calls on the same threads as xray does.
func TestPerfettoInTraceProcessor(t *testing.T) {
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	for name, args := range map[string][]string{
		"fdr":      kvserver,
		"recorded": consumedTraces(t)["kvserver-recorded.xray"],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := inTraceProcessor(t, converted(t, "perfetto", args...))
			got := map[string]sums{}
			for _, row := range p.Query(sumsOfSlices) {
				got[row[0].(string)] = sums{row[1].(int64), row[2].(int64), row[3].(int64)}
			}
			// Perfetto's times are whole nanoseconds. A slice ends where the call does,
			// rounded down, as do the slices inside it.
			agree(t, got, accounted(t, args...), 3)
			// The counter must be right during pauses and at the end.
			for _, row := range p.Query(wrongCounters) {
				t.Errorf("thread %v at %v: got counter %v, want %v open calls", row...)
			}
			if n := p.Query(`select count(*) from counter c join thread_counter_track t on c.track_id = t.id where t.name = 'open calls' and value > 0`)[0][0].(int64); n == 0 {
				t.Error("the counter of open calls is missing")
			}
			if n := p.Query(`select count(*) from thread where upid > 0`)[0][0].(int64); n < 7 {
				t.Errorf("got %d threads, want at least 7", n)
			}
			// With debug information, slices show source locations.
			if n := p.Query(`select count(*) from args where key = 'source.line_number' and int_value > 0`)[0][0].(int64); n == 0 {
				t.Error("no slice has a source location")
			}
		})
	}
}

// Perfetto shows arguments, payloads, and a request's path across threads.
func TestEventsInTraceProcessor(t *testing.T) {
	t.Parallel()
	text := `xray fdr version=5
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter-arg 1 +5
arg 42
arg 0xffff800000001000
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00" +5
exit 1 +100
end-of-buffer
zeros auto
thread 12 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 2 +50
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00checkout" +5
custom "step one" +1
typed 513 "\x00\xff" +1
enter 3 +10
end-of-buffer
`
	p := inTraceProcessor(t, converted(t, "perfetto", textTrace(t, text)))
	for query, want := range map[string][][]any{
		`select tid, s.ts, dur, s.name from slice s join thread_track t on s.track_id = t.id join thread using (utid) order by 1, 2, 3 desc`: {
			{int64(11), int64(0), int64(105), "#1"}, {int64(11), int64(5), int64(0), "request 5"},
			{int64(12), int64(45), int64(17), "#2"}, {int64(12), int64(50), int64(0), "request 5: checkout"},
			{int64(12), int64(51), int64(0), "custom event"}, {int64(12), int64(52), int64(0), "typed event 513"},
			{int64(12), int64(62), int64(0), "#3"},
		},
		`select a.name, b.name from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id`: {
			{"request 5", "request 5: checkout"},
		},
		`select distinct key, ifnull(string_value, int_value) from args where key like 'debug.%' order by 1, 2`: {
			{"debug.argument 1", int64(42)}, {"debug.argument 2", int64(-0x00007ffffffff000)},
			{"debug.end", "truncated"}, {"debug.hex", "00ff"},
			{"debug.request", "5"}, {"debug.text", "checkout"}, {"debug.text", "step one"},
		},
	} {
		if diff := cmp.Diff(want, p.Query(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// The timeline says what the trace lacks, and viewers still accept the file.
func TestCaveatsInTraceProcessor(t *testing.T) {
	t.Parallel()
	const text = "xray fdr frequency=1000000000 free=5852594d46445231\nthread 0 tsc=1000\n" +
		"metadata 1 `{\"pid\":700,\"recorder\":\"1\",\"mode\":\"prune\",\"threshold_ns\":5000,\"depth\":3,\"complete\":true}`\n" +
		"thread 701 pid=700 tsc=1000\nenter 1 +0\nexit 1 +10000\n"
	input := textTrace(t, text)
	for format, caveats := range map[string]int64{"perfetto": 2, "chrome": 0} {
		p := inTraceProcessor(t, converted(t, format, input))
		for query, want := range map[string]int64{
			`select count(*) from slice where name = '#1' and dur = 10000`:                                          1,
			`select count(*) from slice s join track t on s.track_id = t.id where s.name like 'Calls are missing%'`: caveats,
		} {
			if got := p.Query(query)[0][0].(int64); got != want {
				t.Errorf("%s: got %d, want %d: %s", format, got, want, query)
			}
		}
	}
}
