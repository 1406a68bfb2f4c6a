package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

const testdata = "../../../testdata"

// tally counts calls by function and by how they ended.
type tally struct {
	ends  map[reader.FuncID][calls.Ends]int64
	ticks map[reader.FuncID]uint64 // of calls with an exit of their own
	args  int64
	texts []string // payloads of custom events
}

func newTally() *tally {
	return &tally{ends: map[reader.FuncID][calls.Ends]int64{}, ticks: map[reader.FuncID]uint64{}}
}

func (t *tally) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		n := t.ends[c.Func]
		n[c.End]++
		t.ends[c.Func] = n
		if c.End == calls.Exited || c.End == calls.TailExited {
			t.ticks[c.Func] += c.Duration
		}
	}
	t.args += int64(len(b.Args))
	for _, e := range b.Events {
		if e.Kind == reader.Custom {
			t.texts = append(t.texts, string(e.Data))
		}
	}
	return nil
}

func (t *tally) Merge(o *tally) {
	for id, n := range o.ends {
		m := t.ends[id]
		for i := range m {
			m[i] += n[i]
		}
		t.ends[id] = m
		t.ticks[id] += o.ticks[id]
	}
	t.args += o.args
	t.texts = append(t.texts, o.texts...)
}

func run(t *testing.T, path string, shards int, stdin io.Reader) (*tally, *calls.Stats, *reader.Losses) {
	t.Helper()
	trace, err := reader.Open(reader.Options{Stdin: stdin}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	got, stats, err := calls.Run(trace, calls.Options{Shards: shards}, newTally)
	if err != nil {
		t.Fatal(err)
	}
	return got, stats, trace.Losses()
}

// counts parses what a program counted: lines such as "calls NAME N".
func counts(t *testing.T, name string) map[string]int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(line[i+1:], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m[line[:i]] = n
	}
	return m
}

// names reads the functions of an instrumentation map, without parameters and ABI tags. It supports
// only the YAML that these maps use.
func names(t *testing.T, name string) map[reader.FuncID]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	m := map[reader.FuncID]string{}
	for _, f := range regexp.MustCompile(`\{ id: (\d+),.* function-name: '([\w:]+)`).FindAllStringSubmatch(string(b), -1) {
		id, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		m[reader.FuncID(id)] = f[2]
	}
	return m
}

// TestRecorded compares traces of the key-value server with its own counters.
func TestRecorded(t *testing.T) {
	for _, tt := range []struct {
		trace, instrMap string
		lost            []string // functions whose calls the runtime lost
		duplicates      bool
	}{
		{trace: "kvserver-basic", instrMap: "kvserver"},
		{trace: "kvserver-fdr", instrMap: "kvserver"},
		{trace: "kvserver-recorded", instrMap: "kvserver"},
		{trace: "clang14-basic", instrMap: "clang14"},
		{trace: "clang14-fdr", instrMap: "clang14"},
		{trace: "clang19-basic", instrMap: "clang19"},
		{trace: "clang19-fdr", instrMap: "clang19"},
		{
			trace: "duplicate-block-fdr", instrMap: "kvserver", duplicates: true,
			lost: []string{"kv::Flusher::run", "kv::Flusher::wait", "kv::Store::flush", "kv::checksum"},
		},
	} {
		for _, shards := range []int{1, 3} {
			t.Run(fmt.Sprintf("trace=%s/shards=%d", tt.trace, shards), func(t *testing.T) {
				got, stats, losses := run(t, filepath.Join(testdata, tt.trace+".xray"), shards, nil)
				want := counts(t, tt.trace+".counts")
				logged := want["calls kv::hash"] + want["calls kv::handle"]
				events := want["calls kv::describe"]
				for _, name := range tt.lost {
					for _, what := range []string{"calls ", "open "} {
						delete(want, what+name)
					}
				}
				lost := map[string]bool{}
				for _, name := range tt.lost {
					lost[name] = true
				}
				ours := map[string]bool{}
				for line := range want {
					_, name, _ := strings.Cut(line, " ")
					ours[name] = true
				}
				found := map[string]int64{}
				add := func(line string, n int64) {
					if n > 0 {
						found[line] += n
					}
				}
				for id, name := range names(t, tt.instrMap+".yaml") {
					if !ours[name] || lost[name] {
						continue
					}
					n := got.ends[id]
					add("calls "+name, n[0]+n[1]+n[2]+n[3]+n[4]+n[5])
					add("unwound "+name, n[calls.Inferred])
					add("open "+name, n[calls.Truncated])
				}
				if diff := cmp.Diff(want, found); diff != "" {
					t.Errorf("(-counted by the program +found in the trace):\n%s", diff)
				}
				if got.args != logged {
					t.Errorf("got %d logged arguments, want %d", got.args, logged)
				}
				if strings.HasSuffix(tt.trace, "-basic") {
					events = 0 // that mode drops them
				}
				if int64(len(got.texts)) != events {
					t.Errorf("got %d custom events, want %d", len(got.texts), events)
				}
				for _, text := range got.texts {
					if !regexp.MustCompile(`^request \d+ key \d+$`).MatchString(text) {
						t.Errorf("wrong custom event %q", text)
					}
				}
				if stats.Unmatched != 0 {
					t.Errorf("got %d unmatched exits", stats.Unmatched)
				}
				if (losses.Count() > 0) != tt.duplicates {
					t.Errorf("unexpected losses: %+v", losses.Samples())
				}
			})
		}
	}
}

