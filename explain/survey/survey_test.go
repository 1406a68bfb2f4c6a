package survey

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// surveyed runs a survey over a text trace.
func surveyed(t *testing.T, text string) (*Report, *reader.Trace) {
	t.Helper()
	b, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(b), int64(len(b)), "t.xray")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(trace, calls.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, trace
}

func TestCounts(t *testing.T) {
	r, _ := surveyed(t, `
xray basic
enter-arg 3 tsc=100 tid=9 pid=2 cpu=1
arg 3 7 tid=9 pid=2
enter 16777217 tsc=110 tid=9 pid=2 cpu=4
exit 5 tsc=120 tid=8 pid=2
exit 16777217 tsc=130 tid=9 pid=2
enter 3 tsc=140 tid=9 pid=1
tail-exit 3 tsc=150 tid=9 pid=2
`)
	want := []Thread{
		{Thread: reader.Thread{Process: 1, Thread: 9}, Events: 1, Entries: 1, Open: 1, First: 140, Last: 140},
		{Thread: reader.Thread{Process: 2, Thread: 8}, Events: 1, Exits: 1, Unmatched: 1, First: 120, Last: 120},
		{Thread: reader.Thread{Process: 2, Thread: 9}, Events: 4, Entries: 2, Exits: 2, First: 100, Last: 150},
	}
	if diff := cmp.Diff(want, r.Threads, cmp.AllowUnexported(Thread{})); diff != "" {
		t.Errorf("threads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]reader.FuncID{3, 5, 16777217}, r.Funcs); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if got := [...]uint64{r.Exited, r.TailExited, r.Stats.Truncated, r.Shortest, uint64(r.MaxCPU)}; got != [...]uint64{1, 1, 1, 20, 4} {
		t.Errorf("wrong exited, tail exits, open, shortest and CPU: %v", got)
	}
	if want := [...]uint64{2, 2, 1, 1, 0, 0}; r.Kinds != want {
		t.Errorf("got kinds %v, want %v", r.Kinds, want)
	}
}

func TestFindings(t *testing.T) {
	names := namesOf{1: "main", 2: ""}
	const epoch = "1795000000000000000"
	for _, test := range []struct {
		name, text string
		names      symbolize.Names
		want       []string
	}{
		{"nothing odd", "xray basic frequency=3000000000\nenter 1 tsc=10 tid=1 pid=1 cpu=1\nexit 1 tsc=20 tid=1 pid=1\n", names, nil},
		{"empty", "xray fdr\n", names, []string{"no-records"}},
		{"clock", "xray basic frequency=0\nenter 1 tsc=10 tid=1 pid=1\nexit 1 tsc=5 tid=1 pid=1\n", names,
			[]string{"unknown-frequency", "clock-steps"}},
		{"slow clock", "xray basic frequency=999\nenter 1 tsc=10 tid=1 pid=1\nexit 1 tsc=20 tid=1 pid=1\n", names, []string{"odd-frequency"}},
		{"fast clock", "xray basic frequency=100000000001\nenter 1 tsc=10 tid=1 pid=1\nexit 1 tsc=20 tid=1 pid=1\n", names, []string{"odd-frequency"}},
		{"all lost", "xray basic\nbytes 00\n", names, []string{"truncated-file"}},
		{"emulated", "xray basic\nenter 1 tsc=" + epoch + " tid=1 pid=1\nexit 1 tsc=" + epoch + " tid=1 pid=1\n", names,
			[]string{"emulated-clock"}},
		{"calls", "xray basic\nexit 1 tsc=1 tid=2 pid=1 cpu=1\nenter 1 tsc=1 tid=1 pid=1\nenter 1 tsc=2 tid=1 pid=1\nenter 2 tsc=3 tid=1 pid=1\nexit 1 tsc=9 tid=1 pid=1\n", nil,
			[]string{"unmatched-exits", "only-exits", "open-calls", "inferred-ends", "no-map"}},
		{"names", "xray basic\nenter 2 tsc=1 tid=1 pid=1 cpu=1\nexit 2 tsc=2 tid=1 pid=1\nenter 16777217 tsc=3 tid=1 pid=1\nexit 16777217 tsc=4 tid=1 pid=1\n", names,
			[]string{"shared-objects", "unknown-functions", "nameless-functions"}},
		{"loss", "xray basic\nenter 1 tsc=1 tid=1 pid=1 cpu=1\nexit 1 tsc=2 tid=1 pid=1\nbytes 00\n", names, []string{"truncated-file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, trace := surveyed(t, test.text)
			var got []string
			for _, f := range r.Findings(trace, test.names) {
				if f.Text == "" || f.Remedy == "" {
					t.Errorf("%s has no text: %+v", f.Name, f)
				}
				got = append(got, f.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// namesOf are names by ID.
type namesOf map[reader.FuncID]string

func (n namesOf) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	name, ok := n[id]
	return symbolize.Symbol{Name: name, Address: uint64(id)}, ok
}
