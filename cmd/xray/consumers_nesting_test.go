package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