// Sums adds the calls of a thread of a profile.
func (t *tally) Sums(s *calls.Sums) error {
	for p := range s.Functions() {
		n := t.ends[p.Func]
		n[calls.Exited] += int64(p.Count)
		t.ends[p.Func] = n
	}
	return nil
}

// TestProfiles compares files of LLVM's profiling mode with the program's own counters.
func TestProfiles(t *testing.T) {
	for _, name := range []string{"clang14-profiling", "clang22-profiling"} {
		trace, err := reader.Open(reader.Options{}, filepath.Join(testdata, name+".xray"))
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
		got, stats := newTally(), &calls.Stats{}
		if err := calls.RunSums(trace, calls.Options{}, got, stats); err != nil {
			t.Fatal(err)
		}
		found := map[string]int64{}
		for id, function := range names(t, name+".yaml") {
			found["calls "+function] = got.ends[id][calls.Exited]
		}
		if diff := cmp.Diff(counts(t, name+".counts"), found); diff != "" {
			t.Errorf("%s: -counted by the program +found in the profile:\n%s", name, diff)
		}
		if n := trace.Losses().Count(); n > 0 || stats.Calls != 375 || stats.Threads != 2 || stats.MaxDepth != 5 {
			t.Errorf("%s: %d losses, %d calls, %d threads, %d deep", name, n, stats.Calls, stats.Threads, stats.MaxDepth)
		}
	}
}

// TestGenerated compares generated traces of every format with the generator's counts.
func TestGenerated(t *testing.T) {
	for _, opts := range []tracegen.Options{
		{Records: 1_000_000},
		{Records: 300_000, Format: tracegen.Basic, Seed: 2},
		{Records: 30_000, Format: tracegen.YAML, Seed: 3},
		{Records: 200_001, Threads: 3, Open: true},
		{Records: 200_000, Threads: 1, Format: tracegen.Basic},
	} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			var trace bytes.Buffer
			truth, err := tracegen.Generate(&trace, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, shards := range []int{1, 2, 5} {
				got, stats, losses := run(t, "-", shards, bytes.NewReader(trace.Bytes()))
				if losses.Count() > 0 {
					t.Errorf("%d shards: unexpected losses: %+v", shards, losses.Samples())
				}
				if stats.Events != uint64(opts.Records) || int(stats.MaxDepth) != truth.Depth {
					t.Errorf("%d shards: got %d events, %d deep; want %d, %d deep", shards, stats.Events, stats.MaxDepth, opts.Records, truth.Depth)
				}
				var open int64
				for id := range truth.Calls {
					n := got.ends[reader.FuncID(id)]
					open += n[calls.Inferred] + n[calls.Truncated]
					if ended := n[calls.Exited] + n[calls.TailExited]; ended != truth.Calls[id] {
						t.Fatalf("%d shards: function %d: got %d calls, want %d", shards, id, ended, truth.Calls[id])
					}
					if ticks := got.ticks[reader.FuncID(id)]; ticks != truth.Ticks[id] {
						t.Fatalf("%d shards: function %d: got %d ticks, want %d", shards, id, ticks, truth.Ticks[id])
					}
				}
				if open != truth.Open {
					t.Errorf("%d shards: got %d calls without an exit, want %d", shards, open, truth.Open)
				}
			}
		})
	}
}

// TestDamaged reads what runtimes really write when something goes wrong. The programs' sources and
// testdata/README.md say what to expect.
func TestDamaged(t *testing.T) {
	type ends = [calls.Ends]int64
	for _, tt := range []struct {
		trace  string
		ends   map[reader.FuncID]ends // by calls.End
		args   int64
		others uint64                 // custom and typed events
		lost   map[reader.Cause]int64 // records
		bare   uint64                 // exits without a call
	}{
		{trace: "header-only-basic"},
		{trace: "header-only-fdr"},
		{
			trace: "fork-basic", // prepare, childWork, parentWork, serve
			ends:  map[reader.FuncID]ends{1: {3}, 2: {4}, 3: {5}, 4: {1}},
			lost:  map[reader.Cause]int64{reader.DuplicateRun: 7},
			bare:  1, // the child's exit of serve
		},
		{
			trace: "orphan-arguments-basic", // even, odd
			ends:  map[reader.FuncID]ends{1: {32}, 2: {32}},
			args:  64,
			lost:  map[reader.Cause]int64{reader.OrphanArgument: 101 - 64},
		},
		{
			trace:  "typed-event-fdr", // rotateKeys, audit
			ends:   map[reader.FuncID]ends{1: {3}, 2: {calls.Exited: 3, calls.Truncated: 1}},
			others: 3,
			lost:   map[reader.Cause]int64{reader.ShortBlock: 1},
		},
		{
			trace: "dso-basic",
			ends:  map[reader.FuncID]ends{1: {5}, 0x01000001: {5}, 0x02000001: {10}, 0x02000002: {5}},
		},
		{
			trace: "dso-fdr",
			ends:  map[reader.FuncID]ends{1: {5}, 0x01000001: {5}, 0x02000001: {10}, 0x02000002: {5}},
		},
	} {
		t.Run("trace="+tt.trace, func(t *testing.T) {
			got, stats, losses := run(t, filepath.Join(testdata, tt.trace+".xray"), 1, nil)
			if tt.ends == nil {
				tt.ends = map[reader.FuncID]ends{}
			}
			if diff := cmp.Diff(tt.ends, got.ends); diff != "" {
				t.Errorf("calls by end (-want +got):\n%s", diff)
			}
			if got.args != tt.args || stats.Custom != tt.others || stats.Unmatched != tt.bare {
				t.Errorf("got %d arguments, %d other events, %d exits without a call; want %d, %d, %d",
					got.args, stats.Custom, stats.Unmatched, tt.args, tt.others, tt.bare)
			}
			lost := map[reader.Cause]int64{}
			for c, total := range losses.Total {
				if total.Losses > 0 {
					lost[reader.Cause(c)] = total.Records
				}
			}
			if tt.lost == nil {
				tt.lost = map[reader.Cause]int64{}
			}
			if diff := cmp.Diff(tt.lost, lost); diff != "" {
				t.Errorf("lost records by cause (-want +got):\n%s", diff)
			}
		})
	}
}

// A ring of buffers that overflowed begins inside calls. The number of records kept depends on the
// runtime. Calls must nest and nothing else may be lost.
func TestRingOverflow(t *testing.T) {
	got, stats, losses := run(t, filepath.Join(testdata, "ring-overflow-fdr.xray"), 1, nil)
	if losses.Count() > 0 {
		t.Errorf("unexpected losses: %+v", losses.Samples())
	}
	step, lap, race := got.ends[1], got.ends[2], got.ends[3]
	if step[0] < 500 || step[0] > 2699 || lap[0] != step[0]/9 || race != [calls.Ends]int64{} {
		t.Errorf("got calls of step, lap and race by end: %v, %v, %v", step, lap, race)
	}
	// Calls opened by lost records: race, and possibly one lap and one step.
	if stats.Unmatched < 1 || stats.Unmatched > 3 {
		t.Errorf("got %d exits without a call", stats.Unmatched)
	}
}

// Long traces give the same results from packed and from decoded records.
func TestPackedAndDecoded(t *testing.T) {
	for _, opts := range []tracegen.Options{{Records: 300_000, Unwind: true}, {Records: 100_000, Format: tracegen.Basic, Open: true}} {
		var trace bytes.Buffer
		if _, err := tracegen.Generate(&trace, opts); err != nil {
			t.Fatal(err)
		}
		tr := open(t, trace.Bytes())
		p := loadProgram(t)
		want := render(t, tr, decoded{tr}, 1, p)
		for name, got := range render(t, tr, tr, 2, p) {
			if !bytes.Equal(got, want[name]) {
				t.Errorf("%s: %s differs between packed and decoded records", opts.Format, name)
			}
		}
	}
}
